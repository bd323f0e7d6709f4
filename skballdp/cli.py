"""The command line: ``python -m skballdp demo | fit | audit | compare | calibrate``.

Exit status 0 for success, 1 for an audit that failed, 2 for bad usage and for input that is
refused; errors are one line on standard error, never a traceback.
"""

import argparse
import dataclasses
import itertools
import json
import math
import os
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import Normalizer

from skballdp._records import to_plain
from skballdp._text import up
from skballdp._validate import check_integer, check_real
from skballdp.accounting.gaussian import mu_of
from skballdp.accounting.reconstruction import epsilon_for_exact_id, exact_id_of_epsilon
from skballdp.audit import AuditReport, AuditSummary, MAPReconstructionAuditor
from skballdp.audit.report import DISCLAIMER
from skballdp.exceptions import PrivacyWarning
from skballdp.linear import BallDPLogisticRegression, BallDPSquaredHingeSVC
from skballdp.plotting import RadiusTradeoffDisplay, require_matplotlib
from skballdp.prototype import BallDPRidgePrototype
from skballdp.radius import policy_level, radius_quantiles

__all__ = ["Dataset", "load_digits_split", "load_npz", "load_pair", "main"]

_HEADS: dict[str, Any] = {
    "prototype": BallDPRidgePrototype,
    "logistic": BallDPLogisticRegression,
    "hinge": BallDPSquaredHingeSVC,
}
_POLICIES = ("standard", "q95", "q80", "q50")
_ARRAYS = ("X_train", "y_train", "X_test", "y_test")


@dataclass(frozen=True)
class Dataset:
    """A training and a test part; labels are class names where the file has them."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_digits_split() -> Dataset:
    """scikit-learn's digits: pixels over the public constant 16, rows scaled to norm 1."""
    X, y = load_digits(return_X_y=True)
    X = Normalizer().transform(X / 16.0)
    split = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    X_train, X_test, y_train, y_test = split
    return Dataset(X_train, y_train, X_test, y_test)


def load_npz(path: str | Path) -> Dataset:
    """Read X_train, y_train, X_test, y_test and, optionally, classes from an .npz file.

    Raises
    ------
    ValueError
        If the file cannot be read or lacks an array; the message says which.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in _ARRAYS if name not in file]
            if missing:
                raise ValueError(f"{path}: the file has no array named {', '.join(missing)}.")
            arrays = {name: file[name] for name in _ARRAYS}
            names = file.get("classes")
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        reason = getattr(error, "strerror", None) or "not a readable .npz file"
        raise ValueError(f"{path}: {reason}.") from None
    except TypeError:  # a plain .npy array is no archive of named ones
        raise ValueError(f"{path}: not an .npz file with named arrays.") from None
    if names is not None:
        names = np.atleast_1d(names)
        for name in ("y_train", "y_test"):
            codes = arrays[name]
            if codes.dtype.kind not in "iu" or not np.all((codes >= 0) & (codes < len(names))):
                raise ValueError(f"{path}: {name} must hold positions in the array classes.")
            arrays[name] = names[codes]
    return Dataset(**arrays)


def load_pair(X_path: str | Path, y_path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Read records and labels from two .npy or .csv files.

    A .csv file has one record per line, values separated by commas, and no header; labels stand
    one per line.

    Raises
    ------
    ValueError
        If a file cannot be read, or is ragged or not numeric; the message says which.
    """
    return _load_array(Path(X_path), float), _load_array(Path(y_path), str).ravel()


