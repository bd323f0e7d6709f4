"""Tests of the sensitivity bounds: goldens, independent searches, extremes, input."""

import itertools
import math
import warnings
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from skballdp.erm.sensitivity import (
    gradient_error,
    gradient_gap,
    hinge_effective_gap,
    linear_sensitivity,
    logistic_effective_gap,
    minimizer_radius,
)
from tests.conftest import load_goldens


def golden_cells():
    """One tuple per cell: loss, K, alpha, r, B, intercept, R, G, the paper's L_z."""
    for entry in load_goldens("ball_dp_goldens")["sensitivity"]:
        for intercept in (True, False):
            part = entry["intercept" if intercept else "no_intercept"]
            where = (entry["alpha"], entry["radius"], entry["norm_bound"], intercept)
            for loss in ("logistic", "squared_hinge"):
                cell = part[loss]
                yield (loss, 2, *where, cell["minimizer_radius"], cell["gap"], cell["paper_lz"])
            for k, cell in part["softmax"].items():
                lz = part["softmax_paper_lz"]
                yield ("softmax", int(k), *where, cell["minimizer_radius"], cell["gap"], lz)


_HEADS = {"binary_logistic": "logistic", "softmax_logistic": "softmax"}
_REFERENCE = [
    fit for fit in load_goldens("reference_goldens")["fits"] if fit["head"] != "ridge_prototype"
]
_VALID = dict(radius=0.5, alpha=0.1, norm_bound=1.0)
_ALPHAS = (1e-8, 1e-4, 1e-2, 0.3, 1.0, 10.0, 1e4)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        yield


# ------------------------------------------------------------------------------- (a) goldens


def test_goldens():
    cells = list(golden_cells())
    assert len(cells) == 320
    for loss, k, alpha, radius, bound, icpt, big_r, gap, lz in cells:
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=icpt, n_classes=k)
        where = (loss, k, alpha, radius, bound, icpt)
        assert big_r <= minimizer_radius(loss, **kw) <= big_r * (1 + 1e-12), where
        got = gradient_gap(loss, radius=radius, **kw)
        assert gap * (1 - 1e-15) <= got <= gap * (1 + 1e-10), where
        paper = gradient_gap(loss, radius=radius, mode="paper", **kw)
        assert paper == pytest.approx(lz * radius, rel=1e-13), where


def test_reference_implementation():
    assert len(_REFERENCE) >= 5
    for fit in _REFERENCE:
        loss = _HEADS.get(fit["head"], fit["head"])
        kw = dict(alpha=fit["lam"], norm_bound=fit["B"], n_classes=fit["K"], mode="paper")
        gap = gradient_gap(loss, radius=fit["r"], **kw)
        assert gap == pytest.approx(fit["lz"] * fit["r"], rel=1e-6)
        per_record = fit["lam"] * fit["n"]
        assert gap / per_record == pytest.approx(fit["delta_ball_formula"], rel=1e-4)
        for big in (2 * fit["B"], math.inf):
            gap = gradient_gap(loss, radius=big, **kw)
            assert gap / per_record == pytest.approx(fit["delta_std_formula"], rel=1e-4)


def test_numbers_in_the_text():
    kw = dict(alpha=0.01, norm_bound=1.0)
    assert gradient_gap("logistic", radius=1.0, **kw) == pytest.approx(1.283, abs=5e-4)
    assert gradient_gap("softmax", radius=1.0, n_classes=5, **kw) == pytest.approx(2.228, abs=5e-4)
    assert gradient_gap("squared_hinge", radius=1.0, **kw) == pytest.approx(26.15, abs=5e-3)
    assert gradient_gap("logistic", radius=2.0, **kw) == pytest.approx(1.999, abs=5e-4)
    assert gradient_gap("softmax", radius=2.0, n_classes=5, **kw) == pytest.approx(2.828, abs=5e-4)
    assert gradient_gap("squared_hinge", radius=2.0, **kw) == pytest.approx(32.28, abs=5e-3)


# ------------------------------------------------ (b) adversarial lower bounds on the gap


def _project(theta, x, x2, big_r, bound, radius):
    length = np.linalg.norm(theta, axis=(1, 2))
    theta = theta * np.minimum(1, big_r / np.maximum(length, 1e-300))[:, None, None]
    x = x * np.minimum(1, bound / np.maximum(np.linalg.norm(x, axis=1), 1e-300))[:, None]
    x2 = x2 * np.minimum(1, bound / np.maximum(np.linalg.norm(x2, axis=1), 1e-300))[:, None]
    step = x2 - x
    step *= np.minimum(1, radius / np.maximum(np.linalg.norm(step, axis=1), 1e-300))[:, None]
    return theta, x, x + step


def _gradient(loss, theta, z):
    """Gradient of the loss of the record (z, y = 0 or +1); theta has shape (pop, K, d)."""
    score = np.einsum("pkd,pd->pk", theta, z)
    if loss == "softmax":
        score = score - score.max(axis=1, keepdims=True)
        p = np.exp(score)
        p /= p.sum(axis=1, keepdims=True)
        p[:, 0] = -p[:, 1:].sum(axis=1)
        return p[:, :, None] * z[:, None, :]
    t = score[:, 0]
    a = np.exp(-np.logaddexp(0, t)) if loss == "logistic" else 2 * np.maximum(1 - t, 0)
    return -a[:, None, None] * z[:, None, :]


def _distance(loss, theta, x, x2, intercept):
    def extend(v):
        return np.hstack([v, np.ones((len(v), 1))]) if intercept else v

    diff = _gradient(loss, theta, extend(x)) - _gradient(loss, theta, extend(x2))
    return np.linalg.norm(diff, axis=(1, 2))


