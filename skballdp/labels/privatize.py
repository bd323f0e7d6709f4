"""Labels made private once, for whatever comes after: `privatize_labels` and `LabelDPSampler`.

The one place where learning meets true labels. It splits the records without looking at labels,
learns the prior from one part and releases noisy labels of the other; what it returns is all that
`skballdp.labels.meta` and everything behind it ever see.
"""

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, column_or_1d

from skballdp._validate import check_choice, check_real, without_data
from skballdp.labels.bins import IntervalMechanism, check_increasing
from skballdp.labels.certificate import LabelPrivacyCertificate
from skballdp.labels.mechanisms import LabelMechanism, check_label_epsilon
from skballdp.labels.transformer import BlockRRLabelTransformer
from skballdp.noise import make_rng

__all__ = [
    "FOR_CLASSES",
    "FOR_NUMBERS",
    "LabelDPSampler",
    "PrivateLabels",
    "privatize",
    "privatize_labels",
    "take_rows",
]

FOR_CLASSES = ("block_rr", "rr", "rr_top_k", "rr_with_prior", "rr_floor", "lp_optimal")
FOR_NUMBERS = ("rr_on_bins", "rp_with_prior")
# With an integer seed the transformer draws from streams 0 (prior) and 1 (labels).
_SPLIT_STREAM = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class PrivateLabels:
    """What `privatize_labels` returns: noisy labels, whose they are, and how they were made.

    Attributes
    ----------
    labels : ndarray of shape (n_kept,)
        Noisy labels; noisy numbers for regression.
    indices : ndarray of int, shape (n_kept,)
        Positions of the records they belong to, increasing: train on ``X[indices]``.
    n_samples : int
        Number of records, kept or not.
    classes : ndarray of shape (n_classes,) or None
        The classes in the order given, that of the matrix; None for regression.
    mechanism : LabelMechanism, BinsMechanism or IntervalMechanism
        The mechanism, for example for its `inverse` or `debias`.
    prior : ndarray or None
        Prior in use, private if it was learned; None if the mechanism needs none.
    certificate : LabelPrivacyCertificate
        The promise, in numbers and in words.

    See Also
    --------
    privatize_labels : Makes them.

    Examples
    --------
    >>> from skballdp import privatize_labels
    >>> private = privatize_labels(["a", "b"] * 50, mechanism="rr", classes=["a", "b"])
    >>> private.labels.shape, private.transition_matrix.round(3).tolist()
    ((100,), [[0.731, 0.269], [0.269, 0.731]])
    """

    labels: np.ndarray
    indices: np.ndarray
    n_samples: int
    classes: np.ndarray | None
    mechanism: LabelMechanism | IntervalMechanism
    prior: np.ndarray | None
    certificate: LabelPrivacyCertificate

    @property
    def transition_matrix(self) -> np.ndarray:
        """``T[y, z]``, probability of the output z for the label y; none for rp_with_prior."""
        if isinstance(self.mechanism, IntervalMechanism):
            raise AttributeError(
                "transition_matrix does not exist for rp_with_prior, whose outputs are numbers. "
                "See mechanism."
            )
        return self.mechanism.matrix()


