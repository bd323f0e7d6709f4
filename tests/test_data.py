"""Clipping and sums over rows: any container, any dtype, any block."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from skballdp import data
from skballdp.data import RowBlocks, block_rows, longest_sum


def exact_class_sums(X, codes, n_classes, bound):
    """The same in one line of long double arithmetic."""
    X = np.asarray(X, dtype=np.longdouble)
    norms = np.sqrt((X**2).sum(axis=1))
    clipped = X if bound is None else X * np.minimum(1, bound / np.maximum(norms, 1e-300))[:, None]
    return np.stack([clipped[codes == c].sum(axis=0) for c in range(n_classes)])


@pytest.mark.parametrize("bound", [None, 1.0, 2.5])
@pytest.mark.parametrize(
    "container, dtype",
    [
        *itertools.product("CF", [np.float16]),  # scipy has no float16 sparse matrices
        *itertools.product(
            ["C", "F", "csr_array", "csr_matrix"], [np.float64, np.float32, np.int64, np.bool_]
        ),
    ],
)
def test_class_sums(container, dtype, bound, monkeypatch):
    rng = np.random.default_rng(3)
    X = (rng.standard_normal((301, 6)) * 3).astype(dtype)
    codes = rng.integers(0, 4, 301)
    given = (
        getattr(sp, container)(X) if container.startswith("csr") else np.array(X, order=container)
    )
    monkeypatch.setattr(data, "block_rows", lambda n_features: 64)
    rows = RowBlocks(given, norm_bound=bound)
    expected = exact_class_sums(X, codes, 4, bound)
    for _ in range(2):  # the second pass reuses the clipping factors
        np.testing.assert_allclose(rows.class_sums(codes, 4), expected.astype(float), atol=1e-11)


def test_blocks_cover_the_rows_once_and_clipped():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3)) * 5
    seen = []
    for rows, values, weights in RowBlocks(X, norm_bound=2.0).blocks():
        clipped = values * weights[:, None]
        assert np.linalg.norm(clipped, axis=1).max() <= 2 * (1 + 1e-15)
        seen.append(np.arange(1000)[rows])
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(1000))


def test_rows_inside_the_ball_are_not_touched():
    X = np.array([[0.6, 0.8], [0.0, 0.0], [1e-200, 0.0]])
    (block,) = RowBlocks(X, norm_bound=1.0).blocks()
    np.testing.assert_allclose(block.weights, 1, rtol=1e-15)


def test_clipping_is_a_contraction():
    """Rows within r stay within r + (d + 8) u B: what the sensitivity allows for."""
    rng = np.random.default_rng(1)
    for bound in (1e-3, 1.0, 1e3):
        x = rng.standard_normal((2000, 4)) * bound * 3
        z = x + rng.standard_normal((2000, 4)) * bound * 10.0 ** rng.uniform(-6, 1, (2000, 1))

        def clipped(rows, bound=bound):
            (block,) = RowBlocks(rows, norm_bound=bound).blocks()
            return block.values.astype(np.longdouble) * block.weights[:, None]

        before = np.sqrt(((x.astype(np.longdouble) - z) ** 2).sum(axis=1))
        after = np.sqrt(((clipped(x) - clipped(z)) ** 2).sum(axis=1))
        assert np.all(after <= before + 12 * 2.0**-53 * bound)


def test_repeated_sparse_entries_stand_for_their_sum():
    # Two stored entries 3 and 4 in one cell are a 7: its norm is not 5.
    X = sp.csr_array((np.array([3.0, 4.0, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), (2, 2))
    sums = RowBlocks(X, norm_bound=1.0).class_sums(np.array([0, 1]), 2)
    np.testing.assert_allclose(sums, np.eye(2))
    assert X.nnz == 3  # the caller's matrix is left alone


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value, word", [(np.nan, "NaN"), (np.inf, "infinity"), (1e200, "large")])
def test_non_finite_rows_are_refused_in_the_same_pass(container, value, word):
    X = np.ones((5, 2))
    X[3, 1] = value
    with pytest.raises(ValueError, match=f"Input X contains.*{word}") as caught:
        RowBlocks(container(X), norm_bound=1.0).class_sums(np.zeros(5, dtype=int), 1)
    assert "1e+200" not in str(caught.value)


def test_large_but_finite_rows_are_projected():
    X = np.array([[1e150, 0.0], [0.0, -1e149]])
    sums = RowBlocks(X, norm_bound=1.0).class_sums(np.array([0, 1]), 2)
    np.testing.assert_allclose(sums, [[1, 0], [0, -1]])


def test_raise_tells_nothing_about_the_rows():
    X = np.array([[1.0, 0.0], [0.0, 1.234567]])
    with pytest.raises(ValueError, match=r"norm_bound=1\.0") as caught:
        RowBlocks(X, norm_bound=1.0, out_of_bound="raise").class_sums(np.array([0, 1]), 2)
    assert "1.23" not in str(caught.value)
    with pytest.raises(ValueError, match="norm_bound"):  # a hair is too much
        RowBlocks((1 + 1e-12) * np.eye(2), norm_bound=1.0, out_of_bound="raise").class_sums(
            np.array([0, 1]), 2
        )
    unit = np.random.default_rng(0).standard_normal((500, 100))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    RowBlocks(unit, norm_bound=1.0, out_of_bound="raise").class_sums(np.zeros(500, int), 1)


@pytest.mark.parametrize("n, d", [(1, 1), (5000, 3), (100_000, 384), (10**6, 20_000)])
def test_longest_sum_counts_the_blocks(n, d):
    b = block_rows(d)
    assert longest_sum(n, d) == min(b, n) + -(-n // min(b, n))