def _attack(loss, k, radius, big_r, bound, intercept, rng, pop=90, rounds=110):
    rows = k if loss == "softmax" else 1
    d = 2
    x = rng.normal(size=(pop, d)) * bound
    x2 = x + rng.normal(size=(pop, d)) * radius
    # a third of the population starts radially: x' = x shortened (or beyond the origin)
    third = pop // 3
    x[:third] = [bound, 0]
    x2[:third] = [bound - radius, 0]
    x2[third // 2 : third, 0] = -bound
    theta = rng.normal(size=(pop, rows, d + intercept))
    size = np.exp(rng.uniform(np.log(0.01), 0.7, size=pop)) * big_r
    theta *= (size / np.linalg.norm(theta, axis=(1, 2)))[:, None, None]
    state = _project(theta, x, x2, big_r, bound, radius)
    best = _distance(loss, *state, intercept)
    scale = np.full(pop, 0.5)
    for _ in range(rounds):
        theta, x, x2 = state
        s = scale[:, None]
        new = _project(
            theta + s[:, None] * big_r * rng.normal(size=theta.shape),
            x + s * bound * rng.normal(size=x.shape),
            x2 + s * radius * rng.normal(size=x2.shape),
            big_r,
            bound,
            radius,
        )
        value = _distance(loss, *new, intercept)
        good = value > best
        best = np.where(good, value, best)
        state = tuple(
            np.where(good.reshape((-1,) + (1,) * (a.ndim - 1)), b, a)
            for a, b in zip(state, new, strict=True)
        )
        scale = np.clip(np.where(good, scale * 1.5, scale * 0.85), 1e-7, 1.0)
    return float(best.max())


@pytest.mark.parametrize("loss, k", [("logistic", 2), ("squared_hinge", 2), ("softmax", 2),
                                     ("softmax", 3), ("softmax", 6)])  # fmt: skip
@pytest.mark.parametrize("public_norm", [0.0, 2.0])
def test_no_pair_of_records_exceeds_the_gap(loss, k, public_norm):
    rng = np.random.default_rng(7)
    ratios = []
    for alpha, bound, share, icpt in itertools.product(
        (1e-4, 1e-2, 1.0, 30.0), (0.3, 3.0), (0.03, 0.5, 1.1, 2.0), (True, False)
    ):
        if rng.random() < (0.7 if public_norm == 0 else 0.85):
            continue
        radius = share * bound
        kw = dict(
            alpha=alpha, norm_bound=bound, fit_intercept=icpt, n_classes=k, public_norm=public_norm
        )
        found = _attack(loss, k, radius, minimizer_radius(loss, **kw), bound, icpt, rng)
        ratios.append(found / gradient_gap(loss, radius=radius, **kw))
    assert max(ratios) <= 1.0
    # The search is worth something: it comes close, and nowhere is the bound absurd.
    assert max(ratios) > 0.95 and np.median(ratios) > 0.7 and min(ratios) > 0.3, ratios


def test_squared_hinge_bound_is_attained_without_intercept():
    # x = B, x' = B - r on a line, theta = -R: the closed form, reached.
    for alpha, bound, radius in itertools.product((1e-3, 1.0, 50.0), (0.5, 2.0), (0.01, 0.4)):
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=False)
        big_r = minimizer_radius("squared_hinge", **kw)
        less = bound - radius
        found = 2 * ((1 + big_r * bound) * bound - (1 + big_r * less) * less)
        gap = gradient_gap("squared_hinge", radius=radius, **kw)
        assert found <= gap * (1 + 1e-13)
        assert gap == pytest.approx(found, rel=1e-11)


def test_softmax_objective_never_exceeds_the_gap_for_many_classes():
    # Random probability vectors with log-odds of bounded range, worst x, x' by enumeration of
    # Gram matrices: the relaxed problem itself, without its reduction to two classes.
    rng = np.random.default_rng(3)
    for alpha, radius, icpt in itertools.product((1e-3, 0.05, 1.0), (0.05, 0.6, 1.3, 2.0), (0, 1)):
        for k in (3, 7):
            kw = dict(alpha=alpha, norm_bound=1.0, fit_intercept=bool(icpt), n_classes=k)
            tau = math.sqrt(2) * minimizer_radius("softmax", **kw) * radius
            gap = gradient_gap("softmax", radius=radius, **kw)
            m = 2500
            logit = rng.normal(size=(m, k)) * np.exp(rng.uniform(-2, 3, size=(m, 1)))
            shift = np.where(rng.random((m, 1)) < 0.7, rng.integers(0, 2, (m, k)) * 1.0,
                             rng.random((m, k))) * tau  # fmt: skip
            p, p2 = (np.exp(v - v.max(axis=1, keepdims=True)) for v in (logit, logit + shift))
            p, p2 = p / p.sum(axis=1, keepdims=True), p2 / p2.sum(axis=1, keepdims=True)
            p[:, 0] -= 1
            p2[:, 0] -= 1
            aa, bb, ab = (p * p).sum(1), (p2 * p2).sum(1), (p * p2).sum(1)
            # ||x|| = a, ||x'|| = b, x . x' at either end of its range
            for _ in range(6):
                a, b = np.sqrt(rng.random((2, m)))
                a = np.where(rng.random(m) < 0.5, 1.0, a)
                b = np.where(rng.random(m) < 0.5, 1.0, b)
                b = np.clip(b, np.maximum(a - radius, 0), a + radius)
                low = np.maximum((a * a + b * b - radius**2) / 2, -a * b)
                for inner in (low, a * b):
                    value = aa * a * a + bb * b * b - 2 * ab * inner + icpt * (aa + bb - 2 * ab)
                    assert np.sqrt(value.max()) <= gap * (1 + 1e-9)


# ----------------------------------------------------------- minimizers and whole optima


@pytest.mark.parametrize("public_norm", [0.0, 0.7])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "softmax"])
def test_single_record_minimizers_respect_and_reach_the_radius(loss, public_norm):
    # One record x > 0 (label +1) on a line, theta0 = public_norm, solved by bisection; this
    # is where the bounds are attained.
    for alpha, bound in itertools.product(_ALPHAS, (0.02, 0.5, 3.0, 40.0)):
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=False, public_norm=public_norm)
        big_r = minimizer_radius(loss, **kw)
        x = np.geomspace(1e-6 * bound, bound, 601)
        lo, hi = np.zeros_like(x), np.full_like(x, 2 * big_r)
        for _ in range(64):
            mid = 0.5 * (lo + hi)
            if loss == "squared_hinge":
                slope = alpha * (mid - public_norm) - 2 * x * np.maximum(1 - mid * x, 0)
            elif loss == "logistic":
                slope = alpha * (mid - public_norm) - x * np.exp(-np.logaddexp(0, mid * x))
            else:  # theta = (w, -w), length sqrt(2) w = mid
                s2 = math.sqrt(2)
                pull = s2 * x * np.exp(-np.logaddexp(0, s2 * mid * x))
                slope = alpha * (mid - public_norm) - pull
            lo, hi = np.where(slope > 0, lo, mid), np.where(slope > 0, mid, hi)
        assert lo.max() <= big_r * (1 + 1e-13)
        if loss != "softmax" and public_norm == 0.0:
            assert lo.max() >= big_r * (1 - 1e-3)
        elif public_norm > 0.0 and bound == 40.0 and alpha < 0.5:
            assert lo.max() >= big_r * (1 - 1e-3)  # unconstrained maximum in reach


