"""What an audit found, as frozen records with a readable text, a table and JSON."""

import dataclasses
import html
import json
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skballdp._records import from_plain, to_plain

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
    "shift of the optimum": "Do exact parameters move further than the sensitivity says?",
    "antipodal pair": "Are two candidates as far apart as can be told apart better than certified?",
    "approximate rate": "Is the record guessed within eta more often than certified?",
    "null arm": "Does the attack succeed on releases that do not depend on the target?",
    "inversion": "Does the noiseless release give the record back, as the attack code assumes?",
    "public attributes": "Do certificates or public attributes depend on the features?",
    "no noise where none is claimed": "Are parameters without claimed noise exact?",
    "zero mean": "Does the noise of real fits have mean zero?",
    "unit scale": "Does the noise of real fits have the claimed scale?",
    "independent fits": "Is the noise of different fits independent?",
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
    exact_id_bound : float
        The certificate for candidates within `distance`.
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
    n_features : int
        Dimension of the ball that holds the target.
    distance : float
        Its radius.
    approximate : ApproximateReport or None
        Success within eta for a target drawn uniformly from the ball, if there is an eta and noise.
    """

    error: float
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
        Best lower confidence limits of all supports and the antipodal pair together.
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
            The supports, the antipodal pair, the farther supports, and several releases.
        """
        named = [(f"support {k}", part) for k, part in enumerate(self.supports, start=1)]
        named.append(("antipodal pair", self.antipodal))
        named += [(f"at {part.distance / self.radius:.3g} r", part) for part in self.farther]
        if self.repeated is not None:
            named.append((f"{self.repeated.n_seen} releases", self.repeated))
        return tuple(named)

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
        return f"<pre>{html.escape(str(self))}</pre>"

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


# Columns of the tables: heading, and the value of one attack.
_COLUMNS: dict[str, Callable[[SupportReport], float]] = {
    "distance": lambda part: part.distance,
    "releases": lambda part: part.n_seen,
    "candidates": lambda part: part.n_candidates,
    "distinct": lambda part: part.n_distinct,
    "blind": lambda part: part.kappa,
    "hits": lambda part: part.measured.hits,
    "trials": lambda part: part.measured.trials,
    "rate": lambda part: part.measured.rate,
    "low": lambda part: part.measured.interval[0],
    "high": lambda part: part.measured.interval[1],
    "null": lambda part: part.null.rate,
    "advantage": lambda part: part.advantage,
    "advantage low": lambda part: part.advantage_interval[0],
    "advantage high": lambda part: part.advantage_interval[1],
    "advantage bound": lambda part: part.advantage_bound,
    "best attack": lambda part: part.bayes_success,
    "error": lambda part: part.bayes_error,
    "support bound": lambda part: part.support_bound,
    "certificate": lambda part: part.exact_id_bound,
    "shift": lambda part: part.shift,
    "shift bound": lambda part: part.shift_bound,
    "mu >=": lambda part: part.mu_lower,
    "eps >=": lambda part: part.epsilon_lower,
}
_COUNTS = ("releases", "candidates", "distinct", "hits", "trials")
_SHORT = ("rate", "null", "best attack", "support bound", "certificate", "mu >=", "eps >=")


def table(report: AuditReport) -> tuple[list[str], list[list[str]]]:
    """Headings and formatted rows of the full table: one attack a row, its name first."""
    rows = []
    for name, part in report.attacks():
        values = {heading: value(part) for heading, value in _COLUMNS.items()}
        rows.append(
            [name]
            + [f"{v:d}" if heading in _COUNTS else f"{v:.4g}" for heading, v in values.items()]
        )
    return ["attack", *_COLUMNS], rows


def promise(report: AuditReport) -> list[str]:
    """What was promised and what was found, in sentences."""
    low, high = report.exact_id_interval
    interval = f"{report.confidence:.0%} interval {low:.4f} to {high:.4f}"
    origin = "synthetic candidates" if report.synthetic else "candidates from the pool"
    sentences = [
        f"The certificate of this {report.estimator} promises epsilon {report.epsilon:g} and delta "
        f"{report.delta:g} for replacing a record by another with the same label at a distance of "
        f"at most {report.radius:.4g}. Somebody who knows all other records and has "
        f"{report.supports[0].n_candidates} candidates for this one then names it with probability "
        f"at most {report.exact_id_bound:.4f}; without the release he succeeds with probability "
        f"{report.kappa:.4f}.",
        f"The exact attack on {len(report.supports)} sets of {origin} ({report.selection}) "
        f"succeeded with rate {report.exact_id_rate:.4f} ({interval}); the best possible attack on "
        f"them has {report.bayes_success:.4f}.",
    ]
    if report.passed:
        sentences.append(
            "Nothing was found that contradicts the promise. An audit cannot prove it: it looks at "
            "these data, these parameters and these attacks."
        )
    else:
        sentences.append(f"The promise is contradicted by: {', '.join(report.failed_checks)}.")
    return sentences


DISCLAIMER = (
    "Computed from private records; NOT covered by the certificate. Publishing it is a separate "
    "decision."
)


