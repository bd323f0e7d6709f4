"""The adversary on the full grid, from scratch: ``make verify``, about ten minutes of one core."""

import pytest

from tests.erm import adversary
from tests.erm.test_adversary import CELLS, POINTS, exceeds

pytestmark = pytest.mark.verify


def test_full_grid():
    stored, _ = adversary.load()
    reached = {}
    for part in adversary.search_grid(seed=1):
        for key, pair in part.items():
            assert not exceeds(pair["share"]), (key, pair)
            reached[key] = pair["share"]
    assert set(reached) == set(stored) == set(CELLS)
    # A search that finds less than what is known has failed; it proves nothing. Rounding decides
    # which local maxima are found, so the few cells that another platform loses are searched on.
    for seed in (2, 3, 4):
        for key in reached:
            if reached[key] < stored[key]["share"] - POINTS:
                pair = adversary.search([CELLS[key]], seed, n_starts=128, rounds=3)[0]
                assert not exceeds(pair["share"]), (key, pair)
                reached[key] = max(reached[key], pair["share"])
    weak = {
        key: (share, stored[key]["share"])
        for key, share in reached.items()
        if share < stored[key]["share"] - POINTS
    }
    assert weak == {}
