"""Nearest prototype with ridge regularisation."""

from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from skballdp._release import (
    BallDPClassifier,
    Problem,
    Sensitivity,
    domain,
    require_certifiable,
)
from skballdp._validate import check_choice, check_integer, check_real, without_data
from skballdp.data import RowBlocks
from skballdp.erm.sensitivity import class_sum_error, ridge_sensitivity

__all__ = ["BallDPRidgePrototype"]

# Without a norm bound, the share of the sensitivity that is set aside for rounding errors: it
# covers rows up to a length that the certificate states.
_UNBOUNDED = 1e-6


class BallDPRidgePrototype(BallDPClassifier):
    """Ball-private nearest-prototype classifier.

    Each class is represented by a shrunken mean of its records, released with Gaussian noise. A
    record is given to the nearest prototype, with a correction for the noise.

    Parameters
    ----------
    radius : float, Radius, "standard" or "q50"-style, default="standard"
        Largest distance between a record and a replacement that is to be hidden, in the unit of
        the rows. ``"standard"`` is ``2 * norm_bound``, any replacement with the same label.
        ``"q50"`` reads the median same-label distance off the training data, which **voids the
        certificate** and warns: measure it on public records with `radius_quantiles` instead.
    epsilon : float, default=1.0
        Privacy loss at that radius, in [0, inf]; ``np.inf`` adds no noise.
    delta : float, default=1e-6
        Probability that the promise fails, in (0, 1); well below ``1 / n_samples``. Zero only with
        ``epsilon=np.inf``.
    alpha : float, default=0.01
        Regularisation, > 0.
    norm_bound : float or None, default=1.0
        Public bound on the norm of every row. None only with a number as `radius`.
    out_of_bound : {"clip", "raise"}, default="clip"
        Project longer rows on the ball, or state that there are none and refuse them. A refusal
        depends on the data: the promise is then for data sets inside the ball only.
    calibration : {"per_class", "min_count", "global"}, default="per_class"
        Which sensitivity: each class by its own count, all by the smallest count, or one that
        holds for any counts.
    priors : {"uniform", "empirical"} or array-like of shape (n_classes,), default="uniform"
        Class priors of the prediction; ``"empirical"`` uses the class counts, which are public
        here.
    prior_scale : float or None, default=None
        Public scale s of the log prior, > 0, in the unit of the rows; None is
        ``0.15 * norm_bound``.
    public_prototypes : array-like of shape (n_classes, n_features) or None, default=None
        Prototypes from public records, in the order of ``classes_``, to shrink towards instead of
        zero.
    classes : array-like of shape (n_classes,) or None, default=None
        Label domain; None takes the labels in y, which are public under this adjacency.
    noise : {"discrete", "continuous"}, default="discrete"
        Exact discrete Gaussian noise on a public grid, or, for comparison, idealised normals in
        float64, which warns: their digits can name the hidden record.
    random_state : None, int or numpy generator, default=None
        None draws from the operating system's entropy. Anything else makes the noise
        reproducible, **voids the certificate** and warns; clones with one seed share their noise.

    Attributes
    ----------
    certificate_ : PrivacyCertificate
        The promise, in numbers and in words.
    prototypes_ : ndarray of shape (n_classes, n_features)
        Noisy prototypes.
    released_parameters_ : ndarray of shape (n_classes * n_features,)
        The same, flattened.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    class_prior_ : ndarray of shape (n_classes,)
        Priors used in prediction.
    radius_ : float
        Radius as a number.
    sensitivity_ : float or ndarray of shape (n_classes,)
        L2 sensitivity of the prototypes, in the unit of the rows.
    noise_scale_ : float or ndarray of shape (n_classes,)
        Standard deviation of the noise in each coordinate, in the unit of the rows.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they are all strings.

    See Also
    --------
    sklearn.neighbors.NearestCentroid : The same rule without privacy.

    Notes
    -----
    The prototypes minimise ``(1/n) sum ||x_i - mu_{y_i}||^2 + alpha/2 sum_c ||mu_c - mu0_c||^2``,

        mu_c = (2 S_c + alpha n mu0_c) / (2 n_c + alpha n),

    S_c the sum of the class's rows after projection on the ball, mu0_c the public prototype or
    zero. See `skballdp.erm.sensitivity.ridge_sensitivity` for their sensitivity.

    Prediction takes the class with the largest

        score_c(x) = x . m_c - (||m_c||^2 - d sigma_c^2)/2 + s^2 log prior_c,

    half of ``||x||^2`` minus the squared distance to the noisy prototype m_c, adjusted twice. The
    noise makes a prototype look farther away, by ``d sigma_c^2`` in expectation, more so for rare
    classes: subtracting it makes the distance unbiased. The prior counts as if the classes were
    Gaussian with standard deviation s. Both are post-processing and cost no privacy. A class
    without records and without a public prototype is never predicted.

    **Formal guarantees.** Adjacency: replacement of one record by another with the same label at
    Euclidean distance at most ``radius_``, number of records and labels unchanged. Hidden:
    which of two such records was used, at (epsilon, delta). Public: labels, class counts, shape,
    and every parameter. Voided by: ``random_state`` other than None, infinite epsilon, radius 0,
    and parameters or public prototypes chosen by looking at the training data.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction
    with less noise", arXiv:2607.04209, section 3 (prototypes, ``min_count``, ``global``).
    ``per_class`` and the unbiased distance are ours.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPRidgePrototype(radius=0.5, epsilon=2.0).fit(normalize(X), y)
    >>> bool(clf.score(normalize(X), y) > 0.8)
    True
    >>> clf.certificate_.holds
    True
    """

    def __init__(
        self,
        radius: Any = "standard",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        alpha: float = 0.01,
        norm_bound: float | None = 1.0,
        out_of_bound: str = "clip",
        calibration: str = "per_class",
        priors: Any = "uniform",
        prior_scale: float | None = None,
        public_prototypes: Any = None,
        classes: Any = None,
        noise: str = "discrete",
        random_state: Any = None,
    ):
        self.radius = radius
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.norm_bound = norm_bound
        self.out_of_bound = out_of_bound
        self.calibration = calibration
        self.priors = priors
        self.prior_scale = prior_scale
        self.public_prototypes = public_prototypes
        self.classes = classes
        self.noise = noise
        self.random_state = random_state

    @property
    def released_parameters_(self) -> np.ndarray:
        """Everything that was released, flattened."""
        check_is_fitted(self)
        return self.prototypes_.ravel()

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of each class, see Notes of the class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records; they are not projected on the ball.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            In squared units of the rows. For two classes the score of the second minus that of the
            first.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Label of the nearest prototype, with both adjustments.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels from ``classes_``.
        """
        scores = self._scores(X)
        return self.classes_[np.argmax(scores, axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Scores between 0 and 1 that sum to one, **not** calibrated probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Softmax of minus half the adjusted squared distance over ``prior_scale^2``.

        Raises
        ------
        ValueError
            If there is neither a `prior_scale` nor a `norm_bound`.
        """
        scores = self._scores(X)
        if self._temperature is None:
            raise ValueError(
                "prior_scale=None means 0.15 * norm_bound, but the model was fitted with "
                "norm_bound=None; fit it with a number as prior_scale, in the unit of the rows."
            )
        # Shifted first: the quotient may overflow to -inf, whose softmax is 0.
        with np.errstate(over="ignore"):
            scores = (scores - scores.max(axis=1, keepdims=True)) / self._temperature**2
        return softmax(scores, axis=1)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = without_data(validate_data, self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        prototypes = self.prototypes_
        added = prototypes.shape[1] * np.square(self.noise_scale_)
        offset = (np.square(prototypes).sum(axis=1) - added) / 2
        scores = safe_sparse_dot(X, prototypes.T) - offset
        scores += self._prior_score
        scores[:, ~self._predictable] = -np.inf
        return scores

    def _prior_scale(self) -> float | None:
        if self.prior_scale is not None:
            return check_real("prior_scale", self.prior_scale, low=1e-50, high=1e50)
        return None if self.norm_bound is None else 0.15 * float(self.norm_bound)

    def _check_head(self, problem: Problem) -> None:
        check_choice("calibration", self.calibration, ("per_class", "min_count", "global"))
        prior = self._priors(problem)
        if self._prior_scale() is None and np.any(prior != prior[0]):
            raise ValueError(
                "prior_scale=None means 0.15 * norm_bound, but norm_bound=None; give prior_scale a "
                "number, in the unit of the rows."
            )
        predictable = self._predictable_classes(problem)
        if np.count_nonzero(predictable) < 2:
            raise ValueError(
                "the training labels hold 1 class; a classifier needs records, or a public "
                "prototype, of at least two."
            )
        if not np.any(prior[predictable] > 0):
            raise ValueError(
                "priors must be positive for some class that has records or a public prototype; "
                "all of their mass is on classes that cannot be predicted."
            )

    def _predictable_classes(self, problem: Problem) -> np.ndarray:
        """Classes with records or a public prototype: the others are never predicted."""
        return (problem.class_counts > 0) | (self._public(problem) is not None)

    def _priors(self, problem: Problem) -> np.ndarray:
        n_classes = len(problem.classes)
        if isinstance(self.priors, str):
            check_choice("priors", self.priors, ("uniform", "empirical"), "Or give an array.")
            if self.priors == "uniform":
                return np.full(n_classes, 1 / n_classes)
            return problem.class_counts / problem.n_samples
        priors = np.asarray(self.priors)
        if priors.shape != (n_classes,) or priors.dtype.kind not in "fiu":
            raise ValueError(
                f"priors must be 'uniform', 'empirical' or one number per class, {n_classes}, got "
                f"shape {priors.shape}."
            )
        priors = priors.astype(np.float64)
        if not (np.all(priors >= 0) and abs(priors.sum() - 1) <= 1e-8):
            raise ValueError("priors must be non-negative and sum to 1; divide them by their sum.")
        return priors

    def _public(self, problem: Problem) -> np.ndarray | None:
        if self.public_prototypes is None:
            return None
        try:
            public = np.asarray(self.public_prototypes)
        except ValueError:  # ragged
            public = np.empty(0)
        wanted = (len(problem.classes), problem.n_features)
        if public.shape != wanted or public.dtype.kind not in "fiu":
            raise ValueError(
                f"public_prototypes must have shape (n_classes, n_features) = {wanted}, in the "
                f"order of the sorted classes, got shape {public.shape}."
            )
        if not np.all(np.isfinite(public)):
            raise ValueError("public_prototypes must be finite; remove NaN and infinity.")
        return public.astype(np.float64)

    def _sensitivity_of(self, problem: Problem) -> Sensitivity:
        radius, norm_bound = domain(problem)
        exact = ridge_sensitivity(
            radius=radius,
            alpha=problem.alpha,
            class_counts=problem.class_counts,
            calibration=self.calibration,
        )
        smallest = float(exact[exact > 0].min(initial=np.inf))
        public = self._public(problem)
        public_norm = 0.0 if public is None else float(np.linalg.norm(public, axis=1).max())
        if norm_bound is None:
            rounding = 0.5 * _UNBOUNDED * smallest if smallest < np.inf else 0.0
            norm_bound = rounding / class_sum_error(n_terms=problem.n_terms, norm_bound=1.0)
        else:
            rounding = class_sum_error(
                n_terms=problem.n_terms, norm_bound=norm_bound, public_norm=public_norm
            )
        if not problem.silent:
            require_certifiable(
                problem,
                error=2 * rounding,
                allowed=1e-3 * smallest,
                remedy="a larger radius or a smaller alpha",
            )
        return Sensitivity(
            exact=exact,
            rule=self.calibration,
            solver_tolerance=0.0,
            rounding_error=rounding,
            magnitude=norm_bound + public_norm,
            n_coordinates=problem.n_features,
        )

    def _optimum(self, rows: RowBlocks, codes: np.ndarray, problem: Problem) -> np.ndarray:
        sums = 2 * rows.class_sums(codes, len(problem.classes))
        shrinkage = problem.alpha * problem.n_samples
        public = self._public(problem)
        if public is not None:
            sums += shrinkage * public
        return sums / (2 * problem.class_counts + shrinkage)[:, None]

    def _neighbour_optima(
        self,
        rows: RowBlocks,
        codes: np.ndarray,
        problem: Problem,
        index: int,
        candidates: np.ndarray,
    ) -> np.ndarray:
        prototypes = self._optimum(rows, codes, problem)
        c = codes[index]
        denominator = 2 * problem.class_counts[c] + problem.alpha * problem.n_samples
        optima = np.repeat(prototypes[np.newaxis], len(candidates), axis=0)
        optima[:, c] += 2 * (candidates - rows.row(index)) / denominator
        return optima

    def invert_release(self, X: Any, y: Any, index: int, released: Any) -> np.ndarray:
        """The record that explains a release, given all the others: an attack.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training records; the one at `index` is not used.
        y : array-like of shape (n_samples,)
            Labels, that of the hidden record included.
        index : int
            Position of the hidden record.
        released : array-like of shape (n_releases, n_parameters)
            Released parameters, in the order of ``released_parameters_``.

        Returns
        -------
        ndarray of shape (n_releases, n_features)
            Without noise the record, but for rounding; with noise the record plus
            ``(2 n_c + alpha n) / 2`` times the noise of its class, where n_c counts the record. One
            that was projected on the ball of the norm bound comes back projected.

        Raises
        ------
        TypeError, ValueError
            As in `fit`.

        Notes
        -----
        ``mu_c = (2 S_c + alpha n mu0_c) / (2 n_c + alpha n)`` is solved for the record in the class
        sum S_c, all others being known.

        References
        ----------
        Margaryan and Gupta, arXiv:2607.04209, Theorem 11.

        Examples
        --------
        >>> import numpy as np
        >>> from skballdp import BallDPRidgePrototype
        >>> X, y = np.array([[0.6, 0.0], [0.0, 0.8], [0.3, 0.3]]), [0, 0, 1]
        >>> clf = BallDPRidgePrototype(radius=0.5)
        >>> clf.invert_release(X, y, 1, [clf.exact_optimum(X, y)]).round(6)
        array([[0. , 0.8]])
        """
        rows, codes, problem = self._blocks(X, y)
        index = check_integer("index", index, low=0)
        if index >= rows.n_rows:
            raise ValueError(f"index={index!r} does not fit the {rows.n_rows} records of X.")
        c = codes[index]
        shape = (-1, len(problem.classes), problem.n_features)
        own = np.asarray(released, dtype=np.float64).reshape(shape)[:, c]
        shrinkage = problem.alpha * problem.n_samples
        sums = (2 * problem.class_counts[c] + shrinkage) / 2 * own
        public = self._public(problem)
        if public is not None:
            sums -= shrinkage / 2 * public[c]
        known = rows.class_sums(codes, len(problem.classes))[c] - rows.row(index)
        return sums - known

    def _certified_parameters(self, problem: Problem) -> dict[str, Any]:
        return {"head": "ridge_prototype"}

    def _set_released(self, released: np.ndarray, problem: Problem) -> None:
        self.prototypes_ = released
        self.class_prior_ = self._priors(problem)
        # Prediction reads what fit stored, not parameters that may be changed later.
        self._predictable = self._predictable_classes(problem)
        self._temperature = self._prior_scale()
        with np.errstate(divide="ignore"):  # a prior of 0: the class is never predicted
            log_prior = np.log(self.class_prior_)
        uniform = np.all(self.class_prior_ == self.class_prior_[0])
        self._prior_score = 0.0 if uniform else (self._temperature or 0.0) ** 2 * log_prior

    def _assumptions(self, problem: Problem) -> tuple[str, ...]:
        sentences = super()._assumptions(problem)
        if problem.norm_bound is None and not problem.silent:
            covered = self._sensitivity_of(problem).rounding_error
            longest = covered / class_sum_error(n_terms=problem.n_terms, norm_bound=1.0)
            sentences += (
                "no norm bound was given: the promise is for data sets in which no row is longer "
                f"than {longest:.2g}, beyond which rounding errors are not covered",
            )
        if self.public_prototypes is not None:
            sentences += (
                "the caller states that the public prototypes were made without the training "
                "records",
            )
        return sentences
