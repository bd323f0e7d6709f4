"""What a label transformer promises, as a frozen record."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skballdp._records import from_plain, to_plain
from skballdp._text import as_html, as_text, up
from skballdp.exceptions import CertificationError

__all__ = ["LabelPrivacyCertificate"]

_VERSION = 1
_LARGEST_EPSILON = 700.0  # as everywhere in skballdp.labels; or infinity
# What a prior costs by where it came from: whether it was learned from labels.
PRIOR_SOURCES = {
    "not needed": False,
    "given by the caller": False,
    "labels under randomised response": True,
    "label counts with discrete Laplace noise": True,
}


@dataclass(frozen=True, kw_only=True)
class LabelPrivacyCertificate:
    """The promise of privatised labels, in numbers and in words.

    Attributes
    ----------
    estimator : str
        Name of the estimator's class.
    mechanism : str
        Name of the label mechanism.
    epsilon : float
        Privacy loss of one release of noisy labels.
    prior_epsilon : float
        Privacy loss of the prior; 0 if it was not learned from labels.
    prior_source : str
        Where the prior came from; one of `PRIOR_SOURCES` or other words.
    same_records : bool
        Whether prior and release are known to use the same records, as in `fit_transform`.
    disjoint : bool
        Whether they are known to use different ones, as in `privatize_labels`. With neither, both
        readings are given.
    n_releases : int
        How often labels were released with this object.
    n_labels, n_outputs : int
        Number of labels (or values of the support) and of outputs; 0 for a continuous one.
    voided_by : tuple of str
        One sentence per condition that voids the promise; empty when it holds.
    caveats : tuple of str
        What the promise takes for granted.
    version : int
        Version of this format.

    Notes
    -----
    **Formal guarantees.** Two data sets are neighbours when they differ in the label of one
    record. For all neighbours y, y' and every set S of outcomes, ``P[M(y) in S] <= e^epsilon
    P[M(y') in S]``, the outcome being the prior and all noisy labels. The total epsilon has two
    readings. If the prior and each release use different records, chosen without looking at
    labels, one label influences one of them and the total is the **largest** budget. If they use
    the same records, it is the **sum**.

    Examples
    --------
    >>> from skballdp import BlockRRLabelTransformer
    >>> coder = BlockRRLabelTransformer(epsilon=2.0, classes=["a", "b", "c"]).fit(["a", "b", "a"])
    >>> coder.certificate_.epsilon_disjoint, coder.certificate_.epsilon_same_records
    (2.0, 4.0)
    >>> coder.certificate_.check()
    True
    """

    estimator: str
    mechanism: str
    epsilon: float
    prior_epsilon: float
    prior_source: str
    same_records: bool = False
    disjoint: bool = False
    n_releases: int = 0
    n_labels: int
    n_outputs: int
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
        return "replacement of the label of one record by any other label"

    @property
    def epsilon_disjoint(self) -> float:
        """Total privacy loss if the prior and each release use different records."""
        return max(self.epsilon, self.prior_epsilon)

    @property
    def epsilon_same_records(self) -> float:
        """Total privacy loss if all of them use the same records."""
        return self.prior_epsilon + max(1, self.n_releases) * self.epsilon

    @property
    def epsilon_total(self) -> float:
        """The reading on the safe side: the sum after `fit_transform` or a second release."""
        if self.same_records or self.n_releases > 1:
            return self.epsilon_same_records
        return self.epsilon_disjoint

    def check(self) -> bool:
        """Check type and range of every field, and that they do not contradict each other.

        Returns
        -------
        bool
            True if they do not (whether the promise `holds` is a different question).

        Raises
        ------
        CertificationError
            If they do; the message names the field.
        """

        def text(value: Any) -> bool:
            return type(value) is str

        def texts(value: Any) -> bool:
            return type(value) is tuple and all(map(text, value))

        def count(value: Any) -> bool:
            return type(value) is int and value >= 0

        def budget(value: Any) -> bool:
            return type(value) in (float, int) and (
                0 <= value <= _LARGEST_EPSILON or value == math.inf
            )

        valid: dict[str, Callable[[Any], bool]] = {
            "version": lambda value: type(value) is int and value == _VERSION,
            "estimator": text,
            "mechanism": text,
            "epsilon": budget,
            "prior_epsilon": budget,
            "prior_source": text,
            "same_records": lambda value: type(value) is bool,
            "disjoint": lambda value: type(value) is bool,
            "n_releases": count,
            "n_labels": count,
            "n_outputs": count,
            "voided_by": texts,
            "caveats": texts,
        }
        for name, is_valid in valid.items():
            if not is_valid(getattr(self, name)):
                raise self._inconsistent(name, "its meaning")
        if (self.n_outputs == 0) != (self.n_labels == 0):
            raise self._inconsistent("n_outputs", "n_labels: both are 0 for numbers only")
        if self.disjoint and (self.same_records or self.n_releases > 1):
            raise self._inconsistent("disjoint", "same_records and n_releases")
        learned = PRIOR_SOURCES.get(self.prior_source, self.prior_epsilon > 0)
        if learned != (self.prior_epsilon > 0):
            raise self._inconsistent("prior_epsilon", "prior_source")
        if self.holds and math.inf in (self.epsilon, self.prior_epsilon):
            raise self._inconsistent("voided_by", "epsilon and prior_epsilon: one is infinite")
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
            `from_json` restores an equal certificate from it.
        """
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "LabelPrivacyCertificate":
        """Read a certificate written by `to_json`.

        Parameters
        ----------
        text : str
            JSON.

        Returns
        -------
        LabelPrivacyCertificate
            With the same fields, which `check` has seen.

        Raises
        ------
        ValueError
            If the text is not a certificate of a version that this release reads, or contradicts
            itself.
        """
        record = json.loads(text)
        if not isinstance(record, dict) or record.get("version") != _VERSION:
            raise ValueError(f"text must be a label certificate of version {_VERSION}.")
        record.setdefault("disjoint", False)  # unknown to the first writers of this version
        certificate: LabelPrivacyCertificate = from_plain(cls, record)
        certificate.check()
        return certificate

    def __str__(self) -> str:
        return as_text(self._title, self._sections())

    def _repr_html_(self) -> str:
        return as_html(self._title, self._sections())

    @property
    def _title(self) -> str:
        return f"Label privacy certificate of a {self.estimator}"

    def _sections(self) -> list[tuple[str, list[str]]]:
        """The certificate in words: headings and sentences, for text and HTML alike."""
        if self.holds:
            sections: list[tuple[str, list[str]]] = [("The promise holds.", [])]
        else:
            sections = [("THE PROMISE IS VOID:", [f"- {reason}." for reason in self.voided_by])]
        opening = "" if self.holds else "If it were not void: "
        promise = [
            f"{opening}Whoever sees the noisy labels, all features and all true labels but one can "
            "hardly tell that label from any other: no outcome is more than e^epsilon times as "
            "likely with one as with the other.",
        ]
        readings = [
            "If the prior and each release use different records, chosen without looking at the "
            f"labels: epsilon = {up(self.epsilon_disjoint, 6)}.",
            f"If they use the same records: epsilon = {up(self.epsilon_same_records, 6)}.",
        ]
        if self.same_records:
            readings.append("Prior and labels came from the same records: the second one applies.")
        if self.disjoint:
            readings = [f"Each label was used once: epsilon = {up(self.epsilon_total, 6)}."]
        promise += readings
        sections.append(("What is promised", promise))
        sections.append(
            (
                "What is not hidden",
                [
                    "The features, the number of records, the set of labels or the support, and "
                    "every parameter; anything else that was learned from the true labels.",
                ],
            )
        )
        outputs = "numbers"
        if self.n_labels:
            outputs = f"{self.n_labels} labels, {self.n_outputs} outputs"
        sections.append(
            (
                "Numbers",
                [
                    f"mechanism {self.mechanism} ({outputs}), epsilon {up(self.epsilon, 6)} a "
                    f"release; {self.n_releases} release{'s' * (self.n_releases != 1)} so far",
                    f"prior: {self.prior_source}, epsilon {up(self.prior_epsilon, 6)}",
                ],
            )
        )
        if self.caveats:
            sections.append(("Caveats", [f"- {caveat}." for caveat in self.caveats]))
        return sections

    def _inconsistent(self, field: str, others: str) -> CertificationError:
        value = getattr(self, field)
        shown = f"{len(value)} values" if isinstance(value, tuple) else repr(value)
        return CertificationError(
            f"the certificate contradicts itself: {field} ({shown}) does not follow from {others}."
            " Do not rely on it; ask for the one written when the labels were released."
        )