def _load_array(path: Path, dtype: type) -> np.ndarray:
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        if path.suffix == ".csv":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # an empty file is refused below
                array: np.ndarray = np.loadtxt(
                    path, dtype=dtype, delimiter=",", ndmin=2, encoding="utf-8"
                )
            if array.size == 0:
                raise ValueError("empty")
            return array
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'not a readable file'}.") from None
    except (ValueError, EOFError):  # their messages quote the data
        kind = "table of numbers" if dtype is float else "list of labels"
        raise ValueError(
            f"{path}: not a readable {path.suffix} file: it must hold a rectangular {kind}"
            + (", separated by commas and without a header." if path.suffix == ".csv" else ".")
        ) from None
    raise ValueError(f"{path}: the file must end in .npz, .npy or .csv.")


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : list of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit status.
    """
    args = _parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrivacyWarning)
        warnings.showwarning = _show_warning
        try:
            return args.run(args)
        except BrokenPipeError:  # the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except (ValueError, TypeError, OSError, ImportError) as error:
            print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
            return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skballdp",
        description="Release classifiers on embeddings without giving their training records away.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="compare radius policies on digits: noise, accuracy, certificate, attack",
        description="Compare radius policies on scikit-learn's digits: noise, accuracy, "
        "certificate and measured success of an attack, at epsilon 2.",
    )
    demo.add_argument(
        "--png",
        type=Path,
        default=Path("skballdp-demo.png"),
        metavar="OUT.png",
        help="picture to write if matplotlib is installed (default: skballdp-demo.png)",
    )
    demo.set_defaults(run=_demo)

    fit = commands.add_parser(
        "fit",
        help="fit a private classifier and print what it promises",
        description="Fit a private classifier and print what it promises.",
    )
    fit.add_argument(
        "file",
        nargs="?",
        metavar="FILE.npz",
        help="X_train, y_train, X_test, y_test and optionally classes (default: digits)",
    )
    fit.add_argument(
        "--radius",
        type=_radius,
        default="standard",
        help="distance to hide, or 'standard' for any replacement (default: standard)",
    )
    _add_promise(fit, epsilon=1.0)
    fit.add_argument(
        "--reference",
        action="store_true",
        help="also print the accuracy without noise, which the certificate does not cover",
    )
    fit.add_argument(
        "--certificate", metavar="OUT.json", type=Path, help="write the certificate to this file"
    )
    fit.set_defaults(run=_fit)

    audit = commands.add_parser(
        "audit",
        help="attack a private head on your own data",
        description="Fit a private classifier on a part of the data, attack it "
        "with candidates from the rest, and set the measured success beside the certificate. "
        "Exit status 1 if the audit fails.",
    )
    audit.add_argument(
        "file",
        nargs="+",
        metavar="FILE",
        help="an .npz file (X_train, y_train, X_test, y_test and optionally classes), or a .npy or "
        ".csv file of records and one of labels",
    )
    audit.add_argument(
        "--radius",
        type=_policy,
        default="q80",
        help="a number, 'standard', or a quantile such as q80 of the same-label distances in the "
        "public part (default: q80)",
    )
    _add_promise(audit, epsilon=2.0)
    audit.add_argument("--candidates", type=int, default=10, help="per support, default: 10")
    audit.add_argument("--supports", type=int, default=4, help="candidate sets, default: 4")
    audit.add_argument(
        "--releases", type=int, default=100_000, help="per hidden target, default: 100000"
    )
    audit.add_argument("--seeds", type=int, default=1, help="repetitions, default: 1")
    audit.add_argument(
        "--jobs", type=int, help="processes, -1 for all cores; the result does not depend on it"
    )
    _add_public_fraction(audit)
    audit.add_argument(
        "--json",
        metavar="OUT.json",
        type=Path,
        help="write the report (with several seeds: an object with a list of reports)",
    )
    for suffix, what in {
        "html": "one page with figures, to read or to print; needs matplotlib",
        "png": "picture of the rates and bounds; needs matplotlib",
        "markdown": "the report as Markdown",
    }.items():
        audit.add_argument(
            f"--{suffix}",
            metavar=f"OUT.{'md' if suffix == 'markdown' else suffix}",
            type=Path,
            help=f"write {what} (one seed only)",
        )
    audit.set_defaults(run=_audit)

    compare = commands.add_parser(
        "compare",
        help="compare heads, radii and epsilons on your own data",
        description="Fit every combination of heads, radii and epsilons, and print accuracy beside "
        "certificate. Lists are separated by commas. Exit status 1 if an audit fails.",
    )
    compare.add_argument(
        "file",
        nargs="?",
        metavar="FILE.npz",
        help="X_train, y_train, X_test, y_test and optionally classes (default: digits)",
    )
    compare.add_argument(
        "--heads",
        type=_list_of(_head_name),
        default=["prototype", "logistic"],
        help=f"of {', '.join(_HEADS)}; default: prototype,logistic",
    )
    compare.add_argument(
        "--radii",
        type=_list_of(_policy),
        default=["standard", "q95", "q80", "q50"],
        help="numbers, 'standard', or quantiles of the same-label distances in the public part; "
        "default: standard,q95,q80,q50",
    )
    compare.add_argument(
        "--epsilons", type=_list_of(float), default=[1.0, 2.0, 4.0, 8.0], help="default: 1,2,4,8"
    )
    _add_recipe(compare)
    compare.add_argument(
        "--candidates", type=int, default=10, help="for the certificates, default: 10"
    )
    compare.add_argument(
        "--repeats", type=int, default=5, help="releases to average accuracies over, default: 5"
    )
    _add_public_fraction(compare)
    compare.add_argument(
        "--audit", action="store_true", help="also attack every combination (20000 releases)"
    )
    compare.add_argument("--jobs", type=int, help="processes for the attacks, -1 for all cores")
    compare.add_argument("--json", metavar="OUT.json", type=Path, help="write the table")
    compare.add_argument(
        "--png", metavar="OUT.png", type=Path, help="draw the frontier; needs matplotlib"
    )
    compare.set_defaults(run=_compare)

    calibrate = commands.add_parser(
        "calibrate",
        help="translate between epsilon, noise and the attacker's success; needs no data",
        description="Translate between epsilon, noise and the attacker's success; needs no data.",
    )
    target = calibrate.add_mutually_exclusive_group()
    target.add_argument("--epsilon", type=float, help="default: 1")
    target.add_argument("--exact-id", type=float, metavar="P", help="bound on the success instead")
    calibrate.add_argument("--delta", type=float, default=1e-6, help="default: 1e-6")
    calibrate.add_argument("--candidates", type=int, default=10, help="default: 10")
    calibrate.add_argument(
        "--sensitivity", type=float, default=1.0, help="in the unit of the parameters, default: 1"
    )
    calibrate.set_defaults(run=_calibrate)
    return parser


def _add_promise(parser: argparse.ArgumentParser, *, epsilon: float) -> None:
    parser.add_argument(
        "--head", choices=tuple(_HEADS), default="prototype", help="default: prototype"
    )
    parser.add_argument("--epsilon", type=float, default=epsilon, help=f"default: {epsilon:g}")
    _add_recipe(parser)


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--delta", type=float, default=1e-6, help="default: 1e-6")
    parser.add_argument("--alpha", type=float, default=0.01, help="regularisation, default: 0.01")
    parser.add_argument(
        "--norm-bound", type=float, default=1.0, help="longer rows are projected, default: 1"
    )


def _add_public_fraction(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--public-fraction",
        type=float,
        default=0.2,
        help="share of the training part that serves as public records, default: 0.2",
    )


def _head(args: argparse.Namespace, head: str, radius: float | str, epsilon: float) -> Any:
    """The classifier that the options describe."""
    return _HEADS[head](
        radius,
        epsilon=epsilon,
        delta=args.delta,
        alpha=args.alpha,
        norm_bound=args.norm_bound,
    )


def _list_of(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Reader of an option that holds several values, each once."""

    def values(text: str) -> list[Any]:
        return list(dict.fromkeys(kind(part.strip()) for part in text.split(",")))

    values.__name__ = "list"  # argparse names it in its messages
    return values


