"""Pictures; matplotlib is imported when one is drawn."""

from collections.abc import Sequence
from typing import Any

__all__ = ["plot_policies"]


def plot_policies(
    names: Sequence[str],
    accuracy: Sequence[float],
    certificate: Sequence[float],
    rate: Sequence[float],
    interval: Sequence[tuple[float, float]],
    *,
    kappa: float,
    ax: Any = None,
) -> Any:
    """Accuracy, certificate and measured attack success for several radius policies.

    Parameters
    ----------
    names : sequence of str
        The policies.
    accuracy, certificate, rate : sequence of float
        Test accuracy, bound on exact identification and its measured rate, one for each policy.
    interval : sequence of (float, float)
        Confidence interval of the rate.
    kappa : float
        Success of a blind guess.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is missing; the message names the command that installs it.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'skballdp[plot]'") from None
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    places = range(len(names))
    below = [max(0.0, r - low) for r, (low, _) in zip(rate, interval, strict=True)]
    above = [max(0.0, high - r) for r, (_, high) in zip(rate, interval, strict=True)]
    ax.plot(places, accuracy, "s-", color="0.1", label="test accuracy")
    ax.plot(places, certificate, "v--", color="#d55e00", label="exact-ID certificate")
    ax.errorbar(
        places, rate, yerr=[below, above], fmt="o:", color="#0072b2", capsize=4,
        label="measured exact-ID rate",
    )  # fmt: skip
    ax.axhline(kappa, color="0.6", linewidth=1, label="blind guess")
    ax.set_xticks(list(places), names)
    ax.set(xlabel="radius policy", ylabel="accuracy or probability of success", ylim=(0, 1))
    ax.legend(loc="center left")
    return ax
