"""Labels and features hidden together: the proof by enumeration, real fits, the certificate."""

import dataclasses
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta, norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skballdp import (
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    CertificationError,
    CombinedPrivacyCertificate,
    LabelDPClassifier,
    PrivacyWarning,
    Radius,
)
from skballdp.labels.combined import _sum_up

# ---- a tiny example, in exact arithmetic -------------------------------------------------------

E1, E2 = Fraction(3), Fraction(2)  # e^epsilon of the labels and of the head
POINTS, LABELS = range(4), range(2)  # features on a line; neighbours are one step apart
NOISE = {-2: Fraction(1, 16), -1: Fraction(1, 4), 0: Fraction(3, 8), 1: Fraction(1, 4)}
NOISE[2] = 1 - sum(NOISE.values())


def noisy_label(z, y):
    """Randomised response over two labels: 3/4 and 1/4."""
    return (E1 if z == y else 1) / (E1 + 1)


def head(labels, X):
    """Law of the sums by class, each with noise of bounded range."""
    sums = [sum(x for x, z in zip(X, labels, strict=True) if z == c) for c in LABELS]
    law = {}
    for shifts in itertools.product(NOISE, repeat=2):
        outcome = tuple(s + shift for s, shift in zip(sums, shifts, strict=True))
        law[outcome] = law.get(outcome, 0) + math.prod(NOISE[shift] for shift in shifts)
    return law


def release(X, y, seen=lambda noisy, true: noisy):
    """Law of the noisy labels and of the head; `seen` are the labels that the head is given."""
    law = {}
    for z in itertools.product(LABELS, repeat=len(y)):
        weight = math.prod(noisy_label(a, b) for a, b in zip(z, y, strict=True))
        for outcome, p in head(seen(z, y), X).items():
            law[z, outcome] = law.get((z, outcome), 0) + weight * p
    return law


def excess(P, Q, E):
    """Least delta for which ``P[S] <= E Q[S] + delta`` for every set of outcomes."""
    return sum(max(p - E * Q.get(outcome, 0), 0) for outcome, p in P.items())


def feature_neighbours():
    for x0, x1, rest in itertools.product(POINTS, POINTS, POINTS):
        if abs(x0 - x1) == 1:
            yield (x0, rest), (x1, rest)


def test_the_theorem_by_exact_enumeration():
    """All pairs of data sets of two records, all outcomes: nothing is rounded."""
    delta = max(
        excess(head(z, X), head(z, X_other), E2)
        for X, X_other in feature_neighbours()
        for z in itertools.product(LABELS, repeat=2)
    )
    assert 0 < delta < Fraction(1, 5)  # the head is (log 2, delta)-private for given labels
    worst = Fraction(0)
    for X, X_other in feature_neighbours():
        for y, y_other, rest in itertools.product(LABELS, repeat=3):
            P, Q = release(X, (y, rest)), release(X_other, (y_other, rest))
            worst = max(worst, excess(P, Q, E1 * E2))
    assert 0 < worst <= delta
    # Neither budget alone is enough, so the example has power.
    P, Q = release((1, 0), (0, 0)), release((2, 0), (1, 0))
    assert excess(P, Q, E1) > delta and excess(P, Q, E2) > delta


def test_a_head_that_reads_true_labels_breaks_it():
    delta = max(
        excess(head(z, X), head(z, X_other), E2)
        for X, X_other in feature_neighbours()
        for z in itertools.product(LABELS, repeat=2)
    )
    true = {"seen": lambda noisy, true: true}
    assert excess(release((3, 0), (0, 0), **true), release((3, 0), (1, 0), **true), E1 * E2) > delta


# ---- real fits ---------------------------------------------------------------------------------


class Recording(BallDPRidgePrototype):
    """Keeps the labels it was given: noisy ones, hence public."""

    def fit(self, X, y):
        self.noisy_ = np.asarray(y)
        return super().fit(X, y)


