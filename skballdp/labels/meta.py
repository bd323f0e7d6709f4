"""LabelDPClassifier and LabelDPRegressor: label privacy around any estimator.

`fit` makes the labels private, once, and hands the noisy ones to a clone of the estimator. From the
call of `privatize` on, nothing here holds or reads a true label.
"""

from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from skballdp._pipeline import require_public_steps
from skballdp._release import BallDPClassifier
from skballdp._validate import check_choice, check_integer, without_data
from skballdp.labels.combined import CombinedPrivacyCertificate
from skballdp.labels.correction import correct_probabilities, fit_by_em
from skballdp.labels.likelihood import NoisyLabelLogisticRegression, relative_weights
from skballdp.labels.privatize import (
    FOR_CLASSES,
    FOR_NUMBERS,
    PrivateLabels,
    privatize,
    take_rows,
)
from skballdp.labels.transformer import check_classes

__all__ = ["LabelDPClassifier", "LabelDPRegressor"]


class _LabelDPEstimator(MetaEstimatorMixin, BaseEstimator):
    """What both share: privatisation, metadata, tags and delegation."""

    def _private_labels(self, X: Any, y: Any, mechanisms: tuple[str, ...]) -> PrivateLabels:
        check_choice("mechanism", self.mechanism, mechanisms)
        without_data(check_consistent_length, X, y)
        parameters = self.get_params(deep=False)
        for name in ("estimator", "correction", "em_iterations"):
            parameters.pop(name, None)
        return privatize(y, parameters, owner=type(self).__name__, stacklevel=4)

    def _routed(self, fit_params: dict[str, Any]) -> dict[str, Any]:
        """Metadata for the estimator's fit."""
        if not fit_params:
            return {}
        if not get_config()["enable_metadata_routing"]:
            raise ValueError(
                f"fit got {', '.join(sorted(fit_params))}: metadata need scikit-learn's metadata "
                "routing. Call sklearn.set_config(enable_metadata_routing=True), and "
                "set_fit_request of the estimator."
            )
        return dict(process_routing(self, "fit", **fit_params).estimator.fit)

    def _kept(
        self, X: Any, params: dict[str, Any], private: PrivateLabels
    ) -> tuple[Any, dict[str, Any]]:
        """Rows and metadata of the records that were kept."""
        n, kept = private.n_samples, private.indices
        if len(kept) == n:
            return X, params
        self._refuse_pairwise("prior_fraction > 0 drops records")
        params = {name: _cut(value, n, kept) for name, value in params.items()}
        return take_rows(X, kept), params

    def _refuse_pairwise(self, why: str) -> None:
        if get_tags(self.estimator).input_tags.pairwise:
            raise ValueError(
                f"X must hold features, not distances or kernels: {why}. Use an estimator that "
                "computes them itself."
            )

    def predict(self, X: Any) -> np.ndarray:
        """Predict with the fitted estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Records, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            Its predictions.
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @property
    def n_features_in_(self) -> int:
        """Number of features seen in `fit`, if the estimator tells."""
        return self._fitted().n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features seen in `fit`, if the estimator tells."""
        return self._fitted().feature_names_in_

    def _fitted(self) -> Any:
        if "estimator_" not in vars(self):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet.")
        return self.estimator_

    def get_metadata_routing(self) -> MetadataRouter:
        """Get the metadata routing of this object.

        Returns
        -------
        MetadataRouter
            Metadata of `fit` go to the estimator's `fit`, cut to the records that are kept.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(
            estimator=self.estimator, method_mapping=mapping
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        for name in ("sparse", "allow_nan", "pairwise", "string", "categorical", "positive_only"):
            setattr(tags.input_tags, name, getattr(inner, name))
        return tags


def _estimator_has(name: str) -> Any:
    """For `available_if`: the fitted estimator has a method, or the one to be fitted has."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self.estimator), name)
        return True

    return check


def _scores_agree(self: Any) -> bool:
    """For `available_if`: scores of the estimator order the classes as `predict` does."""
    if self.correction == "proba":
        raise AttributeError(
            "decision_function is not corrected: with correction='proba' use predict_proba."
        )
    return _estimator_has("decision_function")(self)


