"""The losses against numerical derivatives and closed identities."""

import numpy as np
import pytest

from skballdp.erm.losses import BinaryLogistic, Softmax, SquaredHinge

LOSSES = [
    pytest.param(BinaryLogistic(2), id="logistic"),
    pytest.param(Softmax(3), id="softmax-3"),
    pytest.param(Softmax(7), id="softmax-7"),
    pytest.param(SquaredHinge(2), id="hinge-2"),
    pytest.param(SquaredHinge(4), id="hinge-4"),
]


def _case(loss, *, scale=2.0, b=40, seed=0):
    rng = np.random.default_rng(seed)
    scores = scale * rng.standard_normal((b, loss.n_scores))
    return scores, rng.integers(loss.n_classes, size=b)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_the_derivatives_of_the_values(loss, seed):
    scores, codes = _case(loss, seed=seed)
    _, slopes = loss.value_and_slope(scores, codes)
    numeric = np.empty_like(scores)
    h = 1e-6
    for c in range(loss.n_scores):
        shift = np.zeros(loss.n_scores)
        shift[c] = h
        upper = loss.value_and_slope(scores + shift, codes)[0].sum(axis=-1)
        lower = loss.value_and_slope(scores - shift, codes)[0].sum(axis=-1)
        numeric[:, c] = (upper - lower) / (2 * h)
    np.testing.assert_allclose(slopes, numeric, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_mean_curvature_is_the_trace_of_the_second_derivative(loss, seed):
    scores, codes = _case(loss, seed=seed)
    trace = np.zeros(len(scores))
    h = 1e-6
    for c in range(loss.n_scores):
        shift = np.zeros(loss.n_scores)
        shift[c] = h
        upper = loss.value_and_slope(scores + shift, codes)[1][:, c]
        lower = loss.value_and_slope(scores - shift, codes)[1][:, c]
        trace += (upper - lower) / (2 * h)
    rank = loss.n_classes - 1 if isinstance(loss, Softmax) else loss.n_scores
    np.testing.assert_allclose(loss.mean_curvature(scores, codes), trace / rank, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_lipschitz_with_the_stated_constant(loss):
    rng = np.random.default_rng(3)
    largest = 0.0
    for scale in (0.1, 1.0, 3.0):
        scores, codes = _case(loss, scale=scale, b=2000)
        other = scores + 0.1 * rng.standard_normal(scores.shape)
        change = loss.value_and_slope(other, codes)[1] - loss.value_and_slope(scores, codes)[1]
        ratio = np.linalg.norm(change, axis=1) / np.linalg.norm(other - scores, axis=1)
        largest = max(largest, ratio.max())
    assert 0.5 * loss.curvature_bound < largest <= loss.curvature_bound * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [1e4, 1e8])
def test_nothing_overflows(loss, size):
    scores, codes = _case(loss)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        values, slopes = loss.value_and_slope(size * np.sign(scores), codes)
        curvature = loss.mean_curvature(size * np.sign(scores), codes)
    assert np.all(np.isfinite(values)) and np.all(values >= 0)
    assert np.all(np.isfinite(slopes))
    assert np.all((curvature >= 0) & (curvature <= loss.curvature_bound))


def test_large_margins_have_exact_limits():
    scores = np.array([[1e4], [1e4]])
    values, slopes = BinaryLogistic(2).value_and_slope(scores, np.array([1, 0]))
    np.testing.assert_array_equal(values[:, 0], [0.0, 1e4])
    np.testing.assert_array_equal(slopes[:, 0], [0.0, 1.0])
    values, slopes = Softmax(3).value_and_slope(np.array([[1e4, -1e4, 0.0]]), np.array([1]))
    np.testing.assert_array_equal(values, [[2e4]])
    np.testing.assert_array_equal(slopes, [[1.0, -1.0, 0.0]])


def test_binary_logistic_is_the_softmax_of_zero_and_the_score():
    scores, codes = _case(BinaryLogistic(2))
    values, slopes = BinaryLogistic(2).value_and_slope(scores, codes)
    pair = np.hstack([np.zeros_like(scores), scores])
    values_2, slopes_2 = Softmax(2).value_and_slope(pair, codes)
    np.testing.assert_allclose(values, values_2, rtol=1e-13)
    np.testing.assert_allclose(slopes, slopes_2[:, 1:], rtol=1e-12, atol=1e-15)


def test_one_versus_rest_is_binary_problems_side_by_side():
    loss = SquaredHinge(4)
    scores, codes = _case(loss)
    values, slopes = loss.value_and_slope(scores, codes)
    for c in range(4):
        values_c, slopes_c = SquaredHinge(2).value_and_slope(
            scores[:, [c]], (codes == c).astype(int)
        )
        np.testing.assert_array_equal(values[:, [c]], values_c)
        np.testing.assert_array_equal(slopes[:, [c]], slopes_c)


def test_hinge_is_flat_from_margin_one_on():
    scores = np.array([[1.0], [1.5], [1 - 1e-9]])
    values, slopes = SquaredHinge(2).value_and_slope(scores, np.array([1, 1, 1]))
    np.testing.assert_array_equal(values[:2], 0)
    np.testing.assert_array_equal(slopes[:2], 0)
    np.testing.assert_array_equal(
        SquaredHinge(2).mean_curvature(scores, np.array([1, 1, 1])), [0, 0, 2]
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_leading_axes_are_independent(loss):
    scores, codes = _case(loss)
    stack = np.stack([scores, -scores, 0.5 * scores])
    values, slopes = loss.value_and_slope(stack, codes)
    curvature = loss.mean_curvature(stack, codes)
    for i, one in enumerate(stack):
        values_1, slopes_1 = loss.value_and_slope(one, codes)
        np.testing.assert_allclose(values[i], values_1, rtol=1e-14)
        np.testing.assert_allclose(slopes[i], slopes_1, rtol=1e-13, atol=1e-16)
        np.testing.assert_allclose(curvature[i], loss.mean_curvature(one, codes), rtol=1e-13)
