"""Labels and features together on a worst pair: so many fits that either budget is refuted."""

import pytest

from tests.labels.test_combined import refuter


@pytest.mark.verify
def test_neither_budget_alone_is_enough():
    epsilons = (0.8, 0.8)  # a miss of the last line is 5.5 standard deviations away
    refuted = refuter(15_000, epsilons)
    assert not refuted(sum(epsilons), 1e-2)
    assert refuted(max(epsilons), 1e-2)
