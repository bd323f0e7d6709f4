"""Accuracy of the three heads: tight against paper calibration, two radii, five epsilons.

delta 1e-6, norm bound 1, alpha 0.01; mean over 20 releases. The first table is multinomial
logistic regression at epsilon 2, the second all heads for two classes. The radius r50 is read off
the training data, as in the paper: for comparison, not a private choice.
"""

import warnings

import numpy as np

from benchmarks.datasets import load
from skballdp import (
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    PrivacyWarning,
    radius_quantiles,
)
from skballdp.cli import Dataset

RELEASES = 20


def accuracies(clf, data: Dataset, releases: int = RELEASES) -> np.ndarray:
    """Test accuracies of several releases."""
    return np.array(
        [
            clf.fit(data.X_train, data.y_train).score(data.X_test, data.y_test)
            for _ in range(1 if clf.epsilon == np.inf else releases)
        ]
    )


def main(folder: str | None) -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    name, data = load(folder, "agnews_minilm")
    r50 = radius_quantiles(data.X_train, data.y_train, 0.5)
    print(f"{name}: multinomial logistic regression, epsilon 2, r50 = {r50:.4f}")
    for label, parameters in {
        "paper": {"sensitivity": "paper"},
        "tight": {},
        "noiseless": {"epsilon": np.inf},
    }.items():
        clf = BallDPLogisticRegression(r50, **{"epsilon": 2.0, **parameters})
        scores = accuracies(clf, data)
        print(f"  {label:10s} accuracy {scores.mean():.4f}   noise scale {clf.noise_scale_:.4f}")

    name, data = load(folder, "imdb_minilm")
    if folder is None:  # digits: the first five against the rest
        data = Dataset(data.X_train, data.y_train < 5, data.X_test, data.y_test < 5)
    r50 = radius_quantiles(data.X_train, data.y_train, 0.5)
    epsilons = (1.0, 2.0, 8.0, 16.0, 32.0, np.inf)
    print(f"\n{name}: two classes, r50 = {r50:.4f}; accuracy by epsilon")
    print(f"  {'head':10s}{'bound':8s}{'radius':10s}" + "".join(f"{e:>8g}" for e in epsilons))
    heads = {
        "ridge": (BallDPRidgePrototype, {"tight": {}, "paper": {"calibration": "global"}}),
        "logistic": (
            BallDPLogisticRegression,
            {mode: {"sensitivity": mode} for mode in ("tight", "paper")},
        ),
        "hinge": (
            BallDPSquaredHingeSVC,
            {mode: {"sensitivity": mode} for mode in ("tight", "paper")},
        ),
    }
    for head, (cls, modes) in heads.items():
        for mode, parameters in modes.items():
            for policy, radius in (("r50", r50), ("standard", "standard")):
                cells = [
                    accuracies(cls(radius, epsilon=epsilon, **parameters), data).mean()
                    for epsilon in epsilons
                ]
                print(f"  {head:10s}{mode:8s}{policy:10s}" + "".join(f"{c:8.3f}" for c in cells))
