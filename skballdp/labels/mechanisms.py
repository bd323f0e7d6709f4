"""Mechanisms that release a noisy label in place of a true one.

Conventions. Labels and outputs are the integers 0..K-1 and 0..k-1. ``T[y, z]`` is the probability
of the output z for the label y, ``E = exp(epsilon)``, ``q = exp(-epsilon)``. A mechanism is
epsilon-label-private if in every column that is used no entry is more than E times another: whoever
sees the output, and all other records with their labels, can hardly tell one label from another.

Every formula is written in q. In E, the textbook forms of BlockRR overflow without an error from
epsilon = 355 on. Every entry is a **sum of non-negative terms**, so that nothing cancels at any
epsilon, and the same terms are what `LabelMechanism.sample` draws from.

References
----------
"BlockRR", Y. Liu and B. Ding, arXiv:2602.03277. "RRTop-k" and "RRWithPrior": B. Ghazi, N. Golowich,
R. Kumar, P. Manurangsi and C. Zhang, "Deep learning with label differential privacy", NeurIPS 2021.
"RR on a subset of outputs": B. Ghazi, P. Kamath, R. Kumar, E. Leeman, P. Manurangsi, A. Varadarajan
and C. Zhang, "Regression with label differential privacy", ICLR 2023, arXiv:2212.06074.
"""

import itertools
import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from skballdp._validate import check_integer, check_real
from skballdp.accounting.reconstruction import check_prior
from skballdp.noise import UniformMixture, make_rng

__all__ = [
    "LabelMechanism",
    "block_rr",
    "block_rr_sets",
    "lp_optimal",
    "rr",
    "rr_floor",
    "rr_top_k",
    "rr_with_prior",
    "weight_partition",
]

