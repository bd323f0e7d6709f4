"""Pictures, by the data of their artists."""

import math
import sys
import warnings

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from skballdp import (
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    MAPReconstructionAuditor,
    PrivacyWarning,
)
from skballdp.plotting import (
    CandidatesDisplay,
    EpsilonDistanceDisplay,
    ExactIDDisplay,
    RadiusTradeoffDisplay,
)

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    y = np.repeat([0, 1, 2], [30, 20, 10])
    X = rng.standard_normal((3, 5))[y] + 0.5 * rng.standard_normal((60, 5))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


@pytest.fixture(scope="module")
def clf(data):
    return BallDPRidgePrototype(0.5, epsilon=2.0, delta=1e-4).fit(*data)


@pytest.fixture(scope="module")
def auditor(clf, data):
    auditor = MAPReconstructionAuditor(
        clf, n_candidates=4, n_supports=2, n_releases=50, n_fits=0, random_state=0
    )
    return auditor.fit(*data)


def exact_id(auditor):
    return ExactIDDisplay.from_estimator(auditor)


def trade_off(_):
    return RadiusTradeoffDisplay.from_results(
        ["q50", "q80"], [[0.2, 0.5], [0.2, 0.5]], [[0.7, 0.9], [0.6, 0.8]], n_candidates=10
    )


def distances(auditor):
    return EpsilonDistanceDisplay(
        distance=[0.0, 1.0], epsilon=[0.0, 2.0], delta=1e-6, radius=1.0, epsilon_at_radius=2.0
    )


def candidates(auditor):
    return CandidatesDisplay(n_candidates=[2, 10], exact_id_bound=[0.7, 0.2], name="head")


DISPLAYS = pytest.mark.parametrize("make", [exact_id, trade_off, distances, candidates])


@DISPLAYS
def test_every_display_plots_as_in_scikit_learn(make, auditor):
    display = make(auditor)
    assert not hasattr(display, "ax_")
    assert display.plot() is display
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_xlabel()
    figure, ax = plt.subplots()
    again = display.plot(ax)
    assert again.ax_ is ax and again.figure_ is figure
    assert display.ax_.get_legend() is not None


@DISPLAYS
def test_every_display_passes_options_on(make, auditor):
    display = make(auditor).plot(linewidth=7.5, color="tab:brown")
    drawn = [line for line in display.ax_.get_lines() if line.get_linewidth() == 7.5]
    drawn += [c for c in display.ax_.collections if 7.5 in np.atleast_1d(c.get_linewidth())]
    assert drawn


@DISPLAYS
def test_nothing_differs_by_colour_alone(make, auditor):
    """Artists with a name in the legend have distinct markers or lines."""
    display = make(auditor).plot()
    looks = [
        (str(line.get_marker()), str(line.get_linestyle()), line.get_markersize())
        for line in display.ax_.get_lines()
        if not line.get_label().startswith("_")
    ]
    assert len(looks) == len(set(looks)) >= 1


@DISPLAYS
def test_nothing_is_clipped(make, auditor):
    """Labels and legends lie inside the figure."""
    figure = make(auditor).plot().figure_
    figure.canvas.draw()
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) > -0.02
    assert drawn.x1 < width + 0.02 and drawn.y1 < height + 0.02
    (ax,) = figure.axes
    legend = ax.get_legend().get_window_extent()
    assert not legend.overlaps(ax.xaxis.label.get_window_extent())


@DISPLAYS
def test_missing_matplotlib_names_the_command(make, auditor, monkeypatch):
    display = make(auditor)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'skballdp\[plot\]'"):
        display.plot()


def test_exact_id_display(auditor):
    report = auditor.report_
    display = ExactIDDisplay.from_report(report)
    parts = [part for _, part in report.attacks()]
    assert list(display.names) == [name for name, _ in report.attacks()]
    display.plot()
    lines = {
        "rate": display.errorbar_.lines[0],
        "bayes": display.bayes_line_,
        "blind": display.kappa_line_,
        "support": display.support_line_,
        "certificate": display.certificate_line_,
    }
    wanted = {
        "rate": [part.measured.rate for part in parts],
        "bayes": [part.bayes_success for part in parts],
        "blind": [part.kappa for part in parts],
        "support": [part.support_bound for part in parts],
        "certificate": [part.exact_id_bound for part in parts],
    }
    for name, line in lines.items():
        np.testing.assert_array_equal(line.get_xdata(), wanted[name])
        np.testing.assert_array_equal(line.get_ydata(), np.arange(len(parts)))
    (bars,) = display.errorbar_.lines[2]
    for segment, part in zip(bars.get_segments(), parts, strict=True):
        np.testing.assert_allclose(segment[:, 0], part.measured.interval)
    methods = dict(report.certificates)
    for line, method in ((display.rdp_line_, "rdp"), (display.dp_line_, "dp")):
        np.testing.assert_array_equal(line.get_xdata()[:2], [methods[method]] * 2)
        assert np.all(np.isnan(line.get_xdata()[2:]))
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == list(display.names)
    low, high = display.ax_.get_ylim()
    assert low > high  # the first attack on top
    grey = [patch.get_x() for patch in display.ax_.patches]
    np.testing.assert_array_equal(grey, wanted["certificate"])
    ends = [patch.get_x() + patch.get_width() for patch in display.ax_.patches]
    np.testing.assert_allclose(ends, 1.0)


