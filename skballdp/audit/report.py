"""What an audit found, as frozen records with a readable text and JSON."""

import dataclasses
import json
import math
import textwrap
from dataclasses import dataclass
from typing import Any

__all__ = ["AuditReport", "ImplementationReport", "ReachabilityReport", "SupportReport"]

_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class SupportReport:
    """The attack on one candidate set.

    Attributes
    ----------
    n_candidates, n_distinct : int
        Candidates, and distinct optima among them; candidates with equal optima are tied.
    kappa : float
        Best success without the release.
    hits, trials : int
        Correct guesses of the MAP rule in simulated releases.
    exact_id_rate : float
        Their ratio.
    exact_id_interval : tuple of float
        Clopper-Pearson interval at the report's confidence.
    bayes_success, bayes_error : float
        Success of the best attack, and its standard error (0: closed form).
    support_bound : float
        Bound for this candidate set; the smallest over the references tried.
    epsilon_lower : float
        Privacy loss that the lower limit of the interval implies, at the certificate's delta.
    passed : bool
        Whether the rate is compatible with the certificate.
    """

    n_candidates: int
    n_distinct: int
    kappa: float
    hits: int
    trials: int
    exact_id_rate: float
    exact_id_interval: tuple[float, float]
    bayes_success: float
    bayes_error: float
    support_bound: float
    epsilon_lower: float
    passed: bool


@dataclass(frozen=True, kw_only=True)
class ReachabilityReport:
    """The attack that asks for which candidate a sampler could have drawn the noise at all.

    Attributes
    ----------
    n_candidates : int
        Candidates, of which one was hidden in each fit.
    hits, trials : int
        Fits in which the digits named the hidden candidate, and fits.
    rate : float
        Their ratio.
    chance : float
        Success of a blind guess.
    bound : float
        What the certificate allows any attack; the test fails significantly above this.
    """

    n_candidates: int
    hits: int
    trials: int
    rate: float
    chance: float
    bound: float


@dataclass(frozen=True, kw_only=True)
class ImplementationReport:
    """Tests of the noise in real fits.

    Attributes
    ----------
    n_fits : int
        Number of fits.
    p_values : tuple of (str, float)
        Name and p-value of each test.
    level : float
        A test fails below this.
    passed : bool
        Whether none failed.
    reachability : ReachabilityReport or None
        The attack on the digits of the noise; None without noise.
    """

    n_fits: int
    p_values: tuple[tuple[str, float], ...]
    level: float
    passed: bool
    reachability: ReachabilityReport | None


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
        Of the intervals.
    n_releases : int
        Simulated releases per candidate.
    exact_id_rate : float
        Measured success of the MAP attack, over all supports.
    exact_id_interval : tuple of float
        Clopper-Pearson interval.
    bayes_success : float
        Success of the best attack, mean over the supports.
    exact_id_bound : float
        Smallest valid certificate for this number of candidates and prior; 1.0 without noise.
    kappa : float
        Best success without the release.
    passed : bool
        Whether every part of the audit passed.
    false_alarm_rate : float
        Probability that a correct estimator fails, at most.
    supports : tuple of SupportReport
        The attack on each candidate set.
    implementation : ImplementationReport or None
        Tests of the noise in real fits; None if there was nothing to test.
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
    exact_id_rate: float
    exact_id_interval: tuple[float, float]
    bayes_success: float
    exact_id_bound: float
    kappa: float
    passed: bool
    false_alarm_rate: float
    supports: tuple[SupportReport, ...]
    implementation: ImplementationReport | None
    version: int = _VERSION

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as standard JSON values; infinity is ``"inf"``."""
        return _encode(dataclasses.asdict(self))

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
        known = {field.name for field in dataclasses.fields(cls)}
        if set(record) != known:
            fields = ", ".join(sorted(set(record) ^ known))
            raise ValueError(f"text is not a report: missing or unknown fields: {fields}.")
        del record["covered_by_certificate"]
        supports = tuple(_read(SupportReport, support) for support in record.pop("supports"))
        implementation = record.pop("implementation")
        if implementation is not None:
            pairs = tuple((name, p) for name, p in implementation.pop("p_values"))
            reachability = implementation.pop("reachability")
            if reachability is not None:
                reachability = _read(ReachabilityReport, reachability)
            parts = {"p_values": pairs, "reachability": reachability}
            implementation = _read(ImplementationReport, {**implementation, **parts})
        return _read(cls, {**record, "supports": supports, "implementation": implementation})

    def __str__(self) -> str:
        title = f"Audit of a {self.estimator}"
        lines = [title, "=" * len(title), ""]
        lines += textwrap.wrap(
            "Computed from private records; NOT covered by the certificate. Publishing it is a "
            "separate decision.",
            88,
        )
        verdict = "passed" if self.passed else "FAILED"
        low, high = self.exact_id_interval
        origin = "synthetic candidates" if self.synthetic else "candidates from the pool"
        lines += [
            "",
            f"Verdict: {verdict} (a correct estimator fails with probability at most "
            f"{self.false_alarm_rate:g})",
            "",
            f"  promise          epsilon {self.epsilon:g}, delta {self.delta:g} at radius "
            f"{self.radius:.4g}",
            f"  measured rate    {self.exact_id_rate:.4f}   ({self.confidence:.0%} interval "
            f"{low:.4f} to {high:.4f})",
            f"  best attack      {self.bayes_success:.4f}",
            f"  certificate      {self.exact_id_bound:.4f}",
            f"  blind guess      {self.kappa:.4f}",
            "",
            f"  {len(self.supports)} supports of {self.supports[0].n_candidates} {origin} "
            f"({self.selection}), {self.n_releases} releases a candidate",
            "",
            "  support  distinct     rate   best attack  support bound  epsilon >=",
        ]
        for number, support in enumerate(self.supports, start=1):
            lines.append(
                f"  {number:7d}  {support.n_distinct:8d}  {support.exact_id_rate:7.4f}  "
                f"{support.bayes_success:11.4f}  {support.support_bound:13.4f}  "
                f"{support.epsilon_lower:10.4g}" + ("" if support.passed else "  FAILED")
            )
        if self.implementation is not None:
            part = self.implementation
            lines += ["", f"  noise of {part.n_fits} real fits (fails below {part.level:.1g}):"]
            lines += [
                f"    {name:17s} p = {p:.3g}" + ("" if p >= part.level else "  FAILED")
                for name, p in part.p_values
            ]
            if part.reachability is not None:
                found = part.reachability
                lines.append(
                    f"    digits name the hidden record in {found.hits} of {found.trials} fits "
                    f"(blind {found.chance:.3g}, certificate {found.bound:.3g})"
                )
        for sentence in self.voided_by:
            lines += ["", *textwrap.wrap(f"The certificate is void: {sentence}.", 88)]
        return "\n".join(lines)


def _encode(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    return "inf" if isinstance(value, float) and value == math.inf else value


def _read(cls: Any, record: dict[str, Any]) -> Any:
    floats = {field.name for field in dataclasses.fields(cls) if field.type is float}
    values = {}
    for name, value in record.items():
        if name in floats:
            value = math.inf if value == "inf" else float(value)
        values[name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)