# Above, exp(-epsilon) is denormal, and a column would hold zeros next to positive entries.
_LARGEST_EPSILON = 700.0
# Two values this close, relatively, are a tie; they differ by rounding at most.
_TIE = 1e-12
# Relative to the largest utility: what the value of the linear program may be off by.
_LP_TOLERANCE = 1e-6
# Draws at a time: arrays of this length stay in the cache, and below the size (128 kB) from which
# memory is returned to the system after each use.
_CHUNK = 15_360


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelMechanism:
    """A transition matrix in its block form, with a sampler that never builds the matrix.

    Made by `rr`, `block_rr` and the other functions of this module; not meant to be called.

    Attributes
    ----------
    name : str
        Name of the mechanism.
    epsilon : float
        Privacy loss.
    n_outputs : int
        Number k of outputs, used or not.
    order : ndarray of int
        The used outputs, in the order of the blocks: the first `n_first` form the first block, the
        others the second.
    n_first, n_lifted : int
        Size of the first block, and how many outputs at its start are lifted in minority rows.
    base : tuple of float
        What every row has at least, in the first and in the second block.
    lift : float
        What a minority row has on top on the lifted outputs.
    minority : ndarray of bool, shape (n_labels,)
        Which rows those are.
    favoured : ndarray of int, shape (n_labels, b)
        Outputs that a label favours.
    excess : tuple of float
        What a majority and a minority row have on top on each favoured output.
    uniform : ndarray of bool of shape (n_labels,), or None
        Rows that are uniform on the used outputs instead; None if there are none.
    facts : mapping
        Further public numbers, for example the labels that were kept.

    Notes
    -----
    ``T[y, z] = base + lift [y in the minority, z lifted] + excess [z favoured by y]``, all terms
    non-negative, in all rows that are not `uniform`. The constructor refuses terms whose largest
    ratio within a column exceeds ``E (1 + 1e-12)``.

    Examples
    --------
    >>> from skballdp.labels import rr
    >>> mechanism = rr(2, epsilon=1.0)
    >>> mechanism.sample([0, 1, 1]).shape, round(mechanism.max_ratio(), 3)
    ((3,), 2.718)
    >>> mechanism.inverse().round(2).tolist()
    [[1.58, -0.58], [-0.58, 1.58]]
    """

    name: str
    epsilon: float
    n_outputs: int
    order: np.ndarray
    n_first: int
    n_lifted: int = 0
    base: tuple[float, float]
    lift: float = 0.0
    minority: np.ndarray
    favoured: np.ndarray
    excess: tuple[float, float]
    uniform: np.ndarray | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.epsilon < math.inf and self.max_ratio() > math.exp(self.epsilon) * (1 + _TIE):
            raise ValueError(
                f"epsilon must be smaller for so many labels: at {self.epsilon:g} the smallest "
                "probabilities underflow. Use np.inf for labels without noise."
            )

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.minority)

    @property
    def outputs(self) -> np.ndarray:
        """The outputs that can occur, in increasing order."""
        return np.sort(self.order)

    def matrix(self) -> np.ndarray:
        """The transition matrix.

        Returns
        -------
        ndarray of shape (n_labels, n_outputs)
            ``T[y, z]``; an output that cannot occur has a column of zeros.
        """
        T = np.zeros((self.n_labels, self.n_outputs))
        base, lift = self._levels()
        T += base
        T += np.multiply.outer(self.minority, lift)
        rows = np.arange(self.n_labels)[:, np.newaxis]
        T[rows, self.favoured] += self._excess_of_labels()[:, np.newaxis]
        if self.uniform is not None:
            T[self.uniform] = self._uniform_row()
        return T

    def retention(self) -> np.ndarray:
        """Probability of each label to be reported as it is.

        Returns
        -------
        ndarray of shape (n_labels,)
            The diagonal of the matrix.

        Raises
        ------
        ValueError
            If outputs are not labels.
        """
        if self.n_outputs != self.n_labels:
            raise ValueError(
                f"the {self.name} mechanism has {self.n_outputs} outputs for {self.n_labels} "
                "labels: its outputs are not labels. Use matrix()."
            )
        base, lift = self._levels()
        labels = np.arange(self.n_labels)
        own = np.any(self.favoured == labels[:, np.newaxis], axis=1)
        kept = base + self.minority * lift + own * self._excess_of_labels()
        return kept if self.uniform is None else np.where(self.uniform, self._uniform_row(), kept)

    def max_ratio(self) -> float:
        """Largest ratio of two entries in one column, over the columns that are used.

        Returns
        -------
        float
            ``exp(epsilon)`` up to rounding, or less where the mechanism has no use for it.
        """
        base, lift = self._levels()
        low, high = np.full(self.n_outputs, np.inf), np.zeros(self.n_outputs)
        kinds = self._kinds()
        if np.any(kinds == 2):
            high = self._uniform_row()
            low = np.where(high > 0, high, np.inf)
        for is_minority, excess in enumerate(self.excess):
            rows = kinds == is_minority
            level = base + (lift if is_minority else 0.0)
            favours = self.favoured[rows] if excess > 0 else np.empty(0, dtype=np.intp)
            n_favour = np.bincount(favours.ravel(), minlength=self.n_outputs)
            plain = n_favour < np.count_nonzero(rows)
            low[plain] = np.minimum(low, level)[plain]
            high[plain] = np.maximum(high, level)[plain]
            low[n_favour > 0] = np.minimum(low, level + excess)[n_favour > 0]
            high[n_favour > 0] = np.maximum(high, level + excess)[n_favour > 0]
        used = high > 0
        with np.errstate(divide="ignore", over="ignore"):
            return float(np.max(high[used] / low[used]))

    def inverse(self) -> np.ndarray:
        """Inverse of the transition matrix, in closed form.

        Returns
        -------
        ndarray of shape (n_outputs, n_labels)
            Row ``z`` holds the weights that make an unbiased estimate of any function of the true
            label from the output z.

        Raises
        ------
        ValueError
            If there is none: at epsilon = 0, if labels share their output, or if a label does not
            favour any.

        Notes
        -----
        With ``r`` the base row and ``N = T - 1 r``, both T and N have equal row sums, so that
        ``inv(T) = inv(N) - 1 r inv(N)``. N has one entry ``e_y`` a row, and the lift w in the
        minority rows, on outputs that only the majority favours. Hence, Q being the permutation
        with entries ``1/e_y``, ``inv(N) = Q - (Q 1_minority) (w Q)``. Nothing cancels, unlike in
        a general inversion, which loses all digits for small epsilon.
        """
        favoured, excess = self.favoured[:, 0], self._excess_of_labels()
        if (
            self.uniform is not None
            or self.favoured.shape[1] != 1
            or self.n_outputs != self.n_labels
            or len(np.unique(favoured)) != self.n_labels
            or not np.all(excess > 0)
        ):
            raise ValueError(
                f"the {self.name} mechanism at epsilon={self.epsilon:g} has no inverse: it does "
                "not give every label an output of its own. Use a likelihood instead of an inverse"
                ", or rr, block_rr or rr_floor with epsilon > 0."
            )
        base, lift = self._levels()
        scale = 1.0 / excess  # Q[favoured[y], y]
        weights = lift[favoured] * scale  # w Q, a row over labels
        inverse = np.zeros((self.n_outputs, self.n_labels))
        inverse[favoured, np.arange(self.n_labels)] = scale
        shift = base[favoured] * scale  # r Q
        if self.n_lifted:
            inverse[favoured[self.minority]] -= np.multiply.outer(scale[self.minority], weights)
            shift = shift - shift[self.minority].sum() * weights
        return inverse - shift

    def sample(self, codes: Any, rng: Any = None) -> np.ndarray:
        """Draw one output for each label.

        Parameters
        ----------
        codes : array-like of int, shape (n,)
            Labels in 0..n_labels-1.
        rng : None, int, numpy Generator or RandomState, default=None
            None draws from the operating system's cryptographic generator; anything else is
            reproducible and therefore **not private**.

        Returns
        -------
        ndarray of int, shape (n,)
            Outputs, independent of each other.

        Raises
        ------
        TypeError, ValueError
            If codes are not integers in range.

        Notes
        -----
        A row of the matrix is a mixture of at most four uniform laws: on the favoured outputs, on
        the lifted ones and on the two blocks. `skballdp.noise.UniformMixture` draws from it with
        64 random bits a label, exactly as the matrix says: each entry of the law that is drawn
        from is the stated one up to a relative error of some 1e-15, however small it is.
        """
        codes = np.asarray(codes)
        if codes.dtype.kind not in "iu" or codes.ndim != 1:
            raise TypeError(
                "codes must be a one-dimensional array of integers, got shape "
                f"{codes.shape} and dtype {codes.dtype}."
            )
        rng = make_rng(rng)
        b = self.favoured.shape[1]
        # A row of parts for each kind of label, majority first: favoured, lifted, both blocks.
        n_second = len(self.order) - self.n_first
        sizes = np.array([b, self.n_lifted, self.n_first, n_second])
        first, second = self.base[0] * self.n_first, self.base[1] * n_second
        parts = np.array(
            [
                [b * self.excess[0], 0.0, first, second],
                [b * self.excess[1], self.lift * self.n_lifted, first, second],
                [0.0, 0.0, self.n_first / len(self.order), n_second / len(self.order)],
            ]
        )
        kinds = self._kinds()
        mixed = bool(np.any(kinds))
        parts = parts[: kinds.max() + 1]
        kept = np.any(parts > 0, axis=0)
        mixture = UniformMixture(parts[:, kept], sizes[kept])
        # Outputs by position: the blocks, then the favoured ones, b to a label.
        table = np.concatenate([self.order, self.favoured.ravel()])
        start = np.array([len(self.order), 0, 0, self.n_first])[kept]
        start = np.tile(start, len(parts))[mixture.parts]
        own = np.tile(np.array([-1, 0, 0, 0])[kept], len(parts))[mixture.parts]  # all bits or none

        drawn = np.empty(len(codes), dtype=np.intp)
        for at in range(0, len(codes), _CHUNK):
            labels = codes[at : at + _CHUNK].astype(np.intp, copy=False)
            if labels.min() < 0 or labels.max() >= self.n_labels:
                raise ValueError(f"codes must be in 0..{self.n_labels - 1}.")
            rows = kinds.take(labels) if mixed else 0
            slot, position = mixture.draw(rows, len(labels), rng)
            position += start.take(slot)
            position += (labels * b) & own.take(slot)
            table.take(position, out=drawn[at : at + _CHUNK], mode="clip")  # "raise" would copy
        return drawn

    def __str__(self) -> str:
        text = (
            f"{self.name}: {self.n_labels} labels, {len(self.order)} outputs in use, epsilon = "
            f"{self.epsilon:g}. "
        )
        if self.epsilon == math.inf:
            text += "There is no privacy."
        else:
            text += (
                "No output is more than e^epsilon times as likely with one label as with another."
            )
        if self.n_outputs == self.n_labels:
            keep = self.retention()
            text += (
                f" A label is reported as it is with probability {keep.min():.4g} to "
                f"{keep.max():.4g}."
            )
        for key, value in self.facts.items():
            size = len(value) if isinstance(value, list) else 0
            shown = f"{size} of them" if size > 12 else str(value)
            text += f" {key}: {shown}."
        return textwrap.fill(text, 88)

    def _levels(self) -> tuple[np.ndarray, np.ndarray]:
        """Base and lift of every output."""
        base, lift = np.zeros(self.n_outputs), np.zeros(self.n_outputs)
        base[self.order[: self.n_first]], base[self.order[self.n_first :]] = self.base
        lift[self.order[: self.n_lifted]] = self.lift
        return base, lift

    def _kinds(self) -> np.ndarray:
        """Kind of every row: 0 for the majority, 1 for the minority, 2 for a uniform one."""
        kinds = self.minority.astype(np.intp)
        return kinds if self.uniform is None else np.where(self.uniform, 2, kinds)

    def _uniform_row(self) -> np.ndarray:
        row = np.zeros(self.n_outputs)
        row[self.order] = 1.0 / len(self.order)
        return row

    def _excess_of_labels(self) -> np.ndarray:
        return np.where(self.minority, self.excess[1], self.excess[0])


