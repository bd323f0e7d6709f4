"""A thousand audits of correct heads: ``make verify``, about two minutes of one core."""

import pytest

from tests.audit.test_auditor import audits_of_a_correct_head

pytestmark = pytest.mark.verify


def test_correct_heads_pass_a_thousand_audits():
    # Each fails with probability at most 2e-7: any failure has probability at most 2e-4, two have
    # less than 1e-7.
    assert len(audits_of_a_correct_head(range(1000, 2000))) <= 1
