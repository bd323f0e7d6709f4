"""The one fit path of the heads: validate, calibrate, solve, perturb, certify.

A head is a loss with its exact minimiser, a sensitivity, and a prediction rule: three methods
of a subclass of `BallDPClassifier`. Everything that privacy depends on and that is not one of
these three is here, once.

The order of `fit` is part of the promise. Labels, shape and parameters are public under the
adjacency (a neighbour has the same ones), so everything that can fail, and the noise scale, is
decided from them first; only then are the rows read, and nothing read from them leaves this
module without noise.
"""

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_X_y
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from skballdp._validate import (
    check_choice,
    check_delta,
    check_epsilon,
    check_integer,
    check_real,
    without_data,
)
from skballdp.accounting import discrete
from skballdp.accounting.gaussian import mu_of
from skballdp.certificate import PrivacyCertificate
from skballdp.data import RowBlocks, clipped_rows, longest_sum
from skballdp.erm.sensitivity import clipped_domain
from skballdp.exceptions import CertificationError, PrivacyWarning
from skballdp.noise import CONTINUOUS, TIMING, make_rng, perturb
from skballdp.radius import READ_FROM_DATA, Radius, resolve_radius

__all__ = [
    "BallDPClassifier",
    "Problem",
    "Sensitivity",
    "domain",
    "json_value",
    "require_certifiable",
    "scalar_if_equal",
]


@dataclass(frozen=True)
class Problem:
    """What is public about one training problem: a function of labels, shape and parameters."""

    n_samples: int
    n_features: int
    classes: np.ndarray
    class_counts: np.ndarray
    epsilon: float
    delta: float
    alpha: float
    norm_bound: float | None
    out_of_bound: str
    radius: Radius
    noise: str

    @property
    def n_terms(self) -> int:
        """Largest number of terms that a sum over the records adds one after the other."""
        return longest_sum(self.n_samples, self.n_features)

    @property
    def silent(self) -> bool:
        """Whether the release has no noise."""
        return self.epsilon == math.inf or self.radius.value == 0


@dataclass(frozen=True)
class Sensitivity:
    """Sensitivity of a head, before calibration.

    Attributes
    ----------
    exact : ndarray of shape (n_blocks,)
        Sensitivity of the exact optimum, one value per row of the parameter matrix or a single
        one for all of it.
    rule : str
        Which bound it is.
    solver_tolerance, rounding_error : float
        Promised distances of the computed to the exact optimum.
    magnitude : float
        Bound on the absolute value of a parameter.
    n_coordinates : int
        How many parameters can differ between two neighbours.
    """

    exact: np.ndarray
    rule: str
    solver_tolerance: float
    rounding_error: float
    magnitude: float
    n_coordinates: int

    @property
    def total(self) -> np.ndarray:
        """Of the computed parameters; both neighbours are computed inexactly."""
        allowance = 2 * (self.solver_tolerance + self.rounding_error)
        return np.where(self.exact > 0, self.exact + allowance, 0.0)


@dataclass(frozen=True)
class Calibration:
    """How the noise follows from a sensitivity: the ratio, and one value per block of the rest.

    Attributes
    ----------
    mu : float
        Bound on sensitivity over noise scale.
    sensitivity : ndarray of shape (n_blocks,)
        What the noise is calibrated to, rounding to the grid included.
    grid : ndarray of shape (n_blocks,)
        Spacing of the released parameters; 0 for continuous noise.
    scale : ndarray of shape (n_blocks,)
        Standard deviation of the noise.
    """

    mu: float
    sensitivity: np.ndarray
    grid: np.ndarray
    scale: np.ndarray


class BallDPClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base class of the heads; see the module docstring."""

    @abstractmethod
    def _check_head(self, problem: Problem) -> None:
        """Validate the parameters that only this head has."""

    @abstractmethod
    def _sensitivity_of(self, problem: Problem) -> Sensitivity:
        """Sensitivity at the problem's radius, from public numbers.

        Calls `require_certifiable`, unless the release is silent.
        """

    @abstractmethod
    def _optimum(self, rows: RowBlocks, codes: np.ndarray, problem: Problem) -> np.ndarray:
        """Exact parameters, of shape (n_blocks, block size); a function of its arguments."""

    @abstractmethod
    def _neighbour_optima(
        self,
        rows: RowBlocks,
        codes: np.ndarray,
        problem: Problem,
        index: int,
        candidates: np.ndarray,
    ) -> np.ndarray:
        """Exact parameters with record `index` replaced by each of m (clipped) candidates.

        Returns an array of shape (m, n_blocks, block size).
        """

    @abstractmethod
    def _set_released(self, released: np.ndarray, problem: Problem) -> None:
        """Store the noisy parameters and what prediction needs."""

    def _flatten(self, theta: np.ndarray) -> np.ndarray:
        """One vector in the order of `released_parameters_`."""
        return theta.ravel()

    @abstractmethod
    def _certified_parameters(self, problem: Problem) -> dict[str, Any]:
        """Fields of the certificate that differ between heads, ``head`` among them."""

    def fit(self, X: Any, y: Any) -> "BallDPClassifier":
        """Fit the head, add the noise and write the certificate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training records, one per row; finite. Rows longer than `norm_bound` are projected on
            the ball, silently, since their number is private.
        y : array-like of shape (n_samples,)
            Labels of any type. They are public under this adjacency.

        Returns
        -------
        self : object
            The fitted estimator. It holds noisy parameters and public numbers only.

        Raises
        ------
        TypeError, ValueError
            For parameters or data out of their domain.
        CertificationError
            If float64 cannot certify the promise; decided before the rows are read.

        Warns
        -----
        PrivacyWarning
            If something voids or weakens the promise.
        """
        X, y = without_data(validate_data, self, X, y, **_ACCEPTED)
        problem, codes = self._problem(X, y)
        rng = make_rng(self.random_state)
        sensitivity = self._sensitivity_of(problem)
        calibration = _calibrate(problem, sensitivity)
        voided_by, notes = self._weaknesses(problem)
        for sentence in (*voided_by, *notes):
            warnings.warn(f"{type(self).__name__}: {sentence}", PrivacyWarning, stacklevel=2)

        with _mute():
            exact = self._optimum(self._rows(X, problem), codes, problem)
            released = perturb(exact, calibration.scale, calibration.grid, rng=rng)
        del exact

        self.classes_ = problem.classes
        self.radius_ = problem.radius.value
        self.sensitivity_ = scalar_if_equal(calibration.sensitivity)
        self.noise_scale_ = scalar_if_equal(calibration.scale)
        self._set_released(released, problem)
        caveats = (*notes, *(() if problem.silent else (TIMING,)))
        self.certificate_ = PrivacyCertificate(
            estimator=type(self).__name__,
            epsilon=problem.epsilon,
            delta=problem.delta,
            radius=problem.radius.value,
            radius_source=problem.radius.source,
            radius_epsilon=problem.radius.epsilon,
            mu=calibration.mu,
            sensitivity=tuple(calibration.sensitivity.tolist()),
            sensitivity_rule=sensitivity.rule,
            noise_scale=tuple(calibration.scale.tolist()),
            grid=tuple(calibration.grid.tolist()),
            solver_tolerance=sensitivity.solver_tolerance,
            rounding_error=sensitivity.rounding_error,
            n_samples=problem.n_samples,
            n_features=problem.n_features,
            classes=tuple(json_value(label) for label in problem.classes.tolist()),
            class_counts=tuple(problem.class_counts.tolist()),
            alpha=problem.alpha,
            norm_bound=problem.norm_bound,
            out_of_bound=problem.out_of_bound,
            **self._certified_parameters(problem),
            noise="none" if problem.silent else problem.noise,
            voided_by=voided_by,
            caveats=caveats + self._assumptions(problem),
        )
        return self

    def exact_optimum(self, X: Any, y: Any) -> np.ndarray:
        """Noiseless parameters for the given data: **private**, for audits only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        ndarray of shape (n_parameters,)
            In the order of `released_parameters_`. Nothing is stored.

        Raises
        ------
        TypeError, ValueError
            As in `fit`.
        """
        rows, codes, problem = self._blocks(X, y)
        with _mute():
            return self._flatten(self._optimum(rows, codes, problem))

    def neighbour_optima(self, X: Any, y: Any, index: int, X_candidates: Any) -> np.ndarray:
        """Noiseless parameters of data sets that differ in one record: **private**, for audits.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,)
            Labels.
        index : int
            Which record to replace, in ``0 .. n_samples - 1``; its label stays.
        X_candidates : array-like of shape (m, n_features)
            What to replace it by; longer rows are projected as in `fit`.

        Returns
        -------
        ndarray of shape (m, n_parameters)
            In the order of `released_parameters_`. Nothing is stored.

        Raises
        ------
        TypeError, ValueError
            As in `fit`, and if `index` or the candidates do not fit the data.
        """
        X, y = without_data(check_X_y, X, y, estimator=self, **_ACCEPTED)
        index = check_integer("index", index, low=0)
        candidates = without_data(
            check_array, X_candidates, dtype=np.float64, input_name="X_candidates"
        )
        if index >= X.shape[0] or candidates.shape[1] != X.shape[1]:
            raise ValueError(
                f"index={index!r} and X_candidates of shape {candidates.shape} do not fit X of "
                f"shape {X.shape}."
            )
        problem, codes = self._problem(X, y)
        self._sensitivity_of(problem)
        with _mute():
            candidates = clipped_rows(candidates, slice(None), problem.norm_bound)
            rows = self._rows(X, problem)
            optima = self._neighbour_optima(rows, codes, problem, index, candidates)
        return np.stack([self._flatten(theta) for theta in optima])

    def _blocks(self, X: Any, y: Any) -> tuple[RowBlocks, np.ndarray, Problem]:
        """Rows, class codes and description of some data, which nothing of is stored."""
        X, y = without_data(check_X_y, X, y, estimator=self, **_ACCEPTED)
        problem, codes = self._problem(X, y)
        self._sensitivity_of(problem)  # refuses what cannot be certified
        return self._rows(X, problem), codes, problem

    def noise_scale_for(self, X: Any, y: Any) -> float | np.ndarray:
        """Noise scale that a fit on the given data would use.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records; only their shape matters.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        float or ndarray of shape (n_parameters,)
            Standard deviation, in the order of `released_parameters_`. Nothing is stored.

        Raises
        ------
        TypeError, ValueError
            As in `fit`.
        """
        X, y = without_data(check_X_y, X, y, estimator=self, **_ACCEPTED)
        problem, _ = self._problem(X, y)
        calibration = _calibrate(problem, self._sensitivity_of(problem))
        scale = scalar_if_equal(calibration.scale)
        return scale if isinstance(scale, float) else np.repeat(scale, problem.n_features)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _problem(self, X: Any, y: np.ndarray) -> tuple[Problem, np.ndarray]:
        """Public facts and the class code of each record."""
        epsilon = check_epsilon(self.epsilon)
        delta = check_delta(self.delta, epsilon=epsilon)
        alpha = check_real("alpha", self.alpha, low=1e-60, high=1e60, hint="Pass e.g. 0.01.")
        norm_bound = self.norm_bound
        if norm_bound is not None:
            norm_bound = check_real("norm_bound", norm_bound, low=1e-50, high=1e50)
        check_choice("out_of_bound", self.out_of_bound, ("clip", "raise"))
        check_choice("noise", self.noise, ("discrete", "continuous"))
        if X.dtype.kind not in "biuf":
            raise ValueError(
                f"X must hold real numbers, got dtype {X.dtype}. Convert it to floats."
            )
        y = _plain_labels(y)
        without_data(check_classification_targets, y)
        radius = resolve_radius(self.radius, norm_bound=norm_bound, X=X, y=y)
        classes, codes = _encode(y, self.classes)
        problem = Problem(
            n_samples=X.shape[0],
            n_features=X.shape[1],
            classes=classes,
            class_counts=np.bincount(codes, minlength=len(classes)),
            epsilon=epsilon,
            delta=delta,
            alpha=alpha,
            norm_bound=norm_bound,
            out_of_bound=self.out_of_bound,
            radius=radius,
            noise=self.noise,
        )
        self._check_head(problem)
        return problem, codes

    def _rows(self, X: Any, problem: Problem) -> RowBlocks:
        return RowBlocks(X, norm_bound=problem.norm_bound, out_of_bound=problem.out_of_bound)

    def _weaknesses(self, problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Sentences for what voids the promise and for what weakens it."""
        voided_by = []
        if self.random_state is not None:
            voided_by.append(
                "the noise was seeded (random_state was given): whoever knows the seed can "
                "subtract the noise"
            )
        if problem.epsilon == math.inf:
            voided_by.append("epsilon is infinite: no noise was added, this is not private")
        if problem.radius.value == 0:
            voided_by.append("the radius is 0: no noise was added and nothing is protected")
        if problem.radius.source.endswith(READ_FROM_DATA):
            voided_by.append(
                f"the radius was read off the training data (radius={self.radius!r}): measure it "
                "on public records with radius_quantiles, and pass the number"
            )
        notes = []
        if problem.noise == "continuous" and not problem.silent:
            notes.append(CONTINUOUS)
        if problem.epsilon < math.inf and problem.delta >= 1 / problem.n_samples:
            notes.append(
                f"delta={problem.delta!r} is at least 1 / n_samples = 1 / {problem.n_samples}: it "
                "permits the full disclosure of some record"
            )
        return tuple(voided_by), tuple(notes)

    def _assumptions(self, problem: Problem) -> tuple[str, ...]:
        """Sentences for what the caller states by the choice of parameters."""
        if problem.out_of_bound == "raise":
            return (
                "the caller states that every data set in question lies within the norm bound: "
                "the promise is for those only",
            )
        return ()