def rr(n_classes: int, epsilon: float) -> LabelMechanism:
    """Randomised response over K labels.

    Parameters
    ----------
    n_classes : int
        Number K of labels, at least 1.
    epsilon : float
        Privacy loss, in [0, 700], or infinity for no noise.

    Returns
    -------
    LabelMechanism
        Outputs are labels.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    The truth has probability ``1/n``, every other label ``q/n``, ``n = 1 + (K-1) q``: the truth
    with probability ``(1-q)/n``, else a uniform label out of all K.

    References
    ----------
    S. Warner (1965); P. Kairouz, S. Oh and P. Viswanath, JMLR 17 (2016), for K labels.

    Examples
    --------
    >>> from skballdp.labels import rr
    >>> rr(3, epsilon=1.0).matrix().round(3).tolist()
    [[0.576, 0.212, 0.212], [0.212, 0.576, 0.212], [0.212, 0.212, 0.576]]
    """
    labels = np.arange(check_integer("n_classes", n_classes, low=1))
    return LabelMechanism(**rr_onto("randomised response", epsilon, labels, labels, len(labels)))


def rr_top_k(prior: Any, k: int, epsilon: float) -> LabelMechanism:
    """Randomised response over the k most likely labels.

    Parameters
    ----------
    prior : array-like of shape (n_classes,)
        Probability of each label, from public knowledge or a private estimate; sums to 1.
    k : int
        Number of labels that can be reported, the most likely ones; ties go to the smaller label.
    epsilon : float
        Privacy loss, in [0, 700], or infinity.

    Returns
    -------
    LabelMechanism
        Labels that are not kept never occur as outputs.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    On the kept labels it is `rr`; each other label is replaced by a uniform one of them, ``1/k``
    being between ``q/n`` and ``1/n``, ``n = 1 + (k-1) q``.

    References
    ----------
    Ghazi et al., NeurIPS 2021, algorithm 2.

    Examples
    --------
    >>> from skballdp.labels import rr_top_k
    >>> rr_top_k([0.5, 0.3, 0.2], 2, epsilon=1.0).matrix().round(3).tolist()
    [[0.731, 0.269, 0.0], [0.269, 0.731, 0.0], [0.5, 0.5, 0.0]]
    """
    prior = check_prior(prior)
    k = _check_count("k", k, 1, len(prior))
    return _top_k_mixture(f"RRTop-{k}", prior, k, epsilon, floor=0.0)