def _head_name(text: str) -> str:
    if text not in _HEADS:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(_HEADS)}")
    return text


def _radius(text: str) -> float | str:
    if text == "standard":
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor 'standard', nor a quantile such as q80 where one is "
            "allowed"
        ) from None


def _policy(text: str) -> float | str:
    return text if policy_level(text) is not None else _radius(text)


def _public_radius(policy: float | str, X: Any, y: Any, norm_bound: float) -> float | str:
    """A policy resolved on public records."""
    level = policy_level(policy)
    if level is None:
        return policy
    return float(radius_quantiles(X, y, level, norm_bound=norm_bound, random_state=0))


def _split_public(X: Any, y: Any, share: float, seed: int) -> list[Any]:
    """Private records, public records, and their labels."""
    share = check_real("--public-fraction", share, low=0, high=1, low_open=True, high_open=True)
    try:
        return train_test_split(X, y, test_size=share, random_state=seed, stratify=y)
    except ValueError:
        raise ValueError(
            f"--public-fraction={share:g} leaves no public or no private record of some class."
        ) from None


def _check_outputs(paths: list[Path | None], pictures: list[Path | None]) -> None:
    """Refuse now what could not be written after minutes of work."""
    for path in (*paths, *pictures):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"{path}: there is no such folder to write to.")
    if any(path is not None for path in pictures):
        require_matplotlib()