def test_softmax_radius_against_multiclass_minimizers():
    # One record: at the optimum the other classes share their probability equally, so
    # theta = -(p - e_y) x / alpha with p_other = q, and ||p - e_y|| = q (K - 1) sqrt(K/(K-1)).
    for alpha, bound, k in itertools.product(
        (1e-6, 1e-3, 0.1, 5.0), (0.3, 2.0, 30.0), (3, 10, 300)
    ):
        x = np.geomspace(1e-5 * bound, bound, 601)
        lo, hi = np.zeros_like(x), np.full_like(x, 1.0 / k)
        for _ in range(100):
            q = 0.5 * (lo + hi)
            gap = k * q * x * x / alpha  # score of the label minus another one
            slope = q - 1 / (k - 1 + np.exp(np.minimum(gap, 700)))
            lo, hi = np.where(slope > 0, lo, q), np.where(slope > 0, q, hi)
        length = lo * np.sqrt(k * (k - 1)) * x / alpha
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=False, n_classes=k)
        assert length.max() <= minimizer_radius("softmax", **kw) * (1 + 1e-12)
        if bound == 30.0 and alpha < 1:
            assert length.max() >= minimizer_radius("softmax", **kw) * (1 - 1e-3)


def test_optima_of_neighbouring_data_sets():
    # Data sets of one record: theta(z) = g z with a scalar g, solved exactly.
    rng = np.random.default_rng(5)
    for alpha, share, icpt in itertools.product((1e-3, 0.1, 1.0, 10.0), (0.05, 0.7, 2.0), (0, 1)):
        x = rng.normal(size=(3000, 2))
        x2 = x + share * rng.normal(size=x.shape)
        _, x, x2 = _project(np.zeros((len(x), 1, 1)), x, x2, 1.0, 1.0, share)
        z, z2 = (np.hstack([v, np.ones((len(v), 1))]) if icpt else v for v in (x, x2))
        s, s2 = (z * z).sum(1), (z2 * z2).sum(1)
        g, g2 = (2 / (alpha + 2 * v) for v in (s, s2))
        kw = dict(alpha=alpha, norm_bound=1.0, fit_intercept=bool(icpt), radius=share)
        moved = np.linalg.norm(g[:, None] * z - g2[:, None] * z2, axis=1).max()
        assert moved <= gradient_gap("squared_hinge", **kw) / alpha

        def solve(v, alpha=alpha):
            lo, hi = np.zeros_like(v), np.full_like(v, 1 / alpha)
            for _ in range(70):
                mid = 0.5 * (lo + hi)
                up = alpha * mid > np.exp(-np.logaddexp(0, mid * v))
                lo, hi = np.where(up, lo, mid), np.where(up, mid, hi)
            return hi[:, None]

        moved = np.linalg.norm(solve(s) * z - solve(s2) * z2, axis=1).max()
        assert moved <= gradient_gap("logistic", **kw) / alpha


# ------------------------------------------------------------------------- (c) extremes


def test_extremes_are_finite_positive_and_below_trivial_bounds():
    for loss, k in (("logistic", 2), ("softmax", 2), ("softmax", 3), ("softmax", 1000),
                    ("squared_hinge", 2), ("squared_hinge", 50)):  # fmt: skip
        for alpha, bound, icpt in itertools.product(
            (1e-8, 1e-4, 1.0, 1e4), (1e-4, 1.0, 1e4), (True, False)
        ):
            kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=icpt, n_classes=k)
            big_r = minimizer_radius(loss, **kw)
            full = math.hypot(bound, icpt)
            last = 0.0
            for radius in (1e-9, 1e-6 * bound, 1e-2 * bound, bound, 1.999 * bound, 2 * bound):
                radius = min(radius, 2 * bound)
                gap = gradient_gap(loss, radius=radius, **kw)
                assert math.isfinite(gap) and gap > 0
                assert gap >= last * (1 - 1e-10) or radius < 1e-9
                last = max(last, gap)
                if loss == "squared_hinge":
                    top = 4 * (1 + big_r * full) * full * math.sqrt(k if k > 2 else 1)
                else:
                    top = 2 * full * (1 if loss == "logistic" else math.sqrt(2))
                assert gap <= top * (1 + 1e-10)


def test_far_extremes():
    for loss, alpha, bound, radius in itertools.product(
        ("logistic", "softmax", "squared_hinge"), (1e-60, 1e60), (1e-60, 1e60), (1e-320, 1e60)
    ):
        for icpt in (True, False):
            gap = gradient_gap(loss, radius=radius, alpha=alpha, norm_bound=bound, n_classes=2,
                               fit_intercept=icpt, public_norm=1e60 * (icpt == 0))  # fmt: skip
            assert math.isfinite(gap) and gap > 0


def test_limits():
    # No regularisation to speak of: the largest weight times the largest difference.
    kw = dict(radius=2.0, alpha=1e-8, norm_bound=1.0)
    assert gradient_gap("logistic", **kw) == pytest.approx(2.0, rel=1e-9)
    assert gradient_gap("softmax", n_classes=9, **kw) == pytest.approx(math.sqrt(8), rel=1e-9)
    # Overwhelming regularisation: theta = 0, the gradients are x/2, 2x, (p - e_y) x.
    big = dict(radius=0.3, alpha=1e9, norm_bound=1.0)
    assert gradient_gap("logistic", **big) == pytest.approx(0.15, rel=1e-6)
    assert gradient_gap("squared_hinge", **big) == pytest.approx(0.6, rel=1e-6)


# ----------------------------------------------------- (d) the 1-D problems in mpmath


def _mp_sup(objective, low, high, tau):
    """Maximum of a piecewise smooth objective of logit v: scan, then ternary search."""
    mp = mpmath.mp
    local = np.concatenate([np.linspace(-70, 70, 141), np.linspace(-3, 3, 41)])
    grid = np.unique(np.concatenate([local, local - float(tau), local - float(tau) / 2]))
    grid = [g for g in map(mp.mpf, grid) if low < g < high] + [low, high]
    grid.sort()
    values = [objective(g) for g in grid]
    j = max(range(len(grid)), key=values.__getitem__)
    lo, hi = grid[max(j - 1, 0)], grid[min(j + 1, len(grid) - 1)]
    for _ in range(60):
        a, b = lo + (hi - lo) / 3, hi - (hi - lo) / 3
        if objective(a) < objective(b):
            lo = a
        else:
            hi = b
    return max(values[j], objective((lo + hi) / 2))