_ACCEPTED: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": "numeric",
    "ensure_all_finite": False,  # checked in the pass over the norms, see skballdp.data
    "ensure_min_samples": 2,
}


def domain(problem: Problem) -> tuple[float, float | None]:
    """Radius and norm bound of a problem with the allowance for inexact clipping."""
    return clipped_domain(
        radius=problem.radius.value,
        norm_bound=problem.norm_bound,
        n_features=problem.n_features,
    )


def require_certifiable(problem: Problem, *, error: float, allowed: float, remedy: str) -> None:
    """Refuse, by public numbers, what rounding errors would spoil."""
    if not error <= allowed:
        raise CertificationError(
            f"float64 cannot certify radius={problem.radius.value!r} with "
            f"n_samples={problem.n_samples}, n_features={problem.n_features}, "
            f"norm_bound={problem.norm_bound!r} and alpha={problem.alpha!r}: rounding errors may "
            f"move the parameters by {error:.3g}, but only {allowed:.3g} is small against the "
            f"sensitivity. Use {remedy}."
        )


def _calibrate(problem: Problem, sensitivity: Sensitivity) -> Calibration:
    """Noise for the promise, rounded up: sensitivity / scale <= mu in floats too."""
    total = sensitivity.total
    nothing = np.zeros_like(total)
    if problem.silent:
        return Calibration(mu=math.inf, sensitivity=total, grid=nothing, scale=nothing)
    mu = mu_of(problem.epsilon, problem.delta)
    with np.errstate(over="ignore"):
        scale = total / mu * (1 + 2.0**-51)
    changing = sensitivity.exact > 0
    # Near the ends of the exponent range products under- and overflow: no noise, or no number.
    if not (np.any(changing) and np.all((scale[changing] > 1e-250) & (scale[changing] < 1e250))):
        raise CertificationError(
            f"the noise scale {np.max(total):.3g} / {mu:.3g} is beyond the range of float64. Use "
            "values of radius, norm_bound, alpha, epsilon and delta that are nearer to 1."
        )
    if problem.noise == "discrete":
        mu, grid, scale = discrete.calibrate(
            total,
            problem.epsilon,
            problem.delta,
            n_coordinates=sensitivity.n_coordinates,
            magnitude=sensitivity.magnitude,
        )
        total = total + discrete.grid_term(grid, sensitivity.n_coordinates)
        return Calibration(mu=mu, sensitivity=total, grid=grid, scale=scale)
    # Much less than that above the spacing of floats, and rounding would swallow the noise.
    if np.min(scale[changing]) < 2.0**-44 * sensitivity.magnitude:
        raise CertificationError(
            f"the noise scale {np.min(scale[changing]):.3g} is too small to be added in float64 to "
            f"parameters of up to {sensitivity.magnitude:.3g}. Use a smaller epsilon or a larger "
            "radius; epsilon=np.inf releases without noise."
        )
    return Calibration(mu=mu, sensitivity=total, grid=nothing, scale=scale)


