"""Shared helpers of the tests."""

import json
import os
from pathlib import Path

# Before scipy is imported: without it scikit-learn skips its array API checks.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# No windows, neither from tests nor from examples.
os.environ.setdefault("MPLBACKEND", "Agg")

import numpy as np
import pytest

GOLDENS = Path(__file__).parent / "goldens"


def load_goldens(name: str) -> dict:
    """Golden values: computed independently of this package, at 60 digits or by another code."""
    return json.loads((GOLDENS / f"{name}.json").read_text())


def reference_data(n, d, K, seed, B, **_):
    """The data recipe of ``reference_goldens.json``, as recorded in its field about."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((K, d))
    y = np.minimum((K * (np.arange(n) / n) ** 1.5).astype(np.int64), K - 1)
    X = centers[y] + 0.7 * rng.standard_normal((n, d))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True) * (0.999 * B)).astype(np.float32)
    return X, y


@pytest.fixture
def blobs():
    """Three classes of unit vectors with counts 30, 20 and 10."""
    rng = np.random.default_rng(7)
    y = np.repeat([0, 1, 2], [30, 20, 10])
    X = rng.standard_normal((3, 5))[y] + 0.5 * rng.standard_normal((60, 5))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y
