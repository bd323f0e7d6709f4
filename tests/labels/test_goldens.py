"""Every golden case and error of the label mechanisms, to 1e-12."""

import math

import numpy as np
import pytest

from skballdp.labels import (
    block_rr,
    block_rr_sets,
    lp_optimal,
    prior_from_histogram,
    prior_from_rr,
    rp_with_prior,
    rr,
    rr_floor,
    rr_on_bins,
    rr_top_k,
    rr_with_prior,
    weight_partition,
)
from tests.conftest import load_goldens

GOLDENS = load_goldens("label_dp_goldens")
RTOL = 1e-12


def cases(*mechanisms):
    chosen = [case for case in GOLDENS["cases"] if case["mechanism"] in mechanisms]
    return pytest.mark.parametrize("case", chosen, ids=[case["id"] for case in chosen])


def normalised(counts):
    counts = np.array(counts, dtype=float)
    return counts / counts.sum()


def labels(value):
    return list(range(int(value[6:-1]))) if isinstance(value, str) else value


def build(mechanism, params):
    epsilon = float(params["epsilon"])
    prior = normalised(params["prior_counts"]) if "prior_counts" in params else None
    match mechanism:
        case "rr":
            return rr(params["n_classes"], epsilon)
        case "rr_top_k":
            return rr_top_k(prior, params["k"], epsilon)
        case "rr_with_prior":
            return rr_with_prior(prior, epsilon)
        case "rr_floor":
            return rr_floor(prior, float(params["floor"]), epsilon)
        case "lp_optimal":
            return lp_optimal(prior, params["utility"], epsilon)
        case "block_rr_sets":
            sets = params["B"], params["n_outputs"], params["S1"], params["Delta"]
            return block_rr_sets(*sets, epsilon)
    if "sigma" in params:
        return block_rr(epsilon, prior=prior, sigma=float(params["sigma"]), l=params["l"])
    given = {"majority": labels(params["S1"]), "prior": prior, "n_classes": params.get("n_classes")}
    if "Delta" in params:
        return block_rr(epsilon, protected=labels(params["Delta"]), **given)
    return block_rr(epsilon, l=params["l"], **given)


@cases(
    "rr",
    "rr_top_k",
    "rr_with_prior",
    "rr_floor",
    "lp_optimal",
    "block_rr",
    "block_rr_sets",
    "noise_aware",
)
def test_matrices(case):
    mechanism = build(case["mechanism"], case["params"])
    expected, T, facts = case["expected"], mechanism.matrix(), mechanism.facts
    prior = normalised(case["params"].get("prior_counts", np.ones(len(T))))

    def close(actual, wanted):
        np.testing.assert_allclose(actual, wanted, rtol=RTOL, atol=0)

    if "matrix" in expected:
        close(T, expected["matrix"])
    for y, z, value in expected.get("entries", []):
        close(T[y, z], value)
    if "inverse" in expected:
        wanted = np.array(expected["inverse"])
        np.testing.assert_allclose(
            mechanism.inverse(), wanted, rtol=0, atol=RTOL * np.abs(wanted).max()
        )
    for name, value in {
        "diagonal": T[0, 0],
        "off_diagonal": T[0, -1],
        "row_sum_first": T[0].sum(),
        "row_sum_last": T[-1].sum(),
        "trace": np.trace(T) if T.shape[0] == T.shape[1] else None,
        "accuracy": prior @ mechanism.retention() if T.shape[0] == T.shape[1] else None,
        "mean_retention": np.mean(np.diag(T)),
    }.items():
        if name in expected:
            close(value, expected[name])
    for name in ("beta", "gamma", "objective", "top_k_weight"):
        if expected.get(name) is not None:
            close(facts[name], expected[name])
        elif name in expected:
            assert facts[name] is None
    names = {"S1": "majority", "S2": "minority", "Delta": "protected", "k": "k"}
    for golden, name in (names | {"kept_labels": "kept"}).items():
        if golden in expected:
            found = facts[name]
            assert (sorted(found) if isinstance(found, list) else found) == expected[golden]
    if "outputs" in expected:
        assert mechanism.outputs.tolist() == expected["outputs"]
        assert mechanism.favoured[:, 0].tolist() == expected["favoured_output"]


@cases("noise_aware")
def test_learning_from_a_golden_matrix(case):
    expected, mechanism = case["expected"], build("noise_aware", case["params"])
    T, inverse = mechanism.matrix(), mechanism.inverse()
    joint = normalised(case["params"]["prior_counts"])[:, np.newaxis] * T
    posterior = joint / joint.sum(axis=0)
    clean = np.array(expected["clean_proba"])
    pairs = {
        "noisy_proba": clean @ T,
        "forward_loss_by_noisy_label": -np.log(clean @ T),
        "backward_loss_by_noisy_label": inverse @ -np.log(clean),
    }
    for name, value in pairs.items():
        np.testing.assert_allclose(value, expected[name], rtol=RTOL)
    wanted = np.array(expected["posterior_given_noisy"])
    assert np.allclose(posterior, wanted, rtol=RTOL, atol=0) or np.allclose(
        posterior.T, wanted, rtol=RTOL, atol=0
    )