def releases(x, y, n_fits, radius, epsilons):
    """Noisy label of record 0, its class's prototype and the noise scale, of many fits."""
    X = np.zeros((6, 2))
    X[0], labels = x, np.array([y, 0, 0, 0, 1, 1])
    head = Recording(radius, epsilon=epsilons[1], delta=1e-2, alpha=1.0, noise="continuous")
    clf = LabelDPClassifier(head, mechanism="rr", epsilon=epsilons[0], classes=[0, 1])
    found = []
    while len(found) < n_fits:
        try:
            inner = clf.fit(X, labels).estimator_
        except ValueError as error:  # all noisy labels are equal: an outcome like any other
            assert "1 class" in str(error)
            found.append((math.nan,) * 3)
            continue
        z = inner.noisy_[0]
        at = list(inner.classes_).index(z)
        scale = np.broadcast_to(inner.noise_scale_, 2)[at]
        found.append((z, inner.prototypes_[at, 0], scale, np.sum(inner.noisy_ == z)))
    return np.array([values[:4] if len(values) == 4 else (*values, math.nan) for values in found])


def log_ratio(outcomes, shift, epsilon):
    """Exact log-likelihood ratio of (x, y) = (shift, 0) against (-shift, 1), given the others."""
    z, value, scale, count = outcomes.T
    # alpha = 1: the mean of a class of n_c records is the sum over (n_c + n alpha / 2).
    weight = 1 / (count + 6 / 2)
    features = (norm.logpdf(value, weight * shift, scale)) - norm.logpdf(
        value, -weight * shift, scale
    )
    return np.where(z == 0, epsilon, -epsilon) + features


def test_the_ridge_prototype_is_what_the_next_test_takes_it_for():
    X = np.zeros((6, 2))
    X[0] = [0.4, 0.0]
    head = BallDPRidgePrototype(0.5, epsilon=np.inf, alpha=1.0)
    for labels in ([0, 0, 0, 0, 1, 1], [1, 0, 0, 0, 1, 1]):
        with pytest.warns(PrivacyWarning):
            head.fit(X, labels)
        count = labels.count(labels[0])
        assert head.prototypes_[labels[0], 0] == pytest.approx(0.4 / (count + 3))


def refuter(n, epsilons, radius=0.5):
    """Whether n fits on each side of a worst pair refute a promise.

    The pair: features at distance `radius` on both sides of zero, other labels. For events
    S = {log ratio >= t}, Clopper-Pearson bounds at 1e-9 each refute a promise that is broken, and
    4 events refute one that holds at most once in 10^8 runs.
    """
    P = releases((radius / 2, 0.0), 0, n, radius, epsilons)
    Q = releases((-radius / 2, 0.0), 1, n, radius, epsilons)
    P, Q = (log_ratio(outcomes, radius / 2, epsilons[0]) for outcomes in (P, Q))

    def refuted(epsilon, delta):
        for t in (0.5, 1.0, 1.5, 2.0):
            hits, others = np.sum(t <= P), np.sum(t <= Q)
            low = beta.ppf(1e-9, hits, n - hits + 1) if hits else 0.0
            high = beta.ppf(1 - 1e-9, others + 1, n - others)
            if low > math.exp(epsilon) * high + delta:
                return True
        return False

    return refuted


def test_likelihood_ratios_of_real_fits_on_a_worst_pair():
    """So few fits see that something is lost; tests/verify refutes each budget alone."""
    refuted = refuter(150, (2.0, 2.0))
    assert not refuted(4.0, 1e-2)
    assert refuted(0.0, 1e-2)  # a miss is 6 standard deviations away


# ---- the certificate ---------------------------------------------------------------------------


def blobs(n=300):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    X = np.eye(3, 6)[y] + 0.1 * rng.standard_normal((n, 6))
    return X / np.linalg.norm(X, axis=1, keepdims=True), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize(
    "head",
    [
        BallDPRidgePrototype(0.5, epsilon=2.0),
        BallDPLogisticRegression(0.5, epsilon=2.0, alpha=0.1),
        BallDPSquaredHingeSVC(0.5, epsilon=2.0, alpha=1.0),
        make_pipeline(Normalizer(), BallDPRidgePrototype(0.5, epsilon=2.0)),
    ],
    ids=["prototype", "logistic", "hinge", "pipeline"],
)
def test_every_head_gets_a_combined_certificate(head):
    X, y = blobs()
    clf = LabelDPClassifier(head, epsilon=3.0, classes=["a", "b", "c"], prior_fraction=0.1)
    certificate = clf.fit(X, y).certificate_
    assert isinstance(certificate, CombinedPrivacyCertificate) and certificate.holds
    assert (certificate.epsilon, certificate.delta, certificate.radius) == (5.0, 1e-6, 0.5)
    assert certificate.epsilon_at(0.0) == 3.0
    assert certificate.epsilon_at(0.5) == pytest.approx(5.0)
    assert 3.0 < certificate.epsilon_at(0.25) < 5.0 < certificate.epsilon_at(1.0)
    assert certificate.features.n_samples == 270 and certificate.check()
    assert clf.score(X, y) > 0.3