def _demo(args: argparse.Namespace) -> int:
    data = load_digits_split()
    X, X_public, y, y_public = train_test_split(
        data.X_train, data.y_train, test_size=0.35, random_state=0, stratify=data.y_train
    )
    print(
        f"digits: {len(y)} private, {len(y_public)} public and {len(data.y_test)} test records; "
        "epsilon 2, delta 1e-6.\nThe certificate bounds the success of picking a record out of 10 "
        "candidates; a blind guess\nsucceeds with 0.1. The attack's success is measured on private "
        "records, not covered by it.\n"
    )
    print("policy      radius    noise  accuracy  certificate  attack (95 % interval)")
    table = []
    with _Progress() as progress:
        for policy in _POLICIES:
            progress(f"policy {policy}")
            radius = _public_radius(policy, X_public, y_public, 1.0)
            clf = BallDPRidgePrototype(radius, epsilon=2.0).fit(X, y)
            auditor = MAPReconstructionAuditor(clf, n_releases=20_000, random_state=0)
            report = auditor.fit(X, y, X_public, y_public).report_
            accuracy = clf.score(data.X_test, data.y_test)
            low, high = report.exact_id_interval
            print(
                f"{policy:10s} {clf.radius_:7.3f}  {np.max(clf.noise_scale_):7.4f}  "
                f"{accuracy:8.3f}  {up(report.exact_id_bound, 3):>11s}  "
                f"{report.exact_id_rate:6.3f} ({low:.3f} to {high:.3f})"
            )
            table.append((policy, accuracy, report))
    names, accuracies, reports = zip(*table, strict=True)
    display = RadiusTradeoffDisplay.from_results(
        names,
        [report.exact_id_bound for report in reports],
        accuracies,
        n_candidates=10,
        rate=[report.exact_id_rate for report in reports],
        interval=[report.exact_id_interval for report in reports],
    )
    try:
        display.plot()
    except ImportError as error:
        print(f"\nno picture: {error}")
    else:
        display.ax_.set_title("digits, epsilon 2, 10 candidates")
        display.figure_.savefig(args.png, dpi=150)
        print(f"\npicture written to {args.png}")
    print("\nThe same promise (epsilon 2) at a smaller radius hides less and costs less noise.")
    return 0 if all(report.passed for report in reports) else 1


