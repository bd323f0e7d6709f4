"""An adversary against the sensitivity of the linear heads.

It looks for two neighbouring data sets whose exact optima are farther apart than Delta allows
(`skballdp.erm.sensitivity.linear_sensitivity`), and must never find any. How close it gets, the
*share* ``||theta(D) - theta(D')|| / Delta``, says how sharp the bound and how strong the search is.

A data set is the record that is replaced, of class 0, and a few other points with real
multiplicities that add up to n - 1: worst cases are low-dimensional. B = 1 throughout. The optima
come from a Newton method of this module, which shares no code with the package. The search is a
BFGS ascent of log share over positions, multiplicities and public model, many data sets at a time,
with gradients from the implicit function theorem, from structured and random starts.

``python -m tests.erm.adversary --update`` runs the full grid, rewrites the fixtures (keeping older
pairs where they are better) and prints the table of the documentation.
"""

import argparse
import itertools
import json
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from skballdp.erm.sensitivity import linear_sensitivity

FIXTURES = Path(__file__).parent.parent / "goldens" / "adversary.json"

ALPHAS = (1e-3, 1e-2, 1e-1, 1.0)
RADII = (0.01, 0.05, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0)
HEADS = (
    ("logistic", 2),
    ("softmax", 3),
    ("softmax", 5),
    ("squared_hinge", 2),
    ("squared_hinge", 3),
    ("squared_hinge", 5),
)
# plain; class weights; regularised towards a public model; two classes and exactly 1000 records.
VARIANTS = ("plain", "weights", "public", "thousand")
# Weight of the class of the replaced record in the variant "weights"; the others have 1.
HEAVY = 4.0
# Norm of the public model in the variant "public".
PUBLIC_NORM = 2.0
N_FEATURES = 3
# Few records bend the objective around the replaced one; many are the strong case.
N_RECORDS = (10, 100, 1000, 10_000, 100_000)


@dataclass(frozen=True)
class Cell:
    """One setting of the grid."""

    loss: str
    n_classes: int
    alpha: float
    radius: float
    intercept: bool
    variant: str

    @property
    def key(self):
        """Name of the cell in the fixtures."""
        icpt = "intercept" if self.intercept else "no"
        return f"{self.loss}-{self.n_classes} {self.alpha:g} {self.radius:g} {icpt} {self.variant}"

    @property
    def sizes(self):
        """Numbers of records to choose from."""
        return (1000,) if self.variant == "thousand" else N_RECORDS

    @property
    def public_norm(self):
        """Norm of the public model."""
        return PUBLIC_NORM if self.variant == "public" else 0.0

    @property
    def class_weight(self):
        """Weights of the classes before they are normalised."""
        weights = np.ones(self.n_classes)
        if self.variant == "weights":
            weights[0] = HEAVY
        return weights


def grid():
    """All cells."""
    return [
        Cell(loss, k, alpha, radius, icpt, variant)
        for (loss, k), variant, icpt, alpha, radius in itertools.product(
            HEADS, VARIANTS, (False, True), ALPHAS, RADII
        )
        if variant != "thousand" or k == 2
    ]


# --------------------------------------------------------------------------------------------
# Exact optima
# --------------------------------------------------------------------------------------------


