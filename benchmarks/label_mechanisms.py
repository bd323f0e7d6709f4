"""Label mechanisms side by side: exact numbers for the priors and settings of the BlockRR paper.

acc is the expected share of labels that are reported as they are, mean its average over classes.
LP is the best acc of any private mechanism, by a plain linear program; the last columns are the
objective of the paper's own program (rows not weighted by the prior): value of RR, of BlockRR, the
optimum with the protected cells fixed at 1/K, and the optimum without.
"""

import math

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from skballdp.labels import block_rr, rp_with_prior, rr, rr_floor, rr_on_bins, rr_with_prior
from skballdp.labels.mechanisms import LabelMechanism

COUNTS = {
    "CIFAR-10_1": [5000, 4900, 4700, 4600, 4500, 4800, 1000, 1500, 1000, 1500],
    "CIFAR-10_2": [5000, 4900, 4700, 4600, 4500, 4800, 600, 500, 700, 400],
}
# epsilon, sigma, l: the paper's tables 8 and 9.
SETTINGS = {
    "CIFAR-10_1": [
        (0.6, 1.4, 6),
        (0.8, 1.2, 5),
        (1, 1.2, 5),
        (2, 0.8, 2),
        (3, 0.78, 0),
        (4, 0.5, 0),
        (6, 0.5, 0),
        (8, 0.5, 0),
    ],
    "CIFAR-10_2": [
        (0.6, 1.2, 2),
        (0.8, 1.2, 6),
        (1, 1.2, 5),
        (2, 0.8, 6),
        (3, 0.8, 0),
        (4, 0.5, 0),
        (6, 0.2, 0),
        (8, 0.2, 0),
    ],
}


def optimum(utility: np.ndarray, epsilon: float, fixed: np.ndarray | None = None) -> float:
    """Largest ``sum utility * T`` over private matrices; cells of `fixed` that are numbers stay so.

    A plain program over T and the column tops M, with q M_z <= T[y,z] <= M_z.
    """
    n, k = utility.shape
    q = math.exp(-epsilon)
    cells, tops = sparse.identity(n * k), sparse.kron(np.ones((n, 1)), sparse.identity(k))
    bounds = [(0, None)] * (n * k + k)
    if fixed is not None:
        for cell in np.flatnonzero(np.isfinite(fixed)):
            bounds[cell] = (fixed.flat[cell], fixed.flat[cell])
    result = linprog(
        np.concatenate([-utility.ravel(), np.zeros(k)]),
        A_ub=sparse.vstack([sparse.hstack([cells, -tops]), sparse.hstack([-cells, q * tops])]),
        b_ub=np.zeros(2 * n * k),
        A_eq=sparse.hstack(
            [sparse.kron(sparse.identity(n), np.ones((1, k))), sparse.csr_matrix((n, k))]
        ),
        b_eq=np.ones(n),
        bounds=bounds,
        method="highs",
    )
    if result.x is None:
        raise RuntimeError(f"the linear program was not solved: {result.message}")
    return -float(result.fun)


def paper_program(
    prior: np.ndarray, sigma: float, block: LabelMechanism, epsilon: float
) -> list[float]:
    """Value of RR and BlockRR, and the optima with and without the protected cells."""
    K = len(prior)
    weights = np.where(np.eye(K, dtype=bool), prior, prior * math.exp(-1 / sigma))
    fixed = np.full((K, K), np.nan)
    fixed[np.ix_(block.facts["minority"], block.facts["protected"])] = 1 / K
    values = [float(np.sum(weights * m.matrix())) for m in (rr(K, epsilon), block)]
    return [*values, optimum(weights, epsilon, fixed), optimum(weights, epsilon)]


def classification() -> None:
    for name, counts in COUNTS.items():
        prior = np.array(counts) / sum(counts)
        print(f"\n{name}")
        print(
            "| eps | k* | size S1 | l | acc RR | acc RRWithPrior | acc BlockRR | acc floor | LP "
            "| mean RR | mean RRWithPrior | mean BlockRR | paper LP |"
        )
        print("|" + "---|" * 13)
        for epsilon, sigma, protected in SETTINGS[name]:
            block = block_rr(epsilon, prior=prior, sigma=sigma, l=protected)
            best = rr_with_prior(prior, epsilon)
            # Which keeps every class as often as BlockRR does.
            floor = rr_floor(prior, float(block.retention().min()), epsilon)
            plain = rr(len(prior), epsilon)
            acc = [float(prior @ m.retention()) for m in (plain, best, block, floor)]
            acc.append(optimum(prior[:, np.newaxis] * np.eye(len(prior)), epsilon))
            mean = [float(m.retention().mean()) for m in (plain, best, block)]
            paper = paper_program(prior, sigma, block, epsilon)
            cells = [f"{epsilon:g}", str(best.facts["k"]), str(len(block.facts["majority"]))]
            cells += [str(protected) if block.facts["minority"] else "-"]
            cells += [f"{value:.4f}" for value in (*acc, *mean)]
            cells += [" / ".join(f"{value:.3f}" for value in paper)]
            print("| " + " | ".join(cells) + " |")


def regression() -> None:
    nodes, mass = np.arange(6), np.array([40, 25, 15, 12, 8])
    grid = (np.arange(80) + 0.5) / 16
    prior = np.repeat(mass / mass.sum() / 16, 16)
    print("\nexpected squared error, prior (40, 25, 15, 12, 8) on the unit cells of [0, 5]")
    print(
        "| eps | RR-on-Bins | RPWithPrior, tuned | best half-width for its own interval | Laplace |"
    )
    print("|" + "---|" * 5)
    for epsilon in (1, 2, 4):
        bins = rr_on_bins(grid, prior, epsilon).objective + (1 / 16) ** 2 / 12  # and cell width
        tuned = rp_with_prior(nodes, mass, "auto", epsilon).expected_squared_error(nodes, mass)
        own = min(
            rp_with_prior(nodes, mass, width, epsilon).expected_squared_error(nodes, mass)
            for width in np.geomspace(0.01, 5, 500)
        )
        laplace = 2 * (5 / epsilon) ** 2
        print(f"| {epsilon} | {bins:.3f} | {tuned:.3f} | {own:.3f} | {laplace:.1f} |")


def main(folder: str | None) -> None:
    del folder  # exact numbers, no data
    classification()
    regression()
