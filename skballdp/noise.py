"""The only place that draws noise.

The release is ``theta + scale * Z`` with Z standard normal, drawn once, at fit time, by inversion
of uniform numbers from the operating system's cryptographic generator. An ordinary generator
would not do: an attacker who knows the records of all classes but one knows the noise of their
prototypes, and could try to continue the stream. The numbers are float64, an idealised continuous
Gaussian: they do not have exactly the law that the proof assumes, which every certificate states as
a caveat.
"""

import math
import os
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import ndtri

__all__ = ["CONTINUOUS_CAVEAT", "NoiseReport", "SystemNormals", "make_rng", "perturb"]

CONTINUOUS_CAVEAT = (
    "idealised continuous noise: the proof is for real numbers, the noise was drawn in float64, "
    "whose gaps an attacker with the exact released digits may exploit"
)


@dataclass(frozen=True)
class NoiseReport:
    """What is public about the noise of one release.

    Attributes
    ----------
    kind : str
        Name of the sampler.
    caveats : tuple of str
        What separates the sampler from the law in the proof.
    """

    kind: str
    caveats: tuple[str, ...]


class SystemNormals:
    """Standard normals from the operating system's cryptographic generator."""

    def standard_normal(self, size: tuple[int, ...]) -> np.ndarray:
        """Independent normals, by inversion of uniforms on a grid of 2^53 midpoints."""
        count = math.prod(size)
        bits = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
        return ndtri((bits + 0.5) * 2.0**-53).reshape(size)


def make_rng(random_state: Any) -> Any:
    """Return a source of normals: the operating system for None, else a seeded stream.

    Parameters
    ----------
    random_state : None, int, numpy Generator or RandomState
        Anything but None makes the noise reproducible by whoever knows it, which voids the
        promise; the caller warns and says so in the certificate. numpy's global generator is
        never used.

    Returns
    -------
    SystemNormals, Generator or RandomState
        An object with ``standard_normal(size)``.

    Raises
    ------
    TypeError, ValueError
        For any other value.
    """
    if random_state is None:
        return SystemNormals()
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return random_state
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(
                "random_state must be None, a non-negative integer or a numpy generator, got a "
                "negative integer. Use None for a release."
            )
        return np.random.default_rng(int(random_state))
    raise TypeError(
        "random_state must be None, a non-negative integer or a numpy generator, got an object "
        f"of type {type(random_state).__name__}. Use None for a release."
    )


def perturb(theta: np.ndarray, scale: Any, *, rng: Any) -> tuple[np.ndarray, NoiseReport]:
    """Add Gaussian noise to exact parameters.

    Parameters
    ----------
    theta : ndarray
        The exact parameters.
    scale : array-like that broadcasts to the shape of `theta`
        Standard deviation, in the unit of `theta`; entries of scale 0 come back unchanged.
    rng : SystemNormals, Generator or RandomState
        From `make_rng`.

    Returns
    -------
    released : ndarray
        New array; `theta` is not changed.
    report : NoiseReport
        Public facts about the noise.
    """
    released = theta + np.asarray(scale) * rng.standard_normal(theta.shape)
    return released, NoiseReport(kind="continuous", caveats=(CONTINUOUS_CAVEAT,))
