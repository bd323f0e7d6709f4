"""The audit as a meta-estimator."""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from scipy.stats import binom
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import column_or_1d, validate_data

from skballdp._pipeline import require_public_steps
from skballdp._validate import check_choice, check_integer, check_real, without_data
from skballdp.accounting import reconstruction
from skballdp.audit import attack
from skballdp.audit.report import (
    AuditReport,
    ImplementationReport,
    ReachabilityReport,
    SupportReport,
)
from skballdp.audit.supports import SELECTIONS, Support, draw_supports
from skballdp.exceptions import PrivacyWarning
from skballdp.radius import policy_level

__all__ = ["MAPReconstructionAuditor"]

_PROTOCOL = ("exact_optimum", "neighbour_optima", "noise_scale_for", "released_parameters_")
# Levels at which a correct estimator fails: all supports together, and all tests of the noise. So
# small that audits can run unattended by the thousand; noise that is half of what is claimed, or
# used twice, is off by so much that power is no concern.
_MODEL_LEVEL = 1e-7
_NOISE_LEVEL = 1e-7
# Candidates of the reachability attack: each of them costs a fit.
_MAX_HIDDEN = 10


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
        Simulated releases per hidden target, >= 1.
    n_fits : int, default=50
        Real fits whose noise is tested, >= 2; 0 leaves this part out.
    selection : {"farthest", "nearest", "random"} or callable, default="farthest"
        How candidates are chosen among the records in the ball. A callable gets ``(bank, centre,
        n_candidates, rng)`` and returns positions in the bank.
    prior : array-like of shape (n_candidates,) or None, default=None
        Probabilities that the attacker gives to the candidates; None is uniform.
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
    A support is a ball of the certificate's radius around a training record u and candidates with
    u's label inside it, fixed before the target is drawn; D^- is the training data without u.

    *Model arm.* The exact optima for D^- and each candidate are computed once; each candidate is
    the hidden target `n_releases` times (with a prior: targets are drawn from it); noise at the
    certified scale is added and the MAP rule decodes. The rate must not exceed the certificate.

    *Implementation arm.* The noise that `n_fits` real fits of a clone added, over the scale that
    they claim, must have mean zero, scale one, and be independent between fits. Each fit hides one
    of up to ten candidates of the first support, drawn at random, and the reachability attack must
    not name it more often than the certificate allows.

    A correct estimator fails the whole audit with probability at most 2e-7. What an audit cannot
    see: a defect that needs other data, other parameters, or a cleverer look at the digits of the
    release than both attacks take.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction
    with less noise", arXiv:2607.04209, section 5.

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
        n_fits: int = 50,
        selection: Any = "farthest",
        prior: Any = None,
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
        X, y = without_data(validate_data, self, X, y, accept_sparse="csr", dtype="numeric")
        pool = self._check_pool(X_pool, y_pool, y)
        transform, head = _split_pipeline(self.estimator)
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
        scale = head.noise_scale_for(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # the report says what voids it
            bound = certificate.exact_id_bound(prior=prior)
        supports = draw_supports(
            X,
            y,
            pool,
            radius=certificate.radius,
            norm_bound=certificate.norm_bound,
            n_supports=self.n_supports,
            n_candidates=m,
            selection=self.selection,
            rng=rng,
        )
        parts = Parallel(n_jobs=self.n_jobs)(
            delayed(_attack_support)(head, X, y, support, scale, prior, self.n_releases, seed)
            for support, seed in zip(supports, rng.spawn(len(supports)), strict=True)
        )
        support_reports = tuple(
            _support_report(geometry, arm, prior, bound, certificate.delta, self)
            for geometry, arm in parts
        )
        implementation = self._implementation(head, X, y, scale, supports[0], certificate, rng)
        hits = sum(report.hits for report in support_reports)
        trials = sum(report.trials for report in support_reports)
        passed = all(report.passed for report in support_reports)
        self.report_ = AuditReport(
            estimator=type(head).__name__,
            epsilon=certificate.epsilon,
            delta=certificate.delta,
            radius=certificate.radius,
            voided_by=certificate.voided_by,
            selection=self.selection if isinstance(self.selection, str) else "callable",
            synthetic=pool is None,
            confidence=float(self.confidence),
            n_releases=int(self.n_releases),
            exact_id_rate=hits / trials,
            exact_id_interval=attack.clopper_pearson(hits, trials, self.confidence),
            bayes_success=math.fsum(report.bayes_success for report in support_reports)
            / len(support_reports),
            exact_id_bound=bound,
            kappa=float(prior.max()),
            passed=passed and (implementation is None or implementation.passed),
            false_alarm_rate=_MODEL_LEVEL + _NOISE_LEVEL,
            supports=support_reports,
            implementation=implementation,
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
        check_integer("n_fits", self.n_fits, low=0)
        if self.n_fits == 1:
            raise ValueError("n_fits must be 0 or at least 2, got 1: independence needs two fits.")
        check_real("confidence", self.confidence, low=0, high=1, low_open=True, high_open=True)
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

    def _implementation(
        self,
        head: Any,
        X: Any,
        y: Any,
        scale: Any,
        support: Support,
        certificate: Any,
        rng: np.random.Generator,
    ) -> ImplementationReport | None:
        """Noise of real fits over the claimed scale, tested."""
        if self.n_fits == 0:
            return None
        m = min(len(support.candidates), _MAX_HIDDEN)
        targets = rng.integers(m, size=self.n_fits)
        parallel = Parallel(n_jobs=self.n_jobs)
        # With the code of fit, not by neighbour_optima: the attack looks at the last digits.
        optima = np.stack(
            parallel(delayed(_hide)(_exact, head, X, y, support, j) for j in range(m))
        )
        releases = np.stack(
            parallel(delayed(_hide)(_release, head, X, y, support, j) for j in targets)
        )
        noise = releases - optima[targets]
        scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), noise.shape[1:])
        noisy = scale > 0
        # Parameters without noise must be released as they are, up to rounding.
        exact = np.abs(noise[:, ~noisy]) <= 1e-9 * (1 + np.abs(releases[:, ~noisy]))
        p_values = {}
        reachability = None
        if not np.all(noisy):
            p_values["no noise where none is claimed"] = float(np.all(exact))
        if np.any(noisy):
            _, blocks = np.unique(scale[noisy], return_inverse=True)
            p_values |= attack.noise_p_values(noise[:, noisy] / scale[noisy], blocks)
            named = [
                attack.only_reachable(released, optima[:, noisy], scale[noisy])
                for released in releases[:, noisy]
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)
                bound = certificate.exact_id_bound(prior=np.full(m, 1 / m))
            hits = sum(guess == int(j) for guess, j in zip(named, targets, strict=True))
            reachability = ReachabilityReport(
                n_candidates=m,
                hits=hits,
                trials=self.n_fits,
                rate=hits / self.n_fits,
                chance=1 / m,
                bound=bound,
            )
            # No attack whatsoever on a correct head succeeds more often than the bound says.
            p_values["reachability"] = float(binom.sf(hits - 1, self.n_fits, bound))
        level = _NOISE_LEVEL / 4
        return ImplementationReport(
            n_fits=self.n_fits,
            p_values=tuple(p_values.items()),
            level=level,
            passed=min(p_values.values()) >= level,
            reachability=reachability,
        )


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


