"""NoisyLabelLogisticRegression: logistic regression that knows how its labels were made noisy."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from skballdp._validate import check_real
from skballdp.data import RowBlocks, longest_product_sum
from skballdp.erm.losses import BinaryLogistic, Loss, Softmax
from skballdp.erm.sensitivity import gradient_error, minimizer_radius
from skballdp.erm.solver import Objective, descend, minimize
from skballdp.labels.transformer import check_classes

__all__ = [
    "ForwardLogistic",
    "NoisyLabelLogisticRegression",
    "check_transition_matrix",
    "relative_weights",
]

# Stationary points are found to this fraction of the gradient's scale, plain optima to a finer one.
_STATIONARY, _OPTIMAL = 1e-4, 1e-10


class NoisyLabelLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression by maximum likelihood of labels with known noise.

    Binary for two classes, multinomial (softmax) for more. With a transition matrix, what is fitted
    to the noisy labels is the model's clean probabilities *times the matrix*: predictions are then
    for clean labels, and minority classes survive mechanisms that hardly ever report them.

    Parameters
    ----------
    alpha : float, default=0.0001
        Regularisation, > 0: of mean loss + alpha/2 ||theta||^2, the intercept included.
    fit_intercept : bool, default=True
        Whether to fit an intercept.
    transition_matrix : array-like of shape (n_classes, n_classes) or None, default=None
        ``T[y, z]``, probability of the noisy label z for the true label y, in the order of
        `classes`; rows sum to 1. None takes the labels as they are. `LabelDPClassifier` with
        ``correction="likelihood"`` sets it.
    classes : array-like of shape (n_classes,) or None, default=None
        All labels that can occur; None takes those in y, and is possible without a matrix only.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts; zeros without `fit_intercept`.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they are all strings.

    See Also
    --------
    skballdp.LabelDPClassifier : Privatises the labels and fits this, or any other classifier.
    skballdp.privatize_labels : Noisy labels and their matrix.

    Notes
    -----
    With the probabilities f(x) of the model, minimised is ``-mean w log (f(x) T)[z] + alpha/2
    ||theta||^2`` over records with noisy labels z. Its gradient with respect to the scores is
    ``f - r``, r the posterior ``r_y = f_y T[y, z] / (f T)[z]``: one descent does what a chain of
    refits with posterior weights (EM) would converge to.

    It is convex for the identity only. The solver starts at the optimum that takes the noisy labels
    for true ones, and never goes up; it stops at a stationary point. Privacy does not depend on it.

    **Formal guarantees.** None of its own. Fitted to labels that a mechanism has made private, its
    coefficients are as private as these, and the features are not hidden. There is **no Ball-DP
    version**: the sensitivity of the heads of this package needs a convex loss.

    References
    ----------
    G. Patrini et al., "Making deep neural networks robust to label noise: a loss correction
    approach", CVPR 2017 (forward correction).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skballdp import NoisyLabelLogisticRegression, privatize_labels
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> private = privatize_labels(y, mechanism="rr", epsilon=2.0, classes=range(4))
    >>> clf = NoisyLabelLogisticRegression(
    ...     transition_matrix=private.transition_matrix, classes=private.classes
    ... )
    >>> bool(clf.fit(X / 16, private.labels).score(X / 16, y) > 0.5)
    True
    """

    def __init__(
        self,
        *,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        transition_matrix: Any = None,
        classes: Any = None,
    ):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.transition_matrix = transition_matrix
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "NoisyLabelLogisticRegression":
        """Fit the model to noisy labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training records.
        y : array-like of shape (n_samples,)
            Noisy labels, or true ones without a transition matrix.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the records, >= 0; only their ratios matter.

        Returns
        -------
        NoisyLabelLogisticRegression
            The object itself.

        Raises
        ------
        TypeError, ValueError
            For parameters or data out of their domain.

        Warns
        -----
        ConvergenceWarning
            If the descent ends before it reaches a stationary point.
        """
        alpha = check_real("alpha", self.alpha, low=1e-60, high=1e60)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise TypeError(f"fit_intercept must be True or False, got {self.fit_intercept!r}.")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        classes, T = self._domain(y)
        codes = np.searchsorted(classes, y)
        if T is not None and not np.all(T.max(axis=0)[codes] > 0):
            raise ValueError(
                "y contains labels that cannot occur: their columns of transition_matrix are zero. "
                "Give the matrix that the labels were drawn with."
            )
        weights = relative_weights(sample_weight, len(y))

        rows = RowBlocks(X, norm_bound=None)
        # The solver wants rows in a ball: the smallest one that holds them all clips nothing.
        rows = RowBlocks(X, norm_bound=max(rows.largest_norm() * (1 + 1e-12), 1e-50))
        plain = BinaryLogistic(2) if len(classes) == 2 else Softmax(len(classes))
        shape: dict[str, Any] = {
            "alpha": alpha,
            "norm_bound": rows.norm_bound,
            "fit_intercept": bool(self.fit_intercept),
            "n_classes": len(classes),
        }
        name = "logistic" if len(classes) == 2 else "softmax"
        max_norm = minimizer_radius(name, **shape)
        terms = longest_product_sum(*X.shape)
        rounding = gradient_error(name, n_features=X.shape[1], n_terms=terms, **shape)
        center = np.zeros((plain.n_scores, X.shape[1] + bool(self.fit_intercept)))
        objective = Objective(plain, rows, codes, weights, alpha, center)
        tolerance = _STATIONARY if T is not None else _OPTIMAL
        tolerance = max(8 * rounding, tolerance * alpha * max_norm)
        theta = minimize(objective, tolerance=tolerance, max_norm=max_norm)
        if T is not None:
            forward = ForwardLogistic(len(classes), T)
            objective = Objective(forward, rows, codes, weights, alpha, center)
            theta, arrived = descend(objective, theta, tolerance=tolerance)
            if not arrived:
                warnings.warn(
                    "NoisyLabelLogisticRegression: the descent stopped before a stationary point. "
                    "Raise alpha, or scale the features to norms near 1.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        d = X.shape[1]
        self.classes_ = classes
        self.coef_ = theta[:, :d].copy()
        self.intercept_ = theta[:, d].copy() if self.fit_intercept else np.zeros(len(theta))
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``X @ coef_.T + intercept_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, positive for the second.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Most likely true label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels from ``classes_``.
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the true labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities, accurate where these underflow.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return log_softmax(scores, axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Sorted classes, and the matrix in their order."""
        if self.classes is None:
            if self.transition_matrix is not None:
                raise ValueError(
                    "classes must be given with a transition_matrix: the labels in the order of "
                    "its rows."
                )
            classes = np.unique(y)
            if len(classes) < 2:
                raise ValueError(
                    "y holds 1 class; a classifier needs records of at least two. Name all labels "
                    "in classes."
                )
            return classes, None
        given = check_classes(self.classes)
        if len(given) < 2:
            raise ValueError(
                f"classes must hold at least two classes, got {len(given)}. Name all labels."
            )
        order = np.argsort(given)
        if not np.all(np.isin(y, given)):
            raise ValueError("y contains labels not in classes; add them.")
        if self.transition_matrix is None:
            return given[order], None
        T = check_transition_matrix(self.transition_matrix, len(given))
        return given[order], T[np.ix_(order, order)]


@dataclass(frozen=True, eq=False)
class ForwardLogistic(Loss):
    """``-log (f T)[z]``, f the probabilities of a (binary or multinomial) logistic model.

    Codes are noisy labels z, T the transition matrix. **Not convex**, unlike the other losses; it
    lies below a convex loss that touches it (the posterior-weighted log loss), whose curvature
    `mean_curvature` reports.

    Parameters
    ----------
    n_classes : int
        Number of classes K >= 2.
    transition_matrix : ndarray of shape (n_classes, n_classes)
        T.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.labels import rr
    >>> from skballdp.labels.likelihood import ForwardLogistic
    >>> loss = ForwardLogistic(3, rr(3, epsilon=1.0).matrix())
    >>> values, slopes = loss.value_and_slope(np.zeros((1, 3)), np.array([0]))
    >>> values.round(3).tolist(), slopes.round(3).tolist()
    ([[1.099]], [[-0.243, 0.121, 0.121]])
    """

    transition_matrix: np.ndarray

    curvature_bound = 1 / 2

    def value_and_slope(
        self, scores: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Loss`."""
        log_f = self._log_probabilities(scores)
        with np.errstate(divide="ignore"):
            joint = log_f + np.log(self.transition_matrix)[:, codes].T
        top = joint.max(axis=-1, keepdims=True)
        posterior = np.exp(joint - top)
        total = posterior.sum(axis=-1, keepdims=True)
        posterior /= total
        slopes = np.exp(log_f) - posterior
        return -(top + np.log(total)), self._of_scores(slopes)

    def mean_curvature(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """See `Loss`; of the convex majorant."""
        f = np.exp(self._log_probabilities(scores))
        if self.n_classes == 2:
            return f[..., 0] * f[..., 1]
        return (1 - np.vecdot(f, f)) / (self.n_classes - 1)

    def _log_probabilities(self, scores: np.ndarray) -> np.ndarray:
        if self.n_classes == 2:
            return log_expit(np.concatenate([-scores, scores], axis=-1))
        return log_softmax(scores, axis=-1)

    def _of_scores(self, slopes: np.ndarray) -> np.ndarray:
        return slopes[..., 1:] if self.n_classes == 2 else slopes


def check_transition_matrix(T: Any, n_classes: int) -> np.ndarray:
    """Return a square matrix of probabilities whose rows sum to one, or raise."""
    array = np.asarray(T)
    if array.dtype.kind not in "fiu" or array.shape != (n_classes, n_classes):
        raise ValueError(
            f"transition_matrix must be an array of numbers of shape ({n_classes}, {n_classes}), "
            f"one row and column per class, got shape {array.shape} and dtype {array.dtype}."
        )
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)) or array.min() < 0:
        raise ValueError("transition_matrix must be finite and non-negative.")
    if np.any(np.abs(array.sum(axis=1) - 1) > 1e-8):
        raise ValueError(
            "transition_matrix must have rows that sum to 1. Divide them by their sum."
        )
    return array


def relative_weights(sample_weight: Any, n: int) -> np.ndarray:
    """Weights that sum to one."""
    if sample_weight is None:
        return np.full(n, 1.0 / n)
    weights = np.asarray(sample_weight)
    if weights.dtype.kind not in "fiub" or weights.shape not in ((), (n,)):
        raise ValueError(
            f"sample_weight must be an array of {n} numbers, got shape {weights.shape} and dtype "
            f"{weights.dtype}."
        )
    weights = np.broadcast_to(weights.astype(np.float64), n)
    total = float(weights.sum())
    if not (np.all(weights >= 0) and 0 < total < math.inf):
        raise ValueError("sample_weight must be finite, non-negative and not all zero.")
    return weights / total