def privatize_labels(
    y: Any,
    *,
    mechanism: str = "block_rr",
    epsilon: float = 1.0,
    classes: Any = None,
    prior: Any = None,
    prior_fraction: float = 0.0,
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
) -> PrivateLabels:
    """Replace labels by noisy ones, once; everything that is done with these is private.

    The recommended first way to label privacy: any model, cross-validation and any search on the
    result are covered by the one promise, at no further cost.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        True labels, or regression targets.
    mechanism : {"block_rr", "rr", "rr_top_k", "rr_with_prior", "rr_floor", "lp_optimal", \
"rr_on_bins", "rp_with_prior"}, default="block_rr"
        How labels are replaced; the last two are for regression targets. See
        docs/label-mechanisms.md for a choice. A parameter that the mechanism does not use must keep
        its default.
    epsilon : float, default=1.0
        Privacy loss, in [0, 700], or infinity for no noise. It is the total: a prior that is
        learned costs nothing more, since it uses other records.
    classes : array-like of shape (n_classes,) or "observed"
        The labels that can occur, which must be public; regression has none. ``"observed"`` takes
        those in y: with it you assert that this set is public.
    prior : array-like of shape (n_classes,) or None, default=None
        Probability of each class, in the order of `classes`, from public knowledge; in the order of
        `support` for ``"rr_on_bins"``, one per cell for ``"rp_with_prior"``.
    prior_fraction : float, default=0.0
        Share of the records, in [0, 1), whose labels are spent on a private prior; they are chosen
        at random, without looking at labels, and left out of the result. At 0, without a `prior`,
        the prior is uniform, which makes ``"block_rr"``, ``"rr_with_prior"`` and ``"rr_floor"``
        randomised response, as ``"rr"``.
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
    support : array-like, default=None
        For regression, public and strictly increasing: the values that ``"rr_on_bins"`` reports
        for, or the ends of the prior's cells for ``"rp_with_prior"``.
    loss : {"squared", "absolute", "poisson"}, default="squared"
        For ``"rr_on_bins"``: the expected loss that is minimised.
    half_width : float or "auto", default="auto"
        For ``"rp_with_prior"``: outputs this close to the target are favoured.
    outside : {"project", "uniform"}, default="project"
        For ``"rp_with_prior"``: what happens to targets outside its interval.
    random_state : None, int or numpy generator, default=None
        None draws from the operating system's entropy. Anything else makes the noise reproducible,
        **voids the certificate** and warns.

    Returns
    -------
    PrivateLabels
        Noisy labels, positions of the records kept, matrix and certificate.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range or not used by the mechanism, or y does not fit.

    Warns
    -----
    PrivacyWarning
        If something voids or weakens the promise.

    See Also
    --------
    LabelDPClassifier : Does it inside `fit`.
    BlockRRLabelTransformer : The same mechanisms, split by hand.

    Notes
    -----
    **Formal guarantees.** Adjacency: the label of one record is replaced by any other, number of
    records and all features unchanged. The whole result is epsilon-private: a record's label
    influences either the prior or its own noisy label, and which of the two was drawn without
    looking at labels. Public: features, number of records, classes or support, every parameter.
    Voided by: ``random_state`` other than None, infinite epsilon. Not covered: parameters chosen by
    their effect on true labels, another use of the same labels (a second call adds its epsilon, and
    a score on true labels is not private at all), and an error about unknown labels, which tells
    that there is one.

    References
    ----------
    Y. Liu and B. Ding, arXiv:2602.03277 (the two stages); B. Ghazi et al., NeurIPS 2021 and
    arXiv:2212.06074; H. Liu and Q. Huang, arXiv:2601.22625.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from skballdp import privatize_labels
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> private = privatize_labels(y, epsilon=4.0, classes=range(4), prior_fraction=0.1)
    >>> search = GridSearchCV(LogisticRegression(), {"C": [0.001, 0.01]})  # free
    >>> search = search.fit(X[private.indices] / 16, private.labels)
    >>> private.certificate.epsilon_total
    4.0
    """
    parameters = dict(locals())
    private = privatize(parameters.pop("y"), parameters, owner="privatize_labels", stacklevel=3)
    certificate = dataclasses.replace(private.certificate, estimator=PrivateLabels.__name__)
    return dataclasses.replace(private, certificate=certificate)


