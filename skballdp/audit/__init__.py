"""Attacking one's own model: candidates, the exact MAP rule, and a report."""

from skballdp.audit.auditor import MAPReconstructionAuditor
from skballdp.audit.report import (
    ApproximateReport,
    AuditReport,
    Check,
    ImplementationReport,
    InversionReport,
    Rate,
    SupportReport,
    UnknownLabelReport,
)
from skballdp.audit.statistics import AuditSummary

__all__ = [
    "ApproximateReport",
    "AuditReport",
    "AuditSummary",
    "Check",
    "ImplementationReport",
    "InversionReport",
    "MAPReconstructionAuditor",
    "Rate",
    "SupportReport",
    "UnknownLabelReport",
]