def _mp_gap(loss, k, alpha, radius, bound, icpt):
    mp = mpmath.mp
    alpha, r, b, i = mp.mpf(alpha), mp.mpf(radius), mp.mpf(bound), int(icpt)
    bt = mp.sqrt(b * b + i)

    def sig(x):
        return 1 / (1 + mp.exp(-x)) if x >= 0 else mp.exp(x) / (1 + mp.exp(x))

    if loss == "logistic":
        w = mp.lambertw(1 / mp.e).real
        big_r = mp.sqrt(w / alpha)
        if big_r * bt < 1 + w:
            big_r = mp.findroot(lambda x: x * (1 + mp.exp(x)) - bt**2 / alpha,
                                [mp.mpf(0), 1 + w], solver="anderson") / bt  # fmt: skip
        tau, cap = big_r * r, big_r * bt

        def objective(x):
            u, v = sig(x + tau), sig(x)
            return ((u - v) * b + v * r) ** 2 + i * (u - v) ** 2

        return mp.sqrt(max((sig(cap) * r) ** 2, _mp_sup(objective, -cap, cap - tau, tau)))
    if loss == "softmax":
        big_r = min(mp.sqrt(mp.lambertw((k - 1) / mp.e).real / alpha), mp.sqrt(2) * bt / alpha)
        tau = mp.sqrt(2) * big_r * r

        def label(x):
            u, v = sig(x + tau), sig(x)
            return 2 * (((u - v) * b + v * r) ** 2 + i * (u - v) ** 2)

        def others(x):
            u, v = sig(x + tau), sig(x)
            p, q = (u - v) * (2 * u - 1), (u - v) * (1 - 2 * v)
            fp = b * b if p >= 0 else (b - r) ** 2
            fq = b * b if q >= 0 else (b - r) ** 2
            return fp * p + fq * q + (1 + u * v + (1 - u) * (1 - v)) * r**2 + 2 * i * (u - v) ** 2

        ends = (-tau - 200, mp.mpf(200), tau)
        best = max(_mp_sup(label, *ends), 2 * r * r if k > 2 else r * r * 2)
        return mp.sqrt(max(best, _mp_sup(others, *ends)) if k > 2 else best)
    big_r = mp.sqrt(1 / (2 * alpha)) if alpha <= 2 * bt**2 else 2 * bt / (alpha + 2 * bt**2)
    m = 1 + big_r * bt

    def value(s, e):
        return (e * b + (m - e) * s) ** 2 + i * e * e

    grid = [r * j / 400 for j in range(401)]
    first = max(max(value(s, 0), value(s, min(big_r * s, m))) for s in grid)
    j = max(range(401), key=lambda j: value(grid[j], min(big_r * grid[j], m)))
    lo, hi = grid[max(j - 1, 0)], grid[min(j + 1, 400)]
    for _ in range(90):
        s, t = lo + (hi - lo) / 3, hi - (hi - lo) / 3
        if value(s, min(big_r * s, m)) < value(t, min(big_r * t, m)):
            lo = s
        else:
            hi = t
    first = max(first, value(lo, min(big_r * lo, m)))
    return 2 * min(mp.sqrt(first), max(r, bt) + big_r * bt**2)


@pytest.mark.parametrize("loss, k", [("logistic", 2), ("softmax", 2), ("softmax", 1000),
                                     ("squared_hinge", 2)])  # fmt: skip
@pytest.mark.parametrize(
    "alpha, radius, bound",
    [(1e-8, 1e-4, 1.0), (1e-3, 1e-9, 50.0), (0.02, 0.3, 0.2), (0.3, 0.9, 1.0),
     (7.0, 1.7, 1.0), (1e4, 1e-5, 1e-4), (1e4, 150.0, 100.0), (1e-8, 1.2, 1.0)],
)  # fmt: skip
def test_one_dimensional_problems_at_high_precision(loss, k, alpha, radius, bound):
    with mpmath.workdps(35):
        for icpt in (True, False):
            exact = _mp_gap(loss, k, alpha, radius, bound, icpt)
            gap = gradient_gap(loss, radius=radius, alpha=alpha, norm_bound=bound,
                               fit_intercept=icpt, n_classes=k)  # fmt: skip
            assert exact <= gap <= exact * (1 + mpmath.mpf("3e-11"))


def test_random_cells_against_a_dense_grid():
    # Lower bounds from the defining objectives in double precision, many parameters.
    rng = np.random.default_rng(11)
    x = np.concatenate([np.linspace(-45, 45, 3001), np.linspace(-4, 4, 3001)])
    for _ in range(150):
        alpha, bound = 10.0 ** rng.uniform(-6, 3), 10.0 ** rng.uniform(-2, 2)
        radius, icpt, k = 2 * bound * rng.random() ** 2, bool(rng.integers(2)), 3
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=icpt, n_classes=k)
        tau = math.sqrt(2) * minimizer_radius("softmax", **kw) * radius
        gap = gradient_gap("softmax", radius=radius, **kw)
        best = 2 * radius**2
        for logit in (x, x - tau, x - tau / 2):
            u, v = (np.exp(-np.logaddexp(0, -t)) for t in (logit + tau, logit))
            d = -u * np.exp(-np.logaddexp(0, logit)) * np.expm1(-tau)  # u - v
            best = max(best, np.max(2 * (d * bound + v * radius) ** 2 + 2 * icpt * d * d))
            p, q = d * (2 * u - 1), d * (1 - 2 * v)
            near = (bound - radius) ** 2
            value = np.where(p >= 0, bound**2, near) * p + np.where(q >= 0, bound**2, near) * q
            value += (1 + u * v + (1 - u) * (1 - v)) * radius**2 + 2 * icpt * d * d
            best = max(best, value.max())
        assert math.sqrt(best) * (1 - 1e-12) <= gap <= math.sqrt(best) * (1 + 1e-4)


# ----------------------------------------------- (e) monotone, (f) closed form, stacking


@pytest.mark.parametrize("loss, k", [("logistic", 2), ("softmax", 2), ("softmax", 5),
                                     ("squared_hinge", 3)])  # fmt: skip
def test_monotone_in_radius_bound_alpha_and_public_norm(loss, k):
    for alpha, bound, icpt in itertools.product((1e-5, 0.05, 3.0), (0.1, 5.0), (True, False)):
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=icpt, n_classes=k)
        gaps = [gradient_gap(loss, radius=r, **kw) for r in np.geomspace(1e-8, 2.2, 60) * bound]
        assert all(b >= a * (1 - 3e-11) for a, b in itertools.pairwise(gaps))
        assert gaps[-1] == gradient_gap(loss, radius=2 * bound, **kw)
        assert gradient_gap(loss, radius=0.0, **kw) == 0.0
        shifted = [gradient_gap(loss, radius=0.3 * bound, public_norm=p, **kw)
                   for p in (0.0, 1e-9, 0.1, 1.0, 30.0)]  # fmt: skip
        assert all(b >= a * (1 - 3e-11) for a, b in itertools.pairwise(shifted))


