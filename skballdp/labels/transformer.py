"""BlockRRLabelTransformer: private labels behind scikit-learn's transformer interface."""

import dataclasses
import inspect
import math
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skballdp._validate import check_choice, without_data
from skballdp.accounting.reconstruction import check_prior
from skballdp.exceptions import PrivacyWarning
from skballdp.labels.bins import (
    BinsMechanism,
    IntervalMechanism,
    check_increasing,
    rp_with_prior,
    rr_on_bins,
)
from skballdp.labels.certificate import LabelPrivacyCertificate
from skballdp.labels.mechanisms import (
    LabelMechanism,
    block_rr,
    check_label_epsilon,
    lp_optimal,
    rr,
    rr_floor,
    rr_top_k,
    rr_with_prior,
)
from skballdp.labels.prior import prior_from_histogram, prior_from_rr, private_histogram
from skballdp.noise import make_rng

__all__ = ["BlockRRLabelTransformer", "check_classes"]

_PRIOR = ("prior", "prior_epsilon", "prior_method")
# Parameters that each mechanism uses, besides epsilon and random_state.
_USES = {
    "block_rr": ("classes", *_PRIOR, "sigma", "l"),
    "rr": ("classes",),
    "rr_top_k": ("classes", *_PRIOR, "k"),
    "rr_with_prior": ("classes", *_PRIOR),
    "rr_floor": ("classes", *_PRIOR, "floor"),
    "lp_optimal": ("classes", *_PRIOR, "utility"),
    "rr_on_bins": (*_PRIOR, "support", "loss"),
    "rp_with_prior": (*_PRIOR, "support", "half_width", "outside"),
}
_REQUIRED = ("k", "floor", "utility", "support")
_SEEDED = "the noise was seeded (random_state was given): whoever knows the seed can undo it"
# One label is then e^30 = 10^13 times as likely as another.
_POINTLESS_EPSILON = 30.0


