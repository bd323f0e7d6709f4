"""Pictures in the manner of scikit-learn's Displays; matplotlib is imported when one is drawn.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; no two things in a
picture differ by colour alone, so that all can be read in grey.
"""

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skballdp._validate import check_integer
from skballdp.exceptions import PrivacyWarning

if TYPE_CHECKING:
    from skballdp.audit.report import AuditReport
    from skballdp.certificate import PrivacyCertificate

__all__ = [
    "CandidatesDisplay",
    "EpsilonDistanceDisplay",
    "ExactIDDisplay",
    "RadiusTradeoffDisplay",
    "require_matplotlib",
]

_BLUE, _VERMILION, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_ORANGE, _SKY, _GREY = "#E69F00", "#56B4E9", "0.35"
# Colours, markers and lines of curves. Their numbers have no common factor, so that it takes many
# curves until two look the same.
_COLORS = (_BLUE, _VERMILION, _GREEN, _PURPLE, "black", _ORANGE, _SKY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)))


def _curve(k: int) -> tuple[str, str, Any]:
    """Colour, marker and line of the k-th curve."""
    return _COLORS[k % len(_COLORS)], _MARKERS[k % len(_MARKERS)], _DASHES[k % len(_DASHES)]


def require_matplotlib() -> None:
    """Raise the ImportError of this package if matplotlib is missing."""
    try:
        import matplotlib.pyplot  # noqa: F401
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'skballdp[plot]'") from None


def _new_axes(ax: Any, figsize: tuple[float, float]) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    require_matplotlib()
    import matplotlib.pyplot as plt

    _, ax = plt.subplots(figsize=figsize, layout="constrained")
    return ax


def _legend_below(ax: Any, columns: int, handles: Sequence[Any] | None = None) -> None:
    """A legend under the label of the x axis, whatever the height of the axes."""
    from matplotlib.transforms import ScaledTranslation

    inches = ScaledTranslation(0, -0.5, ax.figure.dpi_scale_trans)
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=ax.transAxes + inches,
        borderaxespad=0,
        ncols=columns,
        fontsize="small",
        labelspacing=0.7,
        frameon=False,
    )


