"""strongest_within: the order of promises, and its use in a search."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skballdp import BallDPRidgePrototype, Radius, strongest_within


def pick(params, scores, tolerance=0.01):
    return strongest_within(tolerance)({"params": params, "mean_test_score": scores})


def test_order_of_promises():
    radii = [{"radius": 0.3}, {"radius": "standard"}, {"radius": 0.9}]
    assert pick(radii, [0.9, 0.5, 0.895]) == 2  # "standard" scores too low
    assert pick(radii, [0.9, 0.895, 0.895]) == 1
    assert pick(radii, [0.9, 0.895, 0.895], tolerance=0) == 0
    epsilons = [{"radius": 1, "epsilon": e} for e in (8.0, 2.0, 4.0)]
    assert pick(epsilons, [0.9, 0.9, 0.9]) == 1
    deltas = [{"epsilon": 1, "delta": d} for d in (1e-5, 1e-6)]
    assert pick(deltas, [0.9, 0.9]) == 1
    assert pick([{"alpha": 1}, {"alpha": 2}, {"alpha": 3}], [0.895, 0.9, 0.9]) == 1
    assert pick([{"radius": Radius(0.2)}, {"radius": Radius(0.3)}], [1, 1]) == 1
    assert pick([{"radius": "q50"}, {"radius": "standard"}, {"radius": "q95"}], [1, 0, 1]) == 2


def test_radii_are_compared_as_they_resolve():
    grid = [{"radius": 5.0, "norm_bound": 1.0}, {"radius": "standard", "norm_bound": 2.0}]
    assert pick(grid, [1, 1]) == 1
    grid = [{"radius": 5.0, "norm_bound": 1.0, "epsilon": 2}]
    grid += [{"radius": "standard", "norm_bound": 1.0, "epsilon": 1}]
    assert pick(grid, [1, 1]) == 1


def test_failed_fits_are_passed_over():
    assert pick([{"radius": 1.0}, {"radius": 0.5}], [np.nan, 0.8]) == 1


@pytest.mark.parametrize(
    "results, words",
    [
        ({"params": [{}], "mean_test_score": [np.nan]}, "no finite score"),
        ({"params": [{}], "mean_test_accuracy": [1.0]}, "one metric"),
        (
            {"params": [{"radius": "q50"}, {"radius": 0.5}], "mean_test_score": [1, 1]},
            "cannot compare",
        ),
        ({"params": [{"a__radius": 1, "b__radius": 2}], "mean_test_score": [1]}, "several"),
    ],
)
def test_what_cannot_be_compared_is_refused(results, words):
    with pytest.raises(ValueError, match=words):
        strongest_within()(results)


def test_bad_tolerance():
    with pytest.raises(ValueError, match="tolerance"):
        strongest_within(-0.1)
    with pytest.raises(TypeError, match="tolerance"):
        strongest_within("small")


def test_in_a_search_over_a_pipeline():
    X, y = load_digits(return_X_y=True)
    # At this epsilon the standard radius costs tens of points: no noise makes it the best.
    model = make_pipeline(Normalizer(), BallDPRidgePrototype(epsilon=0.5))
    grid = {"balldpridgeprototype__radius": [0.2, 0.5, "standard"]}
    search = GridSearchCV(model, grid, cv=3, refit=strongest_within(0.9)).fit(X, y)
    assert search.best_params_ == {"balldpridgeprototype__radius": "standard"}
    weakest = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert weakest.best_params_ != search.best_params_
    pickle.loads(pickle.dumps(search)).predict(X)