def test_the_certificate_is_a_record():
    X, y = blobs()
    head = BallDPRidgePrototype(Radius(0.5, epsilon=0.25), epsilon=0.1, random_state=0)
    clf = LabelDPClassifier(head, epsilon=0.2, classes="observed")
    with pytest.warns(PrivacyWarning) as record:
        certificate = clf.fit(X, y).certificate_
    assert len(record) == 1  # the head's; the labels are fine
    assert certificate.epsilon >= 0.55
    assert not certificate.holds and certificate.labels.holds
    assert certificate.voided_by[0].startswith("features: the noise was seeded")
    assert any("radius covers changes of labels" in caveat for caveat in certificate.caveats)
    assert any("observed" in caveat for caveat in certificate.caveats)
    text = certificate.to_json()
    assert CombinedPrivacyCertificate.from_json(text) == certificate
    assert json.loads(text)["version"] == 1
    shown = " ".join(str(certificate).split())
    assert "VOID" in shown and "whatever label" in shown
    assert "<h3>" in certificate._repr_html_() and "any label" in certificate.adjacency
    for bad in ("[]", "{}", text.replace('"estimator"', '"estimater"', 1)):
        with pytest.raises(ValueError):
            CombinedPrivacyCertificate.from_json(bad)
    with pytest.warns(PrivacyWarning, match="void") as record:
        # The radius may depend on the label, also where the features are the same.
        assert certificate.epsilon_at(0.0) == pytest.approx(0.2 + 0.25)
        assert certificate.epsilon_at(0.5) == pytest.approx(0.55)
    assert {warning.filename for warning in record} == {__file__}


def test_seeded_labels_void_the_whole():
    X, y = blobs()
    head = BallDPRidgePrototype(0.5, epsilon=1.0)
    clf = LabelDPClassifier(head, classes=["a", "b", "c"], random_state=0)
    with pytest.warns(PrivacyWarning):
        certificate = clf.fit(X, y).certificate_
    assert certificate.features.holds and not certificate.holds
    assert certificate.voided_by[0].startswith("labels: the noise was seeded")
    with pytest.warns(PrivacyWarning, match="void"):
        certificate.epsilon_at(0.5)


def test_the_sum_takes_the_total_of_the_labels():
    X, y = blobs()
    head = BallDPRidgePrototype(0.5, epsilon=1.0)
    certificate = LabelDPClassifier(head, classes=["a", "b", "c"]).fit(X, y).certificate_
    dear = dataclasses.replace(certificate.labels, prior_epsilon=9.0)
    certificate = dataclasses.replace(certificate, labels=dear)
    assert certificate.epsilon == 10.0 and certificate.epsilon_at(0.0) == 9.0


@pytest.mark.parametrize("part", ["labels", "features"])
def test_check_looks_at_both_parts(part):
    X, y = blobs()
    head = BallDPRidgePrototype(0.5, epsilon=1.0)
    certificate = LabelDPClassifier(head, classes=["a", "b", "c"]).fit(X, y).certificate_
    wrong = dataclasses.replace(getattr(certificate, part), epsilon=-1.0)
    with pytest.raises(CertificationError):
        dataclasses.replace(certificate, **{part: wrong}).check()


def test_the_parts_say_what_they_mean_together():
    X, y = blobs()
    head = BallDPRidgePrototype(0.5, epsilon=1.0)
    certificate = LabelDPClassifier(head, classes=["a", "b", "c"]).fit(X, y).certificate_
    shown = " ".join(str(certificate).split())
    assert "for candidates with the same true label" in shown
    assert "Each label was used once: epsilon = 1." in shown


def test_sums_are_rounded_up():
    rng = np.random.default_rng(0)
    for a, b in rng.uniform(0, 3, (200, 2)):
        assert Fraction(_sum_up(a, b)) >= Fraction(a) + Fraction(b)
        assert _sum_up(a, b) <= math.nextafter(a + b, math.inf)
    assert _sum_up(math.inf, 1.0) == math.inf and _sum_up(1.0, 2.0) == 3.0
