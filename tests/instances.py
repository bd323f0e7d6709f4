"""The one list of estimator instances that the common tests run over."""

import inspect

import skballdp
from skballdp import (
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    BlockRRLabelTransformer,
    MAPReconstructionAuditor,
)

HEADS = [BallDPRidgePrototype(), BallDPLogisticRegression(), BallDPSquaredHingeSVC()]
AUDITORS = [MAPReconstructionAuditor(BallDPRidgePrototype(), n_releases=50, n_fits=2)]
# The common checks skip transformers of y: see tests/labels/test_transformer.py.
LABEL_TRANSFORMERS = [BlockRRLabelTransformer(classes="observed")]
ESTIMATORS = [*HEADS, *AUDITORS]


def names(instances):
    return [type(instance).__name__ for instance in instances]


def public_estimators():
    """Every estimator class that the package exports."""
    return {
        value
        for value in vars(skballdp).values()
        if inspect.isclass(value) and hasattr(value, "get_params")
    }