class ExactIDDisplay:
    """Measured rates of exact identification beside what bounds them.

    One line per attack: the measured rate with its interval inside the success of the best attack;
    to the left the blind guess, to the right the bounds. What the certificate rules out is grey.
    `from_report` and `from_estimator` make one.

    Parameters
    ----------
    names : sequence of str
        The attacks.
    rate, low, high : array-like of shape (n_attacks,)
        Measured rates and their confidence intervals.
    kappa : array-like of shape (n_attacks,)
        Success of a blind guess.
    bayes_success : array-like of shape (n_attacks,)
        Success of the best attack.
    support_bound, exact_id_bound : array-like of shape (n_attacks,)
        Upper bounds for these candidates, and for any in the ball: the certificate.
    rdp, dp : array-like of shape (n_attacks,), optional
        Certificates by weaker methods; NaN where there is none.
    confidence : float, default=0.95
        Of the intervals.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that holds them.
    errorbar_ : matplotlib ErrorbarContainer
        Measured rates and intervals.
    bayes_line_, kappa_line_, support_line_, certificate_line_ : matplotlib Line2D
        Best attack, blind guess, support bound and certificate.
    rdp_line_, dp_line_ : matplotlib Line2D or None
        Certificates by weaker methods.

    See Also
    --------
    skballdp.AuditReport.plot : Draws one.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, MAPReconstructionAuditor
    >>> from skballdp.plotting import ExactIDDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> auditor = MAPReconstructionAuditor(
    ...     BallDPRidgePrototype(radius=0.5), n_releases=1000, n_fits=0, random_state=0
    ... )
    >>> display = ExactIDDisplay.from_estimator(auditor.fit(normalize(X), y)).plot()
    >>> display.ax_.get_xlabel()
    'probability of naming the record'
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        rate: Any,
        low: Any,
        high: Any,
        kappa: Any,
        bayes_success: Any,
        support_bound: Any,
        exact_id_bound: Any,
        rdp: Any = None,
        dp: Any = None,
        confidence: float = 0.95,
    ):
        self.names = names
        self.rate = rate
        self.low = low
        self.high = high
        self.kappa = kappa
        self.bayes_success = bayes_success
        self.support_bound = support_bound
        self.exact_id_bound = exact_id_bound
        self.rdp = rdp
        self.dp = dp
        self.confidence = confidence

    @classmethod
    def from_report(
        cls, report: "AuditReport", *, names: Sequence[str] | None = None
    ) -> "ExactIDDisplay":
        """Take the numbers from an audit report.

        Parameters
        ----------
        report : AuditReport
            What was found.
        names : sequence of str, optional
            Attacks to show, of those that ``report.attacks()`` names; by default all.

        Returns
        -------
        ExactIDDisplay

        Raises
        ------
        ValueError
            If there was no such attack; the message lists those there were.
        """
        attacks = report.attacks()
        known = [name for name, _ in attacks]
        if names is not None and (len(names) == 0 or not set(names) <= set(known)):
            raise ValueError(f"names={names!r} must be among {', '.join(known)}.")
        shown = [(name, part) for name, part in attacks if names is None or name in names]
        parts = [part for _, part in shown]
        # The other methods were evaluated for the supports only.
        evaluated = np.array([part in report.supports for part in parts])
        others = {
            method: np.where(evaluated, bound, np.nan)
            for method, bound in report.certificates
            if np.any(evaluated)
        }
        return cls(
            names=[name for name, _ in shown],
            rate=np.array([part.measured.rate for part in parts]),
            low=np.array([part.measured.interval[0] for part in parts]),
            high=np.array([part.measured.interval[1] for part in parts]),
            kappa=np.array([part.kappa for part in parts]),
            bayes_success=np.array([part.bayes_success for part in parts]),
            support_bound=np.array([part.support_bound for part in parts]),
            exact_id_bound=np.array([part.exact_id_bound for part in parts]),
            rdp=others.get("rdp"),
            dp=others.get("dp"),
            confidence=report.confidence,
        )

    @classmethod
    def from_estimator(
        cls, auditor: Any, *, names: Sequence[str] | None = None
    ) -> "ExactIDDisplay":
        """Take the numbers from a fitted auditor.

        Parameters
        ----------
        auditor : MAPReconstructionAuditor
            After `fit`.
        names : sequence of str, optional
            As in `from_report`.

        Returns
        -------
        ExactIDDisplay

        Raises
        ------
        NotFittedError
            If the auditor has no report yet.
        """
        check_is_fitted(auditor, "report_")
        return cls.from_report(auditor.report_, names=names)

    def plot(self, ax: Any = None, **kwargs: Any) -> "ExactIDDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **kwargs : dict
            For `matplotlib.axes.Axes.errorbar`, which draws the measured rates.

        Returns
        -------
        self : object
            With the artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is missing; the message names the command that installs it.
        """
        rows = np.arange(len(self.names))
        ax = _new_axes(ax, (6.4, 2.0 + 0.38 * len(rows)))
        self.ax_, self.figure_ = ax, ax.figure
        rate, low, high = (np.asarray(value) for value in (self.rate, self.low, self.high))
        bound = np.asarray(self.exact_id_bound)
        ax.barh(rows, 1 - bound, left=bound, height=0.9, color="0.92", zorder=0)

        def points(x: Any, marker: Any, color: str, label: str, size: float, **more: Any) -> Any:
            style = {"markerfacecolor": "none", "markeredgewidth": 1.4, "linestyle": "none"}
            style["zorder"] = 2.5
            (line,) = ax.plot(
                x, rows, marker=marker, color=color, label=label, markersize=size, **style | more
            )
            return line

        style = {
            "fmt": "o", "color": _BLUE, "markersize": 4, "capsize": 4, "zorder": 3,
            "label": f"measured rate ({100 * self.confidence:.6g} % interval)",
        }  # fmt: skip
        # A limit may be on the wrong side of the rate by a rounding error.
        error = np.maximum(0.0, [rate - low, high - rate])
        self.errorbar_ = ax.errorbar(rate, rows, xerr=error, **style | kwargs)
        self.bayes_line_ = points(self.bayes_success, "D", "black", "best attack", 10)
        self.kappa_line_ = points(self.kappa, "|", _GREY, "blind guess", 13, markeredgewidth=2)
        self.support_line_ = points(
            self.support_bound, "<", _GREEN, "bound for these candidates", 7
        )
        self.certificate_line_ = points(
            bound, "|", _VERMILION, "certificate", 18, markeredgewidth=3.5, zorder=2.2
        )
        self.rdp_line_ = self.dp_line_ = None
        if self.rdp is not None:
            self.rdp_line_ = points(self.rdp, "s", _PURPLE, "certificate by RDP", 6)
        if self.dp is not None:
            self.dp_line_ = points(
                self.dp, "X", _ORANGE, "certificate by epsilon, delta", 7, markerfacecolor=_ORANGE
            )
        shown = [self.high, self.bayes_success, self.support_bound, bound, self.rdp, self.dp]
        right = max(np.nanmax(np.append(value, 0.0)) for value in shown if value is not None)
        ax.set_yticks(rows, self.names)
        ax.set(
            xlabel="probability of naming the record",
            xlim=(0, min(1.0, 1.06 * right) + 0.01),
            ylim=(len(rows) - 0.5, -0.5),
        )
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        artists = [self.kappa_line_, self.errorbar_, self.bayes_line_, self.support_line_]
        artists += [self.certificate_line_, self.rdp_line_, self.dp_line_]
        _legend_below(ax, columns=2, handles=[artist for artist in artists if artist is not None])
        return self


