"""The certificate recomputes itself, travels as JSON, and notices tampering."""

import dataclasses
import json
import math
import warnings

import mpmath as mp
import numpy as np
import pytest

from skballdp import (
    BallDPRidgePrototype,
    CertificationError,
    PrivacyCertificate,
    PrivacyWarning,
)
from skballdp.accounting.discrete import ratio_excess
from skballdp.accounting.gaussian import epsilon_of, mu_of
from skballdp.accounting.reconstruction import exact_id_bound


@pytest.fixture(params=["per_class", "min_count", "global"])
def certificate(request, blobs):
    X, y = blobs
    clf = BallDPRidgePrototype(0.7, epsilon=2.0, calibration=request.param)
    return clf.fit(X, y).certificate_


def test_it_holds_and_checks(certificate):
    assert certificate.holds
    assert certificate.voided_by == ()
    assert certificate.check() is True
    assert not any("idealised" in caveat for caveat in certificate.caveats)
    assert certificate.noise == "discrete"


def test_continuous_noise_is_certified_with_its_caveat(blobs, certificate):
    rule = certificate.sensitivity_rule
    clf = BallDPRidgePrototype(0.7, epsilon=2.0, calibration=rule, noise="continuous").fit(*blobs)
    other = clf.certificate_
    assert other.check() and other.noise == "continuous" and set(other.grid) == {0.0}
    assert any("idealised continuous noise" in caveat for caveat in other.caveats)
    assert other.mu == mu_of(2.0, 1e-6)
    # What exact noise costs.
    np.testing.assert_allclose(other.noise_scale, certificate.noise_scale, rtol=1e-9)
    assert np.all(np.less(other.noise_scale, certificate.noise_scale))


@pytest.mark.parametrize("size, epsilon, radius", [(1e4, 1.0, 1e-6), (1e6, 30.0, 1e-4)])
def test_a_coarse_grid_is_consistent_too(size, epsilon, radius):
    """Large public parameters: a few thousand steps, where mu depends on their exact number."""
    rng = np.random.default_rng(0)
    X, y, public = rng.standard_normal((60, 500)), np.arange(60) % 3, np.full((3, 500), size)
    public /= math.sqrt(500)
    clf = BallDPRidgePrototype(radius, epsilon=epsilon, public_prototypes=public)
    certificate = clf.fit(X, y).certificate_
    assert max(np.divide(certificate.noise_scale, certificate.grid)) < 2.0**16
    assert certificate.check()
    for factor in (0.9, 1.001):
        with pytest.raises(CertificationError, match=r"mu \("):
            dataclasses.replace(certificate, mu=factor * certificate.mu).check()


def test_it_is_frozen_and_made_of_plain_numbers(certificate):
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.epsilon = 5
    for name, value in dataclasses.asdict(certificate).items():
        for item in value if isinstance(value, tuple) else (value,):
            assert type(item) in (str, int, float, bool, type(None)), name


def test_json_round_trip_is_exact_and_standard(certificate):
    def refuse(constant):
        raise AssertionError(f"{constant} is not standard JSON")

    text = certificate.to_json()
    json.loads(text, parse_constant=refuse)
    assert PrivacyCertificate.from_json(text) == certificate


@pytest.mark.parametrize(
    "labels", [["inf", "b"], [True, False], [2.0, 1.0], [3, 4], [("a", 1)[0], "ü"]], ids=str
)
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_json_round_trip_of_labels_and_infinity(labels, epsilon):
    X = np.eye(4)
    y = np.array(labels * 2)
    certificate = BallDPRidgePrototype(0.5, epsilon=epsilon, delta=1e-3).fit(X, y).certificate_
    back = PrivacyCertificate.from_json(certificate.to_json())
    assert back == certificate
    assert [type(label) for label in back.classes] == [type(c) for c in certificate.classes]


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"version": 2}', '{"version": 1, "epsilon": 1.0}'], ids=str
)
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match=r"version|fields"):
        PrivacyCertificate.from_json(text)