def _text(report: AuditReport) -> Iterator[str]:
    title = f"Audit of a {report.estimator}"
    yield from (title, "=" * len(title), "", *textwrap.wrap(DISCLAIMER, 88), "")
    verdict = "passed" if report.passed else "FAILED"
    low, high = report.exact_id_interval
    gain_low, gain_high = report.advantage_interval
    yield (
        f"Verdict: {verdict} (a correct estimator fails with probability at most "
        f"{report.false_alarm_rate:g})"
    )
    yield ""
    rows = [
        (
            "promise",
            f"epsilon {report.epsilon:g}, delta {report.delta:g} at radius {report.radius:.4g}",
        ),
        (
            "measured rate",
            f"{report.exact_id_rate:.4f}   ({report.confidence:.0%} interval {low:.4f} to "
            f"{high:.4f})",
        ),
        ("best attack", f"{report.bayes_success:.4f}"),
        ("certificate", f"{report.exact_id_bound:.4f}   {_methods(report)}"),
        ("blind guess", f"{report.kappa:.4f}   (null arm {report.null.rate:.4f})"),
        ("advantage", f"{report.advantage:.4f}   ({gain_low:.4f} to {gain_high:.4f})"),
        (
            "at least",
            f"mu {report.mu_lower:.4g}, epsilon {report.epsilon_lower:.4g}   "
            f"({report.confidence:.0%} confidence)",
        ),
    ]
    yield from (f"  {name:17s}{value}" for name, value in rows)
    origin = "synthetic candidates" if report.synthetic else "candidates from the pool"
    yield ""
    yield (
        f"  {len(report.supports)} supports of {report.supports[0].n_candidates} {origin} "
        f"({report.selection}), {report.n_releases} releases a candidate"
    )
    yield ""
    headings, cells = table(report)
    chosen = [headings.index(heading) for heading in ("distinct", *_SHORT)]
    widths = [max(6, len(headings[k])) + 2 for k in chosen]
    for row in (["", *headings[1:]], *cells):
        columns = (f"{row[k]:>{width}s}" for k, width in zip(chosen, widths, strict=True))
        yield f"  {row[0]:14s}{''.join(columns)}"
    for sentence in _other_attacks(report):
        yield from ("", *textwrap.wrap(sentence, 88, initial_indent="  ", subsequent_indent="  "))
    yield ""
    yield "  check                             p-value   fails below"
    for check in report.checks:
        failed = "" if check.passed else "   FAILED"
        yield f"  {check.name:32s} {check.p_value:8.3g}   {check.level:11.1g}{failed}"
    for sentence in report.voided_by:
        yield from ("", *textwrap.wrap(f"The certificate is void: {sentence}.", 88))


def _methods(report: AuditReport) -> str:
    """The certificates that are not the smallest."""
    others = [f"{name} {bound:.4f}" for name, bound in report.certificates]
    return f"({', '.join(others)})"


def _other_attacks(report: AuditReport) -> Iterator[str]:
    """Sentences on what is not in the table."""
    for name, part in report.attacks():
        if part.approximate is not None:
            yield f"{name}: {_within(part.approximate)}"
    if report.inversion is not None:
        inverse = report.inversion
        text = (
            f"Inversion of the noiseless release gives the record back up to {inverse.error:.2g}."
        )
        if inverse.approximate is not None:
            text += (
                f" With noise, uniform prior in a ball of radius {inverse.distance:.4g} in "
                f"dimension {inverse.n_features}: {_within(inverse.approximate)}"
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
                f"(certificate {fits.digits_bound:.3g})."
            )
        yield text


def _within(part: ApproximateReport) -> str:
    low, high = part.measured.interval
    return (
        f"success within {part.eta:.4g} of the target {part.measured.rate:.4f} ({low:.4f} to "
        f"{high:.4f}), certificate {part.bound:.4f}, blind {part.kappa:.4f}."
    )


def _markdown(report: AuditReport) -> Iterator[str]:
    yield f"# Audit of a {report.estimator}"
    yield from ("", f"**{DISCLAIMER}**", "")
    verdict = "passed" if report.passed else "FAILED"
    yield (
        f"**Verdict: {verdict}** (a correct estimator fails with probability at most "
        f"{report.false_alarm_rate:g})"
    )
    for sentence in promise(report):
        yield from ("", sentence)
    for sentence in report.voided_by:
        yield from ("", f"**The certificate is void: {sentence}.**")
    yield from ("", "## Attacks", "")
    headings, cells = table(report)
    yield from _markdown_table(headings, cells)
    for sentence in _other_attacks(report):
        yield from ("", sentence)
    yield from ("", "## Checks", "")
    yield from _markdown_table(
        ["check", "question", "p-value", "fails below", "result"],
        [
            [
                check.name,
                check.question,
                f"{check.p_value:.3g}",
                f"{check.level:.1g}",
                "passed" if check.passed else "**FAILED**",
            ]
            for check in report.checks
        ],
    )


def _markdown_table(headings: list[str], cells: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield "|" + "---|" * len(headings)
    yield from (f"| {' | '.join(row)} |" for row in cells)


def _row(part: SupportReport) -> dict[str, float]:
    return {heading: value(part) for heading, value in _COLUMNS.items()}