def test_exact_id_display_of_some_attacks(auditor):
    display = ExactIDDisplay.from_report(auditor.report_, names=["antipodal pair"]).plot()
    assert display.rdp_line_ is None and display.dp_line_ is None
    np.testing.assert_array_equal(display.rate, [auditor.report_.antipodal.measured.rate])
    for names in (["support 9"], []):
        with pytest.raises(ValueError, match="among support 1, support 2, antipodal pair"):
            ExactIDDisplay.from_report(auditor.report_, names=names)


def test_epsilons_stand_at_the_lowest_point_of_each_certificate():
    display = RadiusTradeoffDisplay.from_results(
        ["q50", "q80"],
        [[0.2, 0.5], [0.2, 0.6]],
        [[0.7, 0.9], [0.6, 0.8]],
        n_candidates=10,
        epsilons=[2.0, 8.0],
    ).plot()
    written = {(text.xy, text.get_text()) for text in display.ax_.texts}
    two, eight = "$\\varepsilon$ = 2", "$\\varepsilon$ = 8"
    assert written == {((0.2, 0.6), two), ((0.5, 0.9), eight), ((0.6, 0.8), eight)}


def test_report_plots_itself(auditor):
    _, ax = plt.subplots()
    display = auditor.report_.plot(ax, capsize=9)
    assert isinstance(display, ExactIDDisplay) and display.ax_ is ax


def test_displays_need_something_fitted(clf):
    with pytest.raises(NotFittedError):
        ExactIDDisplay.from_estimator(MAPReconstructionAuditor(clf))
    for display in (EpsilonDistanceDisplay, CandidatesDisplay):
        with pytest.raises(NotFittedError):
            display.from_estimator(BallDPRidgePrototype())


def test_trade_off_of_fits(data):
    X, y = data
    model = make_pipeline(Normalizer(), BallDPRidgePrototype(delta=1e-4))
    display = RadiusTradeoffDisplay.from_estimator(
        model, X, y, X, y, radii=[0.25, "standard"], epsilons=[1.0, 8.0], n_candidates=5,
        n_repeats=2,
    )  # fmt: skip
    assert display.names == ["0.25", "standard"]
    assert display.accuracy.shape == display.accuracy_error.shape == (2, 2)
    assert not hasattr(model, "classes_")  # only clones were fitted
    for j, epsilon in enumerate([1.0, 8.0]):
        promise = BallDPRidgePrototype(0.25, epsilon=epsilon, delta=1e-4).fit(X, y).certificate_
        bound = promise.exact_id_bound(n_candidates=5)
        np.testing.assert_allclose(display.certificate[:, j], bound, rtol=1e-6)
    display.plot()
    for k, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_xdata(), display.certificate[k])
        np.testing.assert_array_equal(line.get_ydata(), display.accuracy[k])
    assert display.kappa_line_.get_xdata()[0] == 1 / 5
    written = [text.get_text() for text in display.ax_.texts]
    assert written == ["$\\varepsilon$ = 1", "$\\varepsilon$ = 8"]
    assert "5 candidates" in display.ax_.get_xlabel()


def test_trade_off_defaults_to_the_epsilon_of_the_estimator(data):
    X, y = data
    head = BallDPLogisticRegression(epsilon=3.0, delta=1e-4)
    display = RadiusTradeoffDisplay.from_estimator(head, X, y, X, y, radii=[0.5])
    assert display.epsilons == [3.0] and display.accuracy_error is None
    with pytest.raises(ValueError, match="at least one"):
        RadiusTradeoffDisplay.from_estimator(head, X, y, X, y, radii=[])


def test_trade_off_with_measured_rates_and_frontier():
    interval = np.array([[[0.1, 0.2]], [[0.05, 0.2]]])
    display = RadiusTradeoffDisplay.from_results(
        ["a", "b"], [[0.2], [0.25]], [[0.9], [0.8]], n_candidates=10,
        rate=[[0.15], [0.1]], interval=interval, frontier=[[True], [False]],
    ).plot()  # fmt: skip
    for k, bars in enumerate(display.errorbars_):
        assert float(bars.lines[0].get_xdata()[0]) == [0.15, 0.1][k]
        (segment,) = bars.lines[2][0].get_segments()
        np.testing.assert_allclose(segment[:, 0], interval[k, 0])
    white = to_rgba("white")
    assert [to_rgba(line.get_markerfacecolor()) for line in display.lines_] == [white, white]
    filled = [
        line.get_xdata().tolist()
        for line in display.ax_.get_lines()
        if line.get_linestyle() == "None" and line.get_markersize() == 7 and len(line.get_xdata())
    ]
    assert filled == [[0.2]]