def _logistic_closed_form(r, big_r, b):
    """The closed form of the specification, without an intercept (moderate numbers)."""
    tau, cap = big_r * r, big_r * b
    rho = math.sqrt(max((b - r) / b, 0.0))
    end = math.exp(cap - tau)
    if r >= b or rho * math.exp(tau / 2) <= 1:
        u = end
    else:
        u = min((1 - rho * math.exp(-tau / 2)) / (rho * math.exp(tau / 2) - 1), end)
    a, v = u * math.exp(tau) / (1 + u * math.exp(tau)), u / (1 + u)
    return max(a * b - v * (b - r), r / (1 + math.exp(-cap)))


def test_closed_form_without_intercept():
    for alpha, bound in itertools.product((1e-3, 1e-2, 0.2, 1.0, 20.0), (0.1, 1.0, 4.0)):
        for share in (0.01, 0.2, 0.5, 0.9, 1.0, 1.4, 2.0):
            kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=False)
            expected = _logistic_closed_form(
                share * bound, minimizer_radius("logistic", **kw), bound
            )
            assert gradient_gap("logistic", radius=share * bound, **kw) == pytest.approx(
                expected, rel=1e-11
            )
            hinge = gradient_gap("squared_hinge", radius=share * bound, **kw)
            r, big_r = share * bound, minimizer_radius("squared_hinge", **kw)
            expected = 2 * (r + big_r * (bound**2 - (bound - min(r, bound)) ** 2))
            assert hinge == pytest.approx(expected, rel=1e-11)


def test_one_vs_rest_is_stacked():
    kw = dict(alpha=0.1, norm_bound=1.5)
    for mode in ("tight", "paper"):
        one = gradient_gap("squared_hinge", radius=0.4, mode=mode, **kw)
        many = gradient_gap("squared_hinge", radius=0.4, n_classes=7, mode=mode, **kw)
        assert many == pytest.approx(math.sqrt(7) * one, rel=1e-14)
    assert minimizer_radius("squared_hinge", n_classes=7, **kw) == minimizer_radius(
        "squared_hinge", **kw
    )


def test_public_norm_formula():
    for loss, k, c in (("logistic", 2, 0.2784645427610738), ("squared_hinge", 2, 0.5),
                       ("softmax", 2, 0.2784645427610738)):  # fmt: skip
        for alpha, p in itertools.product((1e-4, 0.1, 20.0), (0.5, 4.0)):
            got = minimizer_radius(loss, alpha=alpha, norm_bound=1.0, n_classes=k, public_norm=p)
            want = (p + math.sqrt(p * p + 4 * c / alpha)) / 2
            if loss == "softmax":
                want = min(want, p + 2 / alpha)
            assert got == pytest.approx(want, rel=1e-12)


# ---------------------------------------------- the effective gap for the squared hinge


@pytest.mark.parametrize(
    "alpha, radius, present, new",
    [(0.01, 0.05, 1.908, 1.380), (0.01, 0.25, 8.885, 6.866), (0.01, 0.5, 16.16, 13.46),
     (0.1, 0.05, 0.667, 0.490), (0.1, 0.25, 3.126, 2.443), (0.1, 0.5, 5.734, 4.817),
     (1.0, 0.05, 0.276, 0.215)],
)  # fmt: skip
def test_effective_gap_numbers_in_the_text(alpha, radius, present, new):
    kw = dict(radius=radius, alpha=alpha, norm_bound=1.0)
    assert gradient_gap("squared_hinge", **kw) == pytest.approx(present, rel=1.5e-3)
    # The text's search was coarse and rounded up: its numbers are up to 0.08 % larger.
    assert new * (1 - 1.2e-3) <= hinge_effective_gap(n_samples=100_000, **kw) <= new * (1 + 1e-3)


def _plain_half_gap(rho, r, bound, icpt):
    """Half of the squared-hinge gap for an array of minimizer lengths, on a grid of s."""
    bt = math.hypot(bound, icpt)
    s = np.linspace(0, r, 301)[:, None]
    hinge = 1 + rho * bt
    diff = np.minimum(rho * s, hinge)
    first = np.hypot(diff * bound + (hinge - diff) * s, icpt * diff).max(axis=0)
    return np.minimum(np.maximum(first, hinge * r), max(r, bt) + rho * bt**2)


def _effective_pieces(rho, c, half_gap, r, alpha, bound, icpt, n, w_max):
    """N and kappa exactly as in the text (plain formulas, arrays)."""
    bt = math.hypot(bound, icpt)
    kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=bool(icpt))
    big_r = minimizer_radius("squared_hinge", **kw)
    e = ((1 + np.sqrt(np.maximum(1 - 2 * alpha * rho**2, 0))) / 2) ** 2
    delta0 = w_max * gradient_gap("squared_hinge", radius=r, **kw) / (alpha * n)
    gamma = 2 * (1 + big_r * bt) * bt * w_max / n
    kappa = np.maximum(alpha * rho * c - gamma, 0) ** 2 / (2 * (e + bt * delta0 * np.sqrt(e)))
    m = min(r, math.sqrt(2) * bt)
    quad = (1 + c) / 2 * m * math.sqrt(4 * bt**2 - m**2)
    both = np.maximum(r + rho * np.minimum(bt**2, quad), rho * r * bt)
    return 2 * np.minimum(both, half_gap), kappa


def test_effective_gap_against_a_dense_grid():
    rng = np.random.default_rng(4)
    for _ in range(40):
        alpha, bound = 10.0 ** rng.uniform(-5, 2), 10.0 ** rng.uniform(-1.5, 1.5)
        r, icpt, n = 2 * bound * rng.random() ** 3, int(rng.integers(2)), 10 ** rng.integers(0, 7)
        w_max = 1 + 3 * rng.random()
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=bool(icpt))
        big_r = minimizer_radius("squared_hinge", **kw)
        rho = big_r * np.sin(np.linspace(0, np.pi / 2, 401))
        got = hinge_effective_gap(radius=r, n_samples=int(n), weight_max=w_max, **kw)
        half_gap = _plain_half_gap(rho, r, bound, icpt)
        c = np.linspace(0, 1, 201)[:, None]
        top, kappa = _effective_pieces(rho, c, half_gap, r, alpha, bound, icpt, n, w_max)
        best = float(np.max(top / (1 + kappa / alpha)))
        assert best * (1 - 1e-10) <= got <= best * 1.01
        assert got <= gradient_gap("squared_hinge", radius=r, **kw)


