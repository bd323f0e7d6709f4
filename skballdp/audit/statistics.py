"""Rates, intervals and lower limits: what hits in simulated attacks say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri
from scipy.stats import binom, t

from skballdp.audit.report import AuditReport, Rate

__all__ = [
    "AuditSummary",
    "advantage_interval",
    "at_most",
    "clopper_pearson",
    "enclosing_centre",
    "epsilon_lower",
    "measure",
    "mu_lower",
]


def clopper_pearson(hits: int, trials: int, confidence: float) -> tuple[float, float]:
    """Two-sided Clopper-Pearson interval for a rate.

    Parameters
    ----------
    hits, trials : int
        Successes and attempts.
    confidence : float
        In (0, 1); each limit errs with probability at most ``(1 - confidence) / 2``.

    Returns
    -------
    tuple of float
        Lower and upper limit.

    Examples
    --------
    >>> from skballdp.audit.statistics import clopper_pearson
    >>> [round(limit, 4) for limit in clopper_pearson(5, 10, 0.95)]
    [0.1871, 0.8129]
    """
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - tail))
    return low, high


def measure(hits: int, trials: int, confidence: float) -> Rate:
    """A rate with its Clopper-Pearson interval."""
    return Rate(
        hits=int(hits),
        trials=int(trials),
        rate=float(hits / trials),
        interval=clopper_pearson(int(hits), int(trials), confidence),
    )


def at_most(measured: Rate, bound: float) -> float:
    """P-value of the hypothesis that attempts succeed with probability at most `bound`.

    The attempts are independent, or each outcome is fixed and only their number is random.
    """
    return float(binom.sf(measured.hits - 1, measured.trials, min(1.0, bound)))


def advantage_interval(measured: Rate, null: Rate, confidence: float) -> tuple[float, float]:
    """Interval for the difference of two rates, from intervals that hold together.

    Each is taken at the level ``(1 + confidence) / 2``, so both hold with probability at least
    `confidence` (Bonferroni).
    """
    both = (1 + confidence) / 2
    low, high = clopper_pearson(measured.hits, measured.trials, both)
    null_low, null_high = clopper_pearson(null.hits, null.trials, both)
    return low - null_high, high - null_low


def mu_lower(measured: Rate, kappa: float, confidence: float) -> float:
    """Lower confidence limit of the shift, in noise scales, of a Gaussian release.

    Parameters
    ----------
    measured : Rate
        Success of an attack.
    kappa : float
        Best success without the release.
    confidence : float
        One-sided.

    Returns
    -------
    float
        At least 0: ``Phi^-1(p) - Phi^-1(kappa)`` for the lower limit p of the rate, by inversion of
        ``p <= Phi(Phi^-1(kappa) + mu)``.

    Examples
    --------
    >>> from skballdp.audit.statistics import measure, mu_lower
    >>> round(mu_lower(measure(682, 1000, 0.95), 0.5, 0.95), 3)
    0.404
    """
    low = _lower_limit(measured, confidence)
    return 0.0 if low <= kappa else float(ndtri(low) - ndtri(kappa))


def epsilon_lower(measured: Rate, kappa: float, delta: float, confidence: float) -> float:
    """Lower confidence limit of epsilon, for a release of any kind.

    Parameters
    ----------
    measured, kappa, confidence
        As in `mu_lower`.
    delta : float
        The delta that goes with epsilon.

    Returns
    -------
    float
        At least 0: ``log((p - delta) / kappa)`` for the lower limit p of the rate.

    Examples
    --------
    >>> from skballdp.audit.statistics import epsilon_lower, measure
    >>> round(epsilon_lower(measure(682, 1000, 0.95), 0.5, 1e-6, 0.95), 3)
    0.273
    """
    implied = (_lower_limit(measured, confidence) - delta) / kappa
    return math.log(implied) if implied > 1 else 0.0


def _lower_limit(measured: Rate, confidence: float) -> float:
    """One-sided Clopper-Pearson limit."""
    hits, trials = measured.hits, measured.trials
    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, 1 - confidence))


def enclosing_centre(points: np.ndarray) -> np.ndarray:
    """Centre of the smallest ball around some points, to about nine digits.

    Parameters
    ----------
    points : ndarray of shape (m, k)
        At least one point.

    Returns
    -------
    ndarray of shape (k,)

    Notes
    -----
    The centre is the combination w of the points that maximises ``sum w_i |x_i|^2 - |sum w_i
    x_i|^2``, a concave problem on the simplex. Each step moves weight from the nearest point that
    has some to the farthest one, by exact line search (pairwise Frank-Wolfe, which converges
    geometrically). Any point is a valid reference for a bound, so that the result is approximate
    costs sharpness, never validity.

    References
    ----------
    S. Lacoste-Julien and M. Jaggi, "On the global linear convergence of Frank-Wolfe optimization
    variants", NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.audit.statistics import enclosing_centre
    >>> enclosing_centre(np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]]))
    array([1., 0.])
    """
    weights = np.full(len(points), 1 / len(points))
    for _ in range(100 * len(points)):
        squared = np.square(points - weights @ points).sum(axis=1)
        far = int(np.argmax(squared))
        near = int(np.argmin(np.where(weights > 0, squared, np.inf)))
        gap = squared[far] - squared[near]
        if gap <= 1e-18 + 1e-10 * squared[far]:
            break
        step = gap / (2 * np.square(points[far] - points[near]).sum())
        step = min(step, weights[near])
        weights[far] += step
        weights[near] -= step
    centre: np.ndarray = weights @ points
    return centre


@dataclass(frozen=True, kw_only=True)
class AuditSummary:
    """Several audits of one estimator with different seeds or data.

    Attributes
    ----------
    n_reports : int
        Number of audits.
    rate, rate_sd : float
        Seed-first aggregation, as in the paper: mean and standard deviation of the audits' rates.
        It describes how much the rate varies; the trials of one audit share their data.
    rate_interval : tuple of float
        Student's t interval for the mean at `confidence`; the mean itself for a single audit.
    pooled : Rate
        All trials of all audits together.
    null : Rate
        The same for releases that do not depend on the target.
    advantage : float
        Pooled minus null rate.
    advantage_interval : tuple of float
        From intervals that hold together.
    bayes_success : float
        Success of the best attack, mean over the audits.
    exact_id_bound : float
        Largest certificate.
    kappa : float
        Best success without the release.
    confidence : float
        Of the intervals.
    passed : bool
        Whether every audit passed.
    """

    n_reports: int
    rate: float
    rate_sd: float
    rate_interval: tuple[float, float]
    pooled: Rate
    null: Rate
    advantage: float
    advantage_interval: tuple[float, float]
    bayes_success: float
    exact_id_bound: float
    kappa: float
    confidence: float
    passed: bool

    @classmethod
    def of(cls, reports: Sequence[AuditReport]) -> "AuditSummary":
        """Summarise some reports.

        Parameters
        ----------
        reports : sequence of AuditReport
            At least one, all at the same confidence.

        Returns
        -------
        AuditSummary

        Raises
        ------
        ValueError
            If there is no report, or their confidences differ.
        """
        if not reports:
            raise ValueError("reports must hold at least one audit report, got none.")
        levels = {report.confidence for report in reports}
        if len(levels) > 1:
            raise ValueError(
                f"reports must have one confidence, got {sorted(levels)}; audit again with one."
            )
        (confidence,) = levels
        rates = np.array([report.exact_id_rate for report in reports])
        mean = float(rates.mean())
        sd = float(rates.std(ddof=1)) if len(rates) > 1 else 0.0
        half = float(t.ppf((1 + confidence) / 2, max(len(rates) - 1, 1))) * sd
        half /= math.sqrt(len(rates))
        pooled, null = (
            measure(
                sum(rate.hits for rate in part),
                sum(rate.trials for rate in part),
                confidence,
            )
            for part in (
                [report.measured for report in reports],
                [report.null for report in reports],
            )
        )
        return cls(
            n_reports=len(reports),
            rate=mean,
            rate_sd=sd,
            rate_interval=(mean - half, mean + half),
            pooled=pooled,
            null=null,
            advantage=pooled.rate - null.rate,
            advantage_interval=advantage_interval(pooled, null, confidence),
            bayes_success=float(np.mean([report.bayes_success for report in reports])),
            exact_id_bound=max(report.exact_id_bound for report in reports),
            kappa=max(report.kappa for report in reports),
            confidence=confidence,
            passed=all(report.passed for report in reports),
        )
