"""The audit as a meta-estimator."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import column_or_1d, validate_data

from skballdp._pipeline import require_public_steps
from skballdp._validate import check_choice, check_integer, check_real, without_data
from skballdp.accounting import reconstruction
from skballdp.audit import attack
from skballdp.audit.report import (
    ApproximateReport,
    AuditReport,
    Check,
    ImplementationReport,
    InversionReport,
    Rate,
    SupportReport,
    UnknownLabelReport,
)
from skballdp.audit.statistics import (
    advantage_interval,
    at_most,
    epsilon_lower,
    measure,
    mu_lower,
)
from skballdp.audit.supports import SELECTIONS, Support, antipodal_pairs, draw_supports
from skballdp.exceptions import CertificationError, PrivacyWarning
from skballdp.radius import policy_level

__all__ = ["MAPReconstructionAuditor"]

_METHODS = ("gaussian", "rdp", "dp")
_PROTOCOL = ("exact_optimum", "neighbour_optima", "noise_scale_for", "released_parameters_")
# Probability that a correct estimator fails. So small that audits can run unattended by the
# thousand; the defects that are looked for are off by so much that power is no concern.
_FALSE_ALARM_RATE = 2e-7
# Candidates of the reachability attack: each of them costs a fit.
_MAX_HIDDEN = 10
# n_fits="auto": noise values with which 5 % too little noise is found with probability 0.999 at
# the level above, within these numbers of fits.
_NOISE_VALUES, _FEWEST_FITS, _MOST_FITS = 20_000, 30, 500
# Fits of each of two data sets that must reproduce a difference between them before it counts: a
# random attribute does that with probability at most 1/4 for each pair of fits.
_CONFIRMATIONS = 20
# Rounding of exact parameters, relative: differences below are nothing.
_ROUNDING = 1e-9
# Simulated releases of attacks that look at all parameters.
_WHOLE_RELEASES = 1000


class MAPReconstructionAuditor(MetaEstimatorMixin, BaseEstimator):
    """Attack a private head with the exact MAP rule, and test its noise.

    The attacker knows the training procedure, all records but one, and a list of candidates for
    that one. The auditor measures how often the best possible guess is right and sets the rate
    beside the certificate.

    Parameters
    ----------
    estimator : estimator or Pipeline
        A head of this package, or anything with its audit protocol: `exact_optimum`,
        `neighbour_optima`, `noise_scale_for` and `released_parameters_`. In a Pipeline all other
        steps must be stateless, or frozen with `sklearn.frozen.FrozenEstimator`.
    n_candidates : int, default=10
        Size m of each candidate set, >= 2.
    n_supports : int, default=4
        Number of candidate sets, >= 1.
    n_releases : int, default=100_000
        Simulated releases per hidden target, >= 1. The null arm and the additional attacks have a
        tenth.
    n_fits : int or "auto", default="auto"
        Real fits whose noise is tested, >= 2; 0 leaves this part out. "auto" takes between 30 and
        500, as many as give 20,000 noise values: enough to find noise that is 5 % too small.
    selection : {"farthest", "nearest", "random"} or callable, default="farthest"
        How candidates are chosen among the records in the ball. A callable gets ``(bank, centre,
        n_candidates, rng)`` and returns positions in the bank.
    prior : array-like of shape (n_candidates,) or None, default=None
        Probabilities that the attacker gives to the candidates; None is uniform.
    support_radius : float or None, default=None
        Radius of the balls that hold the candidates, > 0; None is the certificate's.
    beyond : tuple of float, default=(1.5, 2.0)
        Multiples, > 1, of that radius: one more candidate set each is attacked, beside the
        certificate at that distance. Those beyond twice the norm bound count as that.
    n_seen : int, default=4
        Releases of the same data that an attacker may collect, >= 1: the first candidate set is
        attacked with so many, too; 1 leaves this out.
    eta : float or None, default=None
        Answers at most this far from the target count as approximate reconstruction, >= 0, in the
        unit of the rows; None leaves this out.
    unknown_label : bool, default=False
        Also attack candidates that differ in their labels, which no certificate covers.
    confidence : float, default=0.95
        Of the intervals shown, in (0, 1). The verdict uses its own, stricter level.
    n_jobs : int or None, default=None
        As in joblib; the result does not depend on it.
    random_state : None, int or numpy generator, default=None
        For candidates and simulated releases. It seeds the attack, not the noise of the fits, so it
        voids nothing.

    Attributes
    ----------
    report_ : AuditReport
        What was found; **not** covered by the certificate.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they are all strings.

    See Also
    --------
    skballdp.PrivacyCertificate : The promise that is put to the test.

    Notes
    -----
    A support is a ball around a training record u and candidates with u's label inside it, fixed
    before the target is drawn; D^- is the training data without u. A set of candidates that depends
    on the target would break every bound.

    *Model arm.* The exact optima for D^- and each candidate are computed once; each candidate is
    the hidden target `n_releases` times (with a prior: targets are drawn from it); noise at the
    certified scale is added and the MAP rule decodes. The rate must not exceed the certificate, and
    no optimum may be further from the centre's than the sensitivity says.

    *Antipodal arm.* Two synthetic candidates as far apart as the ball and the norm bound allow:
    the sharpest test of the scale.

    *Null arm.* The same attack on releases that do not depend on the target must not succeed more
    often than a blind guess.

    *Implementation arm.* The certificate must follow from its own numbers. The noise that real fits
    of a clone added, over the scale that they claim, must be standard normal, independent between
    fits and within one. Each fit hides one of up to ten candidates of the first support, drawn at
    random: certificates and public attributes must not depend on which, nor change when all records
    shrink by half; and the reachability attack must not name it more often than the certificate
    allows.

    A correct estimator fails the whole audit with probability at most 2e-7. What an audit cannot
    see: a defect that needs other data, other parameters, or a cleverer look at the digits of the
    release than these attacks take.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction
    with less noise", arXiv:2607.04209, section 5.
    P. Guerra-Balboa, A. Sauer, H. Arcolezi and T. Strufe, "Understanding disclosure risk in
    differential privacy", arXiv:2603.12142 (null arm and advantage).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, MAPReconstructionAuditor
    >>> X, y = load_digits(return_X_y=True)
    >>> auditor = MAPReconstructionAuditor(
    ...     BallDPRidgePrototype(radius=0.5), n_releases=1000, n_fits=5, random_state=0
    ... )
    >>> auditor.fit(normalize(X), y).report_.passed
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        n_candidates: int = 10,
        n_supports: int = 4,
        n_releases: int = 100_000,
        n_fits: int | str = "auto",
        selection: Any = "farthest",
        prior: Any = None,
        support_radius: float | None = None,
        beyond: Any = (1.5, 2.0),
        n_seen: int = 4,
        eta: float | None = None,
        unknown_label: bool = False,
        confidence: float = 0.95,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.n_candidates = n_candidates
        self.n_supports = n_supports
        self.n_releases = n_releases
        self.n_fits = n_fits
        self.selection = selection
        self.prior = prior
        self.support_radius = support_radius
        self.beyond = beyond
        self.n_seen = n_seen
        self.eta = eta
        self.unknown_label = unknown_label
        self.confidence = confidence
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, X_pool: Any = None, y_pool: Any = None
    ) -> "MAPReconstructionAuditor":
        """Audit the estimator on the given data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training records.
        y : array-like of shape (n_samples,)
            Labels.
        X_pool : {array-like, sparse matrix} of shape (n_pool, n_features), optional
            Public records to take candidates from; without it they are synthetic.
        y_pool : array-like of shape (n_pool,), optional
            Their labels.

        Returns
        -------
        self : object
            With ``report_``. No data and no fitted estimator are kept.

        Raises
        ------
        TypeError, ValueError
            If the estimator cannot be audited, or for parameters or data out of their domain.
        """
        m, prior = self._check_parameters()
        transform, head = _split_pipeline(self.estimator)
        X, y = without_data(validate_data, self, X, y, accept_sparse="csr", dtype="numeric")
        pool = self._check_pool(X_pool, y_pool, y)
        X = transform(X)
        if pool is not None:
            pool = (transform(pool[0]), pool[1])
        rng = _generator(self.random_state)

        fitted = _quiet_fit(head, X, y)
        _check_protocol(fitted)
        certificate = fitted.certificate_
        if certificate.radius == 0:
            raise ValueError(
                "the estimator's radius is 0: no two candidates fit in the ball. Audit it with a "
                "positive radius."
            )
        if policy_level(getattr(head, "radius", None)) is not None:
            # Read off these data once; the neighbours below must not change it.
            head = clone(head).set_params(radius=certificate.radius)
        case = _Case(head, X, y, head.noise_scale_for(X, y), certificate, self)
        jobs = self._plan(case, pool, m, prior, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # the report says what voids it
            parts = Parallel(n_jobs=self.n_jobs)(
                delayed(job)(case, seed=seed)
                for job, seed in zip(jobs.values(), rng.spawn(len(jobs)), strict=True)
            )
        done = dict(zip(jobs, parts, strict=True))
        supports = tuple(done[name] for name in jobs if name.startswith("support"))
        farther = tuple(done[name] for name in jobs if name.startswith("beyond"))
        first = jobs["support 0"].keywords["support"]
        implementation, p_values = self._implementation(case, first, rng)
        p_values = {"certificate": float(_follows(case))} | p_values
        p_values = _model_checks(supports, farther, done) | p_values
        level = _FALSE_ALARM_RATE / len(p_values)
        measured, null = (
            measure(sum(r.hits for r in rates), sum(r.trials for r in rates), self.confidence)
            for rates in ([s.measured for s in supports], [s.null for s in supports])
        )
        # Limits of two attacks that hold together.
        both = (1 + self.confidence) / 2
        attempts = [(done["antipodal"].measured, 0.5)]
        if supports[0].distance <= certificate.radius:
            attempts.append((measured, float(prior.max())))
        self.report_ = AuditReport(
            estimator=type(head).__name__,
            epsilon=certificate.epsilon,
            delta=certificate.delta,
            radius=certificate.radius,
            radius_epsilon=certificate.radius_epsilon,
            mu=certificate.mu,
            norm_bound=certificate.norm_bound,
            voided_by=certificate.voided_by,
            selection=self.selection if isinstance(self.selection, str) else "callable",
            synthetic=pool is None,
            confidence=float(self.confidence),
            n_releases=int(self.n_releases),
            measured=measured,
            null=null,
            advantage=measured.rate - null.rate,
            advantage_interval=advantage_interval(measured, null, self.confidence),
            bayes_success=math.fsum(s.bayes_success for s in supports) / len(supports),
            certificates=supports[0].certificates,  # all have the same distance and prior
            exact_id_bound=supports[0].exact_id_bound,
            kappa=float(prior.max()),
            mu_lower=max(mu_lower(rate, kappa, both) for rate, kappa in attempts),
            epsilon_lower=max(
                epsilon_lower(rate, kappa, certificate.delta, both) for rate, kappa in attempts
            ),
            supports=supports,
            antipodal=done["antipodal"],
            farther=farther,
            repeated=done.get("repeated"),
            unknown_label=done.get("unknown label"),
            inversion=done.get("inversion"),
            implementation=implementation,
            checks=tuple(
                Check(name=name, p_value=p_value, level=level) for name, p_value in p_values.items()
            ),
            false_alarm_rate=_FALSE_ALARM_RATE,
        )
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags

    def _check_parameters(self) -> tuple[int, np.ndarray]:
        m = check_integer("n_candidates", self.n_candidates, low=2)
        check_integer("n_supports", self.n_supports, low=1)
        check_integer("n_releases", self.n_releases, low=1)
        check_integer("n_seen", self.n_seen, low=1)
        if isinstance(self.n_fits, str):
            check_choice("n_fits", self.n_fits, ("auto",), "Or give an integer.")
        else:
            check_integer("n_fits", self.n_fits, low=0)
        if self.n_fits == 1:
            raise ValueError("n_fits must be 0 or at least 2, got 1: independence needs two fits.")
        check_real("confidence", self.confidence, low=0, high=1, low_open=True, high_open=True)
        if self.support_radius is not None:
            check_real("support_radius", self.support_radius, low=0, low_open=True, high_open=True)
        if self.eta is not None:
            check_real("eta", self.eta, low=0, high_open=True)
        if isinstance(self.beyond, str) or not np.iterable(self.beyond):
            raise ValueError(
                f"beyond must be a sequence of numbers above 1, got {self.beyond!r}; "
                "() leaves these attacks out."
            )
        for factor in self.beyond:
            check_real("beyond", factor, low=1, low_open=True, high_open=True)
        if not isinstance(self.unknown_label, bool | np.bool_):
            raise TypeError(
                f"unknown_label must be a bool, got {self.unknown_label!r}. Pass True or False."
            )
        if not callable(self.selection):
            check_choice("selection", self.selection, SELECTIONS, "Or give a callable.")
        if self.prior is None:
            return m, np.full(m, 1 / m)
        prior = reconstruction.check_prior(self.prior, n_candidates=m)
        if np.any(prior == 0):
            raise ValueError(
                "prior must be positive for every candidate; leave impossible candidates out."
            )
        return m, prior

    def _check_pool(self, X_pool: Any, y_pool: Any, y: np.ndarray) -> tuple[Any, Any] | None:
        if (X_pool is None) != (y_pool is None):
            raise ValueError("give both X_pool and y_pool, or neither.")
        if X_pool is None:
            return None
        X_pool = without_data(
            check_array, X_pool, accept_sparse="csr", dtype="numeric", input_name="X_pool"
        )
        y_pool = column_or_1d(y_pool)
        if X_pool.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X_pool has {X_pool.shape[1]} features, but X has {self.n_features_in_}."
            )
        if len(y_pool) != X_pool.shape[0]:
            raise ValueError(
                f"y_pool must have one label per record of X_pool, {X_pool.shape[0]}, got "
                f"{len(y_pool)}."
            )
        missing = np.setdiff1d(np.unique(y), np.unique(y_pool))
        if len(missing) > 0:
            raise ValueError(
                f"y_pool lacks {len(missing)} of the classes in y; add public records of each "
                "class, or leave the pool out for synthetic candidates."
            )
        return X_pool, y_pool

    def _plan(
        self,
        case: "_Case",
        pool: tuple[Any, Any] | None,
        m: int,
        prior: np.ndarray,
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        """The attacks by name: functions of the case and a generator."""
        certificate = case.certificate
        norm_bound = certificate.norm_bound
        draw = partial(
            draw_supports,
            case.X,
            case.y,
            pool,
            norm_bound=norm_bound,
            n_candidates=m,
            selection=self.selection,
            rng=rng,
        )
        whole = math.inf if norm_bound is None else 2 * norm_bound
        radius = min(self.support_radius or certificate.radius, whole)
        few = max(1, self.n_releases // 10)
        jobs: dict[str, Any] = {}
        for k, support in enumerate(draw(radius=radius, n_supports=self.n_supports)):
            jobs[f"support {k}"] = partial(
                _attack_support,
                support=support,
                distance=radius,
                prior=prior,
                n_releases=self.n_releases,
                eta=self.eta,
            )
        first = jobs["support 0"].keywords["support"]
        reached = radius
        for factor in sorted(self.beyond):
            distance = min(factor * radius, whole)
            if distance > reached:
                (support,) = draw(radius=distance, n_supports=1)
                jobs[f"beyond {factor!r}"] = partial(
                    _attack_support,
                    support=support,
                    distance=distance,
                    prior=prior,
                    n_releases=few,
                )
                reached = distance
        jobs["antipodal"] = partial(
            _attack_pair,
            pairs=antipodal_pairs(
                case.X, case.y, radius=certificate.radius, norm_bound=norm_bound, rng=rng
            ),
            n_releases=self.n_releases,
        )
        if self.n_seen > 1:
            jobs["repeated"] = partial(
                _attack_support,
                support=first,
                distance=radius,
                prior=prior,
                n_releases=few,
                n_seen=int(self.n_seen),
            )
        if self.unknown_label and np.any(np.asarray(case.scale) > 0):
            jobs["unknown label"] = partial(
                _attack_labels,
                support=first,
                prior=prior,
                n_releases=min(self.n_releases, _WHOLE_RELEASES),
            )
        if hasattr(case.head, "invert_release"):
            jobs["inversion"] = partial(
                _invert,
                support=first,
                distance=radius,
                eta=self.eta,
                n_releases=min(self.n_releases, _WHOLE_RELEASES),
            )
        return jobs

    def _implementation(
        self, case: "_Case", support: Support, rng: np.random.Generator
    ) -> tuple[ImplementationReport | None, dict[str, float]]:
        """Real fits of the data with hidden candidates, and p-values of what is tested in them."""
        if self.n_fits == 0:
            return None, {}
        m = min(len(support.candidates), _MAX_HIDDEN)
        parallel = Parallel(n_jobs=self.n_jobs)
        # With the code of fit, not by neighbour_optima: the attack looks at the last digits.
        optima = np.stack(parallel(delayed(_hide)(_exact, case, support, j) for j in range(m)))
        scale = np.broadcast_to(np.asarray(case.scale, dtype=np.float64), optima.shape[1:])
        noisy = scale > 0
        n_noisy = int(np.count_nonzero(noisy))
        if self.n_fits == "auto":
            wanted = math.ceil(_NOISE_VALUES / n_noisy) if n_noisy else 0
            n_fits = min(max(wanted, _FEWEST_FITS), _MOST_FITS)
        else:
            n_fits = int(self.n_fits)
        targets = rng.integers(m, size=n_fits)
        fits = parallel(delayed(_hide)(_release, case, support, j) for j in targets)
        releases = np.stack([released for released, _ in fits])
        noise = releases - optima[targets]
        p_values = {
            "public attributes": _public_p_value(
                case, support, targets, [marks for _, marks in fits], noisy=n_noisy > 0
            )
        }
        if n_noisy < len(scale):
            # Parameters without noise must be released as they are, up to rounding.
            exact = np.abs(noise[:, ~noisy]) <= _ROUNDING * (1 + np.abs(releases[:, ~noisy]))
            p_values["no noise where none is claimed"] = float(np.all(exact))
        digits, bound = None, 1.0
        if n_noisy > 0:
            # Parameters of one class, and with one scale.
            n_features = case.X.shape[1]
            kinds = np.stack([np.arange(len(scale)) // n_features, scale])[:, noisy]
            _, blocks = np.unique(kinds, axis=1, return_inverse=True)
            p_values |= attack.noise_p_values(
                noise[:, noisy] / scale[noisy],
                blocks.ravel(),
                n_features=n_features,
                resolution=max(case.certificate.grid) / float(scale[noisy].min()),
            )
            named = [
                attack.only_reachable(released, optima[:, noisy], scale[noisy])
                for released in releases[:, noisy]
            ]
            bound = case.bound(n_candidates=m, distance=self.support_radius)
            hits = sum(guess == int(j) for guess, j in zip(named, targets, strict=True))
            digits = measure(hits, n_fits, self.confidence)
            # No attack whatsoever on a correct head succeeds more often than the bound says.
            p_values["reachability"] = at_most(digits, bound)
        report = ImplementationReport(
            n_fits=n_fits,
            n_parameters=n_noisy,
            n_hidden=m,
            digits=digits,
            digits_bound=bound,
        )
        return report, p_values


@dataclass(frozen=True)
class _Case:
    """What is attacked: a head, data, the noise scale that it claims, and its certificate."""

    head: Any
    X: Any
    y: np.ndarray
    scale: Any
    certificate: Any
    auditor: MAPReconstructionAuditor

    def bound(self, **what: Any) -> float:
        """A bound of the certificate; what voids it is said elsewhere."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            return float(self.certificate.exact_id_bound(**what))

    def optima(self, index: int, rows: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
        """Exact parameters with each row in the place of the record; of shape (m, p)."""
        y = self.y if y is None else y
        optima: np.ndarray = self.head.neighbour_optima(self.X, y, index, rows)
        return optima


def _attack_support(
    case: _Case,
    *,
    support: Support,
    distance: float,
    prior: np.ndarray,
    n_releases: int,
    n_seen: int = 1,
    eta: float | None = None,
    seed: np.random.Generator,
) -> SupportReport:
    rows = np.vstack([support.candidates, support.centre])
    optima = case.optima(support.index, rows)
    shape = attack.geometry(optima[:-1], optima[-1], case.scale, prior).seen(n_seen)
    near = None
    if eta is not None:
        candidates = support.candidates
        # As in kappa_finite: a distance that rounds to just above eta counts.
        reach = eta * (1 + candidates.shape[1] * 2.0**-53)
        near = cdist(candidates, candidates) <= reach
    arm = attack.simulate(shape, prior, n_releases, seed, near=near)
    approximate = None
    if eta is not None:
        kappa = reconstruction.kappa_finite(support.candidates, prior, eta)
        approximate = ApproximateReport(
            eta=float(eta),
            kappa=kappa,
            measured=measure(arm.near_hits, arm.trials, case.auditor.confidence),
            bound=case.bound(kappa=kappa, distance=distance),
        )
    return _support_report(case, shape, arm, prior, distance, n_seen, 1.0, approximate)


def _attack_pair(
    case: _Case, *, pairs: Sequence[Support], n_releases: int, seed: np.random.Generator
) -> SupportReport:
    """The pair that is easiest to tell apart, against the smallest valid bound."""
    rows = np.vstack([np.vstack([pair.candidates, pair.centre]) for pair in pairs])
    optima = case.optima(pairs[0].index, rows).reshape(len(pairs), 3, -1)
    prior = np.full(2, 0.5)
    shapes = [attack.geometry(part[:2], part[2], case.scale, prior) for part in optima]
    best = max(range(len(pairs)), key=lambda k: shapes[k].diameter)
    arm = attack.simulate(shapes[best], prior, n_releases, seed)
    ends = pairs[best].candidates
    distance = float(np.linalg.norm(ends[0] - ends[1]) / 2) * (1 + _ROUNDING)
    radius = case.certificate.radius
    distance = radius if abs(distance - radius) <= 1e-8 * radius else distance
    # Compared with the centre's release; and with the release half-way between the two, which is
    # half the shift at twice the distance from each.
    half_shift = case.certificate.mu_at(2 * distance) / 2
    direct = case.bound(n_candidates=2, distance=distance)
    spent = case.certificate.radius_epsilon
    kappa = reconstruction.dp_bound(epsilon=spent, delta=0.0, kappa=0.5)
    # What the certificate adds for discrete noise.
    mu = case.certificate.mu_at(distance)
    excess = direct / reconstruction.exact_id_bound(mu=mu, kappa=kappa)
    between = reconstruction.exact_id_bound(mu=half_shift, kappa=kappa) * max(1.0, excess)
    return _support_report(case, shapes[best], arm, prior, distance, 1, between, None)


def _support_report(
    case: _Case,
    shape: attack.Geometry,
    arm: attack.ModelArm,
    prior: np.ndarray,
    distance: float,
    n_seen: int,
    other_bound: float,
    approximate: ApproximateReport | None,
) -> SupportReport:
    """The record of an attack; `other_bound` is one that is valid beside the certificates."""
    confidence, kappa = case.auditor.confidence, float(prior.max())
    measured = measure(arm.hits, arm.trials, confidence)
    null = measure(arm.null_hits, arm.null_trials, confidence)
    references = {
        "centre": shape.to_centre,
        "mean": shape.to_mean,
        "enclosing": shape.to_enclosing,
    }
    certificates = {
        method: case.bound(prior=prior, method=method, distance=distance, n_releases=n_seen)
        for method in _METHODS
    }
    moves = bool(np.any(shape.to_centre > 0))
    return SupportReport(
        distance=float(distance),
        n_seen=n_seen,
        n_candidates=len(prior),
        n_distinct=len(shape.points),
        kappa=kappa,
        measured=measured,
        null=null,
        advantage=measured.rate - null.rate,
        advantage_interval=advantage_interval(measured, null, confidence),
        advantage_bound=reconstruction.advantage_bound(
            mu=math.inf if shape.silent else shape.diameter, prior=prior
        ),
        bayes_success=arm.bayes_success,
        bayes_error=arm.bayes_error,
        support_bounds=tuple(
            (name, 1.0 if shape.silent else reconstruction.support_bound(prior, distances))
            for name, distances in references.items()
        ),
        certificates=tuple(certificates.items()),
        exact_id_bound=min(other_bound, *certificates.values()),
        shift=math.inf if shape.silent and moves else float(shape.to_centre.max()),
        shift_bound=math.sqrt(n_seen) * case.certificate.mu_at(distance),
        mu_lower=mu_lower(measured, kappa, confidence),
        epsilon_lower=epsilon_lower(
            measured, kappa, min(1.0, n_seen * case.certificate.delta), confidence
        ),
        approximate=approximate,
    )


def _attack_labels(
    case: _Case,
    *,
    support: Support,
    prior: np.ndarray,
    n_releases: int,
    seed: np.random.Generator,
) -> UnknownLabelReport:
    """Candidates with labels in turn: optima and noise scales depend on the label's counts."""
    labels, counts = np.unique(case.y, return_counts=True)
    own = np.flatnonzero(labels == case.y[support.index])[0]
    if counts[own] < 2:
        raise ValueError(
            "unknown_label=True hides the label of a record whose class has no other record; "
            "audit data with at least two records of each class, or pass unknown_label=False."
        )
    m = len(prior)
    optima, scales = [], []
    for i in range(m):
        y = case.y.copy()
        y[support.index] = labels[(own + i) % len(labels)]
        optima.append(case.optima(support.index, support.candidates[[i]], y)[0])
        scales.append(np.broadcast_to(case.head.noise_scale_for(case.X, y), optima[-1].shape))
    means, sigma = np.stack(optima), np.stack(scales)
    noisy = np.all(sigma > 0, axis=0)
    means, sigma = means[:, noisy], sigma[:, noisy]
    offset = np.log(prior) - np.log(sigma).sum(axis=1)
    hits = 0
    for target in range(m):
        for start in range(0, n_releases, 64):
            size = min(64, n_releases - start)
            noise = seed.standard_normal((size, means.shape[1]))
            released = means[target] + sigma[target] * noise
            logits = np.stack(
                [
                    offset[j] - np.square((released - means[j]) / sigma[j]).sum(axis=1) / 2
                    for j in range(m)
                ]
            )
            hits += int(np.count_nonzero(attack.map_guess(logits) == target))
    return UnknownLabelReport(
        n_candidates=m,
        n_labels=min(m, len(labels)),
        kappa=float(prior.max()),
        measured=measure(hits, m * n_releases, case.auditor.confidence),
    )


def _invert(
    case: _Case,
    *,
    support: Support,
    distance: float,
    eta: float | None,
    n_releases: int,
    seed: np.random.Generator,
) -> InversionReport:
    """Solve for the record: exactly without noise, approximately with it."""
    invert = partial(case.head.invert_release, case.X, case.y, support.index)
    optima = case.optima(support.index, support.candidates)
    found = invert(optima)
    d = found.shape[1]
    error = float(np.linalg.norm(found - support.candidates, axis=1).max())
    # Rounding errors of sums over all records.
    size = max(_longest(case.X), _longest(optima)) * (1 + case.certificate.alpha)
    tolerance = 1e-6 * distance + 1e-13 * len(case.y) * size
    norm_bound = case.certificate.norm_bound
    half = distance if norm_bound is None else min(distance, norm_bound)
    approximate = None
    if eta is not None:
        # A uniform prior in a ball that lies inside the ball of the norm bound.
        centre = support.centre
        if norm_bound is not None:
            length = max(float(np.linalg.norm(centre)), norm_bound - half, 1e-300)
            centre = centre * ((norm_bound - half) / length)
        scale = np.asarray(case.scale, dtype=np.float64)
        hits = 0
        step = max(1, min(256, 2_000_000 // case.optima(support.index, centre[None]).shape[1]))
        for start in range(0, n_releases, step):
            size = min(step, n_releases - start)
            directions = seed.standard_normal((size, d))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
            targets = centre + half * seed.uniform(size=(size, 1)) ** (1 / d) * directions
            optima = case.optima(support.index, targets)
            answers = invert(optima + scale * seed.standard_normal(optima.shape)) - centre
            # The ball of radius eta around the answer should lie inside the prior's.
            lengths = np.linalg.norm(answers, axis=1, keepdims=True)
            answers *= np.minimum(1.0, max(half - eta, 0.0) / np.maximum(lengths, 1e-300))
            misses = np.linalg.norm(centre + answers - targets, axis=1)
            hits += int(np.count_nonzero(misses <= eta * (1 + _ROUNDING)))
        kappa = reconstruction.kappa_uniform_ball(eta, half, d)
        approximate = ApproximateReport(
            eta=float(eta),
            kappa=kappa,
            measured=measure(hits, n_releases, case.auditor.confidence),
            bound=case.bound(kappa=kappa, distance=half),
        )
    return InversionReport(
        error=error, tolerance=tolerance, n_features=d, distance=half, approximate=approximate
    )


def _model_checks(
    supports: Sequence[SupportReport], farther: Sequence[SupportReport], done: dict[str, Any]
) -> dict[str, float]:
    """P-values of what the simulated attacks must not show, for a correct estimator."""
    pair = done["antipodal"]
    several = [*supports, *farther, *([done["repeated"]] if "repeated" in done else [])]
    everything = [*several, pair]
    inversion = done.get("inversion")
    within = [part.approximate for part in supports if part.approximate is not None]
    if inversion is not None and inversion.approximate is not None:
        within.append(inversion.approximate)

    def smallest(rates: Sequence[tuple[Rate, float]]) -> float:
        """Of the p-values for rates and their bounds, corrected for their number."""
        found = [at_most(rate, bound) for rate, bound in rates]
        return min(1.0, len(found) * min(found))

    sharp = pair.bayes_success <= pair.exact_id_bound * (1 + _ROUNDING)
    p_values = {
        "exact-ID rate": smallest([(part.measured, part.exact_id_bound) for part in several]),
        "shift of the optimum": float(
            all(part.shift <= part.shift_bound * (1 + _ROUNDING) for part in everything)
        ),
        "antipodal pair": smallest([(pair.measured, pair.exact_id_bound)]) if sharp else 0.0,
        "null arm": smallest([(part.null, part.kappa) for part in everything]),
    }
    if within:
        p_values["approximate rate"] = smallest([(part.measured, part.bound) for part in within])
    if inversion is not None:
        p_values["inversion"] = float(inversion.error <= inversion.tolerance)
    return p_values


def _follows(case: _Case) -> bool:
    """Whether the certificate follows from its own numbers, and has the scale that is claimed."""
    try:
        case.certificate.check()
    except CertificationError:
        return False
    return bool(np.array_equal(np.unique(case.scale), np.unique(case.certificate.noise_scale)))


def _public_p_value(
    case: _Case,
    support: Support,
    targets: np.ndarray,
    marks: Sequence[dict[str, str]],
    *,
    noisy: bool,
) -> float:
    """P-value of the hypothesis that nothing a fit stores depends on rows, except by noise.

    Neighbours differ in one record, and all data with the same labels can be reached in such steps.
    So what is not random must be the same for all candidates, and for records that are shorter.

    The certificate is never random. Any other attribute may be, or derive from something that is:
    a difference counts if it comes back in fits of the same two data sets. Without noise,
    parameters differ, as they should.
    """

    def marks_of(target: int) -> dict[str, str]:
        if target >= 0:
            return _hide(_release, case, support, target)[1]
        shorter = partial(_release_shrunk, norm_bound=case.certificate.norm_bound)
        return _hide(shorter, case, support, 0)[1]

    data, marks = [*targets.tolist(), -1], [*marks, marks_of(-1)]
    if len({mark.get("certificate_") for mark in marks}) > 1:
        return 0.0
    names = sorted(set().union(*marks))
    suspects: dict[tuple[int, int], dict[str, tuple[str | None, ...]]] = {}
    for name in names if noisy else ():
        values: dict[int, set[str | None]] = {}
        for mark, target in zip(marks, data, strict=True):
            values.setdefault(target, set()).add(mark.get(name))
        if any(len(seen) > 1 for seen in values.values()):
            continue  # random
        fixed = {target: seen.pop() for target, seen in values.items()}
        other = next((target for target in fixed if fixed[target] != fixed[data[0]]), None)
        if other is not None:
            expected = (fixed[data[0]], fixed[other])
            suspects.setdefault((data[0], other), {})[name] = expected
    for pair, found in suspects.items():
        for _ in range(_CONFIRMATIONS):
            again = [marks_of(target) for target in pair]
            for name in [*found]:
                if tuple(mark.get(name) for mark in again) != found[name]:
                    del found[name]
            if not found:
                break
    return len(names) * 0.25**_CONFIRMATIONS if any(suspects.values()) else 1.0


def _split_pipeline(estimator: Any) -> tuple[Any, Any]:
    """A function for the steps before the head, and the head."""
    if not isinstance(estimator, Pipeline):
        _check_protocol(estimator)
        return lambda X: X, estimator
    *steps, (_, head) = estimator.steps
    _check_protocol(head)
    require_public_steps(steps)

    def transform(X: Any) -> Any:
        for _, step in steps:
            if step not in ("passthrough", None):
                X = step.transform(X)
        return without_data(check_array, X, accept_sparse="csr", dtype="numeric")

    return transform, head


def _check_protocol(estimator: Any) -> None:
    if isinstance(estimator, type):
        raise TypeError(f"estimator must be an instance: pass {estimator.__name__}(...).")
    cls = type(estimator)
    missing = [name for name in _PROTOCOL if not hasattr(cls, name) and name not in vars(estimator)]
    if missing:
        raise TypeError(
            f"estimator must follow the audit protocol, but {cls.__name__} lacks "
            f"{', '.join(missing)}. The heads of this package have it."
        )


def _quiet_fit(head: Any, X: Any, y: Any) -> Any:
    """A fitted clone; what voids its promise goes into the report, not into n_fits warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return clone(head).fit(X, y)


def _release(head: Any, X: Any, y: Any) -> tuple[np.ndarray, dict[str, str]]:
    """The released parameters of a fit, and a hash of everything that it stores."""
    unfitted = clone(head)
    given = unfitted.get_params(deep=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        fitted = unfitted.fit(X, y)
    # Parameters are those of the caller, unless fit wrote over them.
    stored = {
        name: value
        for name, value in vars(fitted).items()
        if name not in given or value is not given[name]
    }
    return fitted.released_parameters_, {name: joblib.hash(v) for name, v in stored.items()}


def _release_shrunk(
    head: Any, X: Any, y: Any, *, norm_bound: float | None
) -> tuple[np.ndarray, dict[str, str]]:
    """The same for records at most half as long, none of which is projected."""
    factor = 0.5
    if norm_bound is not None:
        factor *= norm_bound / max(norm_bound, _longest(X))
    return _release(head, factor * X, y)


def _longest(X: Any) -> float:
    """Bound on the norms of the rows."""
    return math.sqrt(X.shape[1]) * float(abs(X).max())


def _exact(head: Any, X: Any, y: Any) -> np.ndarray:
    optimum: np.ndarray = head.exact_optimum(X, y)
    return optimum


def _hide(compute: Callable[[Any, Any, Any], Any], case: _Case, support: Support, j: int) -> Any:
    """What `compute` returns for the data with a candidate in the place of the record."""
    X, row, i = case.X, support.candidates[[j]], support.index
    stack = np.vstack if isinstance(X, np.ndarray) else partial(sp.vstack, format="csr")
    return compute(case.head, stack([X[:i], row, X[i + 1 :]]), case.y)


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=8, dtype=np.uint64))
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None:
        check_integer("random_state", random_state, low=0, hint="Or a numpy generator.")
    return np.random.default_rng(random_state)