@cases("weight_partition")
def test_partitions(case):
    prior = normalised(case["params"]["prior_counts"])
    majority, minority = weight_partition(prior, float(case["params"]["sigma"]))
    assert majority.tolist() == case["expected"]["S1"]
    assert minority.tolist() == case["expected"]["S2"]


@cases("rr_with_prior")
def test_objective_by_k(case):
    prior = normalised(case["params"]["prior_counts"])
    for k, wanted in enumerate(case["expected"]["objective_by_k"], start=1):
        mechanism = rr_top_k(prior, k, float(case["params"]["epsilon"]))
        assert prior @ mechanism.retention() == pytest.approx(wanted, rel=RTOL)


@cases("rr_on_bins")
@pytest.mark.parametrize("method", ["fractional", "dynamic"])
def test_bins(case, method):
    params, expected = case["params"], case["expected"]
    prior = normalised(params["prior_weights"])
    mechanism = rr_on_bins(
        params["values"], prior, float(params["epsilon"]), params["loss"], method=method
    )
    assert mechanism.n_outputs == expected["n_bins"]
    assert mechanism.bin_of_value.tolist() == expected["bin_of_value"]
    T = mechanism.matrix()
    np.testing.assert_allclose(mechanism.bin_outputs, expected["bin_outputs"], rtol=RTOL, atol=0)
    assert mechanism.objective == pytest.approx(expected["objective"], rel=RTOL)
    assert T[0, 0] == pytest.approx(expected["keep_probability"], rel=RTOL)
    assert T[0, -1] == pytest.approx(expected["other_probability"], rel=RTOL)


@cases("rp_with_prior")
def test_intervals(case):
    params, expected = case["params"], case["expected"]
    nodes = [float(node) for node in params["nodes"]]
    mechanism = rp_with_prior(
        nodes, params["mass"], float(params["delta"]), float(params["epsilon"])
    )
    names = {"A1": "low", "A2": "high"}
    for name, wanted in expected.items():
        value = getattr(mechanism, names.get(name, name))
        np.testing.assert_allclose(value, wanted, rtol=RTOL, atol=0)


@cases("prior_from_rr")
def test_priors_from_randomised_response(case):
    counts, epsilon = case["params"]["noisy_counts"], float(case["params"]["epsilon"])
    for rule, name in {
        "none": "unbiased",
        "project": "simplex_projection",
        "clip": "clip_normalise",
    }.items():
        np.testing.assert_allclose(
            prior_from_rr(counts, epsilon, rule=rule), case["expected"][name], rtol=RTOL, atol=1e-16
        )


@cases("prior_from_histogram")
def test_priors_from_histograms(case):
    counts = [float(count) for count in case["params"]["noisy_histogram"]]
    for rule, name in {"clip": "clip_normalise", "project": "simplex_projection"}.items():
        np.testing.assert_allclose(
            prior_from_histogram(counts, rule=rule), case["expected"][name], rtol=RTOL, atol=1e-16
        )


def call(name, params):
    """What the golden file means by a call."""
    epsilon = float(params.get("epsilon", 1))
    match name:
        case "epsilon":
            return [rr(3, epsilon), rr_with_prior([0.5, 0.5], epsilon)]
        case "prior":
            return rr_with_prior(params["prior"], 1.0)
        case "sigma":
            return weight_partition(normalised(params["prior_counts"]), params["sigma"])
        case "rp_with_prior":
            return rp_with_prior(params["nodes"], params["mass"], params["delta"], epsilon)
        case "block_rr_no_minority_output":
            # The minority labels favour no output, and those of the majority are all there are.
            majority, n = params["S1"], params["n_classes"]
            sets = [[majority.index(y)] if y in majority else [] for y in range(n)]
            return block_rr_sets(sets, len(majority), majority, range(params["l"]), epsilon)
    return build(name, params)


@pytest.mark.parametrize(
    "entry",
    GOLDENS["errors"],
    ids=[f"{entry['call']}-{entry['match']}" for entry in GOLDENS["errors"]],
)
def test_errors(entry):
    with pytest.raises(ValueError, match=entry["match"]):
        call(entry["call"], entry["params"])


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, 800, -math.inf])
def test_every_mechanism_checks_epsilon(epsilon):
    prior, sets = [0.5, 0.5], [[0], [1]]
    for make in (
        lambda: rr(2, epsilon),
        lambda: rr_top_k(prior, 1, epsilon),
        lambda: rr_with_prior(prior, epsilon),
        lambda: rr_floor(prior, 0.1, epsilon),
        lambda: block_rr(epsilon, prior=prior, sigma=1.0, l=0),
        lambda: block_rr_sets(sets, 2, [0], [], epsilon),
        lambda: lp_optimal(prior, np.eye(2), epsilon),
        lambda: rr_on_bins([0, 1], prior, epsilon),
        lambda: rp_with_prior([0, 1], [1], 0.1, epsilon),
        lambda: prior_from_rr([1, 1], epsilon),
    ):
        with pytest.raises(ValueError, match="epsilon must be"):
            make()
