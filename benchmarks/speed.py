"""Speed of fits against scikit-learn and against one pass over the data, interleaved."""

import os
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.neighbors import NearestCentroid

from skballdp import (
    BallDPRidgePrototype,
    BlockRRLabelTransformer,
    MAPReconstructionAuditor,
    radius_quantiles,
)
from skballdp.labels import block_rr, rr, rr_floor, rr_on_bins, rr_with_prior

ROUNDS = 7


def interleaved(jobs: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """Best time of each job over several rounds in which they take turns, after a warm-up."""
    times = {name: float("inf") for name in jobs}
    for round_number in range(rounds + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            elapsed = time.perf_counter() - start
            if round_number > 0:
                times[name] = min(times[name], elapsed)
    return times


def main(folder: str | None) -> None:
    del folder  # timings use synthetic data of a fixed shape
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        X = rng.standard_normal((100_000, 384)).astype(dtype)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.integers(0, 77, len(X))
        times = interleaved(
            {
                "BallDPRidgePrototype.fit": lambda X=X, y=y: BallDPRidgePrototype().fit(X, y),
                "NearestCentroid.fit": lambda X=X, y=y: NearestCentroid().fit(X, y),
                "X.sum(axis=0)": lambda X=X: X.sum(axis=0),
            }
        )
        ours = times["BallDPRidgePrototype.fit"]
        print(f"prototype head, 100,000 x 384 {np.dtype(dtype).name}, 77 classes")
        for name, seconds in times.items():
            print(f"  {name:26s} {seconds:8.4f} s   ours / this = {ours / seconds:6.2f}")
    audit_speed()
    radius_speed()
    label_speed()


def audit_speed() -> None:
    """A whole audit against the budget of 5 fits and 4 times its normals."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000, 384))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, 10, len(X))
    head = BallDPRidgePrototype(1.0)

    def normals() -> None:
        for _ in range(36):
            rng.standard_normal(1_000_000)

    times = interleaved(
        {
            "audit": lambda: MAPReconstructionAuditor(head).fit(X, y),
            "fit": lambda: head.fit(X, y),
            "36 million normals": normals,
        },
        rounds=3,
    )
    budget = 5 * times["fit"] + 4 * times["36 million normals"]
    print("audit, 10,000 x 384, 4 supports, 10 candidates, 100,000 releases a target")
    for name, seconds in times.items():
        print(f"  {name:26s} {seconds:8.4f} s")
    print(f"  audit / (5 fits + 4 x 36 million normals) = {times['audit'] / budget:.2f}")


def radius_speed() -> None:
    """Exact quantiles of 12.5 million distances against scipy's pdist and numpy.quantile."""
    X = np.random.default_rng(0).standard_normal((5000, 384))
    y, levels = np.zeros(len(X)), (0.5, 0.8, 0.95)
    jobs = {
        "radius_quantiles": lambda: radius_quantiles(X, y, levels),
        "pdist and quantile": lambda: np.quantile(pdist(X), levels),
    }
    times = interleaved(jobs, rounds=3)
    print("within-class quantiles, one class, 5,000 x 384")
    ours = times["radius_quantiles"]
    for name, job in jobs.items():
        tracemalloc.start()
        job()
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        print(
            f"  {name:26s} {times[name]:8.4f} s, {peak:6.1f} MB   "
            f"this / ours = {times[name] / ours:.2f}"
        )


def label_speed() -> None:
    """Draws of noisy labels against uniforms and against reading random bytes, and encoding."""
    n, rng = 10_000_000, np.random.default_rng(0)

    def read_bytes() -> None:
        for _ in range(8 * n // 100_000):
            os.urandom(100_000)

    for K in (10, 1000):
        codes = rng.integers(0, K, n)
        prior = np.sort(rng.dirichlet(np.ones(K)))[::-1]
        mechanisms = {
            "rr": rr(K, 1.0),
            "rr_with_prior": rr_with_prior(prior, 1.0),
            "rr_floor": rr_floor(prior, 0.5 / (1 + (K - 1) * np.exp(-1)), 1.0),
            "block_rr": block_rr(1.0, prior=prior, sigma=1.2, l=3),
        }
        jobs: dict[str, Callable[[], object]] = {
            "uniforms": lambda: rng.random(n),
            "random bytes": read_bytes,
        }
        for name, mechanism in mechanisms.items():
            jobs[f"{name}, seeded"] = lambda m=mechanism, codes=codes: m.sample(codes, rng)
            jobs[f"{name}, system"] = lambda m=mechanism, codes=codes: m.sample(codes)
        coder = BlockRRLabelTransformer("rr", classes=np.arange(K)).fit([0])
        jobs["encoding"] = lambda coder=coder, codes=codes: coder._encode(codes)
        classes = np.arange(K)
        jobs["searchsorted"] = lambda classes=classes, codes=codes: classes.searchsorted(codes)
        times = interleaved(jobs, rounds=5)
        print(f"labels, 10 million, {K} classes")
        for name, seconds in times.items():
            base = "random bytes" if name.endswith("system") else "uniforms"
            base = "searchsorted" if name == "encoding" else base
            print(f"  {name:26s} {seconds:8.4f} s   this / {base} = {seconds / times[base]:6.2f}")
    values, prior = np.linspace(0, 1, 1000), np.full(1000, 1e-3)
    times = interleaved({"rr_on_bins": lambda: rr_on_bins(values, prior, 4.0)}, rounds=2)
    print(f"  RR-on-Bins, 1,000 values   {times['rr_on_bins']:8.4f} s")