@pytest.mark.parametrize(
    "field, change",
    [
        ("mu", lambda value: value * 1.001),
        ("epsilon", lambda value: value * 0.9),
        ("delta", lambda value: value * 2),
        ("radius", lambda value: value * 1.1),
        ("alpha", lambda value: value * 2),
        ("n_samples", lambda value: value + 1),
        ("class_counts", lambda value: (*value[:-1], value[-1] - 1)),
        ("sensitivity", lambda value: tuple(item * 0.99 for item in value)),
        ("noise_scale", lambda value: (value[0] * 0.99, *value[1:])),
        ("noise_scale", lambda value: value[1:]),
        ("noise_scale", lambda value: (math.nan, *value[1:])),
        ("rounding_error", lambda value: -1.0),
        ("rounding_error", lambda value: 0.0),
        ("sensitivity", lambda value: tuple(item * 0.9999 for item in value)),
        ("noise_scale", lambda value: (*value[:-1], value[-1] * 0.9999)),
        ("noise_scale", lambda value: tuple(0.0 for _ in value)),
        ("mu", lambda value: value * (1 + 1e-12)),
        ("grid", lambda value: tuple(2 * item for item in value)),
        ("grid", lambda value: tuple(0.75 * item for item in value)),
        ("grid", lambda value: tuple(0.0 for _ in value)),
        ("grid", lambda value: value[1:]),
        ("noise", lambda value: "continuous"),
        ("alpha", lambda value: math.inf),
        ("alpha", lambda value: math.nan),
        ("radius", lambda value: -1.0),
        ("radius", lambda value: math.nan),
        ("radius", lambda value: 3.0),
        ("radius_epsilon", lambda value: -5.0),
        ("radius_epsilon", lambda value: math.nan),
        ("epsilon", lambda value: math.nan),
        ("epsilon", lambda value: "1"),
        ("delta", lambda value: 0.0),
        ("n_features", lambda value: -5),
        ("n_features", lambda value: "5"),
        ("n_samples", lambda value: 60.0),
        ("norm_bound", lambda value: 0.0),
        ("noise", lambda value: "none"),
        ("head", lambda value: "other"),
        ("head", lambda value: "logistic"),
        ("sensitivity_rule", lambda value: "other"),
        ("out_of_bound", lambda value: "other"),
        ("version", lambda value: 7),
        ("classes", lambda value: (value[0], *value[:-1])),
        ("classes", lambda value: value[:-1]),
        ("class_counts", lambda value: (value[0] + 11, value[1], -1)),
        ("class_counts", lambda value: tuple(map(str, value))),
        ("sensitivity", lambda value: ("a", *value[1:])),
    ],
)
def test_tampering_is_noticed(certificate, field, change):
    forged = dataclasses.replace(certificate, **{field: change(getattr(certificate, field))})
    with pytest.raises(CertificationError, match="contradicts itself"):
        forged.check()


def test_a_silent_release_cannot_pretend_to_hold(certificate):
    forged = dataclasses.replace(certificate, epsilon=math.inf, mu=math.inf)
    with pytest.raises(CertificationError, match="voided_by"):
        forged.check()


def test_the_curve_is_the_exact_one(certificate):
    r, delta = certificate.radius, certificate.delta
    assert certificate.epsilon_at(0) == 0
    assert certificate.epsilon_at(r) <= certificate.epsilon
    assert certificate.epsilon_at(r) == pytest.approx(2.0, rel=1e-9)
    for factor in (0.1, 0.5, 1.5, 2.5):
        expected = epsilon_of(factor * certificate.mu, delta)
        assert certificate.epsilon_at(factor * r) == pytest.approx(expected, rel=1e-6)
    # Nothing in the ball is farther apart than 2 B.
    assert certificate.epsilon_at(50) == certificate.epsilon_at(2.0)
    assert certificate.epsilon_at(2 * r) > 2 * certificate.epsilon
    assert certificate.epsilon_at(r, delta=1e-9) == pytest.approx(
        epsilon_of(certificate.mu, 1e-9), rel=1e-9
    )
    with pytest.raises(ValueError, match="distance"):
        certificate.epsilon_at(-1)