def _mute() -> np.errstate:
    """Silence floating-point conditions while rows are read.

    Whether a product underflows depends on the rows. Under ``np.seterr(all="raise")``, or with
    warnings as errors, it would decide whether there is a release at all.
    """
    return np.errstate(all="ignore")


def scalar_if_equal(values: np.ndarray) -> Any:
    """One number for all blocks, or an array."""
    return float(values[0]) if np.all(values == values[0]) else values.copy()


def _plain_labels(y: np.ndarray) -> np.ndarray:
    """Labels as an array of one type: objects that are all bools, numbers or strings."""
    if y.dtype != object:
        return y
    kinds = {bool if isinstance(v, bool | np.bool_) else type(v) for v in y.tolist()}
    if all(issubclass(kind, str) for kind in kinds):
        return y
    if kinds == {bool} or all(issubclass(kind, int | float | np.number) for kind in kinds):
        plain = np.asarray(y.tolist())
        if plain.dtype.kind in "biuf":
            return plain
    raise ValueError(
        "y must hold labels of one type, all strings, all numbers or all bools, and none missing; "
        "got objects of several types. Convert them, for instance to strings."
    )


def _encode(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sorted classes and the position of each label among them."""
    observed, codes = np.unique(y, return_inverse=True)
    if classes is None:
        if len(observed) < 2:
            raise ValueError(
                "the training labels hold 1 class; a classifier needs records of at least two. "
                "Add records of another class."
            )
        return observed, codes
    if isinstance(classes, str) or np.ndim(classes) != 1 or len(classes) < 2:
        raise ValueError(
            "classes must be a one-dimensional list of at least two labels, or None for the labels "
            "in y."
        )
    domain_of_labels = np.unique(_plain_labels(np.asarray(classes)))
    if len(domain_of_labels) != len(classes):
        raise ValueError("classes must not hold the same label twice; remove the duplicates.")
    position = {label: code for code, label in enumerate(domain_of_labels.tolist())}
    found = [position.get(label, -1) for label in observed.tolist()]
    if -1 in found:
        raise ValueError("y contains labels that are not in classes; add them or drop the records.")
    return domain_of_labels, np.asarray(found)[codes]


def json_value(label: Any) -> Any:
    """A label as the certificate writes it."""
    return label if isinstance(label, str | int | float | bool) else str(label)