class LabelDPClassifier(ClassifierMixin, _LabelDPEstimator):
    """Any classifier, trained on private labels.

    `fit` replaces the labels by noisy ones and fits a clone of `estimator` to these, so that label
    privacy works inside Pipeline, GridSearchCV and cross_val_score. Around a Ball-DP head, labels
    and features are hidden together.

    Parameters
    ----------
    estimator : classifier
        What to fit to the noisy labels.
    mechanism : {"block_rr", "rr", "rr_top_k", "rr_with_prior", "rr_floor", "lp_optimal"}, \
default="block_rr"
        How labels are replaced. See docs/label-mechanisms.md for a choice. A parameter that the
        mechanism does not use must keep its default.
    epsilon : float, default=1.0
        Privacy loss of the labels in one `fit`, in [0, 700], or infinity for no noise. A learned
        prior is included.
    classes : array-like of shape (n_classes,) or "observed"
        The labels that can occur, which must be public. ``"observed"`` takes those in y: with it
        you assert that this set is public.
    prior : array-like of shape (n_classes,) or None, default=None
        Probability of each class, in the order of `classes`, from public knowledge.
    prior_fraction : float, default=0.0
        Share of the records, in [0, 1), whose labels are spent on a private prior; they are chosen
        at random, without looking at labels, and not trained on. At 0, without a `prior`, the prior
        is uniform, which makes ``"block_rr"``, ``"rr_with_prior"`` and ``"rr_floor"`` randomised
        response, as ``"rr"``.
    correction : {"none", "likelihood", "proba"}, default="none"
        What is done about the noise, whose law is known. ``"likelihood"`` maximises the likelihood
        of the noisy labels: in one descent for a `NoisyLabelLogisticRegression` (also at the end of
        a Pipeline), else by EM, which refits the estimator with non-negative weights and needs its
        `sample_weight` and `predict_proba`. ``"proba"`` leaves the fit alone and corrects
        `predict_proba`, and `predict` with it; this works with the Ball-DP heads too.
    prior_method : {"discrete_laplace", "rr"}, default="discrete_laplace"
        How the prior is learned: counts with noise, or labels that each pass through randomised
        response.
    sigma : float or "auto", default="auto"
        For ``"block_rr"``: width of the partition.
    l : int or "auto", default="auto"
        For ``"block_rr"``: number of protected labels.
    floor : float or None, default=None
        For ``"rr_floor"``: least probability of any class to be reported as it is.
    k : int or None, default=None
        For ``"rr_top_k"``: number of classes kept.
    utility : array-like of shape (n_classes, n_classes) or None, default=None
        For ``"lp_optimal"``: value of reporting the column's class for the row's.
    em_iterations : int, default=20
        Most refits of EM, >= 1.
    random_state : None, int or numpy generator, default=None
        Of the label noise; the estimator has its own. None draws from the operating system's
        entropy. Anything else makes the noise reproducible, **voids the certificate** and warns.

    Attributes
    ----------
    certificate_ : LabelPrivacyCertificate or CombinedPrivacyCertificate
        The promise; the combined one around a Ball-DP head.
    estimator_ : classifier
        The fitted clone.
    classes_ : ndarray of shape (n_classes,)
        All classes, sorted, whether or not they appear among the noisy labels.
    transition_matrix_ : ndarray of shape (n_classes, n_classes)
        Probability of each noisy label, by true label, both in the order of ``classes_``.
    prior_ : ndarray of shape (n_classes,) or None
        Prior in use, in that order; None if the mechanism needs none.
    log_likelihood_ : ndarray
        After EM: mean log-likelihood of a noisy label after each refit.
    n_features_in_ : int
        Number of features seen in `fit`, if the estimator tells.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if the estimator tells.

    See Also
    --------
    privatize_labels : Noisy labels once, and everything after them for free: better for a search.
    LabelDPRegressor : The same for numbers.
    NoisyLabelLogisticRegression : The fast estimator for ``correction="likelihood"``.

    Notes
    -----
    A class that is missing among the noisy labels has probability 0 and the lowest scores, before a
    correction. Metadata of `fit`, such as `sample_weight`, go to the estimator by scikit-learn's
    metadata routing, which must be enabled, cut to the records kept. They must not depend on true
    labels.

    EM starts with the prior as the probabilities of all records and multiplies the training set by
    the number of classes. Its refits, and the descent, may end in a local optimum. With metadata
    routing enabled, the last step of a Pipeline must request `sample_weight`, and the others say
    that they do not.

    **Formal guarantees.** Adjacency: the label of one record is replaced by any other, number of
    records and all features unchanged. Hidden: that label, at the epsilon of the certificate; what
    the estimator does afterwards cannot weaken it. Around a Ball-DP head, possibly at the end of a
    Pipeline of stateless steps: one record is replaced by another at distance at most the radius
    with **any** label, at (epsilon of the labels + epsilon of the head, delta), see
    `CombinedPrivacyCertificate` for the proof. Public: number of records, classes, every parameter,
    and the features, if the estimator is not a Ball-DP head. Voided by: ``random_state`` other than
    None, infinite epsilon.

    Not covered: what reads y outside, such as a step before this one in a Pipeline that selects
    features by y, a calibration or a stacking around this, a stratified split. Put it **inside**,
    as part of `estimator`, where it sees noisy labels.

    **Each fit spends epsilon again.** A search over m candidates with f folds and a refit uses a
    label up to ``m (f - 1) + 1`` times, and its scores use true labels with no noise at all. Search
    on public records, or on noisy labels from `privatize_labels`, which is free.

    References
    ----------
    B. Ghazi et al., NeurIPS 2021 (label privacy by randomised response); G. Patrini et al., CVPR
    2017 (loss correction); A. Dempster et al., J. Royal Statistical Society B 39 (1977), for EM.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skballdp import LabelDPClassifier
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> clf = LabelDPClassifier(LogisticRegression(C=0.01), epsilon=4.0, classes=range(4))
    >>> bool(clf.fit(X / 16, y).score(X / 16, y) > 0.7)
    True
    >>> clf.certificate_.epsilon_total
    4.0
    """

    def __init__(
        self,
        estimator: Any,
        *,
        mechanism: str = "block_rr",
        epsilon: float = 1.0,
        classes: Any = None,
        prior: Any = None,
        prior_fraction: float = 0.0,
        correction: str = "none",
        prior_method: str = "discrete_laplace",
        sigma: float | str = "auto",
        l: int | str = "auto",  # noqa: E741 - the paper's name
        floor: float | None = None,
        k: int | None = None,
        utility: Any = None,
        em_iterations: int = 20,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.classes = classes
        self.prior = prior
        self.prior_fraction = prior_fraction
        self.correction = correction
        self.prior_method = prior_method
        self.sigma = sigma
        self.l = l
        self.floor = floor
        self.k = k
        self.utility = utility
        self.em_iterations = em_iterations
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **fit_params: Any) -> "LabelDPClassifier":
        """Make the labels private and fit a clone of the estimator to them.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            Training records, as the estimator takes them.
        y : array-like of shape (n_samples,)
            True labels.
        **fit_params : dict
            Metadata that the estimator's `fit` requests, with metadata routing enabled; must not
            depend on true labels.

        Returns
        -------
        LabelDPClassifier
            The object itself.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range, not used, or asks of the estimator what it cannot do;
            if X and y do not fit; and whatever the estimator raises.

        Warns
        -----
        PrivacyWarning
            If something voids or weakens the promise.
        """
        check_choice("correction", self.correction, ("none", "likelihood", "proba"))
        check_integer("em_iterations", self.em_iterations, low=1)
        self._check_estimator()
        params = self._routed(fit_params)
        y = without_data(column_or_1d, y, warn=True)
        if y.dtype.kind == "f" and not np.all(np.isfinite(y)):
            raise ValueError("y contains NaN or infinity. Repair or leave out such records.")
        if isinstance(self.classes, str):  # "observed": what is in y is public
            without_data(check_classification_targets, y)
        elif self.classes is not None:
            check_classes(self.classes)
        private = self._private_labels(X, y, FOR_CLASSES)
        del y, fit_params  # from here on there are noisy labels only

        X, params = self._kept(X, params, private)
        order = np.argsort(private.classes)  # type: ignore[arg-type]
        self.classes_ = private.classes[order]  # type: ignore[index]
        self.transition_matrix_ = private.transition_matrix[np.ix_(order, order)]
        self.prior_ = None if private.prior is None else private.prior[order]
        self.__dict__.pop("log_likelihood_", None)  # of an earlier fit
        direct = _direct(self.estimator)
        if self.correction != "likelihood":
            self.estimator_ = clone(self.estimator).fit(X, private.labels, **params)
        elif direct is not None:
            known = {
                f"{direct}transition_matrix": self.transition_matrix_,
                f"{direct}classes": self.classes_,
            }
            estimator = clone(self.estimator).set_params(**known)
            self.estimator_ = estimator.fit(X, private.labels, **params)
        else:
            self._fit_by_em(X, private.labels, params)
        self.certificate_ = self._certificate(private)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            Records, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels from ``classes_``: the estimator's, or with ``correction="proba"`` those of the
            largest corrected probability.
        """
        check_is_fitted(self)
        if self.correction == "proba":
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return self.estimator_.predict(X)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, corrected for the noise with ``correction="proba"``.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            Records, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        check_is_fitted(self)
        return self._corrected(self._complete(self.estimator_.predict_proba(X), absent=0.0))

    @available_if(_estimator_has("predict_proba"))
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`; the estimator's own where it is not corrected.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            Records, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``; minus infinity for probability 0.
        """
        check_is_fitted(self)
        if self.correction != "proba" and hasattr(self.estimator_, "predict_log_proba"):
            return self._complete(self.estimator_.predict_log_proba(X), absent=-np.inf)
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @available_if(_scores_agree)
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of the estimator; there are none with ``correction="proba"``.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            Records, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, positive for the second.
        """
        check_is_fitted(self)
        return self._complete(self.estimator_.decision_function(X), absent=np.finfo(np.float64).min)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = get_tags(self.estimator).classifier_tags.multi_class
        # scikit-learn's checks want good scores on 200 records at the default epsilon.
        tags.classifier_tags.poor_score = True
        return tags

    def _check_estimator(self) -> None:
        """Refuse what cannot work before a label is touched."""
        name = type(self.estimator).__name__
        if not _can_fit(self.estimator) or not is_classifier(self.estimator):
            raise TypeError(f"estimator must be a classifier, got an object of type {name}.")
        if isinstance(self.estimator, Pipeline) and _ball_head(self.estimator) is not None:
            require_public_steps(self.estimator.steps[:-1])
        if self.correction == "none":
            return
        if not hasattr(self.estimator, "predict_proba"):
            raise TypeError(
                f"correction={self.correction!r} needs an estimator with predict_proba, which a "
                f"{name} does not have here. Calibrate it, use another one, or correction='none'."
            )
        if self.correction == "proba" or _direct(self.estimator) is not None:
            return
        if _ball_head(self.estimator) is not None:
            raise TypeError(
                "correction='likelihood' has no Ball-DP version: its loss is not convex. Use "
                "correction='proba'."
            )
        _weight_parameter(self.estimator)
        self._refuse_pairwise("correction='likelihood' copies records")

    def _fit_by_em(self, X: Any, labels: np.ndarray, params: dict[str, Any]) -> None:
        n, K = len(labels), len(self.classes_)
        weight_name = _weight_parameter(self.estimator)
        params = dict(params)
        given = params.pop(weight_name, None)
        record_weights = relative_weights(given, n)
        own = np.broadcast_to(np.asarray(1.0 if given is None else given, dtype=np.float64), n)
        likelihood = self.transition_matrix_.T[np.searchsorted(self.classes_, labels)]
        prior = np.full(K, 1.0 / K) if self.prior_ is None else self.prior_

        def refit(weights: np.ndarray) -> Any:
            rows, codes = np.nonzero(weights)
            copied = {name: _cut(value, n, rows) for name, value in params.items()}
            copied[weight_name] = (weights * own[:, np.newaxis])[rows, codes]
            return clone(self.estimator).fit(take_rows(X, rows), self.classes_[codes], **copied)

        def probabilities_of(model: Any) -> np.ndarray:
            return _spread(model.predict_proba(X), model.classes_, self.classes_, 0.0)

        self.estimator_, self.log_likelihood_ = fit_by_em(
            refit,
            probabilities_of,
            np.broadcast_to(prior, (n, K)),
            likelihood,
            record_weights,
            self.em_iterations,
        )

    def _certificate(self, private: PrivateLabels) -> Any:
        head = _ball_head(self.estimator_)
        if head is None:
            return private.certificate
        return CombinedPrivacyCertificate(
            estimator=type(self).__name__, labels=private.certificate, features=head.certificate_
        )

    def _complete(self, values: np.ndarray, absent: float) -> np.ndarray:
        return _spread(values, self.estimator_.classes_, self.classes_, absent)

    def _corrected(self, probabilities: np.ndarray) -> np.ndarray:
        if self.correction != "proba":
            return probabilities
        K = len(self.classes_)
        prior = np.full(K, 1.0 / K) if self.prior_ is None else self.prior_
        return correct_probabilities(probabilities, self.transition_matrix_, prior)


class LabelDPRegressor(RegressorMixin, _LabelDPEstimator):
    """Any regressor, trained on private targets.

    `fit` replaces the targets by noisy ones and fits a clone of `estimator` to these, so that label
    privacy works inside Pipeline, GridSearchCV and cross_val_score.

    Parameters
    ----------
    estimator : regressor
        What to fit to the noisy targets.
    mechanism : {"rr_on_bins", "rp_with_prior"}, default="rr_on_bins"
        How targets are replaced: the first has the smallest expected loss. A parameter that the
        mechanism does not use must keep its default.
    epsilon : float, default=1.0
        Privacy loss of the targets in one `fit`, in [0, 700], or infinity for no noise. A learned
        prior is included.
    support : array-like of shape (n,)
        Public and strictly increasing: the values that ``"rr_on_bins"`` reports for, or the ends of
        the prior's cells for ``"rp_with_prior"``. Targets are moved to it first.
    prior : array-like or None, default=None
        Probability of each value of the support, or of each cell, from public knowledge.
    prior_fraction : float, default=0.0
        Share of the records, in [0, 1), whose targets are spent on a private prior; they are chosen
        at random and not trained on. At 0, without a `prior`, the prior is uniform.
    correction : {"none", "debias"}, default="none"
        ``"debias"`` trains on unbiased estimates of the targets, which ``"rp_with_prior"`` allows:
        right on average, and further off each time.
    prior_method : {"discrete_laplace", "rr"}, default="discrete_laplace"
        How the prior is learned: counts with noise, or values that each pass through randomised
        response.
    loss : {"squared", "absolute", "poisson"}, default="squared"
        For ``"rr_on_bins"``: the expected loss that is minimised.
    half_width : float or "auto", default="auto"
        For ``"rp_with_prior"``: outputs this close to the target are favoured.
    outside : {"project", "uniform"}, default="project"
        For ``"rp_with_prior"``: what happens to targets outside its interval.
    random_state : None, int or numpy generator, default=None
        Of the noise; the estimator has its own. None draws from the operating system's entropy.
        Anything else makes the noise reproducible, **voids the certificate** and warns.

    Attributes
    ----------
    certificate_ : LabelPrivacyCertificate
        The promise, in numbers and in words.
    estimator_ : regressor
        The fitted clone.
    mechanism_ : BinsMechanism or IntervalMechanism
        The mechanism.
    prior_ : ndarray
        Prior in use.
    n_features_in_ : int
        Number of features seen in `fit`, if the estimator tells.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if the estimator tells.

    See Also
    --------
    privatize_labels : Noisy targets once, and everything after them for free.
    LabelDPClassifier : The same for classes.

    Notes
    -----
    TransformedTargetRegressor cannot do this: it would draw twice and ask for an inverse.

    **Formal guarantees.** Adjacency: the target of one record is replaced by any other number,
    number of records and all features unchanged. Hidden: that target, at the epsilon of the
    certificate. Public: features, number of records, support, every parameter. Voided by:
    ``random_state`` other than None, infinite epsilon. Each fit spends epsilon again, and what
    reads y outside is not covered, see `LabelDPClassifier`.

    References
    ----------
    B. Ghazi et al., ICLR 2023, arXiv:2212.06074; H. Liu and Q. Huang, arXiv:2601.22625.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skballdp import LabelDPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LabelDPRegressor(Ridge(), epsilon=3.0, support=np.linspace(0, 360, 37))
    >>> model.fit(X, y).predict(X).shape, model.certificate_.epsilon_total
    ((442,), 3.0)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        mechanism: str = "rr_on_bins",
        epsilon: float = 1.0,
        support: Any = None,
        prior: Any = None,
        prior_fraction: float = 0.0,
        correction: str = "none",
        prior_method: str = "discrete_laplace",
        loss: str = "squared",
        half_width: float | str = "auto",
        outside: str = "project",
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.support = support
        self.prior = prior
        self.prior_fraction = prior_fraction
        self.correction = correction
        self.prior_method = prior_method
        self.loss = loss
        self.half_width = half_width
        self.outside = outside
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **fit_params: Any) -> "LabelDPRegressor":
        """Make the targets private and fit a clone of the estimator to them.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            Training records, as the estimator takes them.
        y : array-like of shape (n_samples,)
            True targets.
        **fit_params : dict
            Metadata that the estimator's `fit` requests, with metadata routing enabled; must not
            depend on true targets.

        Returns
        -------
        LabelDPRegressor
            The object itself.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range or not used, if X and y do not fit, and whatever the
            estimator raises.

        Warns
        -----
        PrivacyWarning
            If something voids or weakens the promise.
        """
        check_choice("correction", self.correction, ("none", "debias"))
        if self.correction == "debias" and self.mechanism == "rr_on_bins":
            raise ValueError(
                "correction='debias' is not possible with mechanism='rr_on_bins', whose outputs "
                "cannot be made unbiased. Use 'rp_with_prior', or correction='none'."
            )
        if not _can_fit(self.estimator) or not is_regressor(self.estimator):
            name = type(self.estimator).__name__
            raise TypeError(f"estimator must be a regressor, got an object of type {name}.")
        params = self._routed(fit_params)
        private = self._private_labels(X, y, FOR_NUMBERS)
        del y, fit_params  # from here on there are noisy targets only

        X, params = self._kept(X, params, private)
        targets = private.labels
        if self.correction == "debias":
            targets = private.mechanism.debias(targets)  # type: ignore[union-attr]
        self.mechanism_, self.prior_ = private.mechanism, private.prior
        self.estimator_ = clone(self.estimator).fit(X, targets, **params)
        self.certificate_ = private.certificate
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks want good scores on 200 records at the default epsilon.
        tags.regressor_tags.poor_score = True
        return tags