def test_mu_covers_the_worst_block(certificate):
    ratio = np.array(certificate.sensitivity) / np.array(certificate.noise_scale)
    continuous = mu_of(certificate.epsilon, certificate.delta)
    assert ratio.max() <= certificate.mu <= continuous
    assert certificate.mu == pytest.approx(continuous, rel=1e-9)
    assert ratio.min() == pytest.approx(certificate.mu, rel=1e-12)


def test_bounds(certificate):
    mu = certificate.mu
    assert certificate.rdp_at(3) == pytest.approx(1.5 * mu**2)
    assert certificate.rdp_at(3, distance=0.35) == pytest.approx(1.5 * (mu / 2) ** 2, rel=1e-9)
    direct = certificate.exact_id_bound(n_candidates=10)
    with mp.workdps(40):
        exact = mp.ncdf(mp.sqrt(2) * mp.erfinv(2 * mp.mpf("0.1") - 1) + mu)
    assert exact <= direct == pytest.approx(float(exact), rel=1e-9)
    renyi = certificate.exact_id_bound(n_candidates=10, method="rdp")
    dp = certificate.exact_id_bound(n_candidates=10, method="dp")
    assert 0.1 < direct < renyi < dp
    assert certificate.exact_id_bound(prior=[0.1] * 10) == direct
    assert certificate.exact_id_bound(prior=[0.5, 0.25, 0.25]) > 0.5
    with pytest.raises(ValueError, match="exactly one"):
        certificate.exact_id_bound()
    with pytest.raises(ValueError, match="method"):
        certificate.exact_id_bound(n_candidates=10, method="x")
    with pytest.raises(ValueError, match="order"):
        certificate.rdp_at(1)


