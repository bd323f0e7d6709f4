"""What may stand before a head in a Pipeline."""

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags

__all__ = ["require_public_steps"]


def require_public_steps(steps: list[tuple[str, Any]]) -> None:
    """Refuse steps that may have learned from the private records: no certificate covers them."""
    for name, step in steps:
        if step in ("passthrough", None) or isinstance(step, FrozenEstimator):
            continue
        if get_tags(step).requires_fit:
            raise ValueError(
                f"step {name!r} of the Pipeline, a {type(step).__name__}, learns from the data, "
                "which no certificate covers. Fit it on public records and wrap it in "
                "sklearn.frozen.FrozenEstimator, or use a stateless transformer such as Normalizer."
            )
