"""The one list of estimator instances that the common tests run over."""

import inspect

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

import skballdp
from skballdp import (
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    BlockRRLabelTransformer,
    LabelDPClassifier,
    LabelDPRegressor,
    LabelDPSampler,
    MAPReconstructionAuditor,
    NoisyLabelLogisticRegression,
)

HEADS = [BallDPRidgePrototype(), BallDPLogisticRegression(), BallDPSquaredHingeSVC()]
AUDITORS = [MAPReconstructionAuditor(BallDPRidgePrototype(), n_releases=50, n_fits=2)]
LABEL_LEARNERS = [
    LabelDPClassifier(LogisticRegression(), classes="observed"),
    LabelDPClassifier(LogisticRegression(), classes="observed", correction="proba"),
    LabelDPRegressor(Ridge(), support=np.linspace(-5, 5, 21)),
]
# Draws nothing: it is given noisy labels.
NOISELESS = [NoisyLabelLogisticRegression()]
# The common checks skip transformers of y, and know no samplers: see tests/labels.
LABEL_TRANSFORMERS = [BlockRRLabelTransformer(classes="observed")]
SAMPLERS = [LabelDPSampler(classes="observed")]
ESTIMATORS = [*HEADS, *AUDITORS, *LABEL_LEARNERS, *NOISELESS]


def names(instances):
    return [type(instance).__name__ for instance in instances]


def public_estimators():
    """Every estimator class that the package exports."""
    return {
        value
        for value in vars(skballdp).values()
        if inspect.isclass(value) and hasattr(value, "get_params")
    }
