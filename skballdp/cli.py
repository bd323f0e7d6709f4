"""The command line: ``python -m skballdp demo | fit | audit | calibrate``.

Exit status 0 for success, 1 for an audit that failed, 2 for bad usage and for input that is
refused; errors are one line on standard error, never a traceback.
"""

import argparse
import json
import math
import os
import sys
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

from skballdp._validate import check_integer, check_real
from skballdp.accounting.gaussian import mu_of
from skballdp.accounting.reconstruction import epsilon_for_exact_id, exact_id_of_epsilon
from skballdp.audit import AuditReport, MAPReconstructionAuditor
from skballdp.exceptions import PrivacyWarning
from skballdp.linear import BallDPLogisticRegression, BallDPSquaredHingeSVC
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
        except (ValueError, TypeError, OSError) as error:
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
        "--public-fraction",
        type=float,
        default=0.2,
        help="share of the training part that serves as public records, default: 0.2",
    )
    audit.add_argument(
        "--json",
        metavar="OUT",
        type=Path,
        help="write the report (with several seeds: an object with a list of reports)",
    )
    audit.set_defaults(run=_audit)

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
    parser.add_argument("--delta", type=float, default=1e-6, help="default: 1e-6")
    parser.add_argument("--alpha", type=float, default=0.01, help="regularisation, default: 0.01")
    parser.add_argument(
        "--norm-bound", type=float, default=1.0, help="longer rows are projected, default: 1"
    )


def _head(args: argparse.Namespace, radius: float | str) -> Any:
    """The classifier that the options describe."""
    return _HEADS[args.head](
        radius,
        epsilon=args.epsilon,
        delta=args.delta,
        alpha=args.alpha,
        norm_bound=args.norm_bound,
    )


def _radius(text: str) -> float | str:
    return text if text == "standard" else float(text)


def _policy(text: str) -> float | str:
    return text if policy_level(text) is not None else _radius(text)


def _public_radius(policy: float | str, X: Any, y: Any, norm_bound: float) -> float | str:
    """A policy resolved on public records."""
    level = policy_level(policy)
    if level is None:
        return policy
    return float(radius_quantiles(X, y, level, norm_bound=norm_bound, random_state=0))


def _demo(args: argparse.Namespace) -> int:
    progress = _progress()
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
    for policy in _POLICIES:
        progress(f"policy {policy}")
        radius = _public_radius(policy, X_public, y_public, 1.0)
        clf = BallDPRidgePrototype(radius, epsilon=2.0).fit(X, y)
        auditor = MAPReconstructionAuditor(clf, n_releases=20_000, random_state=0)
        report = auditor.fit(X, y, X_public, y_public).report_
        accuracy = clf.score(data.X_test, data.y_test)
        low, high = report.exact_id_interval
        print(
            f"{policy:10s} {clf.radius_:7.3f}  {np.max(clf.noise_scale_):7.4f}  {accuracy:8.3f}  "
            f"{report.exact_id_bound:11.3f}  {report.exact_id_rate:6.3f} ({low:.3f} to {high:.3f})"
        )
        table.append((policy, accuracy, report))
    names, accuracies, reports = zip(*table, strict=True)
    try:
        from skballdp.plotting import plot_policies

        axes = plot_policies(
            names,
            accuracies,
            [report.exact_id_bound for report in reports],
            [report.exact_id_rate for report in reports],
            [report.exact_id_interval for report in reports],
            kappa=reports[0].kappa,
        )
    except ImportError as error:
        print(f"\nno picture: {error}")
    else:
        axes.set_title("digits, epsilon 2, 10 candidates")
        axes.figure.savefig(args.png, dpi=150)
        print(f"\npicture written to {args.png}")
    print("\nThe same promise (epsilon 2) at a smaller radius hides less and costs less noise.")
    return 0 if all(report.passed for report in reports) else 1


def _audit(args: argparse.Namespace) -> int:
    check_integer("--seeds", args.seeds, low=1)
    share = check_real(
        "--public-fraction", args.public_fraction, low=0, high=1, low_open=True, high_open=True
    )
    if len(args.file) == 2:
        X, y = load_pair(*args.file)
        if X.ndim != 2 or len(X) != len(y):
            raise ValueError(
                f"{args.file[0]} and {args.file[1]} must hold as many records as labels, got "
                f"shape {X.shape} and {len(y)} labels."
            )
    elif len(args.file) == 1:
        data = load_npz(args.file[0])
        X, y = data.X_train, data.y_train
    else:
        raise ValueError("give one .npz file, or one file of records and one of labels.")
    progress = _progress()
    reports: list[AuditReport] = []
    for seed in range(args.seeds):
        progress(f"seed {seed + 1} of {args.seeds}")
        try:
            X_private, X_public, y_private, y_public = train_test_split(
                X, y, test_size=share, random_state=seed, stratify=y
            )
        except ValueError:
            raise ValueError(
                f"--public-fraction={share:g} leaves no public or no private record of some class."
            ) from None
        radius = _public_radius(args.radius, X_public, y_public, args.norm_bound)
        clf = _head(args, radius)
        auditor = MAPReconstructionAuditor(
            clf,
            n_candidates=args.candidates,
            n_supports=args.supports,
            n_releases=args.releases,
            random_state=seed,
        )
        reports.append(auditor.fit(X_private, y_private, X_public, y_public).report_)
    passed = all(report.passed for report in reports)
    if len(reports) == 1:
        print(reports[0])
    else:
        _print_seeds(reports)
    if args.json is not None:
        if len(reports) == 1:
            text = reports[0].to_json()
        else:
            record = {
                "covered_by_certificate": False,
                "passed": passed,
                "reports": [report.to_dict() for report in reports],
            }
            text = json.dumps(record, indent=2, allow_nan=False)
        args.json.write_text(text + "\n", encoding="utf-8")
        print(f"\nreport written to {args.json}")
    return 0 if passed else 1


def _print_seeds(reports: list[AuditReport]) -> None:
    print("Computed from private records; NOT covered by the certificate.\n")
    print("seed   radius    rate  best attack  certificate  verdict")
    for seed, report in enumerate(reports):
        print(
            f"{seed:4d}  {report.radius:7.4f}  {report.exact_id_rate:6.4f}  "
            f"{report.bayes_success:11.4f}  {report.exact_id_bound:11.4f}  "
            f"{'passed' if report.passed else 'FAILED'}"
        )
    rates = np.array([report.exact_id_rate for report in reports])
    error = rates.std(ddof=1) / math.sqrt(len(rates))
    print(f"mean rate over seeds {rates.mean():.4f} +- {error:.4f} (standard error)")


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
    print(f"exact-ID bound             {bound:.6g}   among {m} candidates (blind: {1 / m:.4g})")
    return 0


def _progress() -> Callable[[str], None]:
    """Reports steps on standard error once two seconds have passed."""
    start = time.monotonic()

    def report(step: str) -> None:
        elapsed = time.monotonic() - start
        if elapsed > 2:
            print(f"[{elapsed:5.1f} s] {step}", file=sys.stderr)

    return report


def _fit(args: argparse.Namespace) -> int:
    data = load_digits_split() if args.file is None else load_npz(args.file)
    clf = _head(args, args.radius)
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