class LabelDPSampler(BaseEstimator):
    """Private labels as a step of a Pipeline of imbalanced-learn.

    That Pipeline calls `fit_resample` in `fit` only, and lets a step change labels and drop
    records, which scikit-learn's own does not. Make it the **first** step: a resampler before it
    would copy or mix private labels, and one record would then cost several budgets.

    Parameters
    ----------
    mechanism : str, default="block_rr"
        How labels are replaced; this and all others are explained in `privatize_labels`.
    epsilon : float, default=1.0
        Privacy loss, in [0, 700], or infinity for no noise.
    classes : array-like of shape (n_classes,) or "observed"
        The labels that can occur, which must be public; regression has none.
    prior : array-like of shape (n_classes,) or None, default=None
        Probability of each class, from public knowledge.
    prior_fraction : float, default=0.0
        Share of the records that are spent on a private prior and dropped.
    prior_method : {"discrete_laplace", "rr"}, default="discrete_laplace"
        How the prior is learned.
    sigma : float or "auto", default="auto"
        For ``"block_rr"``: width of the partition.
    l : int or "auto", default="auto"
        For ``"block_rr"``: number of protected labels.
    floor : float or None, default=None
        For ``"rr_floor"``: least probability of any class to be reported as it is.
    k : int or None, default=None
        For ``"rr_top_k"``: number of classes kept.
    utility : array-like of shape (n_classes, n_classes) or None, default=None
        For ``"lp_optimal"``.
    support : array-like, default=None
        For regression: public values, or ends of cells.
    loss : {"squared", "absolute", "poisson"}, default="squared"
        For ``"rr_on_bins"``.
    half_width : float or "auto", default="auto"
        For ``"rp_with_prior"``.
    outside : {"project", "uniform"}, default="project"
        For ``"rp_with_prior"``.
    random_state : None, int or numpy generator, default=None
        None draws from the operating system's entropy. Anything else **voids the certificate** and
        warns.

    Attributes
    ----------
    certificate_ : LabelPrivacyCertificate
        The promise of the last call.
    sample_indices_ : ndarray of int
        Positions of the records kept.
    mechanism_ : LabelMechanism, BinsMechanism or IntervalMechanism
        The mechanism.
    prior_ : ndarray or None
        Prior in use.
    classes_ : ndarray of shape (n_classes,) or None
        The classes in the order given; None for regression.

    See Also
    --------
    privatize_labels : The function behind it.

    Notes
    -----
    **Formal guarantees.** As of `privatize_labels`, for each call: every `fit` of the Pipeline
    spends epsilon again, each fold of a cross-validation included, and scores on true labels are
    not private.

    References
    ----------
    G. Lemaitre, F. Nogueira and C. Aridas, JMLR 18 (2017), for imbalanced-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from skballdp import LabelDPSampler
    >>> X, y = np.arange(200.0).reshape(-1, 2), ["ham", "spam"] * 50
    >>> sampler = LabelDPSampler(classes=["ham", "spam"], prior_fraction=0.2)
    >>> X_kept, noisy = sampler.fit_resample(X, y)
    >>> X_kept.shape, noisy.shape, sampler.certificate_.epsilon_total
    ((80, 2), (80,), 1.0)
    """

    def __init__(
        self,
        mechanism: str = "block_rr",
        *,
        epsilon: float = 1.0,
        classes: Any = None,
        prior: Any = None,
        prior_fraction: float = 0.0,
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
        self.prior_fraction = prior_fraction
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

    def fit_resample(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Release noisy labels, and the rows they belong to.

        Parameters
        ----------
        X : {array-like, sparse matrix, dataframe} of shape (n_samples, n_features)
            Records; returned as they are, in the same type.
        y : array-like of shape (n_samples,)
            True labels, or regression targets.

        Returns
        -------
        X_kept : {array-like, sparse matrix, dataframe} of shape (n_kept, n_features)
            The rows at `sample_indices_`.
        labels : ndarray of shape (n_kept,)
            Their noisy labels.

        Raises
        ------
        TypeError, ValueError
            As `privatize_labels`.

        Warns
        -----
        PrivacyWarning
            If something voids or weakens the promise.
        """
        without_data(check_consistent_length, X, y)
        parameters = self.get_params(deep=False)
        private = privatize(y, parameters, owner=type(self).__name__, stacklevel=3)
        self.certificate_ = private.certificate
        self.sample_indices_ = private.indices
        self.mechanism_ = private.mechanism
        self.prior_ = private.prior
        self.classes_ = private.classes
        return take_rows(X, private.indices), private.labels


def privatize(y: Any, parameters: dict[str, Any], *, owner: str, stacklevel: int) -> PrivateLabels:
    """Do what `privatize_labels` promises; warnings come once, `stacklevel` up, from `owner`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        private = _privatize(y, dict(parameters))
    del y
    for warning in caught:
        text = str(warning.message).replace(BlockRRLabelTransformer.__name__, owner)
        warnings.warn(text, warning.category, stacklevel=stacklevel)
    certificate = dataclasses.replace(private.certificate, estimator=owner)
    return dataclasses.replace(private, certificate=certificate)


def _privatize(y: Any, parameters: dict[str, Any]) -> PrivateLabels:
    fraction = check_real(
        "prior_fraction", parameters.pop("prior_fraction"), low=0.0, high=1.0, high_open=True
    )
    mechanism = check_choice("mechanism", parameters["mechanism"], FOR_CLASSES + FOR_NUMBERS)
    epsilon = check_label_epsilon(parameters["epsilon"])
    if fraction > 0 and epsilon < 1e-14:
        raise ValueError(
            f"epsilon must be above 0 to learn a prior, got {epsilon!r}. Leave prior_fraction at "
            "0, or give a public prior."
        )
    _check_prior_parameters(parameters, fraction)
    y = without_data(column_or_1d, y, warn=True)
    caveats: tuple[str, ...] = ()
    if mechanism in FOR_CLASSES:
        # Randomised response needs no prior: this reads nothing but the set of labels.
        domain = BlockRRLabelTransformer("rr", classes=parameters["classes"]).fit(y)
        parameters["classes"], caveats = domain.classes_, domain.certificate_.caveats
        n_labels = len(domain.classes_)
    else:
        support = check_increasing("support", parameters["support"], at_least=2)
        n_labels = len(support) - (mechanism == "rp_with_prior")
    uniform = fraction == 0 and parameters["prior"] is None and mechanism != "rr"
    if uniform:
        parameters["prior"] = np.full(n_labels, 1.0 / n_labels)
    coder = BlockRRLabelTransformer(**parameters)

    for_prior, kept = _split(len(y), fraction, parameters["random_state"])
    coder.fit(y[for_prior])
    labels = coder.transform(y[kept])
    certificate = dataclasses.replace(coder.certificate_, disjoint=True)
    if fraction > 0:
        caveats += (
            f"{len(for_prior)} records were set aside for the prior, at random: it and the noisy "
            "labels come from different records, and the labels of these must not be used again",
        )
    if uniform:
        certificate = dataclasses.replace(
            certificate, prior_source="uniform, since no records were set aside to learn one"
        )
        caveats += tuple(c for c in certificate.caveats if "prior was given" not in c)
    else:
        caveats += certificate.caveats
    return PrivateLabels(
        labels=labels,
        indices=kept,
        n_samples=len(y),
        classes=coder.classes_ if mechanism in FOR_CLASSES else None,
        mechanism=coder.mechanism_,
        prior=coder.prior_,
        certificate=dataclasses.replace(certificate, caveats=caveats),
    )


def _check_prior_parameters(parameters: dict[str, Any], fraction: float) -> None:
    mechanism, method = parameters["mechanism"], parameters["prior_method"]
    check_choice("prior_method", method, ("discrete_laplace", "rr"))
    if fraction > 0 and mechanism == "rr":
        raise ValueError(
            f"prior_fraction={fraction!r} is not used by mechanism='rr', which needs no prior: "
            "leave it at 0."
        )
    if fraction > 0 and parameters["prior"] is not None:
        raise ValueError(
            f"prior_fraction={fraction!r} is not used when prior is given: leave it at 0."
        )
    if fraction == 0 and method != "discrete_laplace":
        raise ValueError(
            f"prior_method={method!r} is not used when prior_fraction is 0: leave it at its "
            "default, or set records aside."
        )
    if fraction == 0 and parameters["prior"] is None and mechanism == "rr_top_k":
        raise ValueError(
            "prior or prior_fraction must be given for mechanism='rr_top_k': it keeps the most "
            "likely classes."
        )


def _split(n: int, fraction: float, random_state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Records for the prior and records to keep: a function of n and of random words only."""
    if fraction == 0:
        # The transformer wants labels to fit on; with a prior it does nothing with them.
        return np.arange(min(n, 1)), np.arange(n)
    n_prior = round(fraction * n)
    if not 0 < n_prior < n:
        raise ValueError(
            f"prior_fraction={fraction!r} of n_samples={n} is {n_prior} records: there must be "
            "some for the prior and some to keep. Change it, or give a public prior."
        )
    words = make_rng(random_state, stream=_SPLIT_STREAM).draw(n)
    order = np.argsort(words, kind="stable")
    return np.sort(order[:n_prior]), np.sort(order[n_prior:])


def take_rows(X: Any, indices: np.ndarray) -> Any:
    """Rows of an array, a sparse matrix, a dataframe or a sequence, in the same type."""
    if hasattr(X, "iloc"):
        return X.iloc[indices]
    if sparse.issparse(X):
        return X.tocsr()[indices]
    if hasattr(X, "shape"):
        return X[indices]
    if hasattr(X, "__array__"):
        return np.asarray(X)[indices]
    return [X[i] for i in indices.tolist()]