def rr_with_prior(prior: Any, epsilon: float) -> LabelMechanism:
    """Randomised response over the labels that maximise the expected accuracy.

    Parameters
    ----------
    prior : array-like of shape (n_classes,)
        Probability of each label; sums to 1.
    epsilon : float
        Privacy loss, in [0, 700], or infinity.

    Returns
    -------
    LabelMechanism
        `rr_top_k` with the best k; ``facts["k"]`` says which.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    With the k most likely labels the output equals the label with probability ``w_k = (sum of the
    k largest priors) / (1 + (k-1) q)``. The best k maximises it, and no epsilon-private mechanism
    does better (theorem 3 of the paper). Among equal ones the largest k loses the fewest classes.
    Labels that it drops cannot be learned from its outputs: see `rr_floor`.

    References
    ----------
    Ghazi et al., NeurIPS 2021, algorithm 3.

    Examples
    --------
    >>> from skballdp.labels import rr_with_prior
    >>> rr_with_prior([0.5, 0.3, 0.15, 0.05], epsilon=1.0).outputs.tolist()
    [0, 1]
    """
    prior = check_prior(prior)
    k, _ = _best_k(prior, _q(check_label_epsilon(epsilon)))
    return _top_k_mixture("RRWithPrior", prior, k, epsilon, floor=0.0)


def rr_floor(prior: Any, floor: float, epsilon: float) -> LabelMechanism:
    """Best expected accuracy among mechanisms that keep every label with some probability.

    Parameters
    ----------
    prior : array-like of shape (n_classes,)
        Probability of each label; sums to 1.
    floor : float
        Least probability of any label to be reported as it is, in [0, 1/(1 + (K-1) q)]. At 0 this
        is `rr_with_prior`, at the upper end `rr`.
    epsilon : float
        Privacy loss, in [0, 700], or infinity.

    Returns
    -------
    LabelMechanism
        ``facts["top_k_weight"]`` is the share t of RRTop-k in the mixture.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    Every epsilon-private matrix satisfies ``(1-q) T[y,y] + q sum_z T[z,z] <= 1``, since ``T[y,z] >=
    q T[z,z]``. The largest accuracy with ``T[y,y] >= rho`` for all y is therefore ``rho + (1 - rho
    n) w_k``, ``n = 1 + (K-1) q``, with ``w_k`` and k of `rr_with_prior`; the mixture ``(1-t) RR + t
    RRTop-k``, ``t = 1 - rho n``, attains it. BlockRR aims at the same balance; at its own floor
    this is never worse.

    References
    ----------
    Ours; the two ends are those of Ghazi et al., NeurIPS 2021.

    Examples
    --------
    >>> from skballdp.labels import rr_floor
    >>> rr_floor([0.6, 0.3, 0.1], 0.3, epsilon=1.0).retention().round(3).tolist()
    [0.65, 0.65, 0.3]
    """
    prior = check_prior(prior)
    epsilon = check_label_epsilon(epsilon)
    floor = check_real("floor", floor, low=0.0, high=1.0)
    q = _q(epsilon)
    largest = 1.0 / (1.0 + (len(prior) - 1) * q)
    if floor > largest * (1 + _TIE):
        raise ValueError(
            f"floor must not exceed 1 / (1 + (K-1) exp(-epsilon)) = {largest:.6g}, which "
            f"randomised response attains, got {floor!r}. Use a smaller floor or a larger epsilon."
        )
    k, _ = _best_k(prior, q)
    return _top_k_mixture("floor mechanism", prior, k, epsilon, floor=min(floor, largest))


