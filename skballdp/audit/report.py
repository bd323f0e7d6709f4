"""What an audit found, as frozen records with a readable text, a table and JSON."""

import dataclasses
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skballdp._records import from_plain, to_plain
from skballdp._text import down, up

__all__ = [
    "ApproximateReport",
    "AuditReport",
    "Check",
    "ImplementationReport",
    "InversionReport",
    "Rate",
    "SupportReport",
    "UnknownLabelReport",
]

_VERSION = 2

# What each check asks, for readers of the report.
QUESTIONS = {
    "exact-ID rate": "Is the record named more often than the certificate allows?",
    "certificate": "Does the certificate contradict itself, or the claimed scale?",
    "shift of the optimum": "Do exact parameters move further than the sensitivity says?",
    "antipodal pair": "Are two candidates as far apart as can be told apart better than certified?",
    "approximate rate": "Is the record guessed within eta more often than certified?",
    "null arm": "Does the attack succeed on releases that do not depend on the target?",
    "inversion": "Does the noiseless release give the record back, as the attack code assumes?",
    "public attributes": "Do certificates or public attributes depend on the features?",
    "no noise where none is claimed": "Are parameters without claimed noise exact?",
    "zero mean": "Does the noise of real fits have mean zero?",
    "unit scale": "Does the noise of real fits have the claimed scale?",
    "normal noise": "Are the noise of real fits and its length distributed as normals are?",
    "independent fits": "Is the noise of different fits independent?",
    "independent parameters": "Is the noise of different parameters of a fit independent?",
    "reachability": "Do the digits of the noise give the hidden record away?",
}


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A measured rate of success.

    Attributes
    ----------
    hits, trials : int
        Successes and attempts.
    rate : float
        Their ratio.
    interval : tuple of float
        Clopper-Pearson interval at the report's confidence.
    """

    hits: int
    trials: int
    rate: float
    interval: tuple[float, float]

    def __post_init__(self) -> None:
        if not 0 <= self.hits <= self.trials or self.rate != self.hits / max(self.trials, 1):
            raise ValueError(
                f"rate={self.rate!r} is not that of hits={self.hits!r} in trials={self.trials!r}."
            )


@dataclass(frozen=True, kw_only=True)
class ApproximateReport:
    """Success within a distance of the target.

    Attributes
    ----------
    eta : float
        Answers at most this far from the target count, in the unit of the rows.
    kappa : float
        Best success without the release.
    measured : Rate
        Success of the attack that answers with the most probable ball of radius eta.
    bound : float
        What the certificate allows (Ball-ReRo).
    """

    eta: float
    kappa: float
    measured: Rate
    bound: float


@dataclass(frozen=True, kw_only=True)
class SupportReport:
    """The attack on one candidate set.

    Attributes
    ----------
    distance : float
        Radius of the ball that holds the candidates.
    n_seen : int
        Releases of the same data that the attacker has.
    n_candidates, n_distinct : int
        Candidates, and distinct optima among them; candidates with equal optima are tied.
    kappa : float
        Best success without the release.
    measured : Rate
        Success of the MAP rule in simulated releases.
    null : Rate
        Success of the same rule when the release does not depend on the target.
    advantage : float
        Reconstruction advantage: measured minus null rate.
    advantage_interval : tuple of float
        From intervals for both rates that hold together at the report's confidence.
    advantage_bound : float
        Upper bound for this candidate set.
    bayes_success, bayes_error : float
        Success of the best attack, and its standard error (0: closed form).
    support_bounds : tuple of (str, float)
        Bounds for this candidate set by the reference they compare with: the ball's ``"centre"``,
        the ``"mean"`` of the optima, or that of their smallest enclosing ball, ``"enclosing"``.
    certificates : tuple of (str, float)
        Certificates for candidates within `distance` and `n_seen` releases, by method:
        ``"gaussian"`` (direct), ``"rdp"``, ``"dp"``.
    exact_id_bound : float
        The smallest of them; for the antipodal pair possibly a smaller one.
    shift, shift_bound : float
        Largest distance of an optimum to that of the ball's centre, in units of the noise scale,
        and what the certificate says that it is at most.
    mu_lower, epsilon_lower : float
        Lower confidence limits: of the shift of a Gaussian release, and of the privacy loss (at the
        certificate's delta) of any release, that the measured rate implies.
    approximate : ApproximateReport or None
        Success within eta, if the audit was given one.
    """

    distance: float
    n_seen: int
    n_candidates: int
    n_distinct: int
    kappa: float
    measured: Rate
    null: Rate
    advantage: float
    advantage_interval: tuple[float, float]
    advantage_bound: float
    bayes_success: float
    bayes_error: float
    support_bounds: tuple[tuple[str, float], ...]
    certificates: tuple[tuple[str, float], ...]
    exact_id_bound: float
    shift: float
    shift_bound: float
    mu_lower: float
    epsilon_lower: float
    approximate: ApproximateReport | None = None

    @property
    def support_bound(self) -> float:
        """The smallest of the bounds for this candidate set."""
        return min(bound for _, bound in self.support_bounds)


@dataclass(frozen=True, kw_only=True)
class UnknownLabelReport:
    """The attack on candidates of several labels, which the certificate does not cover.

    Attributes
    ----------
    n_candidates, n_labels : int
        Candidates and the labels among them.
    kappa : float
        Best success without the release.
    measured : Rate
        Success of the MAP rule.
    """

    n_candidates: int
    n_labels: int
    kappa: float
    measured: Rate


@dataclass(frozen=True, kw_only=True)
class InversionReport:
    """The attack that inverts the release, for heads that have `invert_release`.

    Attributes
    ----------
    error : float
        Distance of the record that the noiseless release gives back to the true one.
    tolerance : float
        How large rounding errors may make it.
    n_features : int
        Dimension of the ball that holds the target.
    distance : float
        Its radius.
    approximate : ApproximateReport or None
        Success within eta for a target drawn uniformly from the ball, if there is an eta and noise.
    """

    error: float
    tolerance: float
    n_features: int
    distance: float
    approximate: ApproximateReport | None


@dataclass(frozen=True, kw_only=True)
class ImplementationReport:
    """The real fits whose noise was tested.

    Attributes
    ----------
    n_fits, n_parameters : int
        Fits, and parameters with noise.
    n_hidden : int
        Candidates of which each fit hid one.
    digits : Rate or None
        How often the digits of the noise named the hidden candidate; None without noise.
    digits_bound : float
        What the certificate allows any attack.
    """

    n_fits: int
    n_parameters: int
    n_hidden: int
    digits: Rate | None
    digits_bound: float


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question that the verdict depends on.

    Attributes
    ----------
    name : str
        One of a fixed list.
    p_value : float
        Exact or conservative; 0 or 1 where nothing is random.
    level : float
        The check fails below this.
    """

    name: str
    p_value: float
    level: float

    def __post_init__(self) -> None:
        if self.name not in QUESTIONS:
            raise ValueError(f"name={self.name!r} must be one of {', '.join(QUESTIONS)}.")

    @property
    def passed(self) -> bool:
        """Whether the p-value is at least the level."""
        return self.p_value >= self.level

    @property
    def question(self) -> str:
        """What is asked, in words."""
        return QUESTIONS[self.name]


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """Outcome of an audit: measured success beside the certificate.

    It is computed from private records and is **not** covered by the certificate. It holds
    aggregates and public parameters only; whether to publish it is a separate decision.

    Attributes
    ----------
    covered_by_certificate : bool
        Always False.
    estimator : str
        Name of the estimator's class.
    epsilon, delta, radius : float
        The certificate's promise.
    radius_epsilon : float
        Privacy loss spent on choosing the radius.
    mu : float
        Signal-to-noise ratio of the release at the radius.
    norm_bound : float or None
        Bound on the norm of every row.
    voided_by : tuple of str
        What voids the certificate.
    selection : str
        How candidates were selected.
    synthetic : bool
        Whether they were made up, for lack of a pool.
    confidence : float
        Of the intervals and lower limits; the verdict does not use it.
    n_releases : int
        Simulated releases per candidate.
    measured : Rate
        Success of the MAP attack, over all supports.
    null : Rate
        The same for releases that do not depend on the target.
    advantage : float
        Measured minus null rate.
    advantage_interval : tuple of float
        From intervals for both rates that hold together at the confidence.
    bayes_success : float
        Success of the best attack, mean over the supports.
    certificates : tuple of (str, float)
        Bounds on exact identification by method: ``"gaussian"`` (direct), ``"rdp"``, ``"dp"``.
    exact_id_bound : float
        The smallest of them; 1.0 without noise.
    kappa : float
        Best success without the release.
    mu_lower, epsilon_lower : float
        Best lower confidence limits of the antipodal pair and, if they lie within the radius, all
        supports together.
    supports : tuple of SupportReport
        The attack on each candidate set.
    antipodal : SupportReport
        The attack on two candidates as far apart as the ball and the norm bound allow.
    farther : tuple of SupportReport
        Candidate sets beyond the radius, with the certificate at their distance.
    repeated : SupportReport or None
        The first candidate set, for an attacker with several releases of the same data.
    unknown_label : UnknownLabelReport or None
        Candidates of several labels; without a certificate.
    inversion : InversionReport or None
        Inversion of the release, where the head has one.
    implementation : ImplementationReport or None
        The real fits; None if there were none.
    checks : tuple of Check
        What the verdict rests on.
    false_alarm_rate : float
        Probability that a correct estimator fails, at most: the sum of the levels of the checks.
    version : int
        Version of this format.

    See Also
    --------
    skballdp.MAPReconstructionAuditor : Makes one as ``report_``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import AuditReport, BallDPRidgePrototype, MAPReconstructionAuditor
    >>> X, y = load_digits(return_X_y=True)
    >>> auditor = MAPReconstructionAuditor(
    ...     BallDPRidgePrototype(radius=0.5), n_releases=1000, n_fits=5, random_state=0
    ... )
    >>> report = auditor.fit(normalize(X), y).report_
    >>> report.exact_id_rate < report.exact_id_bound
    True
    >>> AuditReport.from_json(report.to_json()) == report
    True
    """

    covered_by_certificate: bool = dataclasses.field(default=False, init=False)
    estimator: str
    epsilon: float
    delta: float
    radius: float
    radius_epsilon: float
    mu: float
    norm_bound: float | None
    voided_by: tuple[str, ...]
    selection: str
    synthetic: bool
    confidence: float
    n_releases: int
    measured: Rate
    null: Rate
    advantage: float
    advantage_interval: tuple[float, float]
    bayes_success: float
    certificates: tuple[tuple[str, float], ...]
    exact_id_bound: float
    kappa: float
    mu_lower: float
    epsilon_lower: float
    supports: tuple[SupportReport, ...]
    antipodal: SupportReport
    farther: tuple[SupportReport, ...]
    repeated: SupportReport | None
    unknown_label: UnknownLabelReport | None
    inversion: InversionReport | None
    implementation: ImplementationReport | None
    checks: tuple[Check, ...]
    false_alarm_rate: float
    version: int = _VERSION

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def failed_checks(self) -> tuple[str, ...]:
        """Names of the checks that failed."""
        return tuple(check.name for check in self.checks if not check.passed)

    @property
    def exact_id_rate(self) -> float:
        """Measured success of the MAP attack, over all supports."""
        return self.measured.rate

    @property
    def exact_id_interval(self) -> tuple[float, float]:
        """Clopper-Pearson interval of `exact_id_rate`."""
        return self.measured.interval

    def check(self, name: str) -> Check:
        """Return one of the checks.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        Check

        Raises
        ------
        ValueError
            If there was no such check; the message lists those there were.
        """
        for check in self.checks:
            if check.name == name:
                return check
        names = ", ".join(check.name for check in self.checks)
        raise ValueError(f"name={name!r} is no check of this report; there are: {names}.")

    def attacks(self) -> tuple[tuple[str, SupportReport], ...]:
        """Return every attack on a candidate set, with a name.

        Returns
        -------
        tuple of (str, SupportReport)
            The supports, the antipodal pair, the farther supports, and several releases; no two
            have the same name.
        """
        named = [(f"support {k}", part) for k, part in enumerate(self.supports, start=1)]
        named.append(("antipodal pair", self.antipodal))
        named += zip(self._distances(), self.farther, strict=True)
        if self.repeated is not None:
            named.append((f"{self.repeated.n_seen} releases", self.repeated))
        return tuple(named)

    def _distances(self) -> list[str]:
        """Names of the farther supports, with as many digits as tell them apart."""
        whole = math.inf if self.norm_bound is None else 2 * self.norm_bound
        names: list[str] = []
        for digits in range(3, 18):
            names = [
                "whole ball"
                if part.distance == whole
                else f"at {part.distance / self.radius:.{digits}g} r"
                for part in self.farther
            ]
            if len(set(names)) == len(names):
                break
        return names

    def to_frame(self) -> Any:
        """Return the attacks as a table, one row each.

        Returns
        -------
        pandas.DataFrame
            Indexed by the name of the attack; all columns are numbers.

        Raises
        ------
        ImportError
            If pandas is missing; the message names the command that installs it.
        """
        try:
            import pandas as pd
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'skballdp[pandas]'") from None
        names, parts = zip(*self.attacks(), strict=True)
        return pd.DataFrame([_row(part) for part in parts], index=pd.Index(names, name="attack"))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as standard JSON values; infinity is ``"inf"``."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the report as standard JSON.

        Parameters
        ----------
        indent : int or None, default=2
            As in `json.dumps`.

        Returns
        -------
        str
            `from_json` restores an equal report from it.
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "AuditReport":
        """Read a report written by `to_json`.

        Parameters
        ----------
        text : str
            JSON.

        Returns
        -------
        AuditReport
            Equal to the one that was written.

        Raises
        ------
        ValueError
            If the text is not a report of a version that this release reads.
        """
        record = json.loads(text)
        if not isinstance(record, dict) or record.get("version") != _VERSION:
            raise ValueError(f"text must be an audit report of version {_VERSION}.")
        if record.pop("covered_by_certificate", None) is not False:
            raise ValueError("text is not a report: covered_by_certificate must be false.")
        report: AuditReport = from_plain(cls, record)
        return report

    def __str__(self) -> str:
        return "\n".join(_text(self))

    def _repr_html_(self) -> str:
        from skballdp.audit.html import summary

        return summary(self)

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the measured rates beside the blind guess, the best attack and the bounds.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **kwargs : dict
            As in `skballdp.plotting.ExactIDDisplay.plot`.

        Returns
        -------
        skballdp.plotting.ExactIDDisplay

        Raises
        ------
        ImportError
            If matplotlib is missing; the message names the command that installs it.
        """
        from skballdp.plotting import ExactIDDisplay

        return ExactIDDisplay.from_report(self).plot(ax, **kwargs)

    def to_markdown(self) -> str:
        """Return the report as Markdown: promise, verdict, and the full tables.

        Returns
        -------
        str
            For a model card or a pull request.
        """
        return "\n".join(_markdown(self)) + "\n"

    def to_html(self, path: str | Path) -> None:
        """Write the report as one self-contained page.

        The page needs no network and no script, and can be read on a phone and in print.

        Parameters
        ----------
        path : str or Path
            File to write.

        Raises
        ------
        ImportError
            If matplotlib is missing; the message names the command that installs it.
        """
        from skballdp.audit.html import page

        Path(path).write_text(page(self), encoding="utf-8")


@dataclass(frozen=True)
class Column:
    """One column of the tables: the value for an attack, how it is written, what it means."""

    value: Callable[[SupportReport], float]
    meaning: str
    write: Callable[[float], str] = "{:.4g}".format


# Bounds are rounded up and lower limits down: neither must look better in print than it is.
COLUMNS: dict[str, Column] = {
    "distance": Column(
        lambda part: part.distance,
        "Radius of the ball that holds the candidates, in the unit of the rows.",
    ),
    "releases": Column(
        lambda part: part.n_seen, "Releases of the same data that the attacker has.", "{:d}".format
    ),
    "candidates": Column(
        lambda part: part.n_candidates, "Records that the attacker chooses from.", "{:d}".format
    ),
    "distinct": Column(
        lambda part: part.n_distinct,
        "How many of them lead to different parameters; nobody can tell the others apart.",
        "{:d}".format,
    ),
    "blind": Column(
        lambda part: part.kappa,
        "Success of the best guess without the release: probability of the likeliest candidate.",
    ),
    "hits": Column(
        lambda part: part.measured.hits, "Right guesses in simulated releases.", "{:d}".format
    ),
    "trials": Column(lambda part: part.measured.trials, "Simulated releases.", "{:d}".format),
    "rate": Column(
        lambda part: part.measured.rate, "Measured success of the attack: hits over trials."
    ),
    "low": Column(
        lambda part: part.measured.interval[0],
        "Lower end of the confidence interval of the rate.",
        down,
    ),
    "high": Column(lambda part: part.measured.interval[1], "Its upper end.", up),
    "null": Column(
        lambda part: part.null.rate,
        "Success of the same attack on releases that do not depend on the target. Up to chance it "
        "is at most the blind guess; more would mean that the attack peeks.",
    ),
    "null low": Column(
        lambda part: part.null.interval[0], "Lower end of its confidence interval.", down
    ),
    "null high": Column(lambda part: part.null.interval[1], "Its upper end.", up),
    "advantage": Column(
        lambda part: part.advantage, "Rate minus null: what the release adds to guessing."
    ),
    "advantage low": Column(
        lambda part: part.advantage_interval[0], "Lower end of its confidence interval.", down
    ),
    "advantage high": Column(lambda part: part.advantage_interval[1], "Its upper end.", up),
    "advantage bound": Column(
        lambda part: part.advantage_bound, "Upper bound on the advantage, these candidates.", up
    ),
    "best attack": Column(
        lambda part: part.bayes_success,
        "Success of the best attack there can be on these candidates (Bayes). The rate differs "
        "from it by chance only.",
    ),
    "error": Column(
        lambda part: part.bayes_error,
        "Standard error of the best attack's success; 0 where it has a closed form.",
        up,
    ),
    "support bound": Column(
        lambda part: part.support_bound, "Upper bound on the success, for these candidates.", up
    ),
    "certificate": Column(
        lambda part: part.exact_id_bound,
        "Upper bound on the success, for any candidates in such a ball: what is promised.",
        up,
    ),
    "rdp": Column(
        lambda part: dict(part.certificates)["rdp"],
        "The same by the Renyi bound, which is never smaller than the direct one.",
        up,
    ),
    "dp": Column(
        lambda part: dict(part.certificates)["dp"], "The same from epsilon and delta alone.", up
    ),
    "shift": Column(
        lambda part: part.shift,
        "How far a candidate moves the exact parameters, at most, in units of the noise.",
    ),
    "shift bound": Column(
        lambda part: part.shift_bound, "What the certificate says that this is at most.", up
    ),
    "mu >=": Column(
        lambda part: part.mu_lower,
        "Lower confidence limit of the shift that the rate implies, if the noise is Gaussian; for "
        "this distance and number of releases.",
        down,
    ),
    "epsilon >=": Column(
        lambda part: part.epsilon_lower,
        "Lower confidence limit of epsilon that the rate implies, whatever the noise; for this "
        "distance and number of releases.",
        down,
    ),
}
_SHORT = ("distinct", "rate", "null", "best attack", "support bound", "certificate", "mu >=")

DISCLAIMER = (
    "Computed from private records; NOT covered by the certificate. Publishing it is a separate "
    "decision."
)


def table(report: AuditReport, headings: Sequence[str] = tuple(COLUMNS)) -> list[list[str]]:
    """Formatted rows, one attack each: its name, then the values of some columns."""
    return [
        [name, *(COLUMNS[heading].write(COLUMNS[heading].value(part)) for heading in headings)]
        for name, part in report.attacks()
    ]


def check_table(report: AuditReport) -> list[list[str]]:
    """Formatted rows, one check each: name, question, p-value, level and result."""
    return [
        [
            check.name,
            check.question,
            f"{check.p_value:.3g}",
            f"{check.level:.1g}",
            "passed" if check.passed else "FAILED",
        ]
        for check in report.checks
    ]


def verdict(report: AuditReport) -> str:
    """Whether the audit passed, in one line."""
    result = "passed" if report.passed else f"FAILED: {', '.join(report.failed_checks)}"
    false_alarm = up(report.false_alarm_rate, 2)
    return f"{result} (a correct estimator fails with probability at most {false_alarm})"


def _percent(report: AuditReport) -> str:
    return f"{100 * report.confidence:.6g} %"


def promise(report: AuditReport) -> list[str]:
    """What was promised and what was found, in sentences."""
    opening = "If it were not void, the" if report.voided_by else "The"
    if report.epsilon == math.inf:
        sentences = [
            f"This {report.estimator} adds no noise (epsilon is infinite): its certificate "
            "promises nothing, and whoever knows all other records finds this one."
        ]
    else:
        spent = (
            f" Choosing the radius cost another epsilon = {up(report.radius_epsilon)}, for any "
            "replacement."
            if report.radius_epsilon > 0
            else ""
        )
        sentences = [
            f"{opening} certificate of this {report.estimator} promises: whoever sees the model, "
            "and knows every training record but one, can hardly tell that record from another "
            f"with the same label at most {down(report.radius)} away. No outcome is more than "
            "e^epsilon times as likely with one as with the other, up to delta, with epsilon = "
            f"{up(report.epsilon)} and delta = {up(report.delta)}.{spent} Labels, the number of "
            "records and larger differences are not hidden.",
            f"Given {report.supports[0].n_candidates} candidates for the record, in a ball of "
            f"radius {report.supports[0].distance:.4g}, an attacker names it with probability at "
            f"most {up(report.exact_id_bound)}; without the model, {report.kappa:.4g}.",
        ]
    low, high = report.exact_id_interval
    origin = "synthetic candidates" if report.synthetic else "candidates from the pool"
    sentences.append(
        f"The exact attack on {len(report.supports)} sets of {origin} ({report.selection}) "
        f"succeeded with rate {report.exact_id_rate:.4f} ({_percent(report)} interval "
        f"{down(low)} to {up(high)}); the best possible attack on them has "
        f"{report.bayes_success:.4f}."
    )
    if report.passed:
        sentences.append(
            "Nothing was found that contradicts the promise. An audit cannot prove it: it looks at "
            "these data, these parameters and these attacks."
        )
    else:
        sentences.append(f"The promise is contradicted by: {', '.join(report.failed_checks)}.")
    return sentences


def key_numbers(report: AuditReport) -> list[tuple[str, str, str]]:
    """Name, value and a note of the numbers to read first."""
    low, high = report.exact_id_interval
    gain_low, gain_high = report.advantage_interval
    interval = f"{_percent(report)} interval"
    methods = ", ".join(f"{name} {up(bound)}" for name, bound in report.certificates)
    cost = ("cost of radius", f"epsilon {up(report.radius_epsilon)}", "for any replacement")
    return [
        (
            "promise",
            f"epsilon {up(report.epsilon)}, delta {up(report.delta)}",
            f"at radius {down(report.radius)}; mu {up(report.mu)}",
        ),
        *([cost] if report.radius_epsilon > 0 else []),
        ("measured rate", f"{report.exact_id_rate:.4f}", f"{interval} {down(low)} to {up(high)}"),
        ("best attack", f"{report.bayes_success:.4f}", "mean over the supports"),
        ("certificate", up(report.exact_id_bound), methods),
        ("blind guess", f"{report.kappa:.4f}", f"null arm {report.null.rate:.4f}"),
        (
            "advantage",
            f"{report.advantage:.4f}",
            f"{interval} {down(gain_low)} to {up(gain_high)}",
        ),
        (
            "at least",
            f"mu {down(report.mu_lower)}, epsilon {down(report.epsilon_lower)}",
            f"{_percent(report)} confidence",
        ),
    ]


APPROXIMATE = ("within eta of the target", "eta", "rate", "low", "high", "blind", "certificate")


def approximate_table(report: AuditReport) -> list[list[str]]:
    """Formatted rows under the headings `APPROXIMATE`, one for each attack that had an eta."""
    parts = [(name, part.approximate) for name, part in report.attacks()]
    if report.inversion is not None:
        parts.append(("inversion with noise", report.inversion.approximate))
    return [
        [
            name,
            f"{part.eta:.4g}",
            f"{part.measured.rate:.4g}",
            down(part.measured.interval[0]),
            up(part.measured.interval[1]),
            f"{part.kappa:.4g}",
            up(part.bound),
        ]
        for name, part in parts
        if part is not None
    ]


def other_attacks(report: AuditReport) -> Iterator[str]:
    """Sentences on what is in no table."""
    if report.inversion is not None:
        inverse = report.inversion
        text = (
            f"Inversion of the noiseless release gives the record back up to {inverse.error:.2g}."
        )
        if inverse.approximate is not None:
            text += (
                f" With noise its targets are uniform in a ball of radius {inverse.distance:.4g} "
                f"in dimension {inverse.n_features}."
            )
        yield text
    if report.unknown_label is not None:
        labels = report.unknown_label
        yield (
            f"Unknown label (not covered by the certificate): {labels.n_candidates} candidates "
            f"with {labels.n_labels} labels are told apart with rate {labels.measured.rate:.4f}, "
            f"blind {labels.kappa:.4f}."
        )
    if report.implementation is not None:
        fits = report.implementation
        text = f"{fits.n_fits} real fits of {fits.n_parameters} parameters with noise were tested."
        if fits.digits is not None:
            text += (
                f" Digits named the hidden one of {fits.n_hidden} candidates in {fits.digits.hits} "
                f"of {fits.digits.trials} (certificate {up(fits.digits_bound)})."
            )
        yield text
    else:
        yield "No real fits were tested (n_fits=0): the noise is taken to be what is claimed."


def _text(report: AuditReport) -> Iterator[str]:
    title = f"Audit of a {report.estimator}"
    yield from (title, "=" * len(title), "", *textwrap.wrap(DISCLAIMER, 88), "")
    yield from (*textwrap.wrap(f"Verdict: {verdict(report)}", 88), "")
    for sentence in report.voided_by:
        yield from (*textwrap.wrap(f"The certificate is void: {sentence}.", 88), "")
    for name, value, note in key_numbers(report):
        yield f"  {name:17s}{value:32s}{note}"
    origin = "synthetic candidates" if report.synthetic else "candidates from the pool"
    yield ""
    yield (
        f"  {len(report.supports)} supports of {report.supports[0].n_candidates} {origin} "
        f"({report.selection}), {report.n_releases} releases a candidate"
    )
    yield ""
    yield from _text_table(["", *_SHORT], table(report, _SHORT))
    if within := approximate_table(report):
        yield ""
        yield from _text_table(APPROXIMATE, within)
    for sentence in other_attacks(report):
        yield from ("", *textwrap.wrap(sentence, 88, initial_indent="  ", subsequent_indent="  "))
    yield ""
    yield "  check                             p-value   fails below"
    for name, _, p_value, level, result in check_table(report):
        failed = "" if result == "passed" else f"   {result}"
        yield f"  {name:32s} {p_value:>8s}   {level:>11s}{failed}"


def _text_table(headings: Sequence[str], cells: list[list[str]]) -> Iterator[str]:
    first = 2 + max(len(row[0]) for row in (headings, *cells))
    widths = [max(8, len(heading)) + 2 for heading in headings[1:]]
    for row in (headings, *cells):
        columns = (f"{cell:>{width}s}" for cell, width in zip(row[1:], widths, strict=True))
        yield f"  {row[0]:{first}s}{''.join(columns)}"


def _markdown(report: AuditReport) -> Iterator[str]:
    yield f"# Audit of a {report.estimator}"
    yield from ("", f"**{DISCLAIMER}**", "")
    yield f"**Verdict: {verdict(report)}**"
    for sentence in report.voided_by:
        yield from ("", f"**The certificate is void: {sentence}.**")
    for sentence in promise(report):
        yield from ("", sentence)
    yield ""
    yield from _markdown_table(["", "value", "note"], key_numbers(report))
    yield from ("", "## Attacks", "")
    yield from _markdown_table(["attack", *COLUMNS], table(report))
    if within := approximate_table(report):
        yield ""
        yield from _markdown_table(APPROXIMATE, within)
    for sentence in other_attacks(report):
        yield from ("", sentence)
    yield from ("", "## Checks", "")
    yield from _markdown_table(
        ["check", "question", "p-value", "fails below", "result"], check_table(report)
    )


def _markdown_table(headings: Sequence[str], cells: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    yield from (f"| {' | '.join(row)} |" for row in cells)


def _row(part: SupportReport) -> dict[str, float]:
    return {heading: column.value(part) for heading, column in COLUMNS.items()}