def _audit(args: argparse.Namespace) -> int:
    seeds = check_integer("--seeds", args.seeds, low=1)
    pages = {"--html": args.html, "--png": args.png, "--markdown": args.markdown}
    for option, path in pages.items():
        if path is not None and seeds > 1:
            raise ValueError(f"{option} shows one audit: leave --seeds out, or write --json.")
    _check_outputs([args.json, args.markdown], [args.html, args.png])
    X, y = _load_records(args.file)
    reports: list[AuditReport] = []
    with _Progress() as progress:
        for seed in range(seeds):
            progress(f"audit {seed + 1} of {seeds}")
            X_private, X_public, y_private, y_public = _split_public(
                X, y, args.public_fraction, seed
            )
            radius = _public_radius(args.radius, X_public, y_public, args.norm_bound)
            auditor = MAPReconstructionAuditor(
                _head(args, args.head, radius, args.epsilon),
                n_candidates=args.candidates,
                n_supports=args.supports,
                n_releases=args.releases,
                n_jobs=args.jobs,
                random_state=seed,
            )
            reports.append(auditor.fit(X_private, y_private, X_public, y_public).report_)
    passed = all(report.passed for report in reports)
    if len(reports) == 1:
        print(reports[0])
    else:
        _print_seeds(reports)
    if args.json is not None:
        record = reports[0].to_dict()
        if len(reports) > 1:
            record = {
                "covered_by_certificate": False,
                "passed": passed,
                "summary": to_plain(AuditSummary.of(reports)),
                "reports": [report.to_dict() for report in reports],
            }
        _write_json(args.json, record)
    if args.html is not None:
        reports[0].to_html(args.html)
    if args.png is not None:
        display = reports[0].plot()
        display.ax_.set_title(f"Audit of a {reports[0].estimator}", loc="left")
        display.figure_.savefig(args.png, dpi=150)
    if args.markdown is not None:
        args.markdown.write_text(reports[0].to_markdown(), encoding="utf-8")
    for path in (args.json, *pages.values()):
        if path is not None:
            print(f"\nreport written to {path}")
    return 0 if passed else 1


def _load_records(files: list[str]) -> tuple[Any, Any]:
    """Training records and labels of one .npz file or of a pair."""
    if len(files) == 1:
        data = load_npz(files[0])
        return data.X_train, data.y_train
    if len(files) != 2:
        raise ValueError("give one .npz file, or one file of records and one of labels.")
    X, y = load_pair(*files)
    if X.ndim != 2 or len(X) != len(y):
        raise ValueError(
            f"{files[0]} and {files[1]} must hold as many records as labels, got shape {X.shape} "
            f"and {len(y)} labels."
        )
    return X, y


def _print_seeds(reports: list[AuditReport]) -> None:
    print(f"{DISCLAIMER}\n")
    print("seed   radius    rate  best attack  certificate  verdict")
    for seed, report in enumerate(reports):
        verdict = "passed" if report.passed else f"FAILED: {', '.join(report.failed_checks)}"
        print(
            f"{seed:4d}  {report.radius:7.4f}  {report.exact_id_rate:6.4f}  "
            f"{report.bayes_success:11.4f}  {up(report.exact_id_bound):>11s}  {verdict}"
        )
    summary = AuditSummary.of(reports)
    percent = f"{100 * summary.confidence:.6g} % interval"
    low, high = summary.rate_interval
    print(
        f"\nmean rate over seeds {summary.rate:.4f} (standard deviation {summary.rate_sd:.4f}; "
        f"{percent} {low:.4f} to {high:.4f})"
    )
    low, high = summary.pooled.interval
    print(
        f"pooled rate          {summary.pooled.rate:.4f} ({summary.pooled.hits} of "
        f"{summary.pooled.trials}; {percent} {low:.4f} to {high:.4f})"
    )
    low, high = summary.advantage_interval
    print(f"pooled advantage     {summary.advantage:.4f} ({percent} {low:.4f} to {high:.4f})")


@dataclass(frozen=True, kw_only=True)
class _Row:
    """One line of the comparison."""

    head: str
    policy: str
    radius: float
    epsilon: float
    noise: float
    accuracy: float
    accuracy_error: float
    certificate: float
    rate: float | None
    interval: tuple[float, float] | None
    failed_checks: tuple[str, ...]
    on_frontier: bool = False