def _release(head: Any, X: Any, y: Any) -> np.ndarray:
    return _quiet_fit(head, X, y).released_parameters_


def _exact(head: Any, X: Any, y: Any) -> np.ndarray:
    return head.exact_optimum(X, y)


def _hide(
    compute: Callable[[Any, Any, Any], np.ndarray],
    head: Any,
    X: Any,
    y: Any,
    support: Support,
    target: int,
) -> np.ndarray:
    """What `compute` returns for the data with a candidate in the place of the record."""
    row, i = support.candidates[[target]], support.index
    stack = np.vstack if isinstance(X, np.ndarray) else partial(sp.vstack, format="csr")
    return compute(head, stack([X[:i], row, X[i + 1 :]]), y)


def _attack_support(
    head: Any,
    X: Any,
    y: Any,
    support: Support,
    scale: Any,
    prior: np.ndarray,
    n_releases: int,
    rng: np.random.Generator,
) -> tuple[attack.Geometry, attack.ModelArm]:
    row = X[[support.index]]
    centre = row if isinstance(row, np.ndarray) else row.toarray()
    optima = head.neighbour_optima(X, y, support.index, np.vstack([support.candidates, centre]))
    shape = attack.geometry(optima[:-1], optima[-1], scale, prior)
    return shape, attack.simulate(shape, prior, n_releases, rng)


def _support_report(
    shape: attack.Geometry,
    arm: attack.ModelArm,
    prior: np.ndarray,
    bound: float,
    delta: float,
    auditor: MAPReconstructionAuditor,
) -> SupportReport:
    low, _ = attack.clopper_pearson(arm.hits, arm.trials, 1 - 2 * _MODEL_LEVEL / auditor.n_supports)
    interval = attack.clopper_pearson(arm.hits, arm.trials, auditor.confidence)
    kappa = float(prior.max())
    if shape.silent:
        support_bound = 1.0
    else:
        support_bound = min(
            reconstruction.support_bound(prior, distances)
            for distances in (shape.to_centre, shape.to_mean)
        )
    # A success rate p implies p <= e^epsilon kappa + delta.
    implied = (interval[0] - delta) / kappa
    return SupportReport(
        n_candidates=len(prior),
        n_distinct=len(shape.points),
        kappa=kappa,
        hits=arm.hits,
        trials=arm.trials,
        exact_id_rate=arm.hits / arm.trials,
        exact_id_interval=interval,
        bayes_success=arm.bayes_success,
        bayes_error=arm.bayes_error,
        support_bound=support_bound,
        epsilon_lower=math.log(implied) if implied > 1 else 0.0,
        passed=low <= bound,
    )


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=8, dtype=np.uint64))
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None:
        check_integer("random_state", random_state, low=0, hint="Or a numpy generator.")
    return np.random.default_rng(random_state)