class RadiusTradeoffDisplay:
    """Accuracy against certificate, one curve for each radius.

    A point further left promises more, a point further up predicts better. `from_estimator` and
    `from_results` make one.

    Parameters
    ----------
    names : sequence of str
        The curves, for instance radii or policies.
    certificate, accuracy : ndarray of shape (n_curves, n_points)
        Bound on the probability of naming the record, and accuracy.
    n_candidates : int
        Among which the record is to be named.
    epsilons : sequence of float, optional
        Written beside the points.
    accuracy_error : ndarray of shape (n_curves, n_points), optional
        Standard errors of mean accuracies.
    rate, low, high : ndarray of shape (n_curves, n_points), optional
        Measured success of an attack and its interval.
    frontier : ndarray of shape (n_curves, n_points), optional
        Whether a point is on the frontier; the others are drawn hollow.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that holds them.
    lines_ : list of matplotlib Line2D
        The curves.
    errorbars_ : list of matplotlib ErrorbarContainer
        Measured rates, one for each curve; empty without them.
    kappa_line_ : matplotlib Line2D
        The blind guess.

    See Also
    --------
    skballdp.strongest_within : Picks a radius in a search.

    Notes
    -----
    Each certificate is for its own radius: at equal epsilon all radii promise the same bound, for
    balls of different size. Less noise for a smaller ball is no gain for somebody who needs the
    larger one. To compare certificates at one distance, ask them for it:
    ``certificate.exact_id_bound(n_candidates=10, distance=...)``.

    The fits that the picture needs are releases of their own and no certificate covers them, nor a
    choice made by looking at it. Use public records.

    Examples
    --------
    >>> from skballdp.plotting import RadiusTradeoffDisplay
    >>> display = RadiusTradeoffDisplay.from_results(
    ...     ["q50", "standard"], [[0.2, 0.5], [0.2, 0.5]], [[0.8, 0.9], [0.6, 0.8]], n_candidates=10
    ... )
    >>> len(display.plot().lines_)
    2
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        certificate: Any,
        accuracy: Any,
        n_candidates: int,
        epsilons: Sequence[float] | None = None,
        accuracy_error: Any = None,
        rate: Any = None,
        low: Any = None,
        high: Any = None,
        frontier: Any = None,
    ):
        self.names = names
        self.certificate = certificate
        self.accuracy = accuracy
        self.n_candidates = n_candidates
        self.epsilons = epsilons
        self.accuracy_error = accuracy_error
        self.rate = rate
        self.low = low
        self.high = high
        self.frontier = frontier

    @classmethod
    def from_results(
        cls,
        names: Sequence[str],
        certificate: Any,
        accuracy: Any,
        *,
        n_candidates: int,
        epsilons: Sequence[float] | None = None,
        accuracy_error: Any = None,
        rate: Any = None,
        interval: Any = None,
        frontier: Any = None,
    ) -> "RadiusTradeoffDisplay":
        """Take numbers that were computed elsewhere.

        Parameters
        ----------
        names : sequence of str
            The curves.
        certificate, accuracy : array-like of shape (n_curves, n_points) or (n_curves,)
            Bound on the probability of naming the record, and accuracy.
        n_candidates : int
            Among which the record is to be named, >= 1.
        epsilons : sequence of float, optional
            One for each point of a curve.
        accuracy_error : array-like like `accuracy`, optional
            Standard errors.
        rate : array-like like `accuracy`, optional
            Measured success of an attack.
        interval : array-like of the same shape and one more axis of length 2, optional
            Its confidence intervals; must come with `rate`.
        frontier : array-like of bool like `accuracy`, optional
            Whether a point is on the frontier.

        Returns
        -------
        RadiusTradeoffDisplay

        Raises
        ------
        ValueError
            If shapes do not fit together.
        """
        check_integer("n_candidates", n_candidates, low=1)
        if (rate is None) != (interval is None):
            raise ValueError("give both rate and interval, or neither.")
        accuracy = np.asarray(accuracy, dtype=float)
        if accuracy.ndim not in (1, 2) or len(accuracy) != len(names) or accuracy.size == 0:
            raise ValueError(
                f"accuracy must have one row for each of the {len(names)} names, got shape "
                f"{accuracy.shape}."
            )
        shape = accuracy.shape
        table = (len(names), -1)
        given = {"certificate": certificate, "accuracy_error": accuracy_error, "rate": rate}
        given["frontier"] = frontier
        if interval is not None:
            ends = np.asarray(interval, dtype=float)
            if ends.shape != (*shape, 2):
                raise ValueError(f"interval must have shape {(*shape, 2)}, got {ends.shape}.")
            given |= {"low": ends[..., 0], "high": ends[..., 1]}
        arrays = {name: np.asarray(value) for name, value in given.items() if value is not None}
        for name, value in arrays.items():
            if value.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, as accuracy, got {value.shape}.")
        accuracy = accuracy.reshape(table)
        if epsilons is not None and len(epsilons) != accuracy.shape[1]:
            raise ValueError(
                f"epsilons must have one value for each of the {accuracy.shape[1]} points of a "
                f"curve, got {len(epsilons)}."
            )
        return cls(
            names=names,
            accuracy=accuracy,
            n_candidates=n_candidates,
            epsilons=epsilons,
            **{name: value.reshape(table) for name, value in arrays.items()},
        )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        X_test: Any,
        y_test: Any,
        *,
        radii: Sequence[Any],
        epsilons: Sequence[float] | None = None,
        n_candidates: int = 10,
        n_repeats: int = 1,
    ) -> "RadiusTradeoffDisplay":
        """Fit clones and read their certificates.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A head of this package, or a Pipeline that ends in one.
        X, y : array-like or sparse matrix of shape (n_samples, n_features), and (n_samples,)
            Training records; better public ones, see the Notes of the class.
        X_test, y_test : array-like or sparse matrix, and array-like
            Test records.
        radii : sequence
            Values of the parameter `radius`: one curve each.
        epsilons : sequence of float, optional
            Values of the parameter `epsilon`: one point each; by default the estimator's own.
        n_candidates : int, default=10
            For the certificates.
        n_repeats : int, default=1
            Releases over which accuracies are averaged, >= 1.

        Returns
        -------
        RadiusTradeoffDisplay

        Raises
        ------
        TypeError, ValueError
            If a value is out of range, or a fit refuses its parameters.
        """
        check_integer("n_candidates", n_candidates, low=1)
        check_integer("n_repeats", n_repeats, low=1)
        prefix = f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""
        if epsilons is None:
            epsilons = [estimator.get_params()[f"{prefix}epsilon"]]
        if len(radii) == 0 or len(epsilons) == 0:
            raise ValueError("radii and epsilons must hold at least one value each.")
        shape = (len(radii), len(epsilons))
        certificate, accuracy, error = (np.zeros(shape) for _ in range(3))
        for i, radius in enumerate(radii):
            for j, epsilon in enumerate(epsilons):
                model = clone(estimator).set_params(
                    **{f"{prefix}radius": radius, f"{prefix}epsilon": epsilon}
                )
                scores = [model.fit(X, y).score(X_test, y_test) for _ in range(n_repeats)]
                accuracy[i, j] = np.mean(scores)
                if n_repeats > 1:
                    error[i, j] = np.std(scores, ddof=1) / math.sqrt(n_repeats)
                promise = _certificate_of(model)
                certificate[i, j] = promise.exact_id_bound(n_candidates=n_candidates)
        return cls.from_results(
            [radius if isinstance(radius, str) else f"{float(radius):.3g}" for radius in radii],
            certificate,
            accuracy,
            n_candidates=n_candidates,
            epsilons=epsilons,
            accuracy_error=error if n_repeats > 1 else None,
        )

    def plot(self, ax: Any = None, **kwargs: Any) -> "RadiusTradeoffDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **kwargs : dict
            For `matplotlib.axes.Axes.plot`, which draws the curves.

        Returns
        -------
        self : object
            With the artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is missing; the message names the command that installs it.
        """
        ax = _new_axes(ax, (6.4, 4.8))
        self.ax_, self.figure_ = ax, ax.figure
        self.lines_, self.errorbars_ = [], []
        for k, name in enumerate(self.names):
            color, marker, dash = _curve(k)
            x, y = self.certificate[k], self.accuracy[k]
            style = {"color": color, "linestyle": dash, "marker": marker, "markersize": 7}
            if self.frontier is not None:
                style["markerfacecolor"] = "white"
            (line,) = ax.plot(x, y, label=name, **style | kwargs)
            self.lines_.append(line)
            if self.frontier is not None:
                best = np.asarray(self.frontier[k], dtype=bool)
                ax.plot(x[best], y[best], color=color, marker=marker, markersize=7, linestyle="")
            if self.accuracy_error is not None:
                ax.errorbar(x, y, yerr=self.accuracy_error[k], fmt="none", color=color, capsize=3)
            if self.rate is not None:
                rate = self.rate[k]
                error = np.maximum(0.0, [rate - self.low[k], self.high[k] - rate])
                bars = ax.errorbar(
                    rate, y, xerr=error, fmt=marker, color=color, capsize=3, markersize=3.5
                )
                self.errorbars_.append(bars)
                ax.hlines(y, rate, x, color=color, linewidth=0.8, linestyle=":")
        self.kappa_line_ = ax.axvline(
            1 / self.n_candidates, color=_GREY, linewidth=1, linestyle=(0, (1, 2)),
            label="blind guess",
        )  # fmt: skip
        if self.epsilons is not None:
            self._write_epsilons(ax)
        ax.margins(y=0.13)  # room for what is written below the points
        if self.rate is not None:
            ax.plot([], [], "o", color=_GREY, markersize=3.5, label="small: measured attack")
        if self.frontier is not None:
            ax.plot([], [], "o", color=_GREY, markersize=7, label="filled: on the frontier")
        ax.set(
            xlabel="bound on the probability of naming the record among "
            f"{self.n_candidates} candidates",
            ylabel="test accuracy",
        )
        ax.set_xlim(0, min(1.0, 1.08 * max(np.max(self.certificate), 1 / self.n_candidates)) + 0.01)
        ax.grid(color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        _legend_below(ax, columns=3)
        return self

    def _write_epsilons(self, ax: Any) -> None:
        """At the lowest point of each certificate: curves often share them."""
        lowest: dict[tuple[float, float], float] = {}
        error = 0.0 if self.accuracy_error is None else self.accuracy_error
        for curve, heights in zip(self.certificate, self.accuracy - error, strict=True):
            for x, y, epsilon in zip(curve, heights, self.epsilons or (), strict=True):
                key = (round(float(x), 3), float(epsilon))
                lowest[key] = min(float(y), lowest.get(key, math.inf))
        for (x, epsilon), y in lowest.items():
            ax.annotate(
                f"$\\varepsilon$ = {epsilon:g}", (x, y), xytext=(0, -8), textcoords="offset points",
                ha="center", va="top", fontsize="x-small", color=_GREY, zorder=3,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip


class EpsilonDistanceDisplay:
    """Privacy loss against the distance between a record and its replacement.

    `from_certificate` and `from_estimator` make one.

    Parameters
    ----------
    distance : array-like of shape (n_distances,)
        In the unit of the rows.
    epsilon : array-like of shape (n_distances,)
        Privacy loss at these distances.
    delta : float
        The delta that goes with epsilon.
    radius, epsilon_at_radius : float
        The promise.
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that holds them.
    line_ : matplotlib Line2D
        The curve.
    radius_line_ : matplotlib Line2D
        The promise, a point.

    See Also
    --------
    skballdp.PrivacyCertificate.epsilon_at : The numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype
    >>> from skballdp.plotting import EpsilonDistanceDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPRidgePrototype(radius=0.5, epsilon=2.0).fit(normalize(X), y)
    >>> display = EpsilonDistanceDisplay.from_estimator(clf).plot()
    >>> float(display.distance[-1]), round(display.epsilon_at_radius, 6)
    (2.0, 2.0)
    """

    def __init__(
        self,
        *,
        distance: Any,
        epsilon: Any,
        delta: float,
        radius: float,
        epsilon_at_radius: float,
        name: str | None = None,
    ):
        self.distance = distance
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.epsilon_at_radius = epsilon_at_radius
        self.name = name

    @classmethod
    def from_certificate(
        cls, certificate: "PrivacyCertificate", *, distances: Any = None, name: str | None = None
    ) -> "EpsilonDistanceDisplay":
        """Ask a certificate.

        Parameters
        ----------
        certificate : PrivacyCertificate
            What a fitted model promises.
        distances : array-like of shape (n_distances,), optional
            Where to evaluate it, >= 0; by default 101 distances from 0 to twice the norm bound,
            or to twice the radius if there is none.
        name : str, optional
            For the legend; by default the name of the estimator.

        Returns
        -------
        EpsilonDistanceDisplay

        Raises
        ------
        ValueError
            If the release has no noise: epsilon is infinite.

        Warns
        -----
        PrivacyWarning
            If the certificate is void; the legend says so, too.
        """
        promised = certificate.epsilon_at(certificate.radius)
        if certificate.mu == math.inf or certificate.radius == 0:
            raise ValueError(
                "the release has no noise, so epsilon is infinite at every distance: there is "
                "nothing to draw. Fit with a finite epsilon and a positive radius."
            )
        if distances is None:
            norm_bound = certificate.norm_bound
            end = 2 * (certificate.radius if norm_bound is None else norm_bound)
            distances = np.linspace(0, end, 101)
        distances = np.asarray(distances, dtype=float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # it came with the first value
            epsilons = [certificate.epsilon_at(float(distance)) for distance in distances]
        return cls(
            distance=distances,
            epsilon=np.array(epsilons),
            delta=certificate.delta,
            radius=certificate.radius,
            epsilon_at_radius=promised,
            name=_name(certificate, name),
        )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, distances: Any = None, name: str | None = None
    ) -> "EpsilonDistanceDisplay":
        """Ask the certificate of a fitted head.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted head of this package, or a Pipeline that ends in one.
        distances, name
            As in `from_certificate`.

        Returns
        -------
        EpsilonDistanceDisplay

        Raises
        ------
        NotFittedError
            If the estimator has no certificate yet.
        """
        return cls.from_certificate(_certificate_of(estimator), distances=distances, name=name)

    def plot(self, ax: Any = None, **kwargs: Any) -> "EpsilonDistanceDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **kwargs : dict
            For `matplotlib.axes.Axes.plot`, which draws the curve.

        Returns
        -------
        self : object
            With the artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is missing; the message names the command that installs it.
        """
        ax = _new_axes(ax, (6.4, 4.2))
        self.ax_, self.figure_ = ax, ax.figure
        color, marker, dash = _curve(len(ax.get_lines()) // 2)
        style = {"color": color, "linestyle": dash, "label": self.name}
        (self.line_,) = ax.plot(self.distance, self.epsilon, **style | kwargs)
        (self.radius_line_,) = ax.plot(
            [self.radius], [self.epsilon_at_radius], marker=marker, linestyle="none", markersize=8,
            color=self.line_.get_color(),
            label=f"promise: epsilon {self.epsilon_at_radius:.4g} at {self.radius:.4g}",
        )  # fmt: skip
        ax.set(
            xlabel="distance between record and replacement (unit of the rows)",
            ylabel=f"privacy loss epsilon (at delta = {self.delta:g})",
        )
        ax.set_xlim(left=0)
        ax.set_ylim(bottom=0)
        ax.grid(color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.legend(loc="upper left", fontsize="small")
        return self


class CandidatesDisplay:
    """Bound on naming the record against the number of candidates.

    `from_certificate` and `from_estimator` make one.

    Parameters
    ----------
    n_candidates : array-like of shape (n_numbers,)
        Numbers of candidates.
    exact_id_bound : array-like of shape (n_numbers,)
        Bound on the probability of naming the record.
    name : str, optional
        For the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure that holds them.
    line_ : matplotlib Line2D
        The bound.
    kappa_line_ : matplotlib Line2D
        The blind guess.

    See Also
    --------
    skballdp.PrivacyCertificate.exact_id_bound : The numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype
    >>> from skballdp.plotting import CandidatesDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPRidgePrototype(radius=0.5, epsilon=2.0).fit(normalize(X), y)
    >>> display = CandidatesDisplay.from_estimator(clf, n_candidates=[10, 100]).plot()
    >>> display.exact_id_bound.round(3)
    array([0.202, 0.03 ])
    """

    def __init__(self, *, n_candidates: Any, exact_id_bound: Any, name: str | None = None):
        self.n_candidates = n_candidates
        self.exact_id_bound = exact_id_bound
        self.name = name

    @classmethod
    def from_certificate(
        cls, certificate: "PrivacyCertificate", *, n_candidates: Any = None, name: str | None = None
    ) -> "CandidatesDisplay":
        """Ask a certificate.

        Parameters
        ----------
        certificate : PrivacyCertificate
            What a fitted model promises.
        n_candidates : sequence of int, optional
            Numbers of candidates, >= 2; by default from 2 to 1000.
        name : str, optional
            For the legend; by default the name of the estimator.

        Returns
        -------
        CandidatesDisplay

        Warns
        -----
        PrivacyWarning
            If the certificate is void; the legend says so, too.
        """
        if n_candidates is None:
            n_candidates = np.unique(np.geomspace(2, 1000, 50).astype(int)).tolist()
        numbers = [check_integer("n_candidates", m, low=2) for m in n_candidates]
        bounds = []
        with warnings.catch_warnings():
            for number in numbers:
                bounds.append(certificate.exact_id_bound(n_candidates=number))
                warnings.simplefilter("ignore", PrivacyWarning)  # once is enough
        return cls(
            n_candidates=np.array(numbers),
            exact_id_bound=np.array(bounds),
            name=_name(certificate, name),
        )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, n_candidates: Any = None, name: str | None = None
    ) -> "CandidatesDisplay":
        """Ask the certificate of a fitted head.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A fitted head of this package, or a Pipeline that ends in one.
        n_candidates, name
            As in `from_certificate`.

        Returns
        -------
        CandidatesDisplay

        Raises
        ------
        NotFittedError
            If the estimator has no certificate yet.
        """
        return cls.from_certificate(
            _certificate_of(estimator), n_candidates=n_candidates, name=name
        )

    def plot(self, ax: Any = None, **kwargs: Any) -> "CandidatesDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        **kwargs : dict
            For `matplotlib.axes.Axes.plot`, which draws the bound.

        Returns
        -------
        self : object
            With the artists as attributes.

        Raises
        ------
        ImportError
            If matplotlib is missing; the message names the command that installs it.
        """
        ax = _new_axes(ax, (6.4, 4.2))
        self.ax_, self.figure_ = ax, ax.figure
        style = {"color": _VERMILION, "linewidth": 2, "label": self.name}
        (self.line_,) = ax.plot(self.n_candidates, self.exact_id_bound, **style | kwargs)
        (self.kappa_line_,) = ax.plot(
            self.n_candidates, 1 / np.asarray(self.n_candidates), color=_GREY, linestyle="--",
            label="blind guess",
        )  # fmt: skip
        ax.set(
            xlabel="number of equally likely candidates",
            ylabel="bound on the probability of naming the record",
            xscale="log",
            yscale="log",
        )
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
        ax.grid(color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.legend(loc="upper right", fontsize="small")
        return self


def _certificate_of(estimator: Any) -> Any:
    """The certificate of a fitted head or of the last step of a Pipeline."""
    head = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    check_is_fitted(head, "certificate_")
    return head.certificate_


def _name(certificate: "PrivacyCertificate", name: str | None) -> str:
    shown = certificate.estimator if name is None else name
    return shown if certificate.holds else f"{shown} (void)"
