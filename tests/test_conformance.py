"""scikit-learn's own checks, and the conventions that they do not cover."""

import inspect

import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.instances import (
    AUDITORS,
    ESTIMATORS,
    HEADS,
    LABEL_LEARNERS,
    LABEL_TRANSFORMERS,
    SAMPLERS,
    names,
    public_estimators,
)

DRAWING = [*HEADS, *AUDITORS, *LABEL_LEARNERS, *LABEL_TRANSFORMERS]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
# Around scikit-learn's own estimator: whether it converges depends on the noise.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_list_is_complete():
    listed = [*ESTIMATORS, *LABEL_TRANSFORMERS, *SAMPLERS]
    assert {type(estimator) for estimator in listed} == public_estimators()


@pytest.mark.parametrize("estimator", DRAWING, ids=names(DRAWING))
def test_signature(estimator):
    fit = inspect.signature(estimator.fit)
    assert "sample_weight" not in fit.parameters
    parameters = inspect.signature(type(estimator).__init__).parameters
    assert not {"warm_start", "max_iter", "copy_X"} & set(parameters)
    assert "random_state" in parameters and parameters["random_state"].default is None


@pytest.mark.parametrize("estimator", HEADS, ids=names(HEADS))
def test_unfitted(estimator):
    estimator = clone(estimator)
    with pytest.raises(NotFittedError):
        estimator.predict([[0.0, 1.0]])
    assert not hasattr(estimator, "certificate_")