def _compare(args: argparse.Namespace) -> int:
    check_integer("--repeats", args.repeats, low=1)
    check_integer("--candidates", args.candidates, low=2)
    _check_outputs([args.json], [args.png])
    data = load_digits_split() if args.file is None else load_npz(args.file)
    X, X_public, y, y_public = _split_public(data.X_train, data.y_train, args.public_fraction, 0)
    print(
        f"data: {args.file or 'digits (scikit-learn)'}; {len(y)} private, {len(y_public)} public "
        f"and {len(data.y_test)} test records.\nThis comparison is NOT covered by any certificate: "
        f"each of its fits is a release of its own.\nThe certificate bounds the success of picking "
        f"a record out of {args.candidates} candidates in a ball of the\nrow's own radius; blind: "
        f"{1 / args.candidates:.4g}. Accuracies are means of {args.repeats} releases.\n"
    )
    rows = []
    with _Progress() as progress:
        progress("measuring the radii")
        radii = {
            str(policy): _public_radius(policy, X_public, y_public, args.norm_bound)
            for policy in args.radii
        }
        combinations = list(itertools.product(args.heads, radii.items(), args.epsilons))
        for k, (head, (policy, radius), epsilon) in enumerate(combinations, start=1):
            progress(f"{k} of {len(combinations)}: {head}, radius {policy}, epsilon {epsilon:g}")
            clf = _head(args, head, radius, epsilon)
            rows.append(_compare_one(args, clf, head, policy, data, X, y, X_public, y_public))
    best = _frontier([(row.accuracy, -row.certificate, row.radius) for row in rows])
    rows = [
        dataclasses.replace(row, on_frontier=is_best)
        for row, is_best in zip(rows, best, strict=True)
    ]
    _print_rows(rows)
    if args.json is not None:
        record = {
            "covered_by_certificate": False,
            "file": args.file,
            "delta": args.delta,
            "alpha": args.alpha,
            "norm_bound": args.norm_bound,
            "n_candidates": args.candidates,
            "n_repeats": args.repeats,
            "rows": [to_plain(row) for row in rows],
        }
        _write_json(args.json, record)
        print(f"\ntable written to {args.json}")
    if args.png is not None:
        _draw_rows(rows, args)
        print(f"\npicture written to {args.png}")
    failed = [row for row in rows if row.failed_checks]
    for row in failed:
        print(
            f"\nthe audit of {row.head} at radius {row.policy} and epsilon {row.epsilon:g} FAILED: "
            f"{', '.join(row.failed_checks)}"
        )
    return 1 if failed else 0


