"""What a fitted model promises, as a frozen record that recomputes itself.

A certificate holds public numbers only, and enough of them that anybody can check it: the
sensitivity follows from shape, class counts, alpha, norm bound and radius; the signal-to-noise
ratio mu from (epsilon, delta); the noise scale from both. See `PrivacyCertificate.check`.
"""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skballdp._records import from_plain, to_plain
from skballdp._text import as_html, as_text, down, up
from skballdp._validate import check_choice, check_integer, check_real
from skballdp.accounting import discrete, gaussian, reconstruction
from skballdp.data import longest_product_sum, longest_sum
from skballdp.erm.sensitivity import (
    class_sum_error,
    clipped_domain,
    gradient_error,
    linear_sensitivity,
    ridge_sensitivity,
)
from skballdp.exceptions import CertificationError, PrivacyWarning

__all__ = ["PrivacyCertificate"]

_VERSION = 1
_LINEAR_HEADS = ("logistic", "softmax", "squared_hinge")


@dataclass(frozen=True, kw_only=True)
class PrivacyCertificate:
    """The promise of one release, in numbers and in words.

    Attributes
    ----------
    estimator : str
        Name of the estimator's class.
    head : {"ridge_prototype", "logistic", "softmax", "squared_hinge"}
        Which sensitivity formula applies.
    epsilon, delta : float
        The promise at distance `radius`.
    radius : float
        Largest distance, in the unit of the rows, between a record and its replacement.
    radius_source : str
        Where the radius came from.
    radius_epsilon : float
        Privacy loss spent on choosing the radius; every reading of the certificate adds it.
    mu : float
        Signal-to-noise ratio ``sensitivity / noise scale`` that (epsilon, delta) allow.
    sensitivity : tuple of float
        L2 sensitivity, one value per independently noised block, in the unit of the released
        parameters; includes ``2 * (solver_tolerance + rounding_error)`` and rounding to the grid.
    sensitivity_rule : str
        Which bound it is: ``"per_class"``, ``"min_count"`` or ``"global"`` for prototypes,
        ``"tight"`` or ``"paper"`` for linear heads.
    noise_scale : tuple of float
        Standard deviation of the noise, per block.
    grid : tuple of float
        Power of two of which every released parameter of a block is a multiple; 0 without one.
    solver_tolerance : float
        Distance of the solver's result to the optimum, promised in advance (0: closed form).
    rounding_error : float
        Bound on the rounding errors of the sums over records, in the same unit.
    n_samples, n_features : int
        Shape of the training data.
    classes : tuple
        Class labels, as JSON values.
    class_counts : tuple of int
        Records per class.
    alpha : float
        Regularisation of mean loss + alpha/2 ||theta||^2.
    norm_bound : float or None
        Bound on the norm of every row; None when the caller gave none.
    out_of_bound : {"clip", "raise"}
        Whether longer rows were projected, or stated by the caller not to exist.
    fit_intercept : bool or None
        Whether a linear head has an intercept, regularised and noised; None for prototypes.
    weight_max : float
        Largest class weight, weights having mean one over the records.
    public_norm : float
        Norm of the public model that a linear head is regularised towards.
    noise : {"discrete", "continuous", "none"}
        Law of the noise: exact discrete Gaussian on the grid, idealised normals in float64.
    voided_by : tuple of str
        One sentence per condition that voids the promise; empty when it holds.
    caveats : tuple of str
        What the promise takes for granted.
    version : int
        Version of this format.

    See Also
    --------
    skballdp.BallDPRidgePrototype : Carries one as ``certificate_``.

    Notes
    -----
    **Formal guarantees.** Two data sets are neighbours when they have the same length and differ
    in one record, whose label is the same and whose features are at most `radius` apart. For all
    neighbours D, D' and every set S of releases,
    ``P[M(D) in S] <= e^epsilon P[M(D') in S] + delta``. Labels, class counts and the number of
    records are the same on both sides and are not hidden.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction
    with less noise", arXiv:2607.04209.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, PrivacyCertificate
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPRidgePrototype(radius=0.5, epsilon=2.0).fit(normalize(X), y)
    >>> certificate = clf.certificate_
    >>> certificate.holds
    True
    >>> round(certificate.exact_id_bound(n_candidates=10), 3)
    0.202
    >>> PrivacyCertificate.from_json(certificate.to_json()) == certificate
    True
    """

    estimator: str
    head: str
    epsilon: float
    delta: float
    radius: float
    radius_source: str
    radius_epsilon: float = 0.0
    mu: float
    sensitivity: tuple[float, ...]
    sensitivity_rule: str
    noise_scale: tuple[float, ...]
    grid: tuple[float, ...]
    solver_tolerance: float
    rounding_error: float
    n_samples: int
    n_features: int
    classes: tuple[Any, ...]
    class_counts: tuple[int, ...]
    alpha: float
    norm_bound: float | None
    out_of_bound: str
    fit_intercept: bool | None = None
    weight_max: float = 1.0
    public_norm: float = 0.0
    noise: str
    voided_by: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    version: int = _VERSION

    @property
    def holds(self) -> bool:
        """Whether nothing voids the promise."""
        return not self.voided_by

    @property
    def adjacency(self) -> str:
        """The neighbouring relation, in words."""
        return (
            f"replacement of one record by another with the same label whose features are at "
            f"most {self.radius:.6g} away (Euclidean distance)"
        )

    def mu_at(self, distance: float) -> float:
        """Signal-to-noise ratio of the release for a replacement at another distance.

        Parameters
        ----------
        distance : float
            Distance between record and replacement, >= 0, in the unit of the rows. Beyond
            ``2 * norm_bound`` it counts as that.

        Returns
        -------
        float
            In [0, inf], rounded up; 0 at distance 0.

        Raises
        ------
        TypeError, ValueError
            If the distance is not a number >= 0.

        Notes
        -----
        ``mu(t) = max over blocks of (Delta(t) + 2 (solver tolerance + rounding error)
        + grid term) / sigma`` with the same tolerance, error, grid and sigma as at the radius.
        """
        distance = check_real("distance", distance, low=0.0)
        if distance == 0:
            return 0.0
        if self.norm_bound is not None:
            distance = min(distance, 2 * self.norm_bound)
        if distance == self.radius:
            return self.mu
        return self._ratio(self._sensitivity_at(distance))

    def epsilon_at(self, distance: float, delta: float | None = None) -> float:
        """Privacy loss for a replacement at another distance.

        Parameters
        ----------
        distance : float
            Distance between record and replacement, >= 0.
        delta : float, optional
            Another delta, in [0, 1); by default the certificate's.

        Returns
        -------
        float
            The smallest epsilon such that the release is (epsilon, delta)-private for pairs at
            this distance; exact for the Gaussian release (for the discrete one see
            `skballdp.accounting.discrete`), rounded up. It is **not** proportional to the distance.

        Raises
        ------
        TypeError, ValueError
            If an argument is not a number or out of range.
        """
        self._warn_if_void()
        return self._epsilon_at(distance, self.delta if delta is None else delta)

    def _epsilon_at(self, distance: float, delta: float) -> float:
        mu = self.mu_at(distance)
        if self.noise == "discrete":
            epsilon = discrete.epsilon_of(mu, delta, **self._lattice())
        else:
            epsilon = gaussian.epsilon_of(mu, delta)
        if mu <= self.mu and delta >= self.delta:
            epsilon = min(epsilon, self.epsilon)
        return epsilon + (self.radius_epsilon if mu > 0 else 0.0)

    def rdp_at(self, order: float, distance: float | None = None) -> float:
        """Renyi divergence between the releases of two data sets.

        Parameters
        ----------
        order : float
            Order of the divergence, > 1.
        distance : float, optional
            Distance between record and replacement; by default the radius.

        Returns
        -------
        float
            ``order * mu(distance)^2 / 2``, rounded up, plus the privacy loss of the radius. It
            holds for discrete Gaussian noise as it stands (Canonne, Kamath and Steinke 2020).

        Raises
        ------
        TypeError, ValueError
            If an argument is not a number or out of range.
        """
        self._warn_if_void()
        order = check_real("order", order, low=1.0, low_open=True, high_open=True)
        mu = self.mu if distance is None else self.mu_at(distance)
        spent = self.radius_epsilon if mu > 0 else 0.0
        return order * mu**2 / 2 * (1 + 2.0**-50) + spent

    def exact_id_bound(
        self,
        *,
        n_candidates: int | None = None,
        prior: Any = None,
        kappa: float | None = None,
        method: str = "gaussian",
        distance: float | None = None,
        n_releases: int = 1,
    ) -> float:
        """Bound on the success of naming the record among candidates.

        Parameters
        ----------
        n_candidates : int, optional
            Number of equally likely candidates, all with the same label and inside one ball of
            radius `distance`, chosen before the record was.
        prior : array-like of shape (m,), optional
            Probability of each candidate. Give this, `n_candidates` or `kappa`.
        kappa : float, optional
            Best success of a guess without the release, in [0, 1], for any other prior and measure
            of success (Ball-ReRo), see `kappa_uniform_ball` and `kappa_finite` in
            `skballdp.accounting.reconstruction`.
        method : {"gaussian", "rdp", "dp"}
            The direct bound (the sharpest), the Renyi bound, or the one from (epsilon, delta).
        distance : float or None, default=None
            Radius of the ball; None is the certificate's.
        n_releases : int, default=1
            Number of independent releases of the same data that the attacker sees.

        Returns
        -------
        float
            In [0, 1], rounded up.

        Raises
        ------
        TypeError, ValueError
            If an argument has the wrong type or is out of range, or not exactly one of
            `n_candidates`, `prior` and `kappa` is given.

        Notes
        -----
        If the radius cost epsilon_r, kappa is multiplied by ``e^epsilon_r``: given the radius the
        bound is a concave increasing function of the blind success (Jensen), and the law of the
        radius moves by at most that factor.

        With discrete noise the direct bound is multiplied by ``e^a``: each candidate makes no event
        more than ``e^a`` times as likely as rounded continuous noise does, and the law that all
        candidates are compared with may be that of rounded continuous noise.

        With k releases mu is ``sqrt(k)`` times as large (the sum of k releases is sufficient), the
        factors are taken to the power k, and epsilon and delta add up.
        """
        self._warn_if_void()
        return self._exact_id_bound(n_candidates, prior, kappa, method, distance, n_releases)

    def _exact_id_bound(
        self,
        n_candidates: int | None,
        prior: Any = None,
        kappa: float | None = None,
        method: str = "gaussian",
        distance: float | None = None,
        n_releases: int = 1,
    ) -> float:
        if sum(value is not None for value in (n_candidates, prior, kappa)) != 1:
            raise ValueError(
                f"give exactly one of n_candidates, prior and kappa, got n_candidates="
                f"{n_candidates!r}, prior {'given' if prior is not None else 'None'} and kappa="
                f"{kappa!r}."
            )
        check_choice("method", method, ("gaussian", "rdp", "dp"))
        if n_candidates is not None:
            kappa = 1.0 / check_integer("n_candidates", n_candidates, low=1)
        elif prior is not None:
            kappa = float(reconstruction.check_prior(prior).max())
        else:
            kappa = check_real("kappa", kappa, low=0.0, high=1.0)
        k = check_integer("n_releases", n_releases, low=1)
        if distance is not None:
            distance = check_real("distance", distance, low=0.0)
        if self.radius_epsilon > 0:
            kappa = reconstruction.dp_bound(epsilon=k * self.radius_epsilon, delta=0.0, kappa=kappa)
        if method == "dp":
            epsilon = self.epsilon
            if distance is not None:
                epsilon = self._epsilon_at(distance, self.delta)
            return reconstruction.dp_bound(
                epsilon=k * epsilon, delta=min(1.0, k * self.delta), kappa=kappa
            )
        mu = self.mu if distance is None else self.mu_at(distance)
        if k > 1:
            mu *= math.sqrt(k) * (1 + 2.0**-52)
        bound = reconstruction.exact_id_bound(mu=mu, kappa=kappa, method=method)
        if self.noise == "discrete" and method == "gaussian":
            bound = min(1.0, bound * math.exp(k * discrete.ratio_excess(**self._lattice())))
        return bound

    def check(self) -> bool:
        """Recompute the certificate from its own public numbers.

        Returns
        -------
        bool
            True if every number follows from the others (whether the promise `holds` is a
            different question).

        Raises
        ------
        CertificationError
            If a number does not; the message names the field.
        """
        self._check_fields()
        silent = self.epsilon == math.inf or self.radius == 0
        if silent and self.holds:
            raise self._inconsistent("voided_by", "epsilon and radius: there is no noise")
        least = most = math.inf
        if not silent and self.noise == "discrete":
            lattice = self._lattice()
            most = discrete.mu_of(self.epsilon, self.delta, **lattice) * (1 + 5e-13)  # its error
            # On a coarse grid mu depends on the steps, of which fit knew a lower bound.
            lattice["steps"] /= 1 + discrete.LARGEST_PRICE
            least = discrete.mu_of(self.epsilon, self.delta, **lattice)
        elif not silent:
            least = most = gaussian.mu_of(self.epsilon, self.delta)
        if not least * (1 - 1e-9) <= self.mu <= most:
            raise self._inconsistent("mu", "epsilon and delta")
        self._check_allowances(silent)
        expected = self._sensitivity_at(self.radius)
        stated = np.asarray(self.sensitivity)
        if stated.shape != expected.shape or not np.all(
            (stated >= expected * (1 - 1e-14)) & (stated <= expected * (1 + 1e-9))
        ):
            raise self._inconsistent("sensitivity", "shape, class counts, alpha and radius")
        scale = np.asarray(self.noise_scale)
        if scale.shape != stated.shape or not np.all(np.isfinite(scale) & (scale >= 0)):
            raise self._inconsistent("noise_scale", "sensitivity")
        moving = expected > 0
        if not silent and (
            not np.any(moving)
            or np.any(scale[moving] == 0)
            or np.any(stated[moving] / scale[moving] > self.mu * (1 + 1e-15))
        ):
            raise self._inconsistent("noise_scale", "sensitivity and mu: there is too little noise")
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of standard JSON values; infinity is ``"inf"``."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the certificate as standard JSON.

        Parameters
        ----------
        indent : int or None, default=2
            As in `json.dumps`.

        Returns
        -------
        str
            `from_json` restores an equal certificate from it, digit for digit.
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "PrivacyCertificate":
        """Read a certificate written by `to_json`.

        Parameters
        ----------
        text : str
            JSON.

        Returns
        -------
        PrivacyCertificate
            Not checked: call `check`.

        Raises
        ------
        ValueError
            If the text is not a certificate of a version that this release reads.
        """
        record = json.loads(text)
        if not isinstance(record, dict) or record.get("version") != _VERSION:
            raise ValueError(f"text must be a certificate of version {_VERSION}.")
        certificate: PrivacyCertificate = from_plain(cls, record)
        return certificate

    def __str__(self) -> str:
        return as_text(self._title, self._sections())

    def _repr_html_(self) -> str:
        return as_html(self._title, self._sections())

    @property
    def _title(self) -> str:
        return f"Privacy certificate of a {self.estimator}"

    def _sections(self) -> list[tuple[str, list[str]]]:
        """The certificate in words: headings and sentences, for text and HTML alike."""
        sections: list[tuple[str, list[str]]] = []
        if self.holds:
            sections.append(("The promise holds.", []))
        else:
            sections.append(("THE PROMISE IS VOID:", [f"- {reason}." for reason in self.voided_by]))
        if self.mu < math.inf:
            exact_id = self._exact_id_bound(10)
            sections.append(("What is promised", self._promise(exact_id)))
        sections.append(
            (
                "What is not hidden",
                [
                    "The labels, the number of records and the class counts; the parameters named "
                    "below, which must come from public knowledge; anything learned from the data "
                    "before this model was fitted (a scaler, a projection, a choice of "
                    "parameters); and larger changes of a record than the radius, for which only "
                    "the weaker promises below hold.",
                ],
            )
        )
        if 0 < self.mu < math.inf:
            sections.append((f"At other distances (delta = {self.delta:g})", self._curve()))
        sections.append(("Numbers", self._numbers()))
        if self.caveats:
            sections.append(("Caveats", [f"- {caveat}." for caveat in self.caveats]))
        return sections

    def _promise(self, exact_id: float) -> list[str]:
        opening = "" if self.holds else "If it were not void: "
        spent = (
            f" Choosing the radius cost another epsilon = {up(self.radius_epsilon, 6)}, for any "
            "replacement; where the chosen radius is smaller than the distance at hand, only the "
            "promise at that distance applies."
            if self.radius_epsilon > 0
            else ""
        )
        return [
            f"{opening}Whoever sees this model, and knows the training procedure and every "
            "training record but one, can hardly tell that record from any other with the same "
            f"label whose features are at most {down(self.radius, 6)} away: no outcome is more "
            f"than e^epsilon times as likely with one as with the other, up to delta, with epsilon "
            f"= {up(self.epsilon, 6)} and delta = {up(self.delta, 6)}.{spent}",
            f"Picking the record out of 10 equally likely candidates in a ball of that radius "
            f"succeeds with probability at most {up(exact_id)} (0.1 without the model).",
        ]

    def _curve(self) -> list[str]:
        distances = [self.radius / 4, self.radius / 2, self.radius, 2 * self.radius]
        if self.norm_bound is not None:
            whole = 2 * self.norm_bound
            distances = sorted({min(distance, whole) for distance in (*distances, whole)})
        epsilons = [self._epsilon_at(distance, self.delta) for distance in distances]
        return [
            f"distance {down(distance, 6)}: epsilon = {up(epsilon)}"
            for distance, epsilon in zip(distances, epsilons, strict=True)
        ]

    def _numbers(self) -> list[str]:
        bound = "none given" if self.norm_bound is None else f"{self.norm_bound:.6g}"
        longer = (
            "longer rows were projected"
            if self.out_of_bound == "clip"
            else "the caller states that no row is longer"
        )
        return [
            f"radius {self.radius:.6g} ({self.radius_source}); norm bound {bound}"
            + (f" ({longer})" if self.norm_bound is not None else "")
            + f"; alpha {self.alpha:.6g}",
            f"{self.n_samples} records, {self.n_features} features, {len(self.classes)} classes "
            f"with {min(self.class_counts)} to {max(self.class_counts)} records",
            f"sensitivity {_span(self.sensitivity)} ({self.sensitivity_rule}); solver tolerance "
            f"{self.solver_tolerance:.3g} and rounding error {self.rounding_error:.3g} included",
            f"noise scale {_span(self.noise_scale)} ({self.noise}"
            + (f", in multiples of {_span(self.grid)}" if self.noise == "discrete" else "")
            + f"); signal-to-noise ratio mu {self.mu:.6g}",
        ]

    def _sensitivity_at(self, distance: float) -> np.ndarray:
        """Sensitivity per block for pairs at `distance`, allowances included."""
        radius, norm_bound = self._domain(distance)
        if self.head == "ridge_prototype":
            exact = ridge_sensitivity(
                radius=radius,
                alpha=self.alpha,
                class_counts=np.asarray(self.class_counts),
                calibration=self.sensitivity_rule,
            )
        else:
            if norm_bound is None:
                raise self._inconsistent("norm_bound", f"the head {self.head!r}, which needs one")
            linear = linear_sensitivity(
                self.head,
                radius=radius,
                alpha=self.alpha,
                norm_bound=norm_bound,
                n_samples=self.n_samples,
                n_classes=len(self.classes),
                fit_intercept=bool(self.fit_intercept),
                weight_max=self.weight_max,
                public_norm=self.public_norm,
                mode=self.sensitivity_rule,
            )
            exact = np.array([linear])
        allowance = 2 * (self.solver_tolerance + self.rounding_error)
        rounding = discrete.grid_term(np.asarray(self.grid), self._n_coordinates)
        return np.where(exact > 0, exact + allowance + rounding, 0.0)

    @property
    def _n_coordinates(self) -> int:
        """How many parameters can differ between two neighbours."""
        if self.head == "ridge_prototype":
            return self.n_features
        binary = len(self.classes) == 2
        return (1 if binary else len(self.classes)) * (self.n_features + bool(self.fit_intercept))

    def _lattice(self) -> dict[str, Any]:
        """What the accounting of discrete noise depends on, besides mu."""
        noisy = [(s, g) for s, g in zip(self.noise_scale, self.grid, strict=True) if g > 0]
        steps = min(scale / grid for scale, grid in noisy)
        return {"steps": steps, "n_coordinates": self._n_coordinates}

    def _ratio(self, sensitivity: np.ndarray) -> float:
        """Largest ratio of sensitivity to noise scale over the blocks that can change."""
        moving = sensitivity > 0
        scale = np.asarray(self.noise_scale)[moving]
        if np.any(scale == 0):
            return math.inf
        return float(np.max(sensitivity[moving] / scale, initial=0.0)) * (1 + 2.0**-52)

    def _check_fields(self) -> None:
        """Type and range of every field; what the formulas take for granted."""

        def real(low: float, high: float = math.inf) -> Callable[[Any], bool]:
            return lambda value: type(value) in (float, int) and low <= value <= high

        def text(value: Any) -> bool:
            return type(value) is str

        def sequence(valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
            return lambda value: type(value) is tuple and all(map(valid, value))

        def integer(low: int) -> Callable[[Any], bool]:
            return lambda value: type(value) is int and value >= low

        linear = self.head in _LINEAR_HEADS
        rules: tuple[str, ...] = ("per_class", "min_count", "global")
        if linear:
            rules = ("tight", "paper")
        valid: dict[str, Callable[[Any], bool]] = {
            "version": lambda value: value == _VERSION,
            "estimator": text,
            "head": lambda value: linear or value == "ridge_prototype",
            "epsilon": real(0),
            "delta": real(0, 1 - 1e-16),
            "radius": real(0, 1e300),
            "radius_source": text,
            "radius_epsilon": real(0, 1e300),
            "mu": real(0),
            "sensitivity": sequence(real(0, 1e300)),
            "sensitivity_rule": lambda value: value in rules,
            "noise_scale": sequence(real(0, 1e300)),
            "grid": sequence(
                lambda value: real(0, 1e300)(value) and math.frexp(value)[0] in (0, 0.5)
            ),
            "solver_tolerance": real(0, 1e300),
            "rounding_error": real(0, 1e300),
            "n_samples": integer(2),
            "n_features": integer(1),
            "classes": lambda value: type(value) is tuple and 2 <= len(value) == len(set(value)),
            "class_counts": sequence(integer(0)),
            "alpha": real(1e-60, 1e60),
            "norm_bound": lambda value: (value is None and not linear) or real(1e-50, 1e50)(value),
            "out_of_bound": lambda value: value in ("clip", "raise"),
            "fit_intercept": lambda value: type(value) is bool if linear else value is None,
            "weight_max": real(1, 1e15 if linear else 1),
            "public_norm": real(0, 1e60 if linear else 0),
            "noise": lambda value: value in ("discrete", "continuous", "none"),
            "voided_by": sequence(text),
            "caveats": sequence(text),
        }
        for name, is_valid in valid.items():
            value = getattr(self, name)
            try:
                ok = is_valid(value)
            except TypeError:  # unhashable labels
                ok = False
            if not ok:
                raise self._inconsistent(name, "its meaning")
        if sum(self.class_counts) != self.n_samples or len(self.class_counts) != len(self.classes):
            raise self._inconsistent("class_counts", "n_samples and classes")
        if self.delta == 0 and self.epsilon < math.inf:
            raise self._inconsistent("delta", "epsilon")
        if self.norm_bound is not None and self.radius > 2 * self.norm_bound:
            raise self._inconsistent("radius", "norm_bound: it is at most twice that")
        on_grid = [self.noise == "discrete" and scale > 0 for scale in self.noise_scale]
        if [spacing > 0 for spacing in self.grid] != on_grid:
            raise self._inconsistent("grid", "noise and noise_scale")
        if self.noise == "discrete" and not (any(on_grid) and self._lattice()["steps"] >= 1):
            raise self._inconsistent("grid", "noise_scale: it is too coarse")

    def _check_allowances(self, silent: bool) -> None:
        """Rounding error and solver tolerance are at least what the formulas ask for."""
        if silent:
            return
        if self.noise == "none":
            raise self._inconsistent("noise", "epsilon and radius: there must be some")
        if self.head == "ridge_prototype":
            if self.norm_bound is not None:
                terms = longest_sum(self.n_samples, self.n_features)
                least = class_sum_error(n_terms=terms, norm_bound=self.norm_bound)
                if self.rounding_error < least:
                    raise self._inconsistent("rounding_error", "the shape and norm_bound")
            return
        _, norm_bound = self._domain(self.radius)
        error = gradient_error(
            self.head,
            alpha=self.alpha,
            norm_bound=norm_bound or 0.0,
            n_features=self.n_features,
            n_terms=longest_product_sum(self.n_samples, self.n_features),
            n_classes=len(self.classes),
            fit_intercept=bool(self.fit_intercept),
            public_norm=self.public_norm,
        )
        if self.solver_tolerance * (1 + 1e-9) < 4 * error / self.alpha:
            raise self._inconsistent("solver_tolerance", "the rounding errors of the gradient")

    def _domain(self, distance: float) -> tuple[float, float | None]:
        return clipped_domain(
            radius=distance, norm_bound=self.norm_bound, n_features=self.n_features
        )

    def _warn_if_void(self) -> None:
        if not self.holds:
            warnings.warn(
                "the certificate is void, and this bound is what it would be otherwise: "
                + "; ".join(self.voided_by),
                PrivacyWarning,
                stacklevel=3,
            )

    def _inconsistent(self, field: str, others: str) -> CertificationError:
        value = getattr(self, field)
        shown = f"{len(value)} values" if isinstance(value, tuple) else repr(value)
        return CertificationError(
            f"the certificate contradicts itself: {field} ({shown}) does not follow from {others}."
            " Do not rely on it; ask for the one written when the model was fitted."
        )


def _span(values: tuple[float, ...]) -> str:
    low, high = min(values), max(values)
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g} by class"