class BlockRRLabelTransformer(  # type: ignore[call-arg]
    TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """Replace labels by noisy ones, so that no single label can be told from them.

    A transformer of y, as `sklearn.preprocessing.LabelEncoder`. Fit it on the labels of some
    records, which gives the mechanism a private prior, and transform the labels of **others**.
    Everything that is done with noisy labels afterwards, any model and any search, is covered.

    Parameters
    ----------
    mechanism : {"block_rr", "rr", "rr_top_k", "rr_with_prior", "rr_floor", "lp_optimal", \
"rr_on_bins", "rp_with_prior"}, default="block_rr"
        How labels are replaced; the last two are for regression targets. See
        docs/label-mechanisms.md for a choice. A parameter that the mechanism does not use must
        keep its default.
    epsilon : float, default=1.0
        Privacy loss of one release, in [0, 700], or infinity for no noise.
    classes : array-like of shape (n_classes,) or "observed"
        The labels that can occur, which must be public; all mechanisms but the last two need them.
        ``"observed"`` takes those in the y given to `fit`: with it you assert that this set is
        public.
    prior : array-like of shape (n_classes,) or None, default=None
        Probability of each class, in the order of `classes`, from public knowledge; in the order
        of `support` for ``"rr_on_bins"``, one per cell for ``"rp_with_prior"``. None learns it
        privately in `fit`.
    prior_epsilon : float or None, default=None
        Privacy loss of a learned prior, > 0; None is `epsilon`.
    prior_method : {"discrete_laplace", "rr"}, default="discrete_laplace"
        Counts with noise, or labels that each pass through randomised response: the latter needs
        no trusted curator and far more records.
    sigma : float or "auto", default="auto"
        Width of BlockRR's partition, see `weight_partition`. ``"auto"`` is 1.2 for epsilon up to
        1, 0.8 up to 3, and 0.5 above.
    l : int or "auto", default="auto"
        Number of labels that BlockRR protects, at most all of the majority. ``"auto"`` is all for
        epsilon below 3, else 0.
    floor : float or None, default=None
        For ``"rr_floor"``: least probability of any class to be reported as it is.
    k : int or None, default=None
        For ``"rr_top_k"``: number of classes kept.
    utility : array-like of shape (n_classes, n_classes) or None, default=None
        For ``"lp_optimal"``: value of reporting the column's class for the row's.
    support : array-like, default=None
        For regression, public and strictly increasing: the values that ``"rr_on_bins"`` reports
        for, or the ends of the prior's cells for ``"rp_with_prior"``.
    loss : {"squared", "absolute", "poisson"}, default="squared"
        For ``"rr_on_bins"``: the expected loss that is minimised.
    half_width : float or "auto", default="auto"
        For ``"rp_with_prior"``: outputs this close to the target are favoured. ``"auto"`` minimises
        the expected squared error under the prior, over the interval too.
    outside : {"project", "uniform"}, default="project"
        For ``"rp_with_prior"``: what happens to targets outside its interval.
    random_state : None, int or numpy generator, default=None
        None draws from the operating system's entropy. Anything else makes the noise
        reproducible, **voids the certificate** and warns.

    Attributes
    ----------
    mechanism_ : LabelMechanism, BinsMechanism or IntervalMechanism
        The fitted mechanism.
    transition_matrix_ : ndarray of shape (n_classes, n_classes)
        Probability of each output, by true label; for ``"rr_on_bins"`` by value of the support and
        bin. There is none for ``"rp_with_prior"``.
    prior_ : ndarray or None
        Prior in use, private if it was learned; None if the mechanism needs none.
    classes_ : ndarray of shape (n_classes,)
        The classes, in the order given; only for classification.
    certificate_ : LabelPrivacyCertificate
        The promise, in numbers and in words.
    n_releases_ : int
        Number of calls of `transform` since `fit`.

    See Also
    --------
    skballdp.labels.block_rr : The mechanism, with its proof.
    sklearn.preprocessing.LabelEncoder : A transformer of y without privacy.

    Notes
    -----
    Scikit-learn's Pipeline never transforms y. As a step of one this class fails, with an error
    that names LabelDPClassifier, which privatises labels inside `fit`.

    Regression targets are first moved to the support by a rule that does not look at the data: to
    the nearest of its values, the smaller of two, for ``"rr_on_bins"``; to the interval that
    ``"rp_with_prior"`` chose, or to a uniform draw. Targets beyond its ends are thereby clipped.

    **Formal guarantees.** Adjacency: the label of one record is replaced by any other, number of
    records and all features unchanged. Hidden: that label, at the total epsilon in the
    certificate. It is the **larger** of `epsilon` and `prior_epsilon` if `fit` and each `transform`
    see different records, split without looking at labels, since one label then influences one of
    them; and the **sum** if they see the same, as in `fit_transform`. Public: features, the number
    of records, classes or support, every parameter. Voided by: ``random_state`` other than None,
    infinite epsilon. Not covered: parameters chosen by their effect on true labels, a split
    stratified by them, a fitted object whose `fit` labels are used again elsewhere, and an error
    message about unknown labels, which tells that there is one.

    References
    ----------
    Y. Liu and B. Ding, arXiv:2602.03277 (BlockRR and the two stages); B. Ghazi et al., NeurIPS 2021
    and arXiv:2212.06074; H. Liu and Q. Huang, arXiv:2601.22625.

    Examples
    --------
    >>> from skballdp import BlockRRLabelTransformer
    >>> y_prior, y_train = ["spam", "ham", "ham"] * 20, ["ham", "spam"] * 500
    >>> coder = BlockRRLabelTransformer(epsilon=2.0, classes=["ham", "spam"]).fit(y_prior)
    >>> noisy = coder.transform(y_train)
    >>> noisy.shape, coder.certificate_.epsilon_disjoint
    ((1000,), 2.0)
    """

    certificate_: LabelPrivacyCertificate

    def __init__(
        self,
        mechanism: str = "block_rr",
        *,
        epsilon: float = 1.0,
        classes: Any = None,
        prior: Any = None,
        prior_epsilon: float | None = None,
        prior_method: str = "discrete_laplace",
        sigma: float | str = "auto",
        l: int | str = "auto",  # noqa: E741 - the paper's name
        floor: float | None = None,
        k: int | None = None,
        utility: Any = None,
        support: Any = None,
        loss: str = "squared",
        half_width: float | str = "auto",
        outside: str = "project",
        random_state: Any = None,
    ):
        self.mechanism = mechanism
        self.epsilon = epsilon
        self.classes = classes
        self.prior = prior
        self.prior_epsilon = prior_epsilon
        self.prior_method = prior_method
        self.sigma = sigma
        self.l = l
        self.floor = floor
        self.k = k
        self.utility = utility
        self.support = support
        self.loss = loss
        self.half_width = half_width
        self.outside = outside
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.one_d_labels = True
        return tags

    def fit(self, y: Any, *args: Any) -> "BlockRRLabelTransformer":
        """Learn the prior privately, if there is none, and build the mechanism.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels of records **other** than those that will be transformed.
        *args : tuple
            Must be empty: a second argument means that X was given.

        Returns
        -------
        BlockRRLabelTransformer
            The object itself.

        Raises
        ------
        TypeError, ValueError
            If a parameter is out of range or not used by the mechanism, or y does not fit.
        """
        _refuse_features(args)
        self._fit(y, same_records=False)
        return self

    def transform(self, y: Any) -> np.ndarray:
        """Release noisy labels: this spends `epsilon`, every time.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        ndarray of shape (n_samples,)
            Noisy labels, or noisy numbers for regression.

        Raises
        ------
        TypeError, ValueError
            If y does not fit the classes or the support.

        Warns
        -----
        PrivacyWarning
            From the second call on: if it is for the same records, budgets add. The calls are
            counted; the records are not kept. And if `random_state` was set after `fit`.
        """
        check_is_fitted(self)
        codes = self._encode(_as_column(y))
        rng = make_rng(self.random_state, stream=self.n_releases_ + 1)
        drawn = self.mechanism_.sample(codes, rng)
        self.n_releases_ += 1
        voided_by = self.certificate_.voided_by
        if self.random_state is not None and _SEEDED not in voided_by:  # set after fit
            voided_by = (*voided_by, _SEEDED)
            _warn(_SEEDED, stacklevel=3)
        self.certificate_ = dataclasses.replace(
            self.certificate_, n_releases=self.n_releases_, voided_by=voided_by
        )
        if self.n_releases_ > 1:
            _warn(
                f"this is release number {self.n_releases_}: for records whose labels were released"
                " before, budgets add. Transform once, and keep the noisy labels",
                stacklevel=3,
            )
        if isinstance(self.mechanism_, IntervalMechanism):
            return drawn
        if isinstance(self.mechanism_, BinsMechanism):
            return self.mechanism_.bin_outputs[drawn]
        return self.classes_[drawn]

    def fit_transform(self, y: Any, *args: Any) -> np.ndarray:
        """Learn the prior and release noisy labels of the **same** records: budgets add.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels.
        *args : tuple
            Must be empty: a second argument means that X was given.

        Returns
        -------
        ndarray of shape (n_samples,)
            Noisy labels, at a total of ``prior_epsilon + epsilon``; of `epsilon` if no prior was
            learned.

        Raises
        ------
        TypeError, ValueError
            As in `fit` and `transform`.
        """
        _refuse_features(args)
        self._fit(y, same_records=True)
        return self.transform(y)

    @property
    def transition_matrix_(self) -> np.ndarray:
        """Probability of each output, by true label."""
        check_is_fitted(self)
        if isinstance(self.mechanism_, IntervalMechanism):
            raise AttributeError(
                "transition_matrix_ does not exist for rp_with_prior, whose outputs are numbers. "
                "See mechanism_."
            )
        return self.mechanism_.matrix()

    def _fit(self, y: Any, same_records: bool) -> None:
        epsilon = check_label_epsilon(self.epsilon)
        check_choice("mechanism", self.mechanism, tuple(_USES))
        self._check_unused()
        rng = make_rng(self.random_state)
        y = _as_column(y)
        if "support" in _USES[self.mechanism]:
            support = check_increasing("support", self.support, at_least=2)
            codes = _nearest(y, support, cells=self.mechanism == "rp_with_prior")
            n_labels = len(support) - (self.mechanism == "rp_with_prior")
            classes = None
        else:
            classes, support = self._classes(y), None
            codes, n_labels = _positions(y, classes), len(classes)
        prior, prior_epsilon, source = self._prior(codes, n_labels, epsilon, rng)
        mechanism = self._build(epsilon, prior, support, n_labels)

        voided_by, caveats = self._weaknesses(epsilon, prior_epsilon)
        for sentence in voided_by:
            _warn(sentence, stacklevel=4)
        if _POINTLESS_EPSILON < epsilon < math.inf:
            _warn(
                f"epsilon={epsilon:g} hides next to nothing: one label may be e^{epsilon:g} times "
                "as likely as another",
                stacklevel=4,
            )
        self.mechanism_ = mechanism
        self.prior_ = prior
        if classes is not None:
            self.classes_ = classes
        elif hasattr(self, "classes_"):
            del self.classes_
        self.n_releases_ = 0
        n_outputs = len(mechanism.order) if isinstance(mechanism, LabelMechanism) else 0
        self.certificate_ = LabelPrivacyCertificate(
            estimator=type(self).__name__,
            mechanism=self.mechanism,
            epsilon=epsilon,
            prior_epsilon=prior_epsilon,
            prior_source=source,
            same_records=same_records,
            n_labels=n_labels if n_outputs else 0,
            n_outputs=n_outputs,
            voided_by=voided_by,
            caveats=caveats,
        )

    def _check_unused(self) -> None:
        """A parameter without effect would be a promise not kept."""
        uses = _USES[self.mechanism]
        signature = inspect.signature(type(self).__init__).parameters
        for name, value in self.get_params(deep=False).items():
            if name in ("mechanism", "epsilon", "random_state"):
                continue
            default = signature[name].default
            changed = value is not default and not (
                isinstance(value, str | int | float) and value == default
            )
            plain = value is None or isinstance(value, str | int | float)
            shown = repr(value) if plain else f"an object of type {type(value).__name__}"
            if changed and name not in uses:
                raise ValueError(
                    f"{name} is not used by mechanism={self.mechanism!r}, got {shown}: leave it at "
                    f"its default, {default!r}."
                )
            if changed and name in _PRIOR[1:] and self.prior is not None:
                raise ValueError(
                    f"{name} is not used when prior is given, got {shown}: leave it at its default,"
                    f" {default!r}."
                )
            if value is None and name in uses and (name in _REQUIRED or default is not None):
                raise ValueError(
                    f"{name} must be given for mechanism={self.mechanism!r}, got None."
                    + ("" if default is None else f" Its default is {default!r}.")
                )

    def _classes(self, y: np.ndarray) -> np.ndarray:
        if self.classes is None:
            raise ValueError(
                "classes must be given: the list of all labels that can occur, from public "
                "knowledge. With classes='observed' you assert that the set of labels in y is "
                "public."
            )
        if isinstance(self.classes, str):
            check_choice("classes", self.classes, ("observed",), "Or give a list of labels.")
            classes = _observed(y)
        else:
            classes = _listed(self.classes)
        if len(classes) < 2:
            raise ValueError(
                f"classes must hold at least two classes, got {len(classes)} class: there is "
                "nothing to hide. List all labels that can occur."
            )
        return classes

    def _prior(
        self, codes: np.ndarray, n_labels: int, epsilon: float, rng: Any
    ) -> tuple[np.ndarray | None, float, str]:
        """Prior, what it cost and where it came from."""
        if "prior" not in _USES[self.mechanism]:
            return None, 0.0, "not needed"
        if self.prior is not None:
            prior = check_prior(self.prior)
            if len(prior) != n_labels:
                raise ValueError(
                    f"prior must have one entry per class, value or cell, {n_labels}, got "
                    f"{len(prior)}."
                )
            return prior, 0.0, "given by the caller"
        check_choice("prior_method", self.prior_method, ("discrete_laplace", "rr"))
        spent = epsilon
        if self.prior_epsilon is not None:
            spent = check_label_epsilon(self.prior_epsilon, "prior_epsilon")
        if spent < 1e-14:
            raise ValueError(
                f"prior_epsilon must be above 0 to learn a prior, got {spent!r} (by default it is "
                "epsilon). Give it, or a public prior."
            )
        counts = np.bincount(codes, minlength=n_labels)
        if self.prior_method == "rr":
            noisy = rr(n_labels, spent).sample(codes, rng)
            counts = np.bincount(noisy, minlength=n_labels)
            return prior_from_rr(counts, spent), spent, "labels under randomised response"
        prior = prior_from_histogram(private_histogram(counts, spent, rng))
        return prior, spent, "label counts with discrete Laplace noise"

    def _build(
        self, epsilon: float, prior: Any, support: Any, n_labels: int
    ) -> LabelMechanism | IntervalMechanism:
        match self.mechanism:
            case "rr":
                return rr(n_labels, epsilon)
            case "rr_top_k":
                return rr_top_k(prior, self.k, epsilon)  # type: ignore[arg-type]
            case "rr_with_prior":
                return rr_with_prior(prior, epsilon)
            case "rr_floor":
                return rr_floor(prior, self.floor, epsilon)  # type: ignore[arg-type]
            case "lp_optimal":
                mechanism = lp_optimal(prior, self.utility, epsilon)
                if mechanism.n_outputs != n_labels:
                    raise ValueError(
                        f"utility must have one column per class, {n_labels}, got "
                        f"{mechanism.n_outputs}. For other outputs use skballdp.labels.lp_optimal."
                    )
                return mechanism
            case "rr_on_bins":
                return rr_on_bins(support, prior, epsilon, self.loss)
            case "rp_with_prior":
                return rp_with_prior(support, prior, self.half_width, epsilon, self.outside)
        # Automatic values depend on epsilon and on the number of classes only.
        sigma, l = self.sigma, self.l  # noqa: E741
        if isinstance(sigma, str):
            check_choice("sigma", sigma, ("auto",), "Or give a number above 0.")
            sigma = 1.2 if epsilon <= 1 else 0.8 if epsilon <= 3 else 0.5
        if isinstance(l, str):
            check_choice("l", l, ("auto",), "Or give an integer.")
            l = n_labels if epsilon < 3 else 0  # noqa: E741 - at most the whole majority
        return block_rr(epsilon, prior=prior, sigma=sigma, l=l)

    def _weaknesses(
        self, epsilon: float, prior_epsilon: float
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Sentences for what voids the promise and for what it takes for granted."""
        voided_by, caveats = [], []
        if self.random_state is not None:
            voided_by.append(_SEEDED)
        if epsilon == math.inf:
            voided_by.append("epsilon is infinite: the labels are not changed, this is not private")
        elif prior_epsilon == math.inf:
            voided_by.append("prior_epsilon is infinite: the prior is not private")
        if isinstance(self.classes, str):
            caveats.append(
                "the set of labels was read from y (classes='observed'): the caller states that it "
                "is public"
            )
        if self.prior is not None:
            caveats.append("the prior was given: the caller states that it is public")
        return tuple(voided_by), tuple(caveats)

    def _encode(self, y: np.ndarray) -> np.ndarray:
        """What the mechanism's `sample` takes."""
        if isinstance(self.mechanism_, IntervalMechanism):
            return _as_targets(y)
        if isinstance(self.mechanism_, BinsMechanism):
            return _nearest(y, self.mechanism_.values, cells=False)
        return _positions(y, self.classes_)


def _warn(sentence: str, stacklevel: int) -> None:
    warnings.warn(f"BlockRRLabelTransformer: {sentence}.", PrivacyWarning, stacklevel=stacklevel)


def _refuse_features(args: tuple[Any, ...]) -> None:
    if args:
        raise TypeError(
            "BlockRRLabelTransformer transforms labels: call fit(y), not fit(X, y). A Pipeline "
            "never transforms y; to privatise labels in one, wrap its classifier in "
            "LabelDPClassifier."
        )


def _as_column(y: Any) -> np.ndarray:
    y = without_data(column_or_1d, y, warn=True)
    if len(y) == 0:
        raise ValueError("y must hold at least one label, got 0.")
    return y


def _observed(y: np.ndarray) -> np.ndarray:
    """The distinct labels in y, sorted."""
    try:
        return np.unique(_as_labels(y, "y"))
    except TypeError:  # replaced below, with no link to what was compared
        problem = "labels of several types, or without an order"
    raise ValueError(f"y holds {problem}: classes='observed' cannot sort them. List the classes.")


def _listed(classes: Any) -> np.ndarray:
    """The labels that were given; they are public."""
    try:
        array = np.asarray(classes)
    except ValueError:  # lists of unequal length
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise ValueError(
            f"classes must be a one-dimensional list of labels, got an object of type "
            f"{type(classes).__name__} that is not."
        )
    array = _as_labels(array, "classes")
    try:
        n_different = len(set(array.tolist()))
    except TypeError:
        raise ValueError("classes must hold hashable labels: numbers, text, tuples.") from None
    if n_different < len(array):
        raise ValueError(
            f"classes must not hold a duplicate, got {len(array)} labels of which {n_different} "
            "are different."
        )
    return array


def check_classes(classes: Any) -> np.ndarray:
    """Return labels that classifiers take, fewer than `BlockRRLabelTransformer` does, or raise."""
    labels = _listed(classes)
    whole = labels.dtype.kind != "f" or np.all(labels == np.trunc(labels))
    if labels.dtype.kind not in "biufU" or not whole:
        raise ValueError(
            "classes must hold text, bools or whole numbers, all of one kind, got dtype "
            f"{labels.dtype}. Encode other labels beforehand."
        )
    return labels


def _is_missing(label: Any) -> bool:
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA has no truth value
        return True


def _as_labels(values: np.ndarray, name: str) -> np.ndarray:
    """Numbers, text, or objects that are neither; without missing ones."""
    if values.dtype.kind == "O":
        kinds = set(map(type, values))
        if any(map(_is_missing, values)):
            raise ValueError(f"{name} contains NaN or None. Repair or leave out such records.")
        if kinds and all(issubclass(kind, str) for kind in kinds):
            return values.astype(str)
        if kinds and all(issubclass(kind, int | float | np.number | np.bool_) for kind in kinds):
            return np.array(values.tolist())
        return values
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError(f"{name} contains NaN. Repair or leave out such records.")
    return values


def _positions(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Position of each label in `classes`; an error never prints a label."""
    given, y = y, _as_labels(y, "y")
    numeric = classes.dtype.kind in "biuf"
    known = False
    codes = np.zeros(len(y), dtype=np.intp)
    if classes.dtype.kind == "O":  # neither numbers nor text: labels need not have an order
        position = {label: code for code, label in enumerate(classes.tolist())}
        try:
            codes = np.array([position.get(label, -1) for label in given.tolist()], dtype=np.intp)
            known = bool(codes.min() >= 0)
        except TypeError:  # not hashable, hence no class
            known = False
    elif y.dtype.kind in "biuf" if numeric else y.dtype.kind == classes.dtype.kind:
        order = np.argsort(classes, kind="stable")
        ascending = classes[order]
        codes = np.searchsorted(ascending, y)
        np.minimum(codes, len(classes) - 1, out=codes)
        known = bool(np.all(ascending[codes] == y))
        if np.any(np.diff(order) < 0):
            codes = order[codes]
    if not known:
        raise ValueError(
            "y contains labels not in classes. List all labels that can occur, as the same type."
        )
    return codes


def _as_targets(y: np.ndarray) -> np.ndarray:
    try:  # text and dates, which numpy would convert, are no numbers
        y = y.astype(np.float64) if y.dtype.kind in "biufO" else np.array([math.nan])
    except (TypeError, ValueError):
        y = np.array([math.nan])
    if not np.all(np.isfinite(y)):
        raise ValueError("y must hold finite numbers for regression; it contains NaN or others.")
    return y


def _nearest(y: np.ndarray, support: np.ndarray, cells: bool) -> np.ndarray:
    """Position of the nearest value of the support, the smaller of two, or of the cell."""
    y = _as_targets(y)
    if cells:
        return np.clip(np.searchsorted(support, y, side="right") - 1, 0, len(support) - 2)
    return np.searchsorted(support[:-1] + np.diff(support) / 2, y, side="left")
