"""The command line: what it prints, writes and refuses."""

import subprocess
import sys

import numpy as np
import pytest

from skballdp import PrivacyCertificate
from skballdp.cli import load_npz, main


@pytest.fixture
def npz(tmp_path, blobs):
    X, y = blobs
    path = tmp_path / "data.npz"
    arrays = {"X_train": X.astype(np.float16), "y_train": y, "X_test": X, "y_test": y}
    np.savez(path, classes=np.array(["red", "green", "blue"]), **arrays)
    return path


def test_fit_on_digits_as_a_process():
    result = subprocess.run(
        [sys.executable, "-m", "skballdp", "fit"], capture_output=True, text=True, check=True
    )
    assert "test accuracy: 0." in result.stdout
    assert "The promise holds" in result.stdout
    assert result.stderr == ""


def test_fit_on_a_file(npz, tmp_path, capsys):
    out = tmp_path / "out.json"
    options = ["--radius", "0.5", "--epsilon", "2", "--delta", "1e-4", "--alpha", "0.1"]
    options += ["--norm-bound", "1.5", "--reference", "--certificate", str(out)]
    assert main(["fit", str(npz), *options]) == 0
    printed = capsys.readouterr().out
    assert "NOT covered by the certificate" in printed
    certificate = PrivacyCertificate.from_json(out.read_text())
    assert certificate.check() and certificate.holds
    assert certificate.classes == ("blue", "green", "red")
    assert (certificate.radius, certificate.epsilon, certificate.delta) == (0.5, 2.0, 1e-4)
    assert (certificate.alpha, certificate.norm_bound) == (0.1, 1.5)


def test_weak_promises_are_announced(npz, capsys):
    assert main(["fit", str(npz), "--epsilon", "inf"]) == 0
    captured = capsys.readouterr()
    assert "THE PROMISE IS VOID" in captured.out
    assert captured.err.startswith("warning: ")


def test_refusals_are_one_line_and_status_2(npz, tmp_path, capsys):
    empty = tmp_path / "empty.npz"
    np.savez(empty, X_train=np.eye(2))
    pickled = tmp_path / "pickled.npz"
    arrays = {name: np.array([1]) for name in ("y_train", "X_test", "y_test")}
    np.savez(pickled, X_train=np.array([{}], dtype=object), **arrays)
    array = tmp_path / "array.npy"
    np.save(array, np.eye(2))
    text = tmp_path / "text.npz"
    text.write_text("hello")
    short = tmp_path / "short.npz"
    np.savez(short, X_train=np.eye(3), y_train=[0, 1], X_test=np.eye(3), y_test=[0, 1, 0])
    names = tmp_path / "names.npz"
    np.savez(names, X_train=np.eye(2), y_train=[0, 7], X_test=np.eye(2), y_test=[0, 1], classes="a")
    cases = [
        [str(tmp_path / "missing.npz")],
        *[[str(path)] for path in (empty, pickled, array, text, short, names)],
        [str(npz), "--epsilon", "-1"],
        [str(npz), "--radius", "nan"],
        [str(npz), "--certificate", str(tmp_path / "no" / "such" / "folder.json")],
    ]
    for case in cases:
        assert main(["fit", *case]) == 2, case
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1, (case, error)


@pytest.mark.parametrize("argv", [[], ["unknown"], ["fit", "--radius", "wide"], ["fit", "--x"]])
def test_bad_usage(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_labels_without_names_stay_as_they_are(tmp_path):
    path = tmp_path / "plain.npz"
    np.savez(path, X_train=np.eye(2), y_train=["x", "y"], X_test=np.eye(2), y_test=["x", "y"])
    assert load_npz(path).y_train.tolist() == ["x", "y"]
