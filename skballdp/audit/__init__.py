"""Attacking one's own model: candidates, the exact MAP rule, and a report."""

from skballdp.audit.auditor import MAPReconstructionAuditor
from skballdp.audit.report import (
    AuditReport,
    ImplementationReport,
    ReachabilityReport,
    SupportReport,
)

__all__ = [
    "AuditReport",
    "ImplementationReport",
    "MAPReconstructionAuditor",
    "ReachabilityReport",
    "SupportReport",
]
