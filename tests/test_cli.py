"""The command line: what it prints, writes and refuses."""

import dataclasses
import json
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import Normalizer

from skballdp import (
    AuditReport,
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    MAPReconstructionAuditor,
    PrivacyCertificate,
    cli,
)
from skballdp.accounting.gaussian import mu_of
from skballdp.cli import load_npz, main

matplotlib.use("Agg")


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


@pytest.mark.parametrize("head", ["prototype", "logistic", "hinge"])
def test_heads_and_the_noiseless_reference(npz, head, capsys):
    arguments = ["fit", str(npz), "--head", head, "--epsilon", "1e-3", "--delta", "1e-4"]
    assert main([*arguments, "--reference"]) == 0
    printed = capsys.readouterr().out
    data = load_npz(npz)
    cls = {
        "prototype": BallDPRidgePrototype,
        "logistic": BallDPLogisticRegression,
        "hinge": BallDPSquaredHingeSVC,
    }[head]
    exact = cls(epsilon=np.inf).fit(data.X_train, data.y_train)
    assert f"without noise: {exact.score(data.X_test, data.y_test):.4f}" in printed


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


@pytest.fixture
def embeddings(tmp_path):
    """Digits as two .npy files, two .csv files and one .npz file."""
    X, y = load_digits(return_X_y=True)
    X, y = Normalizer().transform(X[:600]), y[:600]
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    np.savetxt(tmp_path / "X.csv", X, delimiter=",")
    (tmp_path / "y.csv").write_text("\n".join(f"digit {label}" for label in y))
    np.savez(tmp_path / "all.npz", X_train=X, y_train=y, X_test=X[:9], y_test=y[:9])
    return tmp_path


@pytest.mark.parametrize("files", [["X.npy", "y.npy"], ["X.csv", "y.csv"], ["all.npz"]], ids=str)
def test_audit(embeddings, files, capsys):
    out = embeddings / "report.json"
    paths = [str(embeddings / name) for name in files]
    options = ["--releases", "500", "--candidates", "5", "--supports", "3", "--json", str(out)]
    assert main(["audit", *paths, *options]) == 0
    report = AuditReport.from_json(out.read_text())
    assert report.passed and not report.synthetic
    assert report.epsilon == 2.0 and report.delta == 1e-6
    assert len(report.supports) == 3 and report.supports[0].n_candidates == 5
    assert "NOT covered by the certificate" in capsys.readouterr().out


def test_audit_over_seeds_and_radii(embeddings, capsys):
    out = embeddings / "reports.json"
    options = ["--releases", "100", "--seeds", "2", "--radius", "standard", "--json", str(out)]
    options += ["--public-fraction", "0.3"]
    assert main(["audit", str(embeddings / "all.npz"), *options]) == 0
    record = json.loads(out.read_text())
    assert record["covered_by_certificate"] is False and record["passed"] is True
    assert [report["radius"] for report in record["reports"]] == [2.0, 2.0]
    assert "mean rate over seeds" in capsys.readouterr().out


def test_a_failed_audit_has_status_1(embeddings, capsys, monkeypatch):
    def failed(self):
        return dataclasses.replace(AuditReport.from_json(text), passed=False)

    out = embeddings / "report.json"
    arguments = ["audit", str(embeddings / "all.npz"), "--releases", "50", "--json", str(out)]
    assert main(arguments) == 0
    text = out.read_text()
    monkeypatch.setattr(MAPReconstructionAuditor, "report_", property(failed), raising=False)
    monkeypatch.setattr(MAPReconstructionAuditor, "fit", lambda self, *data: self)
    assert main(arguments) == 1
    assert "FAILED" in capsys.readouterr().out


def test_audit_refusals(embeddings, capsys):
    bad = {
        "ragged.csv": "1,2\n3\n",
        "words.csv": "a,b\n1,2\n",
        "empty.csv": "",
        "short.csv": "1\n2\n",
        "X.txt": "1,2",
    }
    for name, text in bad.items():
        (embeddings / name).write_text(text)
    X, y = str(embeddings / "X.csv"), str(embeddings / "y.csv")
    cases = [
        *[
            [str(embeddings / name), y]
            for name in ("ragged.csv", "words.csv", "empty.csv", "X.txt")
        ],
        [X, str(embeddings / "short.csv")],
        [X, str(embeddings / "missing.csv")],
        [X],
        [X, y, y],
        [X, y, "--seeds", "0"],
        [X, y, "--public-fraction", "1.5"],
        [X, y, "--public-fraction", "0.001"],
        [X, y, "--candidates", "1"],
        [X, y, "--candidates", "500"],
        [X, y, "--radius", "0.001"],
        [X, y, "--epsilon", "nan"],
    ]
    for case in cases:
        assert main(["audit", *case]) == 2, case
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ") and captured.err.count("\n") == 1, case
        assert "a,b" not in captured.err


def test_calibrate(capsys):
    assert main(["calibrate", "--exact-id", "0.2", "--sensitivity", "3"]) == 0
    printed = capsys.readouterr().out
    assert "1.959" in printed and "exact-ID bound             0.2 " in printed
    assert f"{3 / mu_of(1.9590147, 1e-6):.4g}" in printed
    assert main(["calibrate", "--epsilon", "inf"]) == 0
    assert "noise scale                0 " in capsys.readouterr().out
    for bad in (["--epsilon", "-1"], ["--exact-id", "0.05"], ["--candidates", "1"]):
        assert main(["calibrate", *bad]) == 2
        assert capsys.readouterr().err.startswith("error: ")


def test_demo(tmp_path, capsys):
    png = tmp_path / "demo.png"
    assert main(["demo", "--png", str(png)]) == 0
    printed = capsys.readouterr().out
    for policy in ("standard", "q95", "q80", "q50"):
        assert f"\n{policy} " in printed
    assert png.read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr(cli, "_POLICIES", ("standard",))
    assert main(["demo"]) == 0
    assert "pip install 'skballdp[plot]'" in capsys.readouterr().out


def test_progress_goes_to_standard_error(capsys, monkeypatch):
    clock = iter([0.0, 1.0, 3.0])
    monkeypatch.setattr(cli.time, "monotonic", lambda: next(clock))
    progress = cli._progress()
    progress("early")
    progress("late")
    captured = capsys.readouterr()
    assert captured.out == "" and "early" not in captured.err and "late" in captured.err
