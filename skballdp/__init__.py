"""Release classifiers on embeddings without giving their training records away."""

from skballdp.accounting.reconstruction import epsilon_for_exact_id, exact_id_of_epsilon
from skballdp.audit import AuditReport, MAPReconstructionAuditor
from skballdp.certificate import PrivacyCertificate
from skballdp.exceptions import CertificationError, PrivacyWarning
from skballdp.labels import (
    BlockRRLabelTransformer,
    CombinedPrivacyCertificate,
    LabelDPClassifier,
    LabelDPRegressor,
    LabelDPSampler,
    LabelPrivacyCertificate,
    NoisyLabelLogisticRegression,
    PrivateLabels,
    privatize_labels,
)
from skballdp.linear import BallDPLogisticRegression, BallDPSquaredHingeSVC
from skballdp.model_selection import strongest_within
from skballdp.prototype import BallDPRidgePrototype
from skballdp.publish import load, release, save
from skballdp.radius import Radius, radius_quantiles

__version__ = "0.1.0.dev0"

__all__ = [
    "AuditReport",
    "BallDPLogisticRegression",
    "BallDPRidgePrototype",
    "BallDPSquaredHingeSVC",
    "BlockRRLabelTransformer",
    "CertificationError",
    "CombinedPrivacyCertificate",
    "LabelDPClassifier",
    "LabelDPRegressor",
    "LabelDPSampler",
    "LabelPrivacyCertificate",
    "MAPReconstructionAuditor",
    "NoisyLabelLogisticRegression",
    "PrivacyCertificate",
    "PrivacyWarning",
    "PrivateLabels",
    "Radius",
    "epsilon_for_exact_id",
    "exact_id_of_epsilon",
    "load",
    "privatize_labels",
    "radius_quantiles",
    "release",
    "save",
    "strongest_within",
]
