"""Speed of fits against scikit-learn and against one pass over the data, interleaved."""

import time
from collections.abc import Callable

import numpy as np
from sklearn.neighbors import NearestCentroid

from skballdp import BallDPRidgePrototype

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