def _can_fit(estimator: Any) -> bool:
    return hasattr(estimator, "fit") and not isinstance(estimator, type)


def _ball_head(estimator: Any) -> BallDPClassifier | None:
    """The Ball-DP head that an estimator is or ends in."""
    if isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    return estimator if isinstance(estimator, BallDPClassifier) else None


def _direct(estimator: Any) -> str | None:
    """Prefix of the parameters of the NoisyLabelLogisticRegression that it is or ends in."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return f"{name}__" if isinstance(last, NoisyLabelLogisticRegression) else None
    return "" if isinstance(estimator, NoisyLabelLogisticRegression) else None


def _weight_parameter(estimator: Any) -> str:
    """The name under which an estimator's fit takes weights; an error if it does not."""
    name, last = estimator.steps[-1] if isinstance(estimator, Pipeline) else ("", estimator)
    if not has_fit_parameter(last, "sample_weight"):
        raise TypeError(
            "correction='likelihood' needs an estimator whose fit takes sample_weight, which that "
            f"of a {type(last).__name__} does not. Use NoisyLabelLogisticRegression, or "
            "correction='proba'."
        )
    # With routing enabled a Pipeline hands on what its steps request.
    if name and not get_config()["enable_metadata_routing"]:
        return f"{name}__sample_weight"
    return "sample_weight"


def _spread(
    values: np.ndarray, present: np.ndarray, classes: np.ndarray, absent: float
) -> np.ndarray:
    """Columns for all classes, from those for the classes that an estimator saw."""
    if len(present) == len(classes):
        return values
    if values.ndim == 1:  # scores of two classes, or of one
        values = np.column_stack([-values, values]) if len(present) == 2 else values[:, np.newaxis]
    complete = np.full((len(values), len(classes)), absent)
    complete[:, np.searchsorted(classes, present)] = values
    if len(classes) == 2 and absent < -1:  # two classes have one score: here an extreme one
        return complete[:, 1] if present[0] == classes[0] else -complete[:, 0]
    return complete


def _cut(value: Any, n_samples: int, kept: np.ndarray) -> Any:
    """Metadata of the records kept: what is as long as the data is cut, the rest passed on."""
    if isinstance(value, str | bytes | dict) or not (
        hasattr(value, "shape") or hasattr(value, "__len__")
    ):
        return value
    shape = getattr(value, "shape", None)
    length = len(value) if shape is None else (shape[0] if shape else -1)
    return take_rows(value, kept) if length == n_samples else value
