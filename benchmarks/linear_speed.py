"""Fits and audits of the linear heads against scikit-learn, at the same gradient norm.

Both minimise the same function: scikit-learn gets the augmented column and no intercept, and C =
``1 / (alpha n)``. Of its solvers the fastest counts, each at the largest power of ten as tol whose
result has a gradient norm of at most ``alpha eta``, which is where ours stops. The runs take turns,
and the best of each counts. With ``--data``, real embeddings follow the synthetic ones.
"""

import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from benchmarks.datasets import load_all
from benchmarks.speed import interleaved
from skballdp import BallDPLogisticRegression, BallDPSquaredHingeSVC
from skballdp.erm.losses import BinaryLogistic, Softmax, SquaredHinge

ALPHA = 0.01
ROUNDS = 3


def synthetic(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors around class centres, 384 features."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((n_classes, 384))
    y = rng.integers(n_classes, size=n)
    X = rng.standard_normal((n, 384)) + 0.25 * centres[y]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def gradient_norm(cls: type, Z: np.ndarray, y: np.ndarray, theta: np.ndarray) -> float:
    """Norm of the gradient of the common objective, on augmented rows."""
    n_classes = int(y.max()) + 1
    if cls is BallDPSquaredHingeSVC:
        loss: Any = SquaredHinge(n_classes)
    else:
        loss = BinaryLogistic(2) if n_classes == 2 else Softmax(n_classes)
    _, slopes = loss.value_and_slope(Z @ theta.T, y)
    return float(np.linalg.norm(slopes.T @ Z / len(y) + ALPHA * theta))


def competitors(cls: type, n: int, n_parameters: int) -> dict[str, Callable[[float], Any]]:
    """scikit-learn's estimators as functions of tol."""
    C = 1 / (ALPHA * n)
    if cls is BallDPSquaredHingeSVC:
        return {
            "LinearSVC": lambda tol: LinearSVC(
                C=C, dual=False, fit_intercept=False, tol=tol, max_iter=10_000
            )
        }
    names = ["lbfgs", "newton-cg"]
    if n_parameters < 1000:  # beyond, its Hessian alone takes longer than the others
        names.append("newton-cholesky")
    return {
        name: lambda tol, name=name: LogisticRegression(
            C=C, solver=name, fit_intercept=False, tol=tol, max_iter=10_000
        )
        for name in names
    }


def good_enough(
    cls: type, Z: np.ndarray, y: np.ndarray, tolerance: float
) -> Iterator[tuple[str, Callable[[float], Any], float]]:
    """Each competitor with the largest power of ten that reaches the gradient norm."""
    k = 1 if y.max() == 1 else int(y.max()) + 1
    for name, make in competitors(cls, len(y), k * Z.shape[1]).items():
        for exponent in range(1, 15):
            theta = make(10.0**-exponent).fit(Z, y).coef_
            if gradient_norm(cls, Z, y, theta) <= tolerance:
                yield name, make, 10.0**-exponent
                break


def compare_fits(label: str, cls: type, X: np.ndarray, y: np.ndarray) -> None:
    Z = np.hstack([X, np.ones((len(X), 1))])
    head = cls(alpha=ALPHA)
    tolerance = ALPHA * head.fit(X, y).certificate_.solver_tolerance
    jobs: dict[str, Callable[[], object]] = {"ours": lambda: head.fit(X, y)}
    for name, make, tol in good_enough(cls, Z, y, tolerance):
        jobs[name] = lambda make=make, tol=tol: make(tol).fit(Z, y)
    times = interleaved(jobs, ROUNDS)
    ours = times.pop("ours")
    fastest = min(times, key=times.__getitem__)
    print(
        f"  {label:28s} {cls.__name__:26s} {ours:8.3f} s   {fastest} {times[fastest]:8.3f} s   "
        f"ours / theirs = {ours / times[fastest]:.2f}",
        flush=True,
    )


def compare_audits(label: str, X: np.ndarray, y: np.ndarray) -> None:
    """All optima that an audit of one support needs, base fit included."""
    cls = BallDPLogisticRegression
    Z = np.hstack([X, np.ones((len(X), 1))])
    head = cls(alpha=ALPHA)
    tolerance = ALPHA * head.fit(X, y).certificate_.solver_tolerance
    same = np.flatnonzero(y == y[0])[1:101]

    def refits(make: Callable[[float], Any], tol: float) -> float:
        """Time of ten refits, each started at the base optimum; infinite if one is too rough."""
        model = make(tol).set_params(warm_start=True).fit(Z, y)
        start_at, changed, spent = model.coef_.copy(), Z.copy(), 0.0
        for i in same[:10]:
            changed[0] = Z[i]
            model.coef_ = start_at.copy()
            start = time.perf_counter()
            model.fit(changed, y)
            spent += time.perf_counter() - start
            if gradient_norm(cls, changed, y, model.coef_) > tolerance:
                return np.inf
        return spent

    jobs: dict[str, Callable[[], object]] = {
        "m = 10": lambda: head.neighbour_optima(X, y, 0, X[same[:10]]),
        "m = 100": lambda: head.neighbour_optima(X, y, 0, X[same]),
    }
    warm = []
    for name, make, tol in good_enough(cls, Z, y, tolerance):
        jobs[name] = lambda make=make, tol=tol: make(tol).fit(Z, y)
        exponent = next(e for e in range(1, 15) if refits(make, 10.0**-e) < np.inf)
        warm.append(min(refits(make, 10.0**-exponent) for _ in range(ROUNDS)))
    times = interleaved(jobs, ROUNDS)
    fit = min(seconds for name, seconds in times.items() if not name.startswith("m ="))
    print(
        f"  {label:28s} ten refits / m = 10: {min(warm) / times['m = 10']:.1f}   in fits of "
        f"scikit-learn: m = 10 {times['m = 10'] / fit:.2f}, m = 100 {times['m = 100'] / fit:.2f}",
        flush=True,
    )


def measure_memory(label: str, cls: type, X: np.ndarray, y: np.ndarray) -> None:
    n, d, n_classes = len(X), X.shape[1] + 1, int(y.max()) + 1
    allowed = 0.2 * X.nbytes + 8 * d**2 + 3 * 8 * n * n_classes
    tracemalloc.start()
    cls(alpha=ALPHA).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"  {label:28s} {cls.__name__:26s} peak {peak / 1e6:7.1f} MB   20 % of X, a d x d Hessian, "
        f"three n x K arrays {allowed / 1e6:7.1f} MB",
        flush=True,
    )


