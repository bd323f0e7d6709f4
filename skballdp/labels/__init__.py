"""Label privacy: noisy labels in place of true ones."""

from skballdp.labels.bins import BinsMechanism, IntervalMechanism, rp_with_prior, rr_on_bins
from skballdp.labels.certificate import LabelPrivacyCertificate
from skballdp.labels.combined import CombinedPrivacyCertificate
from skballdp.labels.likelihood import NoisyLabelLogisticRegression
from skballdp.labels.mechanisms import (
    LabelMechanism,
    block_rr,
    block_rr_sets,
    lp_optimal,
    rr,
    rr_floor,
    rr_top_k,
    rr_with_prior,
    weight_partition,
)
from skballdp.labels.meta import LabelDPClassifier, LabelDPRegressor
from skballdp.labels.prior import (
    prior_from_histogram,
    prior_from_rr,
    private_histogram,
    project_simplex,
)
from skballdp.labels.privatize import LabelDPSampler, PrivateLabels, privatize_labels
from skballdp.labels.transformer import BlockRRLabelTransformer

__all__ = [
    "BinsMechanism",
    "BlockRRLabelTransformer",
    "CombinedPrivacyCertificate",
    "IntervalMechanism",
    "LabelDPClassifier",
    "LabelDPRegressor",
    "LabelDPSampler",
    "LabelMechanism",
    "LabelPrivacyCertificate",
    "NoisyLabelLogisticRegression",
    "PrivateLabels",
    "block_rr",
    "block_rr_sets",
    "lp_optimal",
    "prior_from_histogram",
    "prior_from_rr",
    "private_histogram",
    "privatize_labels",
    "project_simplex",
    "rp_with_prior",
    "rr",
    "rr_floor",
    "rr_on_bins",
    "rr_top_k",
    "rr_with_prior",
    "weight_partition",
]