def _hinge_minimizers(points, weights, n, alpha):
    """Minimizers of batches (pop, records, d) of small data sets, by Newton's method."""
    theta = np.zeros((len(points), points.shape[2]))
    eye = np.eye(points.shape[2])

    def objective(th):
        h = np.maximum(1 - np.einsum("pkd,pd->pk", points, th), 0)
        return (weights * h * h).sum(1) / n + 0.5 * alpha * (th * th).sum(1), h

    for _ in range(60):
        value, h = objective(theta)
        grad = -2 * np.einsum("pk,pkd->pd", weights * h, points) / n + alpha * theta
        size = np.linalg.norm(grad, axis=1)
        if size.max() < 1e-14:
            break
        active = weights * (h > 0)
        hess = 2 * np.einsum("pk,pkd,pke->pde", active, points, points) / n + alpha * eye
        step = np.linalg.solve(hess, grad[:, :, None])[:, :, 0]
        length = np.ones(len(theta))
        for _ in range(12):
            new = objective(theta - length[:, None] * step)[0]
            bad = new > value - 0.1 * length * (step * grad).sum(1) + 1e-15 * np.abs(value)
            if not bad.any():
                break
            length = np.where(bad, length / 2, length)
        theta = theta - length[:, None] * step
    return theta, size


