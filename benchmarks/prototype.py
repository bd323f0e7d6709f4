"""Accuracy of the prototype head: the paper's calibration against ours, priors, public records.

epsilon 2, delta 1e-6, alpha 0.01, norm bound 1; mean over 20 releases. The standard error over
releases stands behind each number.
"""

import warnings

import numpy as np

from benchmarks.datasets import load
from skballdp import BallDPRidgePrototype, PrivacyWarning, radius_quantiles

RELEASES = 20


def public_split(
    X: np.ndarray, y: np.ndarray, per_class: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Prototypes from a few records of each class, and which records they are."""
    rng = np.random.default_rng(seed)
    chosen = np.concatenate(
        [rng.choice(np.flatnonzero(y == label), per_class, replace=False) for label in np.unique(y)]
    )
    public = np.zeros(len(y), dtype=bool)
    public[chosen] = True
    means = np.stack([X[public & (y == label)].mean(axis=0) for label in np.unique(y)])
    return means, public


def main(folder: str | None) -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    name, data = load(folder, "banking77_minilm")
    X, y = data.X_train.astype(np.float64), data.y_train
    r50 = radius_quantiles(X, y, 0.5)
    print(f"{name}: {X.shape[0]} x {X.shape[1]}, {len(np.unique(y))} classes, r50 = {r50:.4f}")
    print("(r50 is read off the training data: for comparison, not a private choice)\n")

    def accuracy(clf: BallDPRidgePrototype, keep: np.ndarray | None = None) -> str:
        rows = slice(None) if keep is None else keep
        releases = 1 if clf.epsilon == np.inf else RELEASES
        scores = [
            clf.fit(X[rows], y[rows]).score(data.X_test, data.y_test) for _ in range(releases)
        ]
        error = np.std(scores, ddof=1) / np.sqrt(releases) if releases > 1 else 0.0
        return f"{np.mean(scores):.4f} +- {error:.4f}"

    def head(**parameters) -> BallDPRidgePrototype:
        return BallDPRidgePrototype(**{"epsilon": 2.0, "alpha": 0.01, **parameters})

    print(f"{'':44s}{'standard':>18s}{'r50':>18s}")
    rows = {
        "global calibration, plain distances (paper)": {"calibration": "global"},
        "min_count calibration (paper)": {"calibration": "min_count"},
        "per_class, unbiased distances (ours)": {},
        "  ... and empirical priors": {"priors": "empirical"},
    }
    for label, parameters in rows.items():
        cells = [accuracy(head(radius=radius, **parameters)) for radius in ("standard", r50)]
        print(f"{label:44s}{cells[0]:>18s}{cells[1]:>18s}")
    per_class = 5
    means, public = public_split(X, y, per_class, seed=0)
    for label, parameters in {
        f"  ... and {per_class} public records a class": {},
        "  ... both": {"priors": "empirical"},
    }.items():
        cells = [
            accuracy(head(radius=radius, public_prototypes=means, **parameters), ~public)
            for radius in ("standard", r50)
        ]
        print(f"{label:44s}{cells[0]:>18s}{cells[1]:>18s}")
    print(f"{'noiseless':44s}{accuracy(head(epsilon=np.inf)):>18s}")
    print(f"\nstandard radius, epsilon 1, alpha 0.03, {per_class} public records a class:")
    for label, centre in {"towards zero": None, "towards the public prototypes": means}.items():
        clf = head(epsilon=1.0, alpha=0.03, public_prototypes=centre)
        print(f"{label:44s}{accuracy(clf, ~public):>18s}")