def weight_partition(prior: Any, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Majority and minority labels of BlockRR.

    Parameters
    ----------
    prior : array-like of shape (n_classes,)
        Probability of each label; sums to 1.
    sigma : float
        Width of the partition, > 0: small values leave no minority, infinity leaves only the most
        likely labels in the majority.

    Returns
    -------
    majority, minority : ndarray of int
        Labels, sorted. The majority is never empty.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.

    Notes
    -----
    With weights ``w_ij = p_j exp(-[i != j] / sigma)`` a label i is in the majority if ``w_ii`` is
    the largest of its row; that is, if ``p_i >= exp(-1/sigma) max p``. A tie stays in it.

    References
    ----------
    Liu and Ding, arXiv:2602.03277, and their code.

    Examples
    --------
    >>> from skballdp.labels import weight_partition
    >>> majority, minority = weight_partition([0.5, 0.4, 0.06, 0.04], sigma=1.0)
    >>> majority.tolist(), minority.tolist()
    ([0, 1], [2, 3])
    """
    prior = check_prior(prior)
    sigma = check_real("sigma", sigma, low=0.0, low_open=True)
    majority = prior >= math.exp(-1.0 / sigma) * prior.max()
    return np.flatnonzero(majority), np.flatnonzero(~majority)


def block_rr(
    epsilon: float,
    *,
    prior: Any = None,
    sigma: float | None = None,
    n_classes: int | None = None,
    majority: Any = None,
    l: int | None = None,  # noqa: E741 - the paper's name
    protected: Any = None,
) -> LabelMechanism:
    """Randomised response with different levels for majority and minority labels (BlockRR).

    Parameters
    ----------
    epsilon : float
        Privacy loss, in [0, 700], or infinity.
    prior : array-like of shape (n_classes,), optional
        Probability of each label; sums to 1. It chooses the majority (with `sigma`) and the
        protected labels (with `l`).
    sigma : float, optional
        Width of `weight_partition`. Give this with `prior`, or `majority`.
    n_classes : int, optional
        Number of labels; needed without `prior`.
    majority : array-like of int, optional
        The majority labels (S1 in the paper).
    l : int, optional
        Number of protected labels: the most likely ones of the majority, or without `prior` its
        smallest ones. With `sigma`, a larger l counts as the size of the majority.
    protected : array-like of int, optional
        The protected labels themselves (Delta in the paper), a subset of the majority.

    Returns
    -------
    LabelMechanism
        ``facts`` hold the partition and the levels beta and gamma.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range or the parameters do not fit together.

    See Also
    --------
    rr_floor : The same aim with one continuous parameter, never worse in accuracy.

    Notes
    -----
    With k1 majority labels, K labels and l protected ones:

    | | protected | rest of the majority | minority |
    |---|---|---|---|
    | majority row | beta (E beta for itself) | the same | gamma |
    | minority row | 1/K | beta | gamma (E gamma for itself) |

    beta and gamma follow from the row sums; in the form used here, with ``u = 1 - q``, ``t = q l
    (K - k1)/K``, ``s = u/(u+t)`` and ``r = t/(u+t)`` (1 and 0 if t = 0),

        E beta = 1/(K q + u s),    E gamma = E beta (r + s (K-l)/K).

    Columns outside the protected ones hold ``{beta, E beta}`` or ``{gamma, E gamma}`` only; in a
    protected one ``beta <= 1/K <= E beta`` for every l, so the ratio is at most E.

    A minority label keeps itself with probability ``E gamma <= 1 - l/K`` **at every epsilon**. At l
    = 0, and when there is no minority, this is `rr`. BlockRR solves no optimisation problem: see
    docs/label-mechanisms.md.

    References
    ----------
    Liu and Ding, arXiv:2602.03277, and their code; the stable form and the proof are ours.

    Examples
    --------
    >>> from skballdp.labels import block_rr
    >>> mechanism = block_rr(1.0, prior=[0.5, 0.4, 0.06, 0.04], sigma=1.0, l=2)
    >>> mechanism.matrix().round(3)[[0, 2]].tolist()
    [[0.534, 0.197, 0.134, 0.134], [0.25, 0.25, 0.366, 0.134]]
    """
    epsilon = check_label_epsilon(epsilon)
    if (sigma is None) == (majority is None) or (prior is None and n_classes is None):
        raise ValueError(
            "block_rr needs prior and sigma, or majority and one of n_classes and prior."
        )
    if prior is not None:
        prior = check_prior(prior)
        if n_classes is not None and n_classes != len(prior):
            raise ValueError(
                f"n_classes must be the length of prior, {len(prior)}, got {n_classes!r}."
            )
        n_classes = len(prior)
    n_classes = check_integer("n_classes", n_classes, low=1)
    if sigma is not None:
        if prior is None:
            raise ValueError("sigma needs prior. Give both, or majority.")
        first, _ = weight_partition(prior, sigma)
    else:
        first = _check_labels("majority", majority, n_classes)
    if (l is None) == (protected is None):
        raise ValueError("block_rr needs exactly one of l and protected.")
    if protected is None:
        largest = math.inf if sigma is not None else len(first)
        l = min(_check_count("l", l, 0, largest), len(first))  # noqa: E741
        likely_first = first if prior is None else first[np.argsort(-prior[first], kind="stable")]
        protected = likely_first[:l]
    labels = np.arange(n_classes)
    minority = ~np.isin(labels, first)
    return _block_rr(epsilon, labels[:, np.newaxis], n_classes, minority, first, protected)


def block_rr_sets(
    B: Sequence[Sequence[int]],
    n_outputs: int,
    majority: Any,
    protected: Any,
    epsilon: float,
    *,
    uniform_rows: bool = False,
) -> LabelMechanism:
    """BlockRR with sets of favoured outputs.

    Parameters
    ----------
    B : sequence of sequences of int
        Outputs that each label favours; all of the same size b. Minority labels may have none if
        the majority's outputs are all there are and protected, or with `uniform_rows`.
    n_outputs : int
        Number k of outputs.
    majority : array-like of int
        Labels of the majority.
    protected : array-like of int
        Protected outputs (Delta), a subset of those that the majority favours.
    epsilon : float
        Privacy loss, in [0, 700], or infinity.
    uniform_rows : bool, default=False
        Whether a minority label that favours no output is reported as a uniform one of all k. By
        default it is an error, since the rows of the paper would not sum to 1.

    Returns
    -------
    LabelMechanism
        Outputs are not labels.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range or the sets do not make a mechanism.

    Warns
    -----
    UserWarning
        If an output is favoured by no label: private, but wasted.

    Notes
    -----
    As in `block_rr`, with ``u = b (1 - q)`` and the k outputs in the place of the K labels; the
    majority's outputs are the first block, all others the second. The proof needs sets of one size
    (else the majority rows ask for different beta), and no output that both a majority and a
    minority label favour (it would fall under two rules).

    A uniform row is as private: ``beta <= 1/k <= E beta`` as in protected columns, ``gamma <= 1/k``
    since ``F^2 + l F >= 0``, ``F = b (E-1)``, and ``E gamma >= 1/k`` if ``b (E-1) (k - b - l) + l
    (k2 - b) >= 0``, which holds if the other outputs are at least ``k2 >= b``, or if l = 0.

    References
    ----------
    Liu and Ding, arXiv:2602.03277; the conditions are ours.

    Examples
    --------
    >>> from skballdp.labels import block_rr_sets
    >>> mechanism = block_rr_sets([[0, 1], [1, 2], [3, 4]], 5, [0, 1], [1], epsilon=1.0)
    >>> mechanism.matrix().round(3)[2].tolist()
    [0.124, 0.2, 0.124, 0.276, 0.276]
    """
    epsilon = check_label_epsilon(epsilon)
    n_outputs = check_integer("n_outputs", n_outputs, low=1)
    majority = _check_labels("majority", majority, len(B))
    minority = ~np.isin(np.arange(len(B)), majority)
    sets = [_check_labels("B", favoured, n_outputs, what="outputs") for favoured in B]
    sizes = np.array([len(favoured) for favoured in sets])
    empty = minority & (sizes == 0)
    if len(set(sizes[~empty].tolist())) != 1 or np.any(sizes[~empty] == 0):
        raise ValueError(
            "B must hold sets of the same size, at least 1: the rows of the majority would ask for "
            "different levels."
        )
    b = int(sizes[~empty][0])
    first = np.unique(np.concatenate([sets[y] for y in majority])) if len(majority) else majority
    favoured = np.zeros((len(B), b), dtype=np.intp)  # of a label without outputs: never used
    for y in np.flatnonzero(~empty):
        favoured[y] = sets[y]
    if np.isin(favoured[minority & ~empty], first).any():
        raise ValueError(
            "B must not overlap between majority and minority: such an output would fall under two "
            "rules."
        )
    wasted = n_outputs - len(np.unique(favoured[~empty]))
    if np.any(empty) and len(first) < n_outputs and not uniform_rows:
        raise ValueError(
            "B must give each minority label an own output, or none at all: its row would not sum "
            "to 1. Let it favour some outputs, remove the outputs that the majority does not, or "
            "use uniform_rows=True."
        )
    if wasted:
        warnings.warn(
            f"{wasted} outputs are favoured by no label: they are private, but wasted.",
            UserWarning,
            stacklevel=2,
        )
    protected = _check_labels("protected", protected, n_outputs, what="outputs")
    if np.any(empty) and not uniform_rows and len(protected) != len(first):
        raise ValueError(
            f"l must equal the number of the majority's outputs, {len(first)}, when minority "
            f"labels have no own output, got {len(protected)}: their rows would not sum to 1. Or "
            "use uniform_rows=True."
        )
    if np.any(empty) and len(protected) and 0 < n_outputs - len(first) < b:
        raise ValueError(
            f"n_outputs must leave at least b = {b} outputs besides the majority's, or none, for "
            f"protected outputs and uniform rows, got {n_outputs - len(first)}."
        )
    uniform = empty if uniform_rows and np.any(empty) else None
    return _block_rr(epsilon, favoured, n_outputs, minority, first, protected, uniform)


def lp_optimal(prior: Any, utility: Any, epsilon: float) -> LabelMechanism:
    """Randomised response on the outputs of largest expected utility.

    Parameters
    ----------
    prior : array-like of shape (n_classes,)
        Probability of each label; sums to 1.
    utility : array-like of shape (n_classes, n_outputs)
        Value ``U[y, z]`` of reporting z for the label y.
    epsilon : float
        Privacy loss, in [0, 700], or infinity.

    Returns
    -------
    LabelMechanism
        ``facts["objective"]`` is its expected utility, ``facts["bound"]`` what no private mechanism
        exceeds, to a millionth of the largest utility.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range.
    RuntimeError
        If the linear program cannot be solved.

    Warns
    -----
    UserWarning
        If the objective is below the bound.

    Notes
    -----
    The program over all private matrices, ``max sum_y p_y U[y,z] T[y,z]`` subject to ``q M_z <=
    T[y,z] <= M_z`` and rows that sum to 1, is solved by HiGHS. For the identity, for losses that
    grow with the distance of ordered labels, and as a rule for others, its optimum is randomised
    response on a set J of outputs, each label favouring the output of largest utility in J, with
    value

        [q sum_{z in J} c_z + (1-q) sum_y p_y max_{z in J} U[y,z]] / (1 + (|J|-1) q),

    ``c_z = sum_y p_y U[y,z]``. There are exceptions: if each of three labels has two good outputs
    of three, in a circle, favouring both is better (``block_rr_sets`` with sets of two does).

    Only J is read off the solver's result. Both it and the set of all outputs are improved by
    adding and removing up to two outputs at a time, since the solver's tolerance decides wrongly
    from epsilon = 12 on, and the matrix is built from the closed form of the better one. So the
    privacy proof does not rest on a solver, whose result at epsilon = 30 has zeros in a used
    column. Some 60 labels take seconds. For ordered labels use
    `skballdp.labels.bins.rr_on_bins`: exact, and faster.

    References
    ----------
    Ghazi et al., arXiv:2212.06074, theorem 2; the exception is ours.

    Examples
    --------
    >>> from skballdp.labels import lp_optimal
    >>> utility = [[0, -1, -2], [-1, 0, -1], [-2, -1, 0]]
    >>> lp_optimal([0.6, 0.3, 0.1], utility, epsilon=1.0).matrix().round(3).tolist()
    [[0.731, 0.269, 0.0], [0.269, 0.731, 0.0], [0.269, 0.731, 0.0]]
    """
    prior = check_prior(prior)
    epsilon = check_label_epsilon(epsilon)
    utility = np.asarray(utility)
    if utility.dtype.kind not in "fiub" or utility.ndim != 2 or len(utility) != len(prior):
        raise ValueError(
            f"utility must be an array of numbers of shape ({len(prior)}, n_outputs), got shape "
            f"{utility.shape} and dtype {utility.dtype}."
        )
    utility = utility.astype(np.float64)
    if utility.shape[1] == 0 or not np.all(np.isfinite(utility)):
        raise ValueError("utility must be finite and have at least one column.")
    q = _q(epsilon)
    by_solver, bound = _lp_outputs(prior, utility, q)
    starts = (by_solver, np.ones_like(by_solver))
    found = [_improve_outputs(prior, utility, q, start) for start in starts]
    objective, chosen = max(found, key=lambda pair: pair[0])  # the first one wins a tie
    if bound > objective + _LP_TOLERANCE * np.abs(utility).max():
        warnings.warn(
            f"the expected utility {objective:.6g} is below the bound {bound:.6g}: for this "
            "utility, randomised response on a set of outputs is not the best mechanism.",
            UserWarning,
            stacklevel=2,
        )
    outputs = np.flatnonzero(chosen)
    favoured = outputs[np.argmax(utility[:, outputs], axis=1)]
    return LabelMechanism(
        **rr_onto("utility-optimal mechanism", epsilon, favoured, outputs, utility.shape[1]),
        facts={"objective": objective, "bound": max(bound, objective)},
    )


def check_label_epsilon(value: Any, name: str = "epsilon") -> float:
    """Return epsilon in [0, 700] or infinity, or raise."""
    if value == math.inf:
        return math.inf
    return check_real(
        name,
        value,
        low=0.0,
        high=_LARGEST_EPSILON,
        hint="Use np.inf for labels without noise; above 700 exp(-epsilon) underflows.",
    )


def rr_onto(
    name: str, epsilon: float, favoured: np.ndarray, outputs: np.ndarray, n_outputs: int
) -> dict[str, Any]:
    """Fields of the mechanism that reports the favoured output by randomised response on some."""
    epsilon = check_label_epsilon(epsilon)
    q = _q(epsilon)
    n = 1.0 + (len(outputs) - 1) * q
    excess = -math.expm1(-epsilon) / n
    return {
        "name": name,
        "epsilon": epsilon,
        "n_outputs": n_outputs,
        "order": np.asarray(outputs, dtype=np.intp),
        "n_first": len(outputs),
        "base": (q / n, 0.0),
        "minority": np.zeros(len(favoured), dtype=bool),
        "favoured": np.asarray(favoured, dtype=np.intp)[:, np.newaxis],
        "excess": (excess, excess),
    }


def _top_k_mixture(
    name: str, prior: np.ndarray, k: int, epsilon: float, floor: float
) -> LabelMechanism:
    """Mixture of RR and RRTop-k, in which RR keeps a label with probability `floor`."""
    epsilon = check_label_epsilon(epsilon)
    n_classes, q, u = len(prior), _q(epsilon), -math.expm1(-epsilon)
    n, n_k = 1.0 + (n_classes - 1) * q, 1.0 + (k - 1) * q
    top = max(0.0, 1.0 - floor * n)  # weight of RRTop-k; `floor` is weight over n of RR
    order = np.argsort(-prior, kind="stable")
    kept, dropped = np.sort(order[:k]), np.sort(order[k:])
    minority = np.zeros(n_classes, dtype=bool)
    minority[dropped] = True
    facts: dict[str, Any] = {"k": k, "kept": kept.tolist()}
    if name == "floor mechanism":
        facts |= {"floor": floor, "top_k_weight": top}
    return LabelMechanism(
        name=name,
        epsilon=epsilon,
        n_outputs=n_classes,
        order=np.concatenate([kept, dropped]) if floor > 0 else kept,
        n_first=k,
        n_lifted=k,
        base=(floor * q + top * q / n_k, floor * q),
        lift=top * u / (k * n_k),  # 1/k - q/n_k
        minority=minority,
        favoured=np.arange(n_classes)[:, np.newaxis],
        excess=(u * (floor + top / n_k), u * floor),
        facts=facts,
    )


def _best_k(prior: np.ndarray, q: float) -> tuple[int, float]:
    """The k of RRWithPrior, the largest among equal ones, and its expected accuracy."""
    kept = np.cumsum(np.sort(prior)[::-1])
    accuracy = kept / (1.0 + np.arange(len(prior)) * q)
    k = int(np.flatnonzero(accuracy >= accuracy.max() * (1 - _TIE))[-1])
    return k + 1, float(accuracy[k])


def _block_rr(
    epsilon: float,
    favoured: np.ndarray,
    n_outputs: int,
    minority: np.ndarray,
    first: np.ndarray,
    protected: Any,
    uniform: np.ndarray | None = None,
) -> LabelMechanism:
    """BlockRR for outputs `first` of the majority, all others being the second block."""
    protected = _check_labels("protected", protected, n_outputs, what="outputs")
    if not np.isin(protected, first).all():
        raise ValueError(
            "protected must lie in the majority: Delta must be a subset of the outputs that the "
            f"majority favours; {np.count_nonzero(~np.isin(protected, first))} of "
            f"{len(protected)} are not."
        )
    if not np.any(minority):
        protected = protected[:0]  # no row is lifted
    second = np.setdiff1d(np.arange(n_outputs), first)
    k, k2, l, b = n_outputs, len(second), len(protected), favoured.shape[1]  # noqa: E741
    q, u = _q(epsilon), -math.expm1(-epsilon)
    t = q * l * k2 / k
    s, r = (1.0, 0.0) if t == 0 else (b * u / (b * u + t), t / (b * u + t))
    e_beta = 1.0 / (k * q + b * u * s)
    e_gamma = e_beta * (r + s * (k - l) / k)  # not 1 - s l/k, which cancels for l near k
    labels = np.arange(len(minority))
    facts = {
        "majority": labels[~minority].tolist(),
        "minority": labels[minority].tolist(),
        "protected": protected.tolist(),
        "beta": q * e_beta if len(first) else None,
        "gamma": q * e_gamma if k2 else None,
    }
    if uniform is not None:
        facts["uniform"] = labels[uniform].tolist()
    return LabelMechanism(
        name="BlockRR",
        epsilon=epsilon,
        n_outputs=n_outputs,
        order=np.concatenate([protected, np.setdiff1d(first, protected), second]),
        n_first=len(first),
        n_lifted=l,
        base=(q * e_beta, q * e_gamma),
        lift=b * u * s * e_beta / k,  # 1/k - beta
        minority=minority,
        favoured=favoured,
        excess=(u * e_beta, u * e_gamma),
        uniform=uniform,
        facts=facts,
    )


def _lp_outputs(prior: np.ndarray, utility: np.ndarray, q: float) -> tuple[np.ndarray, float]:
    """Columns that the linear program uses, as a mask, and its value."""
    n_labels, n_outputs = utility.shape
    cells = n_labels * n_outputs
    q = q if q > 1e-9 else 0.0  # the solver would drop it
    scale = float(np.abs(utility).max()) or 1.0
    cost = -prior[:, np.newaxis] * (utility / scale)
    entries = sparse.identity(cells, format="csr")
    tops = sparse.kron(np.ones((n_labels, 1)), sparse.identity(n_outputs), format="csr")
    result = linprog(
        np.concatenate([cost.ravel(), np.zeros(n_outputs)]),
        A_ub=sparse.vstack([sparse.hstack([entries, -tops]), sparse.hstack([-entries, q * tops])]),
        b_ub=np.zeros(2 * cells),
        A_eq=sparse.hstack(
            [
                sparse.kron(sparse.identity(n_labels), np.ones((1, n_outputs))),
                sparse.csr_matrix((n_labels, n_outputs)),
            ]
        ),
        b_eq=np.ones(n_labels),
        method="highs",
    )
    if result.x is None:
        raise RuntimeError(f"the linear program of lp_optimal was not solved: {result.message}")
    mass = result.x[:cells].reshape(utility.shape).max(axis=0)
    return mass > 1e-6 * mass.max(), -float(result.fun) * scale


def _utility_of(prior: np.ndarray, utility: np.ndarray, q: float, chosen: np.ndarray) -> float:
    """Expected utility of randomised response on the chosen outputs."""
    best = utility[:, chosen].max(axis=1)
    reach = q * float(np.sum(prior @ utility[:, chosen])) + (1.0 - q) * float(prior @ best)
    return reach / (1.0 + (np.count_nonzero(chosen) - 1) * q)


def _improve_outputs(
    prior: np.ndarray, utility: np.ndarray, q: float, chosen: np.ndarray
) -> tuple[float, np.ndarray]:
    """Add or remove one or two outputs while that helps; one addition may also be a tie."""
    tolerance = _TIE * np.abs(utility).max()
    outputs = range(len(chosen))
    moves = [[z] for z in outputs] + [list(pair) for pair in itertools.combinations(outputs, 2)]
    value, changed = _utility_of(prior, utility, q, chosen), True
    while changed:
        changed = False
        for move in moves:
            trial = chosen.copy()
            trial[move] ^= True
            if not np.any(trial):
                continue
            # In a tie the larger set loses fewer labels, if some label favours the addition.
            wanted = (
                len(move) == 1
                and trial[move[0]]
                and np.any(utility[:, move[0]] > utility[:, chosen].max(axis=1))
            )
            other = _utility_of(prior, utility, q, trial)
            if other > value + tolerance or (wanted and other >= value - tolerance):
                chosen, value, changed = trial, other, True
    return value, chosen


def _q(epsilon: float) -> float:
    return math.exp(-epsilon)


def _check_count(name: str, value: Any, low: int, high: float) -> int:
    """Return an integer in range; a wrong type is a ValueError too, as the mathematics has it."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or not low <= value <= high
    ):
        bound = "the number of classes" if high == math.inf else str(high)
        raise ValueError(f"{name} must be an integer between {low} and {bound}, got {value!r}.")
    return int(value)


def _check_labels(name: str, values: Any, n: int, what: str = "labels") -> np.ndarray:
    """Return distinct integers in 0..n-1."""
    array = np.asarray(values)
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.dtype.kind not in "iu" or array.ndim != 1 or array.min() < 0 or array.max() >= n:
        raise ValueError(f"{name} must hold {what} in 0..{n - 1}, as a list of integers.")
    if len(np.unique(array)) != len(array):
        raise ValueError(f"{name} must not hold a duplicate.")
    return array.astype(np.intp)
