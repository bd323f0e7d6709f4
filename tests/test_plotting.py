"""Pictures, by the data of their artists."""

import matplotlib
import numpy as np
import pytest

from skballdp.plotting import plot_policies

matplotlib.use("Agg")


def test_plot_policies():
    import matplotlib.pyplot as plt

    arguments = (["a", "b"], [0.9, 0.8], [0.2, 0.25], [0.15, 0.1], [(0.1, 0.2), (0.05, 0.2)])
    ax = plot_policies(*arguments, kappa=0.1)
    accuracy, certificate, *_ = ax.get_lines()
    (errors,) = ax.containers
    np.testing.assert_allclose(accuracy.get_ydata(), [0.9, 0.8])
    np.testing.assert_allclose(certificate.get_ydata(), [0.2, 0.25])
    np.testing.assert_allclose(errors.lines[0].get_ydata().astype(float), [0.15, 0.1])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "b"]
    assert ax.get_xlabel() and ax.get_ylabel()
    _, other = plt.subplots()
    assert plot_policies(*arguments, kappa=0.1, ax=other) is other
    plt.close("all")


def test_missing_matplotlib_names_the_command(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'skballdp\[plot\]'"):
        plot_policies([], [], [], [], [], kappa=0.1)
