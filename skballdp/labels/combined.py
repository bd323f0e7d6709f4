"""What a Ball-DP head on private labels promises: labels and features hidden together."""

import json
import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skballdp._text import as_html, as_text, down, up
from skballdp.certificate import PrivacyCertificate
from skballdp.exceptions import PrivacyWarning
from skballdp.labels.certificate import LabelPrivacyCertificate

__all__ = ["CombinedPrivacyCertificate"]

_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class CombinedPrivacyCertificate:
    """The promise of a Ball-DP head that was fitted to private labels.

    Attributes
    ----------
    estimator : str
        Name of the estimator's class.
    labels : LabelPrivacyCertificate
        The promise of the noisy labels, for itself.
    features : PrivacyCertificate
        The promise of the head **given the noisy labels**: its labels, classes and class counts are
        the noisy ones. Its `exact_id_bound` is for candidates that have the same true label.
    version : int
        Version of this format.

    See Also
    --------
    skballdp.LabelDPClassifier : Carries one as ``certificate_`` around a Ball-DP head.

    Notes
    -----
    **Formal guarantees.** Two data sets are neighbours when they have the same length and differ in
    one record, whose features are at most the radius apart and whose labels may be **any two**. For
    all neighbours D, D' and every set S of pairs of noisy labels (with the prior) and model,
    ``P[M(D) in S] <= e^(e1 + e2) P[M(D') in S] + delta``, e1 the epsilon of the labels and (e2,
    delta) of the head. At distance t it is ``(e1 + e2(t), delta)``.

    Proof. Fix the prior and the noisy labels of the other records: they have the same law on both
    sides, up to the case below. Given all noisy labels z the features of D and D' are neighbours
    with equal labels, and the head sees nothing else: ``P[H_z(X) in S] <= e^e2 P[H_z(X') in S] +
    delta``. Sum with the weights T(z|y): the terms delta sum to delta. Then use ``T(z|y) <= e^e1
    T(z|y')``. If the record was set aside for the prior, its features are not used, and its label
    moves the law of the prior, and of what follows, by at most e^e1.

    References
    ----------
    J. Margaryan and N. Gupta, arXiv:2607.04209, for the head; the combination is ours.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, LabelDPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> head = BallDPRidgePrototype(radius=0.5, epsilon=2.0)
    >>> clf = LabelDPClassifier(head, mechanism="rr", epsilon=3.0, classes=range(10))
    >>> certificate = clf.fit(normalize(X), y).certificate_
    >>> certificate.epsilon, certificate.delta, certificate.radius
    (5.0, 1e-06, 0.5)
    """

    estimator: str
    labels: LabelPrivacyCertificate
    features: PrivacyCertificate
    version: int = _VERSION

    @property
    def holds(self) -> bool:
        """Whether nothing voids the promise."""
        return not self.voided_by

    @property
    def voided_by(self) -> tuple[str, ...]:
        """One sentence per condition that voids the promise; empty when it holds."""
        return tuple(f"labels: {reason}" for reason in self.labels.voided_by) + tuple(
            f"features: {reason}" for reason in self.features.voided_by
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the promise takes for granted."""
        sentences = self.labels.caveats + self.features.caveats
        if self.features.radius_epsilon > 0:
            sentences += (
                "the caller states that the privacy loss of the radius covers changes of labels",
            )
        return sentences

    @property
    def adjacency(self) -> str:
        """The neighbouring relation, in words."""
        return (
            "replacement of one record by another with any label whose features are at most "
            f"{self.radius:.6g} away (Euclidean distance)"
        )

    @property
    def epsilon(self) -> float:
        """Total privacy loss at the radius: the sum, rounded up."""
        features = self.features
        return _sum_up(self.labels.epsilon_total, features.epsilon, features.radius_epsilon)

    @property
    def delta(self) -> float:
        """Probability that the promise fails: that of the head."""
        return self.features.delta

    @property
    def radius(self) -> float:
        """Largest distance between a record and its replacement, in the unit of the rows."""
        return self.features.radius

    def epsilon_at(self, distance: float, delta: float | None = None) -> float:
        """Privacy loss for a replacement at another distance, with any label.

        Parameters
        ----------
        distance : float
            Distance between record and replacement, >= 0; 0 is a change of the label only.
        delta : float, optional
            Another delta, in [0, 1); by default the certificate's.

        Returns
        -------
        float
            Epsilon of the labels plus that of the head at this distance, rounded up.

        Raises
        ------
        TypeError, ValueError
            If an argument is not a number or out of range.

        Warns
        -----
        PrivacyWarning
            If the certificate is void.
        """
        if not self.holds:
            warnings.warn(
                "the certificate is void, and this epsilon is what it would be otherwise: "
                + "; ".join(self.voided_by),
                PrivacyWarning,
                stacklevel=2,
            )
        features = self.features
        spent = features._epsilon_at(distance, features.delta if delta is None else delta)
        if features.mu_at(distance) == 0:
            # The same features, but another label: the radius, which may depend on it, still costs.
            spent = features.radius_epsilon
        return _sum_up(self.labels.epsilon_total, spent)

    def check(self) -> bool:
        """Check the labels' part, and recompute the head's from its own public numbers.

        Returns
        -------
        bool
            True if every number follows from the others.

        Raises
        ------
        CertificationError
            If a number does not; the message names the field.
        """
        return self.labels.check() and self.features.check()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of standard JSON values; infinity is ``"inf"``."""
        return {
            "estimator": self.estimator,
            "labels": self.labels.to_dict(),
            "features": self.features.to_dict(),
            "version": self.version,
        }

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
    def from_json(cls, text: str) -> "CombinedPrivacyCertificate":
        """Read a certificate written by `to_json`.

        Parameters
        ----------
        text : str
            JSON.

        Returns
        -------
        CombinedPrivacyCertificate
            Not checked: call `check`.

        Raises
        ------
        ValueError
            If the text is not a certificate of a version that this release reads.
        """
        record = json.loads(text)
        fields = {"estimator", "labels", "features", "version"}
        if not isinstance(record, dict) or set(record) != fields or record["version"] != _VERSION:
            raise ValueError(f"text must be a combined certificate of version {_VERSION}.")
        return cls(
            estimator=record["estimator"],
            labels=LabelPrivacyCertificate.from_json(json.dumps(record["labels"])),
            features=PrivacyCertificate.from_json(json.dumps(record["features"])),
        )

    def __str__(self) -> str:
        return as_text(self._title, self._sections()) + f"\n\n{self.labels}\n\n{self.features}"

    def _repr_html_(self) -> str:
        details = self.labels._repr_html_() + self.features._repr_html_()
        return as_html(self._title, self._sections(), details)

    @property
    def _title(self) -> str:
        return f"Privacy certificate of a {self.estimator}: labels and features together"

    def _sections(self) -> list[tuple[str, list[str]]]:
        """The certificate in words: headings and sentences, for text and HTML alike."""
        if self.holds:
            sections: list[tuple[str, list[str]]] = [("The promise holds.", [])]
        else:
            sections = [("THE PROMISE IS VOID:", [f"- {reason}." for reason in self.voided_by])]
        opening = "" if self.holds else "If it were not void: "
        sections.append(
            (
                "What is promised",
                [
                    f"{opening}Whoever sees the noisy labels and the model, and knows every "
                    "training record but one, can hardly tell that record from any other, with "
                    f"whatever label, whose features are at most {down(self.radius, 6)} away: no "
                    "outcome is more than e^epsilon times as likely with one as with the other, up "
                    f"to delta, with epsilon = {up(self.epsilon, 6)} (of which "
                    f"{up(self.labels.epsilon_total, 6)} for the label) and delta = "
                    f"{up(self.delta, 6)}.",
                ],
            )
        )
        sections.append(
            (
                "What is not hidden",
                [
                    "The number of records, the set of labels and every parameter; the noisy "
                    "labels and their counts, which the labels' part covers.",
                ],
            )
        )
        sections.append(
            (
                "Its two parts",
                [
                    "They follow: the noisy labels for themselves, and the head given these. What "
                    "the second one says about labels and counts is about the noisy ones. Its "
                    "bounds on picking out a record are for candidates with the same true label: "
                    "between others the noisy label helps the attacker.",
                ],
            )
        )
        return sections


def _sum_up(*budgets: float) -> float:
    """Sum of some budgets, never below the exact one."""
    total = math.fsum(budgets)
    if total == math.inf or Fraction(total) >= sum(map(Fraction, budgets)):
        return total
    return math.nextafter(total, math.inf)