class Model:
    """A loss on batches: scores of shape (N, k, M) for N data sets of M points with k scores."""

    def __init__(self, loss, n_classes, classes):
        self.loss, self.k = loss, 1 if n_classes == 2 else n_classes
        # +1 in the problem of the own class and -1 in the others; y = +1 is class 0 for K = 2.
        own = classes[:, None, :] == np.arange(self.k)[:, None]
        self.sign = np.where(own, 1.0, -1.0)
        self.onehot = own.astype(float)

    def take(self, index):
        """The same for a part of the data sets."""
        part = object.__new__(Model)
        part.loss, part.k = self.loss, self.k
        part.sign, part.onehot = self.sign[index], self.onehot[index]
        return part

    def slope(self, scores):
        """Derivative of the loss with respect to the scores."""
        if self.loss == "softmax":
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            return p / p.sum(axis=1, keepdims=True) - self.onehot
        margin = self.sign * scores
        if self.loss == "logistic":
            return -self.sign * 0.5 * (1 - np.tanh(0.5 * margin))
        return -2 * self.sign * np.maximum(1 - margin, 0)

    def curvature(self, scores, vectors):
        """Second derivative with respect to the scores, times vectors of shape (N, k, M)."""
        if self.loss == "softmax":
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            return p * (vectors - (p * vectors).sum(axis=1, keepdims=True))
        if self.loss == "logistic":
            return 0.25 * (1 - np.tanh(0.5 * scores) ** 2) * vectors
        return 2.0 * (self.sign * scores < 1) * vectors

    def hessians(self, scores, points, mass):
        """Hessians of the loss: (N, 1, kD, kD) for softmax, (N, k, D, D) for the others."""
        n, _, dim = points.shape
        if self.loss == "softmax":
            p = np.exp(scores - scores.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            weighted = np.einsum("nm,nkm,nmd->nkmd", mass, p, points)
            out = np.zeros((n, self.k, dim, self.k, dim))
            diag = np.swapaxes(weighted, 2, 3) @ points[:, None]
            for c in range(self.k):
                out[:, c, :, c, :] = diag[:, c]
            # - sum_m mass p p^T (x) z z^T, as one product of matrices
            half = np.einsum("nkm,nmd->nkdm", p, points).reshape(n, self.k * dim, -1)
            out = out.reshape(n, self.k * dim, self.k * dim)
            out -= (half * mass[:, None]) @ np.swapaxes(half, 1, 2)
            return out[:, None]
        curve = self.curvature(scores, np.ones_like(scores)) * mass[:, None]
        return np.swapaxes(points, 1, 2)[:, None] @ (curve[..., None] * points[:, None])


def gradient(model, theta, points, mass, alpha, center):
    """Gradient of the objective, of the shape (N, k, D) of theta, and the scores."""
    scores = theta @ np.swapaxes(points, 1, 2)
    grad = (model.slope(scores) * mass[:, None]) @ points
    return grad + alpha[:, None, None] * (theta - center), scores


def solve_hessian(model, scores, points, mass, alpha, rhs):
    """Solve with the Hessian of the objective; rhs of the shape of theta."""
    hess = model.hessians(scores, points, mass)
    diagonal = np.arange(hess.shape[-1])
    hess[..., diagonal, diagonal] += alpha[:, None, None]
    flat = rhs.reshape(*hess.shape[:3], 1)
    return np.linalg.solve(hess, flat).reshape(rhs.shape)


def optima(model, theta, points, mass, alpha, center, tolerance=1e-12, steps=200):
    """Minimise the objectives from `theta`; gradient norms are the second result.

    Newton's method. Logistic and softmax losses are self-concordant in a generalised sense (Sun
    and Tran-Dinh, 2019), for which a step of ``log(1 + d) / d`` Newton steps, d = c ||step||,
    always converges. The squared hinge is piecewise quadratic: a few step lengths are tried.
    """
    theta = theta.copy()
    norms = np.full(len(theta), np.inf)
    todo = np.arange(len(theta))
    for _ in range(steps):
        part = model.take(todo)
        args = points[todo], mass[todo], alpha[todo]
        grad, scores = gradient(part, theta[todo], *args, center[todo])
        norms[todo] = np.sqrt(np.square(grad).sum(axis=(1, 2)))
        left = norms[todo] > tolerance
        if not left.any():
            break
        todo = todo[left]
        part = part.take(left)
        args = points[todo], mass[todo], alpha[todo]
        step = -solve_hessian(part, scores[left], *args, grad[left])
        if model.loss == "squared_hinge":
            theta[todo] += _length(part, theta[todo], step, *args, center[todo]) * step
        else:
            c = np.sqrt(2 * (2 if model.loss == "softmax" else 1))
            d = c * np.sqrt(np.square(step).sum(axis=(1, 2)))
            theta[todo] += (np.log1p(d) / np.maximum(d, 1e-300))[:, None, None] * step
    return theta, norms


_LENGTHS = 0.5 ** np.arange(10)


def _length(model, theta, step, points, mass, alpha, center):
    """Step length per problem: the one of `_LENGTHS` with the smallest directional derivative."""
    transposed = np.swapaxes(points, 1, 2)
    start, move = theta @ transposed, step @ transposed
    curve = alpha[:, None] * np.square(step).sum(axis=2)
    base = alpha[:, None] * ((theta - center) * step).sum(axis=2)
    slopes = np.stack(
        [
            ((model.slope(start + t * move) * mass[:, None]) * move).sum(axis=2) + base + t * curve
            for t in _LENGTHS
        ]
    )
    return _LENGTHS[np.abs(slopes).argmin(axis=0)][..., None]


# --------------------------------------------------------------------------------------------
# Pairs of data sets
# --------------------------------------------------------------------------------------------


@dataclass
class Pairs:
    """N pairs of data sets: all that determines them, in free coordinates.

    ``free`` has one row per pair: x and x' - x (both through `into_ball`), the other points, the
    logarithms of their multiplicities, and the public model.
    """

    free: np.ndarray
    classes: np.ndarray  # (N, m) classes of the other points
    n_records: np.ndarray
    alpha: np.ndarray
    radius: np.ndarray
    intercept: np.ndarray
    heavy: np.ndarray
    public_norm: np.ndarray
    gap: np.ndarray
    loss: str
    n_classes: int

    def take(self, index):
        """A part of the pairs."""
        return replace(self, **{name: value[index] for name, value in self.arrays().items()})

    def arrays(self):
        """The fields with one entry per pair, by name."""
        return {name: v for name, v in vars(self).items() if isinstance(v, np.ndarray)}


def into_ball(q):
    """Map all vectors smoothly on the unit ball, small ones almost to themselves."""
    rho = np.sqrt(np.square(q).sum(axis=-1, keepdims=True))
    return q * np.sinc(rho / np.pi)


def _into_ball_vjp(q, g):
    rho2 = np.square(q).sum(axis=-1, keepdims=True)
    rho = np.sqrt(rho2)
    s = np.sinc(rho / np.pi)
    inner = (q * g).sum(axis=-1, keepdims=True)
    return s * g + q * inner * (np.cos(rho) - s) / np.maximum(rho2, 1e-300)


def split(pairs):
    """Views of the parts of ``free``."""
    n, m = pairs.classes.shape
    d, k = N_FEATURES, 1 if pairs.n_classes == 2 else pairs.n_classes
    sizes = [d, d, m * d, m, k * (d + 1)]
    parts = np.split(pairs.free, np.cumsum(sizes)[:-1], axis=1)
    return parts[0], parts[1], parts[2].reshape(n, m, d), parts[3], parts[4].reshape(n, k, d + 1)


def unfold(pairs):
    """Data sets from free coordinates: x, x', others, multiplicities, public model."""
    q, e, others, logs, center = split(pairs)
    x = into_ball(q)
    far = x + pairs.radius[:, None] * into_ball(e)
    # Clipping is 1-Lipschitz and x is in the ball, so x' stays within the radius.
    other = far / np.maximum(1, np.linalg.norm(far, axis=1, keepdims=True))
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    counts = (pairs.n_records[:, None] - 1) * shares
    center = center * _center_mask(pairs)
    norm = _center_norm(pairs, center)
    center = pairs.public_norm[:, None, None] * center / np.maximum(norm, 1e-300)
    return x, other, into_ball(others), counts, center, far


def _center_mask(pairs):
    mask = np.ones(N_FEATURES + 1)
    mask[-1] = 0
    return np.where(pairs.intercept[:, None, None], 1.0, mask)


def _center_norm(pairs, center):
    axis = 2 if pairs.loss == "squared_hinge" else (1, 2)
    return np.sqrt(np.square(center).sum(axis=axis, keepdims=True))


def ascent_values(pairs, warm, tolerance=1e-11):
    """Logarithm of the share (with the gradient gap in ``gap``), gradient, optima."""
    x, other, rest, counts, center, far = unfold(pairs)
    n, m = counts.shape
    const = pairs.intercept.astype(float)
    classes = np.concatenate([np.zeros((n, 1), dtype=int), pairs.classes], axis=1)
    raw = np.where(classes == 0, pairs.heavy[:, None], 1.0)
    load = raw * np.concatenate([np.ones((n, 1)), counts], axis=1)
    total = load.sum(axis=1, keepdims=True)
    mass = load / total

    def rows(first):
        features = np.concatenate([first[:, None], rest], axis=1)
        extra = np.broadcast_to(const[:, None, None], (n, m + 1, 1))
        return np.concatenate([features, extra], axis=2)

    sides = rows(x), rows(other)
    twice = np.concatenate(sides)
    double = [np.concatenate([a, a]) for a in (mass, pairs.alpha, center)]
    both = Model(pairs.loss, pairs.n_classes, np.concatenate([classes, classes]))
    theta, norms = optima(both, np.concatenate(warm), twice, *double, tolerance, steps=60)
    ok = np.maximum(norms[:n], norms[n:]) <= max(tolerance, 1e-11) * 10
    u, v = theta[:n], theta[n:]

    move = u - v
    square = np.maximum(np.square(move).sum(axis=(1, 2)), 1e-300)
    value = np.log(np.sqrt(square) * pairs.alpha / (mass[:, 0] * pairs.gap))
    value = np.where(ok, value, -np.inf)

    # Implicit function theorem: d theta = -H^{-1} d grad.
    rhs = move / square[:, None, None]
    scores = theta @ np.swapaxes(twice, 1, 2)
    lam = solve_hessian(both, scores, twice, double[0], double[1], np.concatenate([rhs, rhs]))
    slopes = both.slope(scores)
    along = lam @ np.swapaxes(twice, 1, 2)
    bent = both.curvature(scores, along)
    by_point = -double[0][..., None] * (
        np.swapaxes(bent, 1, 2) @ theta + np.swapaxes(slopes, 1, 2) @ lam
    )
    by_mass = -(slopes * along).sum(axis=1)
    g_u, g_v = by_point[:n, :, :-1], -by_point[n:, :, :-1]
    g_mass = by_mass[:n] - by_mass[n:]
    g_center = pairs.alpha[:, None, None] * (lam[:n] - lam[n:])

    q, e, others, _, raw_center = split(pairs)
    # x' = far / max(1, ||far||)
    norm = np.linalg.norm(far, axis=1, keepdims=True)
    g = g_v[:, 0]
    inner = (far * g).sum(axis=1, keepdims=True)
    g = np.where(norm > 1, (g - inner * far / np.maximum(norm, 1e-300) ** 2) / norm, g)
    g_q = _into_ball_vjp(q, g_u[:, 0] + g)
    g_e = _into_ball_vjp(e, pairs.radius[:, None] * g)
    g_others = _into_ball_vjp(others, g_u[:, 1:] + g_v[:, 1:])

    g_mass[:, 0] -= 1 / mass[:, 0]
    mean = (g_mass * mass).sum(axis=1, keepdims=True)
    g_counts = (raw * (g_mass - mean) / total)[:, 1:]
    part = counts / counts.sum(axis=1, keepdims=True)
    g_logs = counts * (g_counts - (part * g_counts).sum(axis=1, keepdims=True))

    raw_center = raw_center * _center_mask(pairs)
    norm = np.maximum(_center_norm(pairs, raw_center), 1e-300)
    unit = raw_center / norm
    axis = 2 if pairs.loss == "squared_hinge" else (1, 2)
    g_center -= unit * (g_center * unit).sum(axis=axis, keepdims=True)
    g_center *= pairs.public_norm[:, None, None] / norm * _center_mask(pairs)

    parts = (g_q, g_e, g_others, g_logs, g_center)
    grad = np.concatenate([a.reshape(n, -1) for a in parts], axis=1)
    return value, np.where(ok[:, None], grad, 0), (u, v)


# --------------------------------------------------------------------------------------------
# Search
# --------------------------------------------------------------------------------------------


def ascend(pairs, steps):
    """BFGS ascent of all pairs at the same time; returns the pairs and their log shares."""
    n, dim = pairs.free.shape
    k = 1 if pairs.n_classes == 2 else pairs.n_classes
    zero = np.zeros((n, k, N_FEATURES + 1))
    pairs = replace(pairs, free=pairs.free.copy())
    value, grad, warm = ascent_values(pairs, (zero, zero))
    warm = [w.copy() for w in warm]
    inverse = np.broadcast_to(np.eye(dim), (n, dim, dim)).copy()
    length = np.full(n, 0.3)
    alive = np.isfinite(value)
    for _ in range(steps):
        index = np.flatnonzero(alive)
        if index.size == 0:
            break
        g = grad[index]
        move = (inverse[index] @ g[..., None])[..., 0]
        slope = (move * g).sum(axis=1)
        bad = ~(slope > 1e-12 * np.linalg.norm(move, axis=1) * np.linalg.norm(g, axis=1))
        inverse[index[bad]] = np.eye(dim)
        move[bad], slope[bad] = g[bad], np.square(g[bad]).sum(axis=1)
        size = np.linalg.norm(move, axis=1)
        # A step of at most one unit: all coordinates are of that order.
        step = length[index] * np.minimum(1, 1 / np.maximum(size, 1e-300))
        trial = pairs.take(index)
        trial.free = trial.free + step[:, None] * move
        new, new_grad, new_warm = ascent_values(trial, [w[index] for w in warm])
        good = new > value[index] + 1e-4 * step * slope
        length[index] = np.where(good, np.minimum(1, 2 * length[index]), 0.35 * length[index])
        rows = index[good]
        s, y = step[good, None] * move[good], -(new_grad[good] - g[good])
        sy = (s * y).sum(axis=1)
        keep = sy > 1e-10 * np.linalg.norm(s, axis=1) * np.linalg.norm(y, axis=1)
        r, s, y, sy = rows[keep], s[keep], y[keep], sy[keep]
        hy = (inverse[r] @ y[..., None])[..., 0]
        cross = hy[:, :, None] * s[:, None, :]
        scale = ((sy + (y * hy).sum(axis=1)) / sy**2)[:, None, None]
        inverse[r] += scale * s[:, :, None] * s[:, None, :]
        inverse[r] -= (cross + np.swapaxes(cross, 1, 2)) / sy[:, None, None]
        pairs.free[rows] = trial.free[good]
        value[rows], grad[rows] = new[good], new_grad[good]
        for old, fresh in zip(warm, new_warm, strict=True):
            old[rows] = fresh[good]
        # A step too short to matter: without the model of the curvature, and then no more.
        short = length[index] < 1e-6
        inverse[index[short]] = np.eye(dim)
        alive[index[length[index] < 1e-9]] = False
    return pairs, value


@lru_cache(maxsize=100_000)
def _delta(cell, n_records, weight_max):
    return linear_sensitivity(
        cell.loss,
        radius=cell.radius,
        alpha=cell.alpha,
        norm_bound=1.0,
        n_samples=n_records,
        n_classes=cell.n_classes,
        fit_intercept=cell.intercept,
        weight_max=weight_max,
        public_norm=cell.public_norm,
    )


def delta(cell, n_records, weight_max):
    """Sensitivity that is claimed for n records with this largest weight."""
    if cell.loss == "squared_hinge" and cell.variant != "public":
        return _delta(cell, int(n_records), float(weight_max))
    # Only here Delta is not just proportional to the weight.
    return weight_max * _delta(cell, int(n_records), 1.0)


def largest_weight(cell, classes, counts):
    """Largest class weight after normalisation to mean one over the records."""
    weights = cell.class_weight
    total = weights[0] + weights[classes] @ counts
    occupied = np.append(weights[classes[counts > 0]], weights[0])
    return occupied.max() * (1 + counts.sum()) / total


def make_pairs(cells, free, classes, n_records):
    """Pairs of data sets, one per cell, with the gradient gaps behind their Delta."""
    first = cells[0]
    pairs = Pairs(
        free,
        classes,
        n_records,
        np.array([c.alpha for c in cells]),
        np.array([c.radius for c in cells]),
        np.array([c.intercept for c in cells]),
        np.array([c.class_weight[0] for c in cells]),
        np.array([c.public_norm for c in cells]),
        np.ones(len(cells)),
        first.loss,
        first.n_classes,
    )
    counts = unfold(pairs)[3]
    for i, cell in enumerate(cells):
        n = n_records[i]
        # Two digits of the weight: it changes during the ascent, this is to rank pairs only.
        weight = max(1.0, float(f"{largest_weight(cell, classes[i], counts[i]):.1e}"))
        pairs.gap[i] = delta(cell, n, weight) * cell.alpha * n / weight
    return pairs


def starts(cells, rng, sizes=None):
    """Starting points, one for each cell: half of them random, half with some structure.

    The structure: a model is long if the other points have margins of about the same size along
    one direction and cancel each other across it.
    """
    first, n, d = cells[0], len(cells), N_FEATURES
    m = 4 if first.loss == "softmax" else 3
    k = 1 if first.n_classes == 2 else first.n_classes
    classes = rng.integers(0, first.n_classes, (n, m))
    others = rng.normal(size=(n, m, d))
    structured = 0.3 * others
    structured[:, :, 0] += np.where(classes == 0, 1, -1) * rng.uniform(0, 1, (n, 1))
    structured[:, :, 1] += (-1.0) ** np.arange(m) * rng.uniform(0, 1.5, (n, 1))
    others = np.where(np.arange(n)[:, None, None] % 2, structured, others)
    rest = rng.normal(size=(n, 2 * d)), rng.normal(size=(n, m + k * (d + 1)))
    free = np.concatenate([rest[0], others.reshape(n, -1), rest[1]], axis=1)
    sizes = sizes or first.sizes
    weights = np.arange(1, len(sizes) + 1) ** 2.0
    return make_pairs(cells, free, classes, rng.choice(sizes, n, p=weights / weights.sum()))


def best_of(values, cells, keep):
    """Indices of the `keep` largest values for each cell, with cells as integer labels."""
    order = np.lexsort((-values, cells))
    _, first, size = np.unique(cells[order], return_index=True, return_counts=True)
    return np.concatenate([order[i : i + min(keep, c)] for i, c in zip(first, size, strict=True)])


def neighbours(cells):
    """For each cell the indices of those that differ by one step in alpha or in the radius."""
    where = {cell: i for i, cell in enumerate(cells)}
    out = []
    for cell in cells:
        near = []
        for name, values in (("alpha", ALPHAS), ("radius", RADII)):
            at = values.index(getattr(cell, name))
            near += [replace(cell, **{name: v}) for v in values[max(at - 1, 0) : at + 2]]
        out.append(np.array([where[c] for c in near if c in where and c != cell], dtype=int))
    return out


def search(cells, seed, n_starts=32, rounds=2, sizes=None):
    """The worst pair found for each cell, as plain data; cells of one loss and one K.

    Short ascents from many starts, long ones of the best quarter, then rounds in which the best
    pairs are shaken and handed to the neighbouring cells.
    """
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(cells)), n_starts)
    pairs, values = ascend(starts([cells[i] for i in label], rng, sizes), 50)
    near = neighbours(cells)
    for stage in range(rounds + 1):
        index = best_of(values, label, max(2, n_starts // 4))
        label, pairs = label[index], pairs.take(index)
        pairs, values = ascend(pairs, 120)
        if stage == rounds:
            break
        top, origin, target = best_of(values, label, 1), [], []
        for i in range(len(cells)):
            own = np.flatnonzero(label == i)
            own = own[np.argsort(-values[own])]
            copies = [*own[:2], *top[near[i]], *own[: max(2, n_starts // 8)]]
            origin += copies
            target += [i] * len(copies)
        fresh = pairs.take(np.array(origin))
        noise = rng.choice([0.03, 0.3], (len(origin), 1))
        free = fresh.free + noise * rng.normal(size=fresh.free.shape)
        fresh = make_pairs([cells[i] for i in target], free, fresh.classes, fresh.n_records)
        fresh, more = ascend(fresh, 60)
        merged = {
            name: np.concatenate([value, fresh.arrays()[name]])
            for name, value in pairs.arrays().items()
        }
        pairs = replace(pairs, **merged)
        values, label = np.concatenate([values, more]), np.concatenate([label, target])
    index = best_of(values, label, 4)
    found = [[] for _ in cells]
    for i, c in zip(index, label[index], strict=True):
        found[c].append(plain(pairs.take([i])))
    return [worst(cell, some) for cell, some in zip(cells, found, strict=True)]


# --------------------------------------------------------------------------------------------
# Pairs as plain data, and what they reach
# --------------------------------------------------------------------------------------------


def plain(pairs):
    """The first pair as numbers that can be stored, rounded."""
    x, other, rest, counts, center, _ = (a[0] for a in unfold(pairs))
    share = counts / counts.sum()
    used = share > 1e-6
    # The step in units of r, so that rounding does not matter for small radii either.
    out = {"x": x, "step": (other - x) / pairs.radius[0], "points": rest[used]}
    if pairs.public_norm[0]:
        out["center"] = center / pairs.public_norm[0]
    return {
        "n": int(pairs.n_records[0]),
        "classes": pairs.classes[0][used].tolist(),
        "shares": np.round(share[used], 7).tolist(),
        **{name: np.round(value, 5).tolist() for name, value in out.items()},
    }


def data_sets(cell, pair):
    """The pair as arrays that satisfy all constraints: x, x', points, classes, counts, center."""

    def clip(v):
        return v / np.maximum(1, np.linalg.norm(v, axis=-1, keepdims=True))

    x, step, points = (clip(np.array(pair[name])) for name in ("x", "step", "points"))
    # Clipping is 1-Lipschitz and x is in the ball, so x' stays within the radius.
    other = clip(x + cell.radius * step)
    counts = np.array(pair["shares"], dtype=float)
    counts *= (pair["n"] - 1) / counts.sum()
    k = 1 if cell.n_classes == 2 else cell.n_classes
    center = np.zeros((k, N_FEATURES + 1))
    if cell.variant == "public":
        center = np.array(pair["center"])
        norm = np.linalg.norm(
            center, axis=1 if cell.loss == "squared_hinge" else None, keepdims=True
        )
        center *= cell.public_norm / norm
    return x, other, points, np.array(pair["classes"]), counts, center


@dataclass(frozen=True)
class Outcome:
    """What a pair does: the optima, their distance, Delta, and the error of the distance."""

    optima: np.ndarray
    move: float
    delta: float
    error: float

    @property
    def share(self):
        """Distance of the optima in units of Delta."""
        return self.move / self.delta


def outcomes(cells, pairs):
    """Solve pairs of data sets from scratch, as exactly as float64 allows."""
    groups = {}
    for i, (cell, pair) in enumerate(zip(cells, pairs, strict=True)):
        groups.setdefault((cell.loss, cell.n_classes, len(pair["classes"])), []).append(i)
    out = [None] * len(cells)
    for (loss, n_classes, m), members in groups.items():
        data = [data_sets(cells[i], pairs[i]) for i in members]
        x, other, points, classes, counts, center = (np.stack(a) for a in zip(*data, strict=True))
        n = len(members)
        alpha = np.array([cells[i].alpha for i in members])
        const = np.array([float(cells[i].intercept) for i in members])
        raw = np.stack([cells[i].class_weight[c] for i, c in zip(members, classes, strict=True)])
        heavy = np.array([cells[i].class_weight[0] for i in members])
        mass = np.concatenate([heavy[:, None], raw * counts], axis=1)
        mass /= mass.sum(axis=1, keepdims=True)
        rows = np.concatenate([np.stack([x, other])[:, :, None], np.stack([points] * 2)], axis=2)
        extra = np.broadcast_to(const[:, None, None], (2, n, m + 1, 1))
        rows = np.concatenate([rows, extra], axis=3).reshape(2 * n, m + 1, -1)
        model = Model(loss, n_classes, np.concatenate([np.zeros((n, 1), int), classes], axis=1))
        model = model.take(np.tile(np.arange(n), 2))
        args = [rows, *(np.concatenate([a, a]) for a in (mass, alpha, center))]
        theta, _ = optima(model, np.zeros_like(args[3]), *args)
        for _ in range(2):
            grad, scores = gradient(model, theta, *args)
            theta = theta - solve_hessian(model, scores, *args[:3], grad)
        grad, _ = gradient(model, theta, *args)
        norms = np.sqrt(np.square(grad).sum(axis=(1, 2))).reshape(2, n).sum(axis=0)
        theta = theta.reshape(2, n, *theta.shape[1:])
        moves = np.sqrt(np.square(theta[0] - theta[1]).sum(axis=(1, 2)))
        for j, i in enumerate(members):
            weight = max(1.0, largest_weight(cells[i], classes[j], counts[j]))
            bound = delta(cells[i], pairs[i]["n"], weight)
            out[i] = Outcome(theta[:, j], float(moves[j]), bound, norms[j] / alpha[j])
    return out


def worst(cell, pairs):
    """The pair with the largest share, with that share as one more entry."""
    results = outcomes([cell] * len(pairs), pairs)
    best = max(range(len(pairs)), key=lambda i: results[i].share)
    return {**pairs[best], "share": round(float(results[best].share), 6)}


# --------------------------------------------------------------------------------------------
# Fixtures and the table of the documentation
# --------------------------------------------------------------------------------------------


def search_grid(seed, n_starts=32, rounds=3):
    """Worst pairs for all cells, by key; yields one batch of cells at a time."""
    batches = {}
    for cell in grid():
        batches.setdefault((cell.loss, cell.n_classes, cell.variant), []).append(cell)
    for batch in batches.values():
        found = search(batch, seed, n_starts, rounds)
        yield {cell.key: pair for cell, pair in zip(batch, found, strict=True)}


# Pairs of so few records that they can be expanded and given to the public estimators.
SMALL_SIZE = 100
SMALL = [
    Cell(loss, k, alpha, radius, icpt, variant)
    for (loss, k), settings in zip(
        HEADS,
        itertools.cycle(
            [
                ((0.1, 1.0, True, "plain"), (1.0, 2.0, False, "weights")),
                ((0.1, 2.0, False, "plain"), (1.0, 0.3, True, "public")),
            ]
        ),
    )
    for alpha, radius, icpt, variant in settings
]


def search_small(seed):
    """Worst pairs of `SMALL_SIZE` records with whole multiplicities, by key."""
    out = {}
    for cell in SMALL:
        pair = search([cell], seed, 48, 2, sizes=(SMALL_SIZE,))[0]
        counts = np.maximum(1, np.round(np.array(pair["shares"]) * (SMALL_SIZE - 1)))
        if not any(pair["classes"]):
            # The estimators want a second class. One record of it, at the origin, changes little.
            counts = np.append(counts, 1)
            pair["classes"].append(1)
            pair["points"].append([0.0] * N_FEATURES)
        counts[counts.argmax()] += SMALL_SIZE - 1 - counts.sum()
        out[cell.key] = worst(cell, [{**pair, "shares": counts.astype(int).tolist()}])
    return out


def load():
    """Stored pairs by the key of their cell: those of the grid, and those of few records."""
    stored = json.loads(FIXTURES.read_text())
    return stored["cells"], stored["small"]


def save(cells, small):
    """Write the fixtures, one cell to a line."""

    def lines(part):
        return ",\n".join(
            f"{json.dumps(key)}: {json.dumps(part[key], separators=(',', ':'))}" for key in part
        )

    FIXTURES.write_text(f'{{"cells": {{\n{lines(cells)}\n}},\n"small": {{\n{lines(small)}\n}}}}\n')


def table(cells):
    """Markdown table of the shares in percent, one line per head, variant, intercept and alpha."""
    out = [
        "| loss | K | variant | intercept | alpha |" + "".join(f" r = {r:g} |" for r in RADII),
        "|---" * (5 + len(RADII)) + "|",
    ]
    every = grid()
    for i in range(0, len(every), len(RADII)):
        line = every[i : i + len(RADII)]
        c = line[0]
        head = f"| {c.loss} | {c.n_classes} | {c.variant} | {'yes' if c.intercept else 'no'} "
        shares = " | ".join(f"{100 * cells[cell.key]['share']:.1f}" for cell in line)
        out.append(f"{head}| {c.alpha:g} | {shares} |")
    return "\n".join(out)


def main(argv=None):
    """Search the grid and print the table; with ``--update`` rewrite the fixtures."""
    parser = argparse.ArgumentParser(prog="python -m tests.erm.adversary", description=main.__doc__)
    parser.add_argument("--update", action="store_true", help="search, and rewrite the fixtures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--starts", type=int, default=32, help="starting points for each cell")
    args = parser.parse_args(argv)
    cells, small = load() if FIXTURES.exists() else ({}, {})
    if args.update:
        found = {}
        for part in search_grid(args.seed, args.starts):
            found.update(part)
            print(f"{len(found)} cells, the last is {list(part)[-1]}", file=sys.stderr)
        # An older pair stays where it is better, judged by the Delta of today.
        for cell in grid():
            pair = found[cell.key]
            found[cell.key] = worst(cell, [pair, *([cells[cell.key]] if cell.key in cells else [])])
        cells, small = found, search_small(args.seed)
        save(cells, small)
    print(table(cells))


if __name__ == "__main__":
    main()