def test_trade_off_of_one_point_a_curve():
    display = RadiusTradeoffDisplay.from_results(["a", "b"], [0.2, 0.2], [0.9, 0.8], n_candidates=9)
    assert display.accuracy.tolist() == [[0.9], [0.8]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accuracy": [0.1]}, r"one row for each of the 2 names, got shape \(1,\)"),
        ({"certificate": [0.1]}, r"certificate must have shape \(2,\)"),
        ({"accuracy_error": [[0.1], [0.2]]}, r"accuracy_error must have shape \(2,\)"),
        ({"rate": [0.1, 0.2]}, "both rate and interval"),
        ({"rate": [0.1, 0.2], "interval": [0.1, 0.2]}, r"interval must have shape \(2, 2\)"),
        ({"epsilons": [1, 2]}, "one value for each of the 1 points"),
        ({"n_candidates": 0}, "n_candidates must be an integer >= 1"),
    ],
)
def test_trade_off_refuses_shapes_that_do_not_fit(changes, message):
    arguments = {"certificate": [0.2, 0.2], "accuracy": [0.9, 0.8], "n_candidates": 10} | changes
    with pytest.raises(ValueError, match=message):
        RadiusTradeoffDisplay.from_results(["a", "b"], **arguments)


def test_many_curves_look_different():
    numbers = [0.1] * 35
    display = RadiusTradeoffDisplay.from_results(
        list(map(str, numbers)), numbers, numbers, n_candidates=10
    ).plot()
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in display.lines_}
    assert len(looks) == 35
    assert len({line.get_marker() for line in display.lines_[:8]}) == 8


def test_epsilon_against_distance(clf):
    certificate = clf.certificate_
    display = EpsilonDistanceDisplay.from_estimator(clf, distances=[0.0, 0.25, 0.5, 2.0]).plot()
    wanted = [certificate.epsilon_at(distance) for distance in (0.0, 0.25, 0.5, 2.0)]
    np.testing.assert_array_equal(display.line_.get_xdata(), [0.0, 0.25, 0.5, 2.0])
    np.testing.assert_array_equal(display.line_.get_ydata(), wanted)
    np.testing.assert_allclose(display.radius_line_.get_xydata(), [[0.5, 2.0]], rtol=1e-9)
    assert "0.0001" in display.ax_.get_ylabel()
    assert display.name == "BallDPRidgePrototype"
    whole = EpsilonDistanceDisplay.from_estimator(make_pipeline(Normalizer(), clf))
    assert len(whole.distance) == 101 and whole.distance[-1] == 2.0
    assert np.all(np.diff(whole.epsilon) > 0)


def test_two_curves_in_one_picture(clf, data):
    other = BallDPRidgePrototype(1.0, epsilon=2.0, delta=1e-4).fit(*data)
    first = EpsilonDistanceDisplay.from_estimator(clf, name="first").plot()
    second = EpsilonDistanceDisplay.from_estimator(other, name="second").plot(first.ax_)
    assert first.line_.get_color() != second.line_.get_color()
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    assert first.radius_line_.get_marker() != second.radius_line_.get_marker()


def test_without_norm_bound_distances_end_at_twice_the_radius(data):
    clf = BallDPRidgePrototype(0.5, delta=1e-4, norm_bound=None).fit(*data)
    assert EpsilonDistanceDisplay.from_estimator(clf).distance[-1] == 1.0


def test_certificate_against_candidates(clf):
    display = CandidatesDisplay.from_estimator(clf, n_candidates=[2, 10, 100]).plot()
    wanted = [clf.certificate_.exact_id_bound(n_candidates=m) for m in (2, 10, 100)]
    np.testing.assert_array_equal(display.line_.get_xdata(), [2, 10, 100])
    np.testing.assert_array_equal(display.line_.get_ydata(), wanted)
    np.testing.assert_array_equal(display.kappa_line_.get_ydata(), [0.5, 0.1, 0.01])
    default = CandidatesDisplay.from_certificate(clf.certificate_, name="mine")
    assert default.n_candidates[0] == 2 and default.n_candidates[-1] == 1000
    assert default.name == "mine"
    for bad in ([1], [2.5], [math.nan], ["ten"]):
        with pytest.raises((TypeError, ValueError), match="n_candidates"):
            CandidatesDisplay.from_certificate(clf.certificate_, n_candidates=bad)


def test_void_certificates_warn_once_and_say_so(data):
    with pytest.warns(PrivacyWarning):
        void = BallDPRidgePrototype(0.5, delta=1e-4, random_state=0).fit(*data)
    for make in (EpsilonDistanceDisplay.from_estimator, CandidatesDisplay.from_estimator):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            display = make(void)
        assert [warning.category for warning in caught] == [PrivacyWarning]
        assert display.name == "BallDPRidgePrototype (void)"


def test_without_noise_there_is_no_curve(data):
    for parameters in ({"epsilon": np.inf}, {"radius": 0.0}):
        silent = BallDPRidgePrototype(**{"radius": 0.5, "delta": 1e-4, **parameters}).fit(*data)
        with pytest.raises(ValueError, match="nothing to draw"):
            EpsilonDistanceDisplay.from_estimator(silent)
