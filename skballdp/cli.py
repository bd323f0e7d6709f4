"""The command line: ``python -m skballdp fit``.

Exit status 0 for success, 2 for bad usage and for input that is refused; errors are one line on
standard error, never a traceback.
"""

import argparse
import os
import sys
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import Normalizer

from skballdp.exceptions import PrivacyWarning
from skballdp.prototype import BallDPRidgePrototype

__all__ = ["Dataset", "load_digits_split", "load_npz", "main"]

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
        for name in ("y_train", "y_test"):
            codes = arrays[name]
            if codes.dtype.kind not in "iu" or not np.all((codes >= 0) & (codes < len(names))):
                raise ValueError(f"{path}: {name} must hold positions in the array classes.")
            arrays[name] = names[codes]
    return Dataset(**arrays)


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
            print(f"error: {error}", file=sys.stderr)
            return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m skballdp",
        description="Release classifiers on embeddings without giving their training records away.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    fit = commands.add_parser(
        "fit",
        help="fit a private nearest-prototype classifier and print what it promises",
        description="Fit a private nearest-prototype classifier and print what it promises.",
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
    fit.add_argument("--epsilon", type=float, default=1.0, help="default: 1")
    fit.add_argument("--delta", type=float, default=1e-6, help="default: 1e-6")
    fit.add_argument("--alpha", type=float, default=0.01, help="regularisation, default: 0.01")
    fit.add_argument(
        "--norm-bound", type=float, default=1.0, help="longer rows are projected, default: 1"
    )
    fit.add_argument(
        "--reference",
        action="store_true",
        help="also print the accuracy without noise, which the certificate does not cover",
    )
    fit.add_argument(
        "--certificate", metavar="OUT.json", type=Path, help="write the certificate to this file"
    )
    fit.set_defaults(run=_fit)
    return parser


def _radius(text: str) -> float | str:
    return text if text == "standard" else float(text)


def _fit(args: argparse.Namespace) -> int:
    data = load_digits_split() if args.file is None else load_npz(args.file)
    clf = BallDPRidgePrototype(
        radius=args.radius,
        epsilon=args.epsilon,
        delta=args.delta,
        alpha=args.alpha,
        norm_bound=args.norm_bound,
    )
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
