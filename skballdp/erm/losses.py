"""Losses of the linear heads as functions of scores: no rows of ``X``, no parameters.

Conventions
-----------
A linear model with parameters ``theta`` of shape (k, d + 1), or (k, d) without intercept, gives
record x the scores ``s = theta @ (x, 1)`` of shape (k,). One column of scores serves two classes
(k = 1; code 1 is the positive class, ``y = +1``, code 0 is ``y = -1``), else k = K, one per
class. This is scikit-learn's layout: ``coef_ = theta[:, :d]``, ``intercept_ = theta[:, d]``.

Scores have shape (..., b, k) and codes shape (b,): leading axes are different parameters on the
same b records. Every function of them is evaluated so that no intermediate result overflows,
whatever the scores are, and reductions over classes are sums of K terms.

A loss is *separable* when it is a sum over the columns of scores (one-vs-rest): the objective
is then k independent problems that share the records, and values are reported per problem.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

__all__ = ["BinaryLogistic", "Loss", "Softmax", "SquaredHinge"]


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss with Lipschitz gradient.

    Parameters
    ----------
    n_classes : int
        Number of classes K >= 2.

    Attributes
    ----------
    curvature_bound : float
        Largest eigenvalue c of the second derivative with respect to one record's scores; with
        rows of norm at most Bt and weights of mean one, the gradient of the mean loss is
        Lipschitz with constant ``c Bt^2``.
    separable : bool
        Whether the loss is a sum over the columns of scores.
    """

    n_classes: int

    curvature_bound = 0.0
    separable = False

    @property
    def n_scores(self) -> int:
        """Columns of scores k: one for two classes, else one per class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @abstractmethod
    def value_and_slope(
        self, scores: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Loss of each record and its derivative with respect to the scores.

        Parameters
        ----------
        scores : ndarray of shape (..., b, k)
            Scores.
        codes : ndarray of int of shape (b,)
            Class codes in ``0 .. n_classes - 1``.

        Returns
        -------
        values : ndarray of shape (..., b, v)
            Losses; v = k for a separable loss, else 1.
        slopes : ndarray of shape (..., b, k)
            Gradients with respect to the scores.
        """

    @abstractmethod
    def mean_curvature(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Mean eigenvalue of the second derivative with respect to a record's scores.

        Parameters
        ----------
        scores : ndarray of shape (..., b, k)
            Scores.
        codes : ndarray of int of shape (b,)
            Class codes.

        Returns
        -------
        ndarray of shape (..., b)
            The second derivative itself where k = 1. Directions in which it is always zero do
            not count.
        """


class BinaryLogistic(Loss):
    """``log(1 + exp(-y s))``, for two classes; equal to `Softmax` with scores (0, s)."""

    curvature_bound = 1 / 4

    def value_and_slope(
        self, scores: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`."""
        sign = _signs(codes)
        margin = sign * scores
        small = np.exp(-np.abs(margin))  # in (0, 1]: nothing overflows
        values = np.log1p(small) - np.minimum(margin, 0)
        # sigmoid(-margin) is small / (1 + small) for a positive margin, else 1 / (1 + small).
        slopes = np.where(margin > 0, small, 1.0)
        slopes /= 1 + small
        slopes *= -sign
        return values, slopes

    def mean_curvature(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        small = np.exp(-np.abs(scores[..., 0]))
        return small / (1 + small) ** 2


class Softmax(Loss):
    """``log sum_c exp(s_c) - s_y``, for K > 2 classes."""

    curvature_bound = 1 / 2

    def value_and_slope(
        self, scores: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`."""
        label = (..., np.arange(len(codes)), codes)
        shifted = scores - scores.max(axis=-1, keepdims=True)
        score_of_label = shifted[label][..., None]
        slopes = np.exp(shifted, out=shifted)
        total = slopes.sum(axis=-1, keepdims=True)  # in [1, K]
        slopes /= total
        slopes[label] -= 1
        return np.log(total) - score_of_label, slopes

    def mean_curvature(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        # The trace of diag(p) - p p^T; adding the same to all scores changes nothing.
        return (1 - np.vecdot(p, p)) / (self.n_classes - 1)


class SquaredHinge(Loss):
    """``sum_c max(0, 1 - y_c s_c)^2``; y_c = 1 for the label's column and -1 for the others.

    With two classes the only column is the positive class's; with K > 2 it is one-vs-rest, K
    independent problems. The curvature jumps where a margin is exactly 1; there it is taken as
    0, one element of the generalised second derivative.
    """

    curvature_bound = 2.0
    separable = True

    def value_and_slope(
        self, scores: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`."""
        label = (..., np.arange(len(codes)), codes if self.n_classes > 2 else 0)
        sign = _signs(codes)[:, 0] if self.n_classes == 2 else 1.0
        slopes = 1 + scores
        slopes[label] = 1 - sign * scores[label]
        np.maximum(slopes, 0, out=slopes)
        values = np.square(slopes)
        slopes *= 2
        slopes[label] *= -sign
        return values, slopes

    def mean_curvature(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """See `Loss`."""
        return np.count_nonzero(self.value_and_slope(scores, codes)[1], axis=-1) * (
            self.curvature_bound / self.n_scores
        )


def _signs(codes: np.ndarray) -> np.ndarray:
    """The labels y in {-1, +1} of two classes, of shape (b, 1)."""
    return (2.0 * codes - 1.0)[:, None]