def test_bounds_for_other_balls_attackers_and_successes(certificate):
    mu, nearer = certificate.mu, certificate.mu_at(0.3)
    epsilon, delta = certificate.epsilon, certificate.delta
    paid = dataclasses.replace(certificate, radius_epsilon=0.25)
    for method in ("gaussian", "rdp"):
        for k in (1, 4):
            root = math.sqrt(k)
            for distance, ratio in ((None, mu), (0.3, nearer), (0.7, mu), (0.0, 0.0)):
                options = {"method": method, "n_releases": k, "distance": distance}
                expected = exact_id_bound(mu=root * ratio, kappa=0.1, method=method)
                for target in ({"n_candidates": 10}, {"kappa": 0.1}, {"prior": [0.1] * 10}):
                    found = certificate.exact_id_bound(**target, **options)
                    assert expected <= found == pytest.approx(expected, rel=1e-12)
                kappa = 0.1 * math.exp(0.25 * k)
                expected = exact_id_bound(mu=root * ratio, kappa=kappa, method=method)
                found = paid.exact_id_bound(n_candidates=10, **options)
                assert found == pytest.approx(expected, rel=1e-12)
    for distance, loss in ((None, epsilon), (0.3, certificate.epsilon_at(0.3))):
        found = certificate.exact_id_bound(kappa=1e-4, method="dp", n_releases=3, distance=distance)
        assert found == pytest.approx(math.exp(3 * loss) * 1e-4 + 3 * delta, rel=1e-9)
    assert certificate.exact_id_bound(kappa=0.0) == 0.0
    for bad in ({"kappa": 1.5}, {"kappa": 0.1, "n_candidates": 10}):
        with pytest.raises(ValueError, match="kappa"):
            certificate.exact_id_bound(**bad)
    for bad in ({"distance": -1.0}, {"n_releases": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            certificate.exact_id_bound(n_candidates=10, **bad)


def test_the_direct_bound_pays_for_discrete_noise(certificate):
    """On a grid so coarse that it can be seen."""
    grid = tuple(scale / 100 for scale in certificate.noise_scale)
    coarse = dataclasses.replace(certificate, grid=grid)
    factor = ratio_excess(steps=100.0, n_coordinates=certificate.n_features)
    for k in (1, 3):
        gaussian = exact_id_bound(mu=math.sqrt(k) * certificate.mu, kappa=0.1)
        found = coarse.exact_id_bound(n_candidates=10, n_releases=k)
        assert found == pytest.approx(gaussian * math.exp(k * factor), rel=1e-12)
        assert found > gaussian * (1 + 1e-6)


def test_a_radius_that_cost_something_is_charged(certificate):
    paid = dataclasses.replace(certificate, radius_epsilon=0.5)
    assert paid.check()
    assert paid.epsilon_at(0.3) == pytest.approx(certificate.epsilon_at(0.3) + 0.5)
    assert paid.epsilon_at(0) == 0
    assert paid.exact_id_bound(n_candidates=10) == pytest.approx(
        exact_id_bound(mu=certificate.mu, kappa=0.1 * math.exp(0.5))
    )
    assert paid.exact_id_bound(n_candidates=10) > certificate.exact_id_bound(n_candidates=10)
    assert "0.5" in str(paid)
    printed = str(dataclasses.replace(certificate, radius_epsilon=0.12345649))
    assert "another epsilon = 0.123457" in " ".join(printed.split())  # rounded up


def test_text_says_what_a_reader_needs(certificate):
    text = str(certificate)
    for part in (
        "The promise holds",
        "same label",
        "at most 0.7 away",
        "epsilon = 2",
        "delta = 1e-06",
        "not hidden",
        "class counts",
        certificate.sensitivity_rule,
        "Caveats",
    ):
        assert part in text
    assert max(map(len, text.splitlines())) <= 88
    html = certificate._repr_html_()
    assert "The promise holds" in html and "<ul>" in html


def test_html_is_escaped(certificate):
    forged = dataclasses.replace(certificate, radius_source="<script>")
    assert "<script>" not in forged._repr_html_()


def test_printed_bounds_are_rounded_up(blobs):
    X, y = blobs
    for epsilon in (1.0, 1.234567891, 7.7):
        certificate = BallDPRidgePrototype(0.7, epsilon=epsilon).fit(X, y).certificate_
        text = " ".join(str(certificate).split())
        printed = float(text.split("probability at most ")[1].split()[0])
        assert printed >= certificate.exact_id_bound(n_candidates=10) > printed - 1e-4
        assert float(text.split("with epsilon = ")[1].split()[0]) >= epsilon
        for line in str(certificate).splitlines():
            if line.strip().startswith("distance "):
                distance, promised = line.split("distance ")[1].split(": epsilon = ")
                assert float(promised) >= certificate.epsilon_at(float(distance))


def test_bounds_of_a_void_certificate_warn(blobs):
    certificate = BallDPRidgePrototype(0.7, random_state=0).fit(*blobs).certificate_
    for call in (
        lambda: certificate.epsilon_at(0.1),
        lambda: certificate.rdp_at(2),
        lambda: certificate.exact_id_bound(n_candidates=10),
    ):
        with pytest.warns(PrivacyWarning, match="void.*seed"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        str(certificate), certificate._repr_html_(), certificate.check()


def test_a_void_certificate_says_why(blobs):
    X, y = blobs
    for parameters, words in [
        ({"random_state": 0}, "seed"),
        ({"epsilon": math.inf}, "epsilon is infinite"),
        ({"radius": 0}, "radius is 0"),
    ]:
        certificate = BallDPRidgePrototype(**parameters).fit(X, y).certificate_
        assert not certificate.holds
        assert any(words in sentence for sentence in certificate.voided_by)
        assert "VOID" in str(certificate) and words in str(certificate)
        assert certificate.check()
    assert certificate.exact_id_bound(n_candidates=10) == 1