def main(folder: str | None) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    heads = (BallDPLogisticRegression, BallDPSquaredHingeSVC)
    shapes = [(10_000, 2), (10_000, 10), (10_000, 77), (100_000, 2)]
    print(f"fit, standard radius, alpha {ALPHA}, the same gradient norm")
    for n, n_classes in shapes:
        X, y = synthetic(n, n_classes)
        for cls in heads:
            compare_fits(f"{n:,} x 384, {n_classes} classes", cls, X, y)
    real = {}
    if folder is not None:
        for name, data in load_all(folder).items():
            _, y = np.unique(data.y_train, return_inverse=True)
            X = data.X_train.astype(np.float64)
            real[name] = (X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True)), y)
            for cls in heads:
                compare_fits(name, cls, *real[name])
    print("optima of an audit, logistic regression, base fit included")
    compare_audits("8,000 x 384, 2 classes", *synthetic(8000, 2))
    for name, (X, y) in real.items():
        if y.max() == 1:
            compare_audits(name, X, y)
    print("extra memory of a fit")
    for n, n_classes in shapes:
        X, y = synthetic(n, n_classes)
        for dtype in (np.float64, np.float32):
            label = f"{n:,} x 384, {n_classes}, {np.dtype(dtype).name}"
            measure_memory(label, BallDPLogisticRegression, X.astype(dtype), y)
