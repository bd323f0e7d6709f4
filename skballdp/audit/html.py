"""The audit report as one self-contained page."""

from skballdp.audit.report import AuditReport

__all__ = ["page"]


def page(report: AuditReport) -> str:
    """HTML of the page."""
    raise NotImplementedError
