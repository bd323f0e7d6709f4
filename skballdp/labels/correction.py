"""Learning in spite of known label noise: posterior weights, EM and corrected probabilities.

Conventions. T is the transition matrix, ``T[y, z]`` the probability of the noisy label z for the
true label y; f are probabilities of true labels, g of noisy ones, one record a row, so that
``g = f T``. The *likelihood* of a record is the column ``T[:, z]`` of its noisy label, as a row.
Everything here sees noisy labels only.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from skballdp.labels.prior import project_rows

__all__ = ["correct_probabilities", "fit_by_em", "posterior_weights"]

# EM stops when a step raises the mean log-likelihood of a record by less than that.
_SMALLEST_GAIN = 1e-5


def posterior_weights(probabilities: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """Probabilities of the true labels given features and noisy label.

    Parameters
    ----------
    probabilities : ndarray of shape (n, n_classes)
        f, without looking at the noisy label.
    likelihood : ndarray of shape (n, n_classes)
        ``T[y, z]`` for the record's noisy label z.

    Returns
    -------
    ndarray of shape (n, n_classes)
        ``f_y T[y, z] / (f T)[z]``, non-negative, rows sum to 1. Where f excludes all labels that
        could have become z, f is disregarded.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.labels.correction import posterior_weights
    >>> posterior_weights(np.array([[0.5, 0.5]]), np.array([[0.75, 0.25]])).tolist()
    [[0.75, 0.25]]
    """
    joint = probabilities * likelihood
    total = joint.sum(axis=1, keepdims=True)
    impossible = total[:, 0] <= 0
    if np.any(impossible):
        joint[impossible] = likelihood[impossible]
        total = joint.sum(axis=1, keepdims=True)
    return joint / total


def fit_by_em(
    fit: Callable[[np.ndarray], Any],
    probabilities_of: Callable[[Any], np.ndarray],
    start: np.ndarray,
    likelihood: np.ndarray,
    record_weights: np.ndarray,
    iterations: int,
) -> tuple[Any, np.ndarray]:
    """Maximise the likelihood of noisy labels by refits with posterior weights.

    Parameters
    ----------
    fit : callable
        Maps weights of shape (n, n_classes) to a model fitted to the n records, each with every
        label, with these weights.
    probabilities_of : callable
        Maps a model to its probabilities f of the n records.
    start : ndarray of shape (n, n_classes)
        First f.
    likelihood : ndarray of shape (n, n_classes)
        As in `posterior_weights`.
    record_weights : ndarray of shape (n,)
        Weights of the records, with sum 1, in the mean of the likelihood.
    iterations : int
        Most refits, at least 1.

    Returns
    -------
    model : object
        The fit of largest likelihood.
    log_likelihood : ndarray of shape (n_refits,)
        Mean of ``log (f T)[z]`` after each refit, increasing.

    Notes
    -----
    With any f, Jensen's inequality bounds the log-likelihood from below by ``sum r_y log f_y`` plus
    a constant, r the posterior under f, with equality at f. A fit that maximises this bound, the
    likelihood of weighted copies, cannot lower the likelihood. For others (a forest) and with a
    penalty it can: EM stops before it does, or when it hardly rises any more.

    References
    ----------
    A. Dempster, N. Laird and D. Rubin, J. Royal Statistical Society B 39 (1977).

    Examples
    --------
    The prior as the only model: of ten noisy labels seven are of the first class.

    >>> import numpy as np
    >>> from skballdp.labels import rr
    >>> from skballdp.labels.correction import fit_by_em
    >>> likelihood = rr(2, epsilon=2.0).matrix().T[[0] * 7 + [1] * 3]
    >>> prior, _ = fit_by_em(
    ...     lambda weights: weights.mean(axis=0),
    ...     lambda prior: np.tile(prior, (10, 1)),
    ...     np.full((10, 2), 0.5),
    ...     likelihood,
    ...     np.full(10, 0.1),
    ...     iterations=100,
    ... )
    >>> prior.round(2).tolist()
    [0.76, 0.24]
    """
    f, best = start, None
    trace: list[float] = []
    for _ in range(iterations):
        model = fit(posterior_weights(f, likelihood))
        f = probabilities_of(model)
        fitted = np.maximum((f * likelihood).sum(axis=1), np.finfo(np.float64).tiny)
        value = float(record_weights @ np.log(fitted))
        if trace and value <= trace[-1]:
            break
        gain = value - trace[-1] if trace else np.inf
        best = model
        trace.append(value)
        if gain < _SMALLEST_GAIN:
            break
    return best, np.array(trace)


def correct_probabilities(g: np.ndarray, T: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Probabilities of true labels from those of noisy ones.

    Parameters
    ----------
    g : ndarray of shape (n, n_classes)
        Probabilities of the noisy labels.
    T : ndarray of shape (n_classes, n_classes)
        Transition matrix. Outputs that cannot occur, columns of zeros, are left out of g.
    prior : ndarray of shape (n_classes,)
        What f is like where T does not determine it.

    Returns
    -------
    ndarray of shape (n, n_classes)
        The probability vectors nearest to ``p + (g - p T) pinv(T)``, p the prior: for an invertible
        T that is ``g inv(T)``, for a singular one the solution of ``f T = g`` nearest to p.

    Notes
    -----
    The correction multiplies the errors of g by up to the condition number of T, some 14 for 10
    classes at epsilon 0.6. For randomised response it keeps the order of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp.labels import rr
    >>> from skballdp.labels.correction import correct_probabilities
    >>> T = rr(2, epsilon=1.0).matrix()
    >>> f = correct_probabilities(np.array([[0.6, 0.4]]), T, np.array([0.5, 0.5]))
    >>> f.round(3).tolist()
    [[0.716, 0.284]]
    """
    used = T.max(axis=0) > 0
    T, g = T[:, used], g[:, used]
    total = g.sum(axis=1, keepdims=True)
    # A model may put everything on outputs that cannot occur: then it says nothing.
    g = np.where(total > 0, g / np.where(total > 0, total, 1.0), prior @ T)
    return project_rows(prior + (g - prior @ T) @ np.linalg.pinv(T))