def _compare_one(
    args: argparse.Namespace,
    clf: Any,
    head: str,
    policy: str,
    data: Dataset,
    X: Any,
    y: Any,
    X_public: Any,
    y_public: Any,
) -> _Row:
    scores = [clf.fit(X, y).score(data.X_test, data.y_test)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the first fit has said it
        scores += [clf.fit(X, y).score(data.X_test, data.y_test) for _ in range(args.repeats - 1)]
        certificate = clf.certificate_.exact_id_bound(n_candidates=args.candidates)
    report = None
    if args.audit:
        auditor = MAPReconstructionAuditor(
            clf,
            n_candidates=args.candidates,
            n_releases=20_000,
            n_fits=0,
            n_jobs=args.jobs,
            random_state=0,
        )
        report = auditor.fit(X, y, X_public, y_public).report_
    return _Row(
        head=head,
        policy=policy,
        radius=float(clf.radius_),
        epsilon=float(clf.epsilon),
        noise=float(np.max(clf.noise_scale_)),
        accuracy=float(np.mean(scores)),
        accuracy_error=float(np.std(scores, ddof=1) / math.sqrt(len(scores)))
        if len(scores) > 1
        else 0.0,
        certificate=float(certificate),
        rate=report.exact_id_rate if report else None,
        interval=report.exact_id_interval if report else None,
        failed_checks=report.failed_checks if report else (),
    )


def _frontier(points: list[tuple[float, ...]]) -> list[bool]:
    """Whether no other point is at least as large in every coordinate and larger in one."""
    # Certificates of equal epsilon differ in their last digits only.
    values = np.round(np.asarray(points, dtype=float), 9)
    return [
        not np.any(np.all(values >= point, axis=1) & np.any(values > point, axis=1))
        for point in values
    ]


def _print_rows(rows: list[_Row]) -> None:
    attack = "" if rows[0].rate is None else "  attack (95 % interval)"
    print(
        f"   head       policy     radius  epsilon     noise  accuracy      +-  certificate{attack}"
    )
    for row in rows:
        measured = ""
        if row.rate is not None and row.interval is not None:
            low, high = row.interval
            measured = f"  {row.rate:.4f} ({low:.4f} to {high:.4f})"
        print(
            f" {'*' if row.on_frontier else ' '} {row.head:10s} {row.policy:9s} {row.radius:7.4f}  "
            f"{row.epsilon:7g}  {row.noise:8.4g}  {row.accuracy:8.4f}  {row.accuracy_error:6.4f}  "
            f"{up(row.certificate):>11s}{measured}"
        )
    print(
        "\n * on the frontier: no other row is at least as accurate, with at most this certificate,"
        "\n   for a ball at least as large, and better in one of the three."
    )


def _draw_rows(rows: list[_Row], args: argparse.Namespace) -> None:
    """One curve for each head and radius, one point for each epsilon."""
    shape = (-1, len(args.epsilons))

    def values(name: str) -> np.ndarray:
        return np.array([getattr(row, name) for row in rows]).reshape(*shape)

    audited = rows[0].interval is not None
    display = RadiusTradeoffDisplay.from_results(
        [f"{row.head}, {row.policy}" for row in rows[:: len(args.epsilons)]],
        values("certificate"),
        values("accuracy"),
        n_candidates=args.candidates,
        epsilons=args.epsilons,
        accuracy_error=values("accuracy_error") if args.repeats > 1 else None,
        rate=values("rate") if audited else None,
        interval=np.array([row.interval for row in rows]).reshape(*shape, 2) if audited else None,
        frontier=values("on_frontier"),
    ).plot()
    display.figure_.savefig(args.png, dpi=150)


def _write_json(path: Path, record: dict[str, Any]) -> None:
    path.write_text(
        json.dumps(record, indent=2, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _calibrate(args: argparse.Namespace) -> int:
    sensitivity = check_real("--sensitivity", args.sensitivity, low=0, low_open=True)
    m = check_integer("--candidates", args.candidates, low=2)
    if args.exact_id is not None:
        epsilon = epsilon_for_exact_id(args.exact_id, n_candidates=m, delta=args.delta)
    else:
        epsilon = 1.0 if args.epsilon is None else args.epsilon
    mu = mu_of(epsilon, args.delta)
    bound = exact_id_of_epsilon(epsilon, n_candidates=m, delta=args.delta)
    print(f"epsilon                    {epsilon:.6g}")
    print(f"delta                      {args.delta:g}")
    print(f"signal-to-noise ratio mu   {mu:.6g}")
    print(f"noise / sensitivity        {1 / mu:.6g}")
    print(f"noise scale                {sensitivity / mu:.6g}   at sensitivity {sensitivity:g}")
    print(f"exact-ID bound             {up(bound, 6)}   among {m} candidates (blind: {1 / m:.4g})")
    return 0


class _Progress:
    """Says on standard error what is being done, once the whole takes longer than two seconds.

    A step that goes on says so again every half a minute.
    """

    def __init__(self, patience: float = 2.0):
        self._patience = patience
        self._start = time.monotonic()
        self._step = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._done.set()
        self._thread.join()

    def __call__(self, step: str) -> None:
        self._step = step
        if time.monotonic() - self._start > self._patience:
            self._say()

    def _watch(self) -> None:
        pause = max(0.0, self._patience)
        while not self._done.wait(pause):
            self._say()
            pause = 30.0

    def _say(self) -> None:
        print(f"[{time.monotonic() - self._start:5.1f} s] {self._step}", file=sys.stderr)


def _fit(args: argparse.Namespace) -> int:
    data = load_digits_split() if args.file is None else load_npz(args.file)
    clf = _head(args, args.head, args.radius, args.epsilon)
    clf.fit(data.X_train, data.y_train)
    print(f"data: {args.file or 'digits (scikit-learn)'}")
    print(f"test accuracy: {clf.score(data.X_test, data.y_test):.4f}")
    if args.reference:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            exact = clone(clf).set_params(epsilon=np.inf).fit(data.X_train, data.y_train)
        accuracy = exact.score(data.X_test, data.y_test)
        print(f"without noise: {accuracy:.4f} (NOT covered by the certificate: do not publish)")
    print()
    print(clf.certificate_)
    if args.certificate is not None:
        args.certificate.write_text(clf.certificate_.to_json() + "\n", encoding="utf-8")
        print(f"\ncertificate written to {args.certificate}")
    return 0


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