@pytest.mark.parametrize("alpha, n, share, icpt, w_max", [
    (0.01, 100_000, 0.05, 0, 1.0), (0.1, 10_000, 0.25, 1, 1.0), (1.0, 1000, 0.1, 0, 1.0),
    (0.3, 200, 0.5, 1, 1.0), (0.05, 3000, 0.3, 0, 3.0),
])  # fmt: skip
def test_optima_of_neighbouring_data_sets_respect_the_effective_gap(alpha, n, share, icpt, w_max):
    # Three distinct common records with free multiplicities, worst pair by local search.
    rng = np.random.default_rng(1)
    pop, d, common = 60, 2, 3
    kw = dict(radius=share, alpha=alpha, norm_bound=1.0, fit_intercept=bool(icpt))
    gap = hinge_effective_gap(n_samples=n, weight_max=w_max, **kw)
    assert gap < 0.999 * gradient_gap("squared_hinge", **kw)
    big_r = minimizer_radius("squared_hinge", alpha=alpha, norm_bound=1.0, fit_intercept=bool(icpt))

    def evaluate(x, sign, log_m):
        x = x * np.minimum(1, 1 / np.maximum(np.linalg.norm(x, axis=2), 1e-300))[:, :, None]
        step = x[:, -1] - x[:, -2]
        far = np.maximum(np.linalg.norm(step, axis=1), 1e-300)
        x[:, -1] = x[:, -2] + step * np.minimum(1, share / far)[:, None]
        z = np.concatenate([x, np.ones((*x.shape[:2], 1))], axis=2) if icpt else x
        z = z * sign[:, :, None]
        m = np.exp(log_m)
        m *= ((n - w_max) / m.sum(1))[:, None]  # mean weight one
        weights = np.hstack([m, np.full((len(m), 1), w_max)])
        first, res = _hinge_minimizers(z[:, [0, 1, 2, 3]], weights, n, alpha)
        second, res2 = _hinge_minimizers(z[:, [0, 1, 2, 4]], weights, n, alpha)
        moved = np.linalg.norm(first - second, axis=1) - (res + res2) / alpha
        return x, alpha * n * moved / w_max, (z, m, first, second)

    x = rng.normal(size=(pop, common + 2, d))
    x[: pop // 2, :common] = [1 / (2 * big_r), 0]  # margin 1/2: the longest minimizer
    x[: pop // 2, :common] += 0.1 * rng.normal(size=(pop // 2, common, d))
    x[: pop // 2, 3:] = [[-1, 0], [share - 1, 0]]
    sign = rng.choice([-1.0, 1.0], size=(pop, common + 2))
    sign[: pop // 2] = 1.0
    sign[:, -1] = sign[:, -2]
    log_m = rng.normal(size=(pop, common))
    x, best, _ = evaluate(x, sign, log_m)
    scale = np.full(pop, 0.3)
    for _ in range(40):
        s = scale[:, None]
        new_m = log_m + s * rng.normal(size=log_m.shape)
        new_x, value, parts = evaluate(x + s[:, :, None] * rng.normal(size=x.shape), sign, new_m)
        _check_steps_of_the_proof(*parts, kw, n, w_max)
        good = value > best
        best = np.where(good, value, best)
        x, log_m = np.where(good[:, None, None], new_x, x), np.where(good[:, None], new_m, log_m)
        scale = np.clip(np.where(good, scale * 1.6, scale * 0.8), 1e-4, 1.0)
    assert best.max() <= gap
    assert best.max() >= 0.5 * gap


def _check_steps_of_the_proof(z, m, first, second, kw, n, w_max):
    """Every inequality of the derivation, on given data sets and their exact minimizers."""
    alpha, r, icpt = kw["alpha"], kw["radius"], kw["fit_intercept"]
    slack = 1e-9
    w = first - second
    moved = np.linalg.norm(w, axis=1)
    fine = moved > 1e-7
    w, moved, z, m, first, second = (a[fine] for a in (w, moved, z, m, first, second))
    if not len(w):
        return
    e = w / moved[:, None]
    rho = np.linalg.norm(second, axis=1)
    c = np.minimum(np.abs((second * e).sum(1)) / rho, 1)
    others = z[:, :3]
    a_i, b_i = (np.maximum(1 - np.einsum("pkd,pd->pk", others, th), 0) for th in (first, second))
    t_i = np.einsum("pkd,pd->pk", others, w)
    kappa_star = 2 / n * (m * (b_i - a_i) * t_i).sum(1) / moved**2  # c_i t_i = B_i - A_i
    h, h2 = (np.maximum(1 - (z[:, j] * second).sum(1), 0) for j in (3, 4))
    diff = 2 * (h[:, None] * z[:, 3] - h2[:, None] * z[:, 4])
    n_star = np.abs((diff * e).sum(1))
    assert np.all(
        moved * alpha * (1 + kappa_star / alpha) <= w_max * n_star / n * (1 + 1e-4) + 1e-12
    )
    mean_b2 = ((m * b_i * b_i).sum(1) + w_max * h2 * h2) / n
    assert np.all(np.sqrt(mean_b2) <= (1 + np.sqrt(1 - 2 * alpha * rho**2)) / 2 + slack)
    half_gap = _plain_half_gap(rho, r, 1.0, int(icpt))
    top, kappa = _effective_pieces(rho, c, half_gap, r, alpha, 1.0, int(icpt), n, w_max)
    assert np.all(kappa_star >= kappa * (1 - 1e-6) - slack)
    assert np.all(n_star <= top * (1 + 1e-3) + slack)  # (grid over s in the helper)


def test_effective_gap_extremes_and_order():
    for alpha, bound, icpt, n in itertools.product(
        (1e-8, 1e-3, 1.0, 1e4), (1e-4, 1.0, 1e4), (True, False), (1, 1000, 10**9)
    ):
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=icpt)
        last = 0.0
        for radius in (1e-9 * bound, 0.03 * bound, bound, 2 * bound):
            plain = gradient_gap("squared_hinge", radius=radius, **kw)
            gap = hinge_effective_gap(radius=radius, n_samples=n, **kw)
            assert plain / 2.5 <= gap <= plain and gap >= last * (1 - 3e-7)
            last = gap
            if n == 1:
                assert gap == plain
    kw = dict(radius=0.05, alpha=0.01, norm_bound=1.0)
    gaps = [hinge_effective_gap(n_samples=10**k, **kw) for k in range(10)]
    assert all(b <= a * (1 + 3e-7) for a, b in itertools.pairwise(gaps))
    gaps = [hinge_effective_gap(n_samples=1000, weight_max=w, **kw) for w in (1, 2, 10, 1e9)]
    assert all(b >= a * (1 - 3e-7) for a, b in itertools.pairwise(gaps))
    assert hinge_effective_gap(radius=0.0, alpha=0.01, norm_bound=1.0, n_samples=5) == 0.0


def test_effective_gap_far_extremes():
    for alpha, bound, radius, n, w_max in itertools.product(
        (1e-60, 1.0, 1e60), (1e-60, 1.0, 1e60), (1e-320, 1e-3, 1e60), (1, 10**15), (1, 1e15)
    ):
        for icpt in (True, False):
            kw = dict(radius=radius, alpha=alpha, norm_bound=bound, fit_intercept=icpt)
            gap = hinge_effective_gap(n_samples=n, weight_max=w_max, **kw)
            assert 0 < gap <= gradient_gap("squared_hinge", **kw) < math.inf


@pytest.mark.parametrize(
    "change, error, words",
    [
        (dict(n_samples=0), ValueError, "n_samples must be an integer >= 1"),
        (dict(n_samples=10.0), TypeError, "n_samples must be an integer"),
        (dict(n_samples=True), TypeError, "n_samples"),
        (dict(weight_max=0.5), ValueError, r"weight_max must be a number.*mean one"),
        (dict(weight_max=math.nan), ValueError, "weight_max"),
        (dict(radius=-1), ValueError, "radius"),
        (dict(alpha=0), ValueError, "alpha"),
        (dict(norm_bound=None), TypeError, "norm_bound"),
        (dict(fit_intercept="yes"), TypeError, "fit_intercept"),
    ],
)
def test_effective_gap_input_errors(change, error, words):
    with pytest.raises(error, match=words):
        hinge_effective_gap(**(_VALID | dict(n_samples=10) | change))


# ------------------------------------------------------- logistic, radius above the norm bound


@pytest.mark.parametrize("icpt", [False, True])
@pytest.mark.parametrize("alpha", [1e-3, 1e-2, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("share", [1.05, 1.5, 1.9, 2.0])
def test_opposite_records_maximum(alpha, share, icpt):
    # The same maximum on a plain grid, and the largest gap that random and structured records have.
    for bound, public_norm in ((1.0, 0.0), (3.0, 0.0), (1.0, 2.0)):
        radius = share * bound
        kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=icpt, public_norm=public_norm)
        got = logistic_effective_gap(radius=radius, **kw)
        assert got <= gradient_gap("logistic", radius=radius, **kw)
        big_r, bt = minimizer_radius("logistic", **kw), math.hypot(bound, icpt)
        t = np.linspace(-1, 1, 1201) * big_r * bt
        t, t2 = t[:, None], t[None, :]
        s2 = np.maximum(4 * bt**2 - ((t + t2) / big_r) ** 2, 0)
        u, v = 1 / (1 + np.exp(-t)), 1 / (1 + np.exp(-t2))
        square = ((u - v) * bound + v * np.minimum(radius, np.sqrt(s2))) ** 2 + icpt * (u - v) ** 2
        best = math.sqrt(square[(t >= t2) & (t - t2 <= big_r * radius)].max())
        assert best <= got <= best * (1 + 3e-3)
        # Two records of norm B at the angles p and q to the model, which has any length.
        rng = np.random.default_rng(0)
        p, q = rng.uniform(0, np.pi, size=(2, 20_000))
        rho = big_r * rng.uniform(0, 1, size=20_000) ** 0.3
        tilt = np.pi / 2 * rng.uniform(0, 1, size=20_000) * icpt  # how much is the intercept's
        x = bound * np.stack([np.cos(p), np.sin(p)])
        x2 = bound * np.stack([np.cos(q), -np.sin(q)])
        near = np.hypot(*(x - x2)) <= radius
        a, a2 = (
            1 / (1 + np.exp(rho * (np.cos(tilt) * z[0] + np.sin(tilt) * icpt))) for z in (x, x2)
        )
        gap = np.sqrt(((a * x - a2 * x2) ** 2).sum(axis=0) + icpt * (a - a2) ** 2)
        assert 0.5 * got <= gap[near].max() <= got


def test_opposite_records_extremes():
    for alpha, bound in itertools.product((1e-60, 1e-8, 1.0, 1e4, 1e60), (1e-60, 1.0, 1e4, 1e60)):
        for icpt in (True, False):
            kw = dict(alpha=alpha, norm_bound=bound, fit_intercept=icpt)
            last = 0.0
            for share in (0.0, 1e-9, 0.5, 1.0, 1.0001, 1.5, 2.0, math.inf):
                gap = logistic_effective_gap(radius=share * bound, **kw)
                plain = gradient_gap("logistic", radius=share * bound, **kw)
                assert 0.5 * plain <= gap <= plain
                assert gap >= last * (1 - 3e-4)
                if share <= 1:
                    assert gap == plain
                last = gap


def test_sensitivity_takes_the_smaller_gap():
    kw = dict(radius=2.0, alpha=0.1, norm_bound=1.0, fit_intercept=False)
    delta = linear_sensitivity("logistic", n_samples=100, **kw)
    assert delta == pytest.approx(logistic_effective_gap(**kw) / 10, rel=1e-14)
    assert delta < 0.73 * gradient_gap("logistic", **kw) / 10
    paper = linear_sensitivity("logistic", n_samples=100, mode="paper", **kw)
    assert paper == pytest.approx(gradient_gap("logistic", mode="paper", **kw) / 10, rel=1e-14)


# ------------------------------------------------------------------------------ (g) input


@pytest.mark.parametrize(
    "change, error, words",
    [
        (dict(alpha=0.0), ValueError, "alpha must be a number in"),
        (dict(alpha=-1.0), ValueError, "alpha"),
        (dict(alpha=math.nan), ValueError, "alpha.*nan"),
        (dict(alpha=math.inf), ValueError, "alpha"),
        (
            dict(alpha=1e-70),
            ValueError,
            "alpha must be a number in",
        ),
        (dict(alpha=10**400), ValueError, "alpha must be a number in"),
        (dict(alpha=True), TypeError, "alpha must be a number in .*, got True"),
        (dict(alpha="1"), TypeError, "alpha.*'1'"),
        (dict(alpha=None), TypeError, "alpha"),
        (dict(alpha=1j), TypeError, "alpha"),
        (dict(norm_bound=0), ValueError, "norm_bound must be a number in"),
        (dict(norm_bound=np.bool_(True)), TypeError, "norm_bound"),
        (dict(norm_bound=math.inf), ValueError, "norm_bound"),
        (dict(radius=-1e-9), ValueError, "radius must be a number in"),
        (dict(radius=math.nan), ValueError, "radius"),
        (dict(radius=False), TypeError, "radius"),
        (dict(radius=np.ones(2)), TypeError, "radius"),
        (dict(public_norm=-1), ValueError, "public_norm"),
        (dict(public_norm=math.inf), ValueError, "public_norm"),
        (dict(public_norm=True), TypeError, "public_norm"),
        (dict(public_norm=1.0, mode="paper"), ValueError, "public_norm.*mode='tight'"),
        (dict(n_classes=1), ValueError, "n_classes must be an integer >= 2"),
        (dict(n_classes=3), ValueError, "n_classes must be 2 for loss='logistic'.*softmax"),
        (dict(n_classes=2.0), TypeError, "n_classes must be an integer"),
        (dict(n_classes=True), TypeError, "n_classes"),
        (dict(n_classes=10**400), ValueError, "n_classes"),
        (dict(fit_intercept=1), TypeError, "fit_intercept"),
        (dict(loss="hinge"), ValueError, "loss must be one of .*'squared_hinge', got 'hinge'"),
        (dict(loss=3), TypeError, "loss"),
        (dict(mode="exact"), ValueError, "mode must be one of .*'paper', got 'exact'"),
    ],
)
def test_input_errors(change, error, words):
    kw = _VALID | change
    loss = kw.pop("loss", "logistic")
    with pytest.raises(error, match=words):
        gradient_gap(loss, **kw)
    if not change.keys() & {"radius", "mode"}:
        kw.pop("radius")
        with pytest.raises(error, match=words):
            minimizer_radius(loss, **kw)


def test_input_kinds_accepted():
    want = gradient_gap("softmax", radius=0.5, alpha=0.25, norm_bound=1.0, n_classes=3)
    for make in (np.float32, np.float64, Fraction):
        got = gradient_gap("softmax", radius=make(0.5), alpha=make(0.25), norm_bound=1,
                           n_classes=np.int64(3), fit_intercept=np.bool_(True))  # fmt: skip
        assert got == want and type(got) is float
    assert gradient_gap("logistic", radius=10**400, alpha=1, norm_bound=1) == gradient_gap(
        "logistic", radius=2, alpha=1, norm_bound=1
    )


@pytest.mark.parametrize("weight_max", [1.0, 7.0])
@pytest.mark.parametrize("public_norm", [0.0, 0.5])
@pytest.mark.parametrize(
    "loss, n_classes", [("logistic", 2), ("softmax", 4), ("squared_hinge", 2), ("squared_hinge", 4)]
)
def test_sensitivity_is_weight_times_gap_over_alpha_n(loss, n_classes, public_norm, weight_max):
    shape = {"radius": 0.05, "alpha": 0.03, "norm_bound": 1.0}
    gap = gradient_gap(loss, n_classes=n_classes, public_norm=public_norm, **shape)
    if loss == "squared_hinge" and public_norm == 0:
        effective = hinge_effective_gap(n_samples=5000, weight_max=weight_max, **shape)
        assert effective > hinge_effective_gap(n_samples=5000, **shape) or weight_max == 1
        smaller = effective * (math.sqrt(n_classes) if n_classes > 2 else 1.0)
        assert smaller < 0.95 * gap
        gap = smaller
    delta = linear_sensitivity(
        loss,
        n_samples=5000,
        n_classes=n_classes,
        public_norm=public_norm,
        weight_max=weight_max,
        **shape,
    )
    expected = weight_max * gap / (0.03 * 5000)
    assert expected <= delta <= expected * (1 + 1e-14)


def test_effective_gap_counts_pairs_of_which_one_is_active():
    # There rho r Bt exceeds the bound for two active records, and nothing is gained.
    shape = {"radius": 1.3, "alpha": 1e-3, "norm_bound": 1.0, "fit_intercept": False}
    gap = gradient_gap("squared_hinge", **shape)
    assert hinge_effective_gap(n_samples=10**8, **shape) >= gap * (1 - 1e-9)


@pytest.mark.parametrize(
    "loss, n_classes", [("logistic", 2), ("softmax", 5), ("squared_hinge", 2), ("squared_hinge", 3)]
)
@pytest.mark.parametrize("n_features, n_terms", [(1, 10**6), (10**5, 2)])
def test_gradient_error_is_the_stated_formula(loss, n_classes, n_features, n_terms):
    u, bound = 2.0**-53, math.hypot(2.0, 1.0)
    shape = {"alpha": 0.1, "norm_bound": 2.0, "n_classes": n_classes, "public_norm": 3.0}
    length = minimizer_radius(loss, **shape)
    c, slope, steps = {
        "logistic": (0.25, 1.0, 16),
        "softmax": (0.5, math.sqrt(2.0), n_classes + 16),
        "squared_hinge": (2.0, 2.0 + 4.0 * length * bound, 16),
    }[loss]
    scores, sums = (n_features + 8) * u, (n_terms + 8) * u
    expected = bound * (2 * c * scores * length * bound + slope * (sums + steps * u))
    expected += 16 * u * 0.1 * length
    if loss == "squared_hinge" and n_classes > 2:
        expected *= math.sqrt(n_classes)
    error = gradient_error(loss, n_features=n_features, n_terms=n_terms, **shape)
    assert expected <= error <= expected * (1 + 1e-8)
