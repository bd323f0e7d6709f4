"""Learning from private labels: the study of the BlockRR paper on real features, and a regression.

Classes in the proportions of the paper's CIFAR-10_1 and CIFAR-10_2, scaled down to the records
there are. All four mechanisms train the same multinomial logistic regression, `plain` on the noisy
labels as they are, `corrected` by the likelihood under the known noise. Randomised response trains
on all records; the others set 1 % of them aside for a private prior. acc is the accuracy at the
proportions of the training set, mean the average accuracy over the classes; both in percent, mean
over 10 seeds with the standard deviation between seeds. The diabetes table holds mean squared
errors of linear regression.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.preprocessing import normalize

from benchmarks.datasets import load
from benchmarks.label_mechanisms import COUNTS, SETTINGS
from skballdp import (
    LabelDPRegressor,
    NoisyLabelLogisticRegression,
    PrivacyWarning,
    PrivateLabels,
    privatize_labels,
)
from skballdp.cli import Dataset

SEEDS = 10
EPSILONS = (0.6, 0.8, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, np.inf)
ALPHA = 1e-4
ALPHAS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3)
MECHANISMS = ("rr", "rr_with_prior", "block_rr", "rr_floor")


def scaled(data: Dataset, counts: Sequence[int], seed: int) -> Dataset:
    """Training records with class counts in proportion to `counts`; unit rows, all tests."""
    rng = np.random.default_rng(seed)
    available = np.bincount(data.y_train, minlength=len(counts))
    scale = float(np.min(available / counts))
    chosen = np.concatenate(
        [
            rng.choice(np.flatnonzero(data.y_train == c), round(count * scale), replace=False)
            for c, count in enumerate(counts)
        ]
    )
    return Dataset(
        normalize(np.asarray(data.X_train, dtype=np.float64)[chosen]),
        data.y_train[chosen],
        normalize(np.asarray(data.X_test, dtype=np.float64)),
        data.y_test,
    )


def encoded(data: Dataset) -> Dataset:
    """The same with class codes, in the order of the names."""
    classes, codes = np.unique(data.y_train, return_inverse=True)
    return Dataset(data.X_train, codes, data.X_test, np.searchsorted(classes, data.y_test))


def noisy_labels(
    data: Dataset, mechanism: str, epsilon: float, seed: int, **settings: float
) -> PrivateLabels:
    """One release with the settings of the study."""
    if mechanism != "rr":
        settings["prior_fraction"] = 0.01
    if mechanism == "rr_floor":  # half of what randomised response keeps: a public number
        settings["floor"] = 0.5 / (1 + 9 * np.exp(-epsilon))
    return privatize_labels(
        data.y_train,
        mechanism=mechanism,
        epsilon=epsilon,
        classes=range(10),
        random_state=seed,
        **settings,
    )


def model(private: PrivateLabels, corrected: bool, alpha: float) -> NoisyLabelLogisticRegression:
    T = private.transition_matrix if corrected else np.eye(10)  # the labels as they are
    return NoisyLabelLogisticRegression(alpha=alpha, transition_matrix=T, classes=private.classes)


def scores(clf, data: Dataset) -> tuple[float, float]:
    """Accuracy at the training proportions, and mean accuracy over the classes."""
    hits = clf.predict(data.X_test) == data.y_test
    recall = np.array([hits[data.y_test == c].mean() for c in range(10)])
    weights = np.bincount(data.y_train, minlength=10) / len(data.y_train)
    return 100 * float(weights @ recall), 100 * float(recall.mean())


def fit_both(data: Dataset, private: PrivateLabels, alpha: float = ALPHA) -> np.ndarray:
    """acc and mean of the plain fit, then of the corrected one."""
    X = data.X_train[private.indices]
    fits = [model(private, corrected, alpha).fit(X, private.labels) for corrected in (False, True)]
    return np.ravel([scores(clf, data) for clf in fits])


def repeated(job: Callable[[int], np.ndarray]) -> list[str]:
    """Mean and standard deviation over the seeds, as cells."""
    values = np.array([job(seed) for seed in range(SEEDS)])
    spread = values.std(axis=0, ddof=1)
    return [f"{m:.1f} ± {s:.1f}" for m, s in zip(values.mean(axis=0), spread, strict=True)]


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def header(*names: str) -> None:
    row(*names)
    print("|" + "---|" * len(names))


def study(data: Dataset) -> None:
    for name, counts in COUNTS.items():
        paper = {epsilon: (sigma, protected) for epsilon, sigma, protected in SETTINGS[name]}
        n = len(scaled(data, counts, 0).y_train)
        print(f"\n{name}, {n} records, alpha {ALPHA:g}")
        header("eps", "mechanism", "plain acc", "plain mean", "corrected acc", "corrected mean")
        for epsilon in EPSILONS:
            sigma, protected = paper.get(epsilon, (0.5, 0))
            for mechanism in MECHANISMS:
                block = {"sigma": sigma, "l": protected} if mechanism == "block_rr" else {}

                def job(seed: int, m=mechanism, e=epsilon, s=block, c=counts) -> np.ndarray:
                    subset = scaled(data, c, seed)
                    return fit_both(subset, noisy_labels(subset, m, e, seed, **s))

                row(f"{epsilon:g}", mechanism, *repeated(job))


def ablations(data: Dataset) -> None:
    counts = COUNTS["CIFAR-10_1"]
    for epsilon in (1.0, 2.0):
        for name, grid in (
            ("l", [{"sigma": 1.2, "l": l} for l in range(7)]),  # noqa: E741
            ("sigma", [{"sigma": round(0.2 * i, 1)} for i in range(1, 9)]),
        ):
            print(f"\nBlockRR, CIFAR-10_1, epsilon {epsilon:g}: {name}")
            header(name, "plain acc", "plain mean", "corrected acc", "corrected mean")
            for settings in grid:

                def job(seed: int, e=epsilon, s=settings) -> np.ndarray:
                    subset = scaled(data, counts, seed)
                    return fit_both(subset, noisy_labels(subset, "block_rr", e, seed, **s))

                row(settings[name], *repeated(job))


def tuned(data: Dataset) -> None:
    """alpha chosen for each fit by the likelihood of held-out noisy labels: a free search."""
    print("\nCIFAR-10_1, alpha chosen on noisy labels; and the best alpha for the test set")
    header(
        "eps", "mechanism", "plain acc", "plain mean", "corrected acc", "corrected mean",
        "best plain mean", "best corrected mean",
    )  # fmt: skip
    for epsilon in (0.6, 0.8, 1.0):
        for mechanism in ("rr", "block_rr"):

            def job(seed: int, m=mechanism, e=epsilon) -> np.ndarray:
                subset = scaled(data, COUNTS["CIFAR-10_1"], seed)
                private = noisy_labels(subset, m, e, seed)
                X, z = subset.X_train[private.indices], private.labels
                held_out = np.random.default_rng(seed).random(len(z)) < 0.2
                T = private.transition_matrix
                chosen, best = [], []
                for corrected in (False, True):
                    likelihood, test = [], []
                    for alpha in ALPHAS:
                        clf = model(private, corrected, alpha)
                        g = clf.fit(X[~held_out], z[~held_out]).predict_proba(X[held_out])
                        g = g @ T if corrected else g
                        fitted = g[np.arange(len(g)), z[held_out]]
                        likelihood.append(float(np.mean(np.log(np.maximum(fitted, 1e-300)))))
                        test.append(scores(clf.fit(X, z), subset))
                    chosen += test[int(np.argmax(likelihood))]
                    best.append(max(mean for _, mean in test))
                return np.array(chosen + best)

            row(f"{epsilon:g}", mechanism, *repeated(job))


class Laplace(LinearRegression):
    """Linear regression on targets with Laplace noise: for comparison, in floats."""

    def __init__(self, epsilon: float, support: np.ndarray, seed: int):
        super().__init__()
        self.epsilon, self.support, self.seed = epsilon, support, seed

    def fit(self, X, y):
        low, high = self.support[0], self.support[-1]
        scale = 0.0 if self.epsilon == np.inf else (high - low) / self.epsilon
        noise = scale * np.random.default_rng(self.seed).laplace(size=len(y))
        return super().fit(X, np.clip(y, low, high) + noise)


def regression() -> None:
    X, y = load_diabetes(return_X_y=True)
    support = np.linspace(0, 360, 37)  # public: no measurement lies outside
    cells = np.arange(-5.0, 366, 10)  # around the values of the support

    def estimators(epsilon: float, seed: int, prior: np.ndarray) -> dict[str, object]:
        common = {"epsilon": epsilon, "random_state": seed}
        bins = {**common, "mechanism": "rr_on_bins", "support": support}
        interval = {**common, "mechanism": "rp_with_prior", "support": cells}
        debiased = {**interval, "correction": "debias"}
        return {
            "RR-on-Bins, uniform prior": LabelDPRegressor(LinearRegression(), **bins),
            "RR-on-Bins, 10 % for the prior": LabelDPRegressor(
                LinearRegression(), prior_fraction=0.1, **bins
            ),
            "RR-on-Bins, true prior": LabelDPRegressor(LinearRegression(), prior=prior, **bins),
            "RPWithPrior, 10 % for the prior": LabelDPRegressor(
                LinearRegression(), prior_fraction=0.1, **interval
            ),
            "RPWithPrior, true prior": LabelDPRegressor(
                LinearRegression(), prior=prior, **interval
            ),
            "RPWithPrior, 10 %, debiased": LabelDPRegressor(
                LinearRegression(), prior_fraction=0.1, **debiased
            ),
            "Laplace": Laplace(epsilon, support, seed),
        }

    print("\ndiabetes: mean squared error on held-out true targets, 5 folds x 10 seeds")
    names = list(estimators(1.0, 0, np.full(37, 1 / 37)))
    header("eps", *names)
    for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0, np.inf):
        errors: dict[str, list[float]] = {name: [] for name in names}
        for seed in range(SEEDS):
            for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
                # Of the training targets: not private, for the comparison of mechanisms only.
                nearest = np.abs(y[train][:, np.newaxis] - support).argmin(axis=1)
                prior = np.bincount(nearest, minlength=37) / len(train)
                for name, estimator in estimators(epsilon, seed, prior).items():
                    estimator.fit(X[train], y[train])
                    errors[name].append(float(np.mean((estimator.predict(X[test]) - y[test]) ** 2)))
        row(f"{epsilon:g}", *(f"{np.mean(e):.0f}" for e in errors.values()))


def main(folder: str | None) -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    name, data = load(folder, "cifar10_effnetlite0")
    print(name)
    data = encoded(data)
    study(data)
    tuned(data)
    ablations(data)
    regression()
