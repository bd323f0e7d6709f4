"""Linear heads: logistic regression and squared hinge."""

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from skballdp._release import (
    BallDPClassifier,
    Problem,
    Sensitivity,
    domain,
    require_certifiable,
)
from skballdp._validate import check_choice, check_real, without_data
from skballdp.data import RowBlocks, longest_product_sum
from skballdp.erm.losses import BinaryLogistic, Loss, Softmax, SquaredHinge
from skballdp.erm.sensitivity import gradient_error, linear_sensitivity, minimizer_radius
from skballdp.erm.solver import Objective, minimize, neighbour_optima

__all__ = ["BallDPLogisticRegression", "BallDPSquaredHingeSVC"]

# The solver stops within this fraction of the sensitivity; twice that enters the noise.
_TOLERANCE = 1e-3


class _LinearHead(BallDPClassifier):
    """What the linear heads share: everything but the loss and its probabilities."""

    def __init__(
        self,
        radius: Any = "standard",
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        alpha: float = 0.01,
        norm_bound: float = 1.0,
        out_of_bound: str = "clip",
        sensitivity: str = "tight",
        fit_intercept: bool = True,
        class_weight: Any = None,
        public_coef: Any = None,
        public_intercept: Any = None,
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
        self.sensitivity = sensitivity
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.public_coef = public_coef
        self.public_intercept = public_intercept
        self.classes = classes
        self.noise = noise
        self.random_state = random_state

    @abstractmethod
    def _loss_of(self, n_classes: int) -> tuple[str, Loss]:
        """Name of the sensitivity formula, and the loss."""

    @property
    def released_parameters_(self) -> np.ndarray:
        """Everything that was released: ``coef_`` by rows, then ``intercept_``."""
        check_is_fitted(self)
        parts = [self.coef_.ravel()]
        return np.concatenate([*parts, self.intercept_] if self.fit_intercept else parts)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``X @ coef_.T + intercept_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records; they are not projected on the ball.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, positive for the second.
        """
        check_is_fitted(self)
        X = without_data(validate_data, self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Label with the largest score.

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks want good scores on 200 to 300 records. The noise that hides one of
        # so few at the default epsilon, alpha and radius does not leave them.
        tags.classifier_tags.poor_score = True
        return tags

    def _check_head(self, problem: Problem) -> None:
        if problem.norm_bound is None:
            raise ValueError(
                "norm_bound=None: the sensitivity of a linear head needs a public bound on the "
                "rows; give norm_bound a number."
            )
        check_choice("sensitivity", self.sensitivity, ("tight", "paper"))
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise TypeError(f"fit_intercept must be True or False, got {self.fit_intercept!r}.")
        if np.count_nonzero(problem.class_counts) < 2:
            raise ValueError(
                "the training labels hold 1 class; a classifier needs records of at least two."
            )
        self._weights(problem)
        if self._center(problem) is not None and self.sensitivity == "paper":
            raise ValueError(
                "sensitivity='paper' knows no public_coef: its constants hold for regularisation "
                "towards zero. Use sensitivity='tight'."
            )

    def _weights(self, problem: Problem) -> np.ndarray:
        """Class weights with mean one over the records, of shape (n_classes,)."""
        counts, n_classes = problem.class_counts, len(problem.classes)
        weights = np.ones(n_classes)
        if self.class_weight is None:
            return weights
        if isinstance(self.class_weight, str):
            check_choice("class_weight", self.class_weight, ("balanced",), "Or give a dict.")
            weights = np.where(counts > 0, 1 / np.maximum(counts, 1), 1.0)
        elif isinstance(self.class_weight, dict):
            labels = problem.classes.tolist()
            unknown = [label for label in self.class_weight if label not in set(labels)]
            lacking = len(set(labels) - set(self.class_weight))
            if unknown or lacking:
                # Its own keys are parameters; the labels of y are not repeated.
                named = ", ".join(f"{label!r:.40}" for label in unknown[:3])
                raise ValueError(
                    f"class_weight must have one entry per class, {n_classes}, and no other: it "
                    f"lacks {lacking} and has {len(unknown)} unknown ones"
                    f"{f' ({named})' if named else ''}. Add or remove them, or use 'balanced'."
                )
            for code, label in enumerate(labels):
                weights[code] = check_real(
                    f"class_weight[{label!r:.40}]",
                    self.class_weight[label],
                    low=1e-30,
                    high=1e30,
                    hint="Leave records out to ignore them.",
                )
        else:
            raise TypeError(
                "class_weight must be None, 'balanced' or a dict from labels to weights, got an "
                f"object of type {type(self.class_weight).__name__}."
            )
        # A mean above one by more than a few roundings would exceed the margin of R.
        return weights / (math.fsum(counts * weights) / problem.n_samples)

    def _weight_max(self, problem: Problem) -> float:
        weights = self._weights(problem)[problem.class_counts > 0]
        return max(1.0, float(weights.max()) * (1 + 2.0**-50))

    def _center(self, problem: Problem) -> np.ndarray | None:
        """The public model, of shape (k, d + fit_intercept), or None."""
        n_scores = self._loss_of(len(problem.classes))[1].n_scores
        if self.public_intercept is not None and not self.fit_intercept:
            raise ValueError("public_intercept needs fit_intercept=True.")
        if self.public_coef is None and self.public_intercept is None:
            return None
        center = np.zeros((n_scores, problem.n_features + bool(self.fit_intercept)))
        for name, part in (
            ("public_coef", center[:, : problem.n_features]),
            ("public_intercept", center[:, -1]),
        ):
            value = getattr(self, name)
            if value is None:
                continue
            try:
                array = np.asarray(value)
            except ValueError:  # ragged
                array = np.array(None)
            if array.dtype.kind not in "fiu":
                raise ValueError(
                    f"{name} must be an array of real numbers of shape {part.shape}, got an object "
                    f"of type {type(value).__name__}. Pass coefficients, one row per score."
                )
            if array.shape != part.shape:
                raise ValueError(
                    f"{name} must have shape {part.shape}, as in scikit-learn's linear models, got "
                    f"shape {array.shape}. Reshape it, or fit the public model on the same classes."
                )
            if not np.all(np.abs(array) <= 1e50):
                raise ValueError(
                    f"{name} must be finite and at most 1e50 in magnitude; remove NaN and infinity."
                )
            part[:] = array
        return center

    def _public_norm(self, problem: Problem) -> float:
        """Norm of the public model of one problem; one-vs-rest has one problem per class."""
        center = self._center(problem)
        if center is None:
            return 0.0
        separable = self._loss_of(len(problem.classes))[1].separable
        norms = np.linalg.norm(center, axis=1) if separable else np.linalg.norm(center)
        # A sum of so many squares, and its root, err by less than this.
        return float(np.max(norms)) * (1 + (center.size + 8) * 2.0**-53)

    def _shape_of(self, problem: Problem) -> dict[str, Any]:
        """Arguments that the formulas of `skballdp.erm.sensitivity` share."""
        return {
            "alpha": problem.alpha,
            "norm_bound": domain(problem)[1],
            "fit_intercept": bool(self.fit_intercept),
            "n_classes": len(problem.classes),
            "public_norm": self._public_norm(problem),
        }

    def _rounding(self, problem: Problem) -> float:
        """Bound on the error of a computed gradient."""
        return gradient_error(
            self._loss_of(len(problem.classes))[0],
            n_features=problem.n_features,
            n_terms=longest_product_sum(problem.n_samples, problem.n_features),
            **self._shape_of(problem),
        )

    def _sensitivity_of(self, problem: Problem) -> Sensitivity:
        name, loss = self._loss_of(len(problem.classes))
        exact = linear_sensitivity(
            name,
            radius=domain(problem)[0],
            n_samples=problem.n_samples,
            weight_max=self._weight_max(problem),
            mode=self.sensitivity,
            **self._shape_of(problem),
        )
        eta = _TOLERANCE * exact
        if not problem.silent:
            # The gradient must be computable to an eighth of what the stopping rule asks for: the
            # solver needs a quarter to be sure to arrive.
            error = 8 * self._rounding(problem) / problem.alpha
            require_certifiable(
                problem, error=error, allowed=eta, remedy="a larger radius or a larger alpha"
            )
        return Sensitivity(
            exact=np.array([exact]),
            rule=self.sensitivity,
            solver_tolerance=eta,
            rounding_error=0.0,  # inside the tolerance, see _stopping_rule
            magnitude=minimizer_radius(name, **self._shape_of(problem)),
            n_coordinates=loss.n_scores * (problem.n_features + bool(self.fit_intercept)),
        )

    def _stopping_rule(self, problem: Problem) -> dict[str, float]:
        name, _ = self._loss_of(len(problem.classes))
        max_norm = minimizer_radius(name, **self._shape_of(problem))
        rounding = self._rounding(problem)
        if problem.silent:
            # Nothing is promised: as exact as is cheap and certain.
            tolerance = max(8 * rounding, 1e-9 * problem.alpha * max_norm)
        else:
            # A computed gradient of this norm has an exact one of at most alpha * eta.
            tolerance = problem.alpha * self._sensitivity_of(problem).solver_tolerance - rounding
        return {"tolerance": tolerance, "max_norm": max_norm}

    def _objective(self, rows: RowBlocks, codes: np.ndarray, problem: Problem) -> Objective:
        return Objective.of(
            self._loss_of(len(problem.classes))[1],
            rows,
            codes,
            alpha=problem.alpha,
            class_weight=self._weights(problem),
            center=self._center(problem),
            fit_intercept=bool(self.fit_intercept),
        )

    def _optimum(self, rows: RowBlocks, codes: np.ndarray, problem: Problem) -> np.ndarray:
        return minimize(self._objective(rows, codes, problem), **self._stopping_rule(problem))

    def _neighbour_optima(
        self,
        rows: RowBlocks,
        codes: np.ndarray,
        problem: Problem,
        index: int,
        candidates: np.ndarray,
    ) -> np.ndarray:
        return neighbour_optima(
            self._objective(rows, codes, problem),
            index,
            RowBlocks(candidates, norm_bound=problem.norm_bound),
            **self._stopping_rule(problem),
        )

    def _flatten(self, theta: np.ndarray) -> np.ndarray:
        d = theta.shape[1] - bool(self.fit_intercept)
        return np.concatenate([theta[:, :d].ravel(), theta[:, d:].ravel()])

    def _certified_parameters(self, problem: Problem) -> dict[str, Any]:
        return {
            "head": self._loss_of(len(problem.classes))[0],
            "fit_intercept": bool(self.fit_intercept),
            "weight_max": self._weight_max(problem),
            "public_norm": self._public_norm(problem),
        }

    def _set_released(self, released: np.ndarray, problem: Problem) -> None:
        d = problem.n_features
        self.coef_ = released[:, :d].copy()
        self.intercept_ = released[:, d].copy() if self.fit_intercept else np.zeros(len(released))

    def _assumptions(self, problem: Problem) -> tuple[str, ...]:
        sentences = super()._assumptions(problem)
        if self.public_coef is not None or self.public_intercept is not None:
            sentences += (
                "the caller states that the public coefficients were made without the training "
                "records",
            )
        return sentences


class BallDPLogisticRegression(_LinearHead):
    """Ball-private logistic regression.

    Binary for two classes, multinomial (softmax) for more, released with Gaussian noise.

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
        Regularisation, > 0. The noise is proportional to ``1 / (alpha n_samples)``.
    norm_bound : float, default=1.0
        Public bound on the norm of every row.
    out_of_bound : {"clip", "raise"}, default="clip"
        Project longer rows on the ball, or state that there are none and refuse them. A refusal
        depends on the data: the promise is then for data sets inside the ball only.
    sensitivity : {"tight", "paper"}, default="tight"
        Which bound on the sensitivity: ours, or the constants of the paper, for the same promise
        with many times the noise.
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is regularised and noised like every coefficient.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, > 0, normalised to mean one over the records. ``"balanced"`` uses
        the class counts, which are public here.
    public_coef, public_intercept : array-like or None, default=None
        Coefficients from public records, in the layout of ``coef_`` and ``intercept_``, to shrink
        towards instead of zero.
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
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Noisy coefficients; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Noisy intercepts; zeros without `fit_intercept`.
    released_parameters_ : ndarray of shape (n_parameters,)
        ``coef_`` by rows, then ``intercept_``.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    radius_ : float
        Radius as a number.
    sensitivity_ : float
        L2 sensitivity of all parameters together.
    noise_scale_ : float
        Standard deviation of the noise in each parameter.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they are all strings.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The same model without privacy; its C is
        ``1 / (alpha n_samples)``.
    BallDPSquaredHingeSVC : Another loss.

    Notes
    -----
    The parameters minimise ``mean w_y loss(theta; x, y) + alpha/2 ||theta - theta0||^2``, theta0
    the public model or zero, rows projected on the ball, the intercept as the coefficient of a
    constant feature 1. The solver stops within ``1e-3`` of the sensitivity, a public number, and
    twice that enters the noise. See `skballdp.erm.sensitivity.linear_sensitivity`.

    **Formal guarantees.** Adjacency: replacement of one record by another with the same label at
    Euclidean distance at most ``radius_``, number of records and labels unchanged. Hidden:
    which of two such records was used, at (epsilon, delta). Public: labels, class counts, shape,
    and every parameter. Voided by: ``random_state`` other than None, infinite epsilon, radius 0
    or one read off the training data, and parameters or public coefficients chosen by looking at
    the training data.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction
    with less noise", arXiv:2607.04209, section 3 (the heads, ``"paper"``). ``"tight"`` is ours.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPLogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPLogisticRegression(radius=0.5, epsilon=8.0, alpha=0.1).fit(normalize(X), y)
    >>> bool(clf.score(normalize(X), y) > 0.8)
    True
    >>> clf.certificate_.holds
    True
    """

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes under the noisy model.

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

    def _loss_of(self, n_classes: int) -> tuple[str, Loss]:
        if n_classes == 2:
            return "logistic", BinaryLogistic(2)
        return "softmax", Softmax(n_classes)


class BallDPSquaredHingeSVC(_LinearHead):
    """Ball-private linear support vector classifier with squared hinge loss.

    One problem for two classes, one-vs-rest for more, released with Gaussian noise.

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
        Regularisation, > 0. The noise is proportional to ``1 / (alpha n_samples)``, and to a margin
        that grows as alpha falls: this head needs larger values than logistic regression, 0.1 to 1
        with a few thousand records.
    norm_bound : float, default=1.0
        Public bound on the norm of every row.
    out_of_bound : {"clip", "raise"}, default="clip"
        Project longer rows on the ball, or state that there are none and refuse them. A refusal
        depends on the data: the promise is then for data sets inside the ball only.
    sensitivity : {"tight", "paper"}, default="tight"
        Which bound on the sensitivity: ours, or the constants of the paper, for the same promise
        with many times the noise.
    fit_intercept : bool, default=True
        Whether to fit an intercept; it is regularised and noised like every coefficient.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, > 0, normalised to mean one over the records. ``"balanced"`` uses
        the class counts, which are public here.
    public_coef, public_intercept : array-like or None, default=None
        Coefficients from public records, in the layout of ``coef_`` and ``intercept_``, to shrink
        towards instead of zero.
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
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Noisy coefficients; one row for two classes.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Noisy intercepts; zeros without `fit_intercept`.
    released_parameters_ : ndarray of shape (n_parameters,)
        ``coef_`` by rows, then ``intercept_``.
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    radius_ : float
        Radius as a number.
    sensitivity_ : float
        L2 sensitivity of all parameters together.
    noise_scale_ : float
        Standard deviation of the noise in each parameter.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if they are all strings.

    See Also
    --------
    sklearn.svm.LinearSVC : The same model without privacy; its C is ``1 / (alpha n_samples)``, up
        to a factor 2 in the loss.
    BallDPLogisticRegression : Another loss; less noise at the same alpha.

    Notes
    -----
    The parameters minimise ``mean w_y max(0, 1 - y theta.x)^2 + alpha/2 ||theta - theta0||^2``, for
    each class against the rest, theta0 the public model or zero, rows projected on the ball, the
    intercept as the coefficient of a constant feature 1. A record has the weight of its own class
    in all problems. The solver stops within ``1e-3`` of the sensitivity, a public number, and
    twice that enters the noise. See `skballdp.erm.sensitivity.linear_sensitivity`.

    **Formal guarantees.** Adjacency: replacement of one record by another with the same label at
    Euclidean distance at most ``radius_``, number of records and labels unchanged. Hidden:
    which of two such records was used, at (epsilon, delta). Public: labels, class counts, shape,
    and every parameter. Voided by: ``random_state`` other than None, infinite epsilon, radius 0
    or one read off the training data, and parameters or public coefficients chosen by looking at
    the training data.

    References
    ----------
    J. Margaryan and N. Gupta, "Ball differential privacy: how to mitigate data reconstruction
    with less noise", arXiv:2607.04209, section 3 (the heads, ``"paper"``). ``"tight"`` is ours.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPSquaredHingeSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPSquaredHingeSVC(radius=0.5, epsilon=8.0, alpha=1.0).fit(normalize(X), y)
    >>> clf.certificate_.holds
    True
    """

    def _loss_of(self, n_classes: int) -> tuple[str, Loss]:
        return "squared_hinge", SquaredHinge(n_classes)
