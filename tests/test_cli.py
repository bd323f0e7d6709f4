"""The command line: what it prints, writes and refuses."""

import dataclasses
import json
import re
import subprocess
import sys
import time

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
from skballdp.accounting.reconstruction import exact_id_of_epsilon
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


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["fit", "--radius", "wide"], "'wide' is neither a number nor 'standard'"),
        (["compare", "--radii", "q80,q200"], "'q200' is neither a number nor 'standard'"),
        (["compare", "--heads", "forest"], "'forest' is none of prototype, logistic, hinge"),
    ],
)
def test_bad_usage_is_explained(argv, message, capsys):
    with pytest.raises(SystemExit):
        main(argv)
    assert message in capsys.readouterr().err


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
    rates = [report["measured"]["rate"] for report in record["reports"]]
    assert record["summary"]["rate"] == np.mean(rates)
    printed = capsys.readouterr().out
    assert f"mean rate over seeds {np.mean(rates):.4f} (standard deviation" in printed
    assert f"pooled rate          {record['summary']['pooled']['rate']:.4f}" in printed
    assert "NOT covered by the certificate" in printed


def test_a_failed_audit_has_status_1(embeddings, capsys, monkeypatch):
    out = embeddings / "report.json"
    arguments = ["audit", str(embeddings / "all.npz"), "--releases", "50", "--json", str(out)]
    assert main(arguments) == 0
    report = AuditReport.from_json(out.read_text())
    check = dataclasses.replace(report.check("unit scale"), p_value=0.0)
    failed = dataclasses.replace(report, checks=(check,))
    monkeypatch.setattr(MAPReconstructionAuditor, "report_", failed, raising=False)
    monkeypatch.setattr(MAPReconstructionAuditor, "fit", lambda self, *data: self)
    assert main(arguments) == 1
    assert "Verdict: FAILED: unit scale" in capsys.readouterr().out
    assert main([*arguments, "--seeds", "2"]) == 1
    assert "FAILED: unit scale" in capsys.readouterr().out
    compare = ["compare", str(embeddings / "all.npz"), "--audit", "--repeats", "1"]
    compare += ["--heads", "prototype", "--radii", "q80", "--epsilons", "2"]
    assert main(compare) == 1
    assert "prototype at radius q80 and epsilon 2 FAILED: unit scale" in capsys.readouterr().out


def test_audit_writes_everything(embeddings, capsys):
    paths = {name: embeddings / f"out.{name}" for name in ("json", "html", "png", "markdown")}
    options = [option for name, path in paths.items() for option in (f"--{name}", str(path))]
    options += ["--releases", "50", "--supports", "2", "--jobs", "1"]
    assert main(["audit", str(embeddings / "all.npz"), *options]) == 0
    report = AuditReport.from_json(paths["json"].read_text())
    report.to_html(embeddings / "again.html")
    assert paths["html"].read_text() == (embeddings / "again.html").read_text()
    assert paths["png"].read_bytes().startswith(b"\x89PNG")
    assert paths["markdown"].read_text() == report.to_markdown()
    printed = capsys.readouterr().out
    assert all(f"report written to {path}" in printed for path in paths.values())


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
        [X, y, "--seeds", "2", "--html", str(embeddings / "out.html")],
        [X, y, "--png", str(embeddings / "no" / "folder.png")],
        [X, y, "--json", str(embeddings / "no" / "folder.json")],
    ]
    for case in cases:
        assert main(["audit", *case]) == 2, case
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ") and captured.err.count("\n") == 1, case
        assert "a,b" not in captured.err


def test_pictures_without_matplotlib_are_refused_at_once(embeddings, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr(MAPReconstructionAuditor, "fit", lambda *_: pytest.fail("too late"))
    file = str(embeddings / "all.npz")
    for case in (["audit", file, "--html"], ["audit", file, "--png"], ["compare", file, "--png"]):
        assert main([*case, str(embeddings / "out")]) == 2
        assert "pip install 'skballdp[plot]'" in capsys.readouterr().err


def test_interrupts_are_no_tracebacks(npz, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_npz", interrupt)
    assert main(["fit", str(npz)]) == 130
    assert capsys.readouterr().err == "interrupted\n"


COMPARE = ["--delta", "1e-4", "--public-fraction", "0.5", "--radii", "standard, 0.5,q80"]


def test_compare(npz, tmp_path, capsys):
    out, png = tmp_path / "table.json", tmp_path / "frontier.png"
    options = ["--heads", "prototype,hinge", "--epsilons", "1,8,1", "--candidates", "4"]
    options += ["--repeats", "3", "--json", str(out), "--png", str(png)]
    assert main(["compare", str(npz), *COMPARE, *options]) == 0
    record = json.loads(out.read_text())
    assert record["covered_by_certificate"] is False and record["n_candidates"] == 4
    rows = record["rows"]
    combinations = [(row["head"], row["policy"], row["epsilon"]) for row in rows]
    policies = [(policy, epsilon) for policy in ("standard", "0.5", "q80") for epsilon in (1, 8)]
    assert combinations == [(head, *pair) for head in ("prototype", "hinge") for pair in policies]
    for row in rows:
        assert 0 <= row["accuracy"] <= 1 and row["noise"] > 0 and row["rate"] is None
        assert (row["radius"] == 2.0) == (row["policy"] == "standard")
        bound = exact_id_of_epsilon(row["epsilon"], n_candidates=4, delta=1e-4)
        assert row["certificate"] == pytest.approx(bound, rel=1e-6)
        dominated = any(
            other["accuracy"] >= row["accuracy"]
            and other["epsilon"] <= row["epsilon"]
            and other["radius"] >= row["radius"]
            and (other["accuracy"], other["epsilon"], other["radius"])
            != (row["accuracy"], row["epsilon"], row["radius"])
            for other in rows
        )
        assert row["on_frontier"] is not dominated
    printed = capsys.readouterr().out
    assert "NOT covered by any certificate" in printed
    lines = [line for line in printed.splitlines() if re.match(r" [* ] (prototype|hinge) ", line)]
    assert [line[1] == "*" for line in lines] == [row["on_frontier"] for row in rows]
    assert png.read_bytes().startswith(b"\x89PNG")


def test_compare_attacks_too(embeddings, tmp_path, capsys):
    out, png = tmp_path / "table.json", tmp_path / "frontier.png"
    options = ["--heads", "prototype", "--radii", "q80", "--epsilons", "1,inf", "--repeats", "2"]
    options += ["--audit", "--json", str(out), "--png", str(png)]
    assert main(["compare", str(embeddings / "all.npz"), *options]) == 0
    finite, silent = json.loads(out.read_text())["rows"]
    low, high = finite["interval"]
    assert low < finite["rate"] < high < 1
    assert silent["epsilon"] == "inf" and silent["rate"] == silent["certificate"] == 1.0
    captured = capsys.readouterr()
    assert f"{finite['rate']:.4f} ({low:.4f} to {high:.4f})" in captured.out
    assert captured.err.count("warning: ") == 1


def test_compare_states_the_error_of_a_mean(npz, tmp_path, monkeypatch):
    scores = iter([0.5, 0.7, 0.6, 0.6])
    monkeypatch.setattr(BallDPRidgePrototype, "score", lambda self, X, y: next(scores))
    out = tmp_path / "table.json"
    options = ["--heads", "prototype", "--radii", "0.5", "--epsilons", "2", "--repeats", "4"]
    assert main(["compare", str(npz), *options, "--json", str(out)]) == 0
    (row,) = json.loads(out.read_text())["rows"]
    assert row["accuracy"] == pytest.approx(0.6)
    assert row["accuracy_error"] == pytest.approx(np.sqrt(0.02 / 3) / 2)


def test_the_frontier():
    points = [(0.9, -0.2, 1.0), (0.8, -0.2, 1.0), (0.8, -0.2, 2.0), (0.7, -0.1, 1.0)]
    assert cli._frontier(points) == [True, False, True, True]
    assert cli._frontier([(0.9, -0.2), (0.9, -0.2 + 1e-13)]) == [True, True]


@pytest.mark.parametrize(
    "option",
    [
        ["--heads", "prototype,forest"],
        ["--radii", "wide"],
        ["--epsilons", "1,,2"],
        ["--repeats", "two"],
    ],
)
def test_compare_bad_usage(option, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["compare", *option])
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_compare_refusals(npz, tmp_path, capsys):
    cases = [
        ["--repeats", "0"],
        ["--candidates", "1"],
        ["--epsilons", "-1"],
        ["--public-fraction", "0"],
        ["--json", str(tmp_path / "no" / "folder.json")],
    ]
    for case in cases:
        assert main(["compare", str(npz), *COMPARE, *case]) == 2, case
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1, (case, error)
    assert main(["compare", str(tmp_path / "missing.npz")]) == 2


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


def test_printed_bounds_are_rounded_up(npz, tmp_path, capsys):
    out = tmp_path / "table.json"
    for epsilon in ("0.5", "2", "3.3"):
        assert main(["calibrate", "--epsilon", epsilon]) == 0
        printed = capsys.readouterr().out.split("exact-ID bound")[1].split()[0]
        exact = exact_id_of_epsilon(float(epsilon), n_candidates=10, delta=1e-6)
        assert exact <= float(printed) <= exact + 1e-5
        options = ["--heads", "prototype", "--radii", "0.5", "--epsilons", epsilon]
        assert main(["compare", str(npz), *options, "--repeats", "1", "--json", str(out)]) == 0
        (row,) = json.loads(out.read_text())["rows"]
        printed = capsys.readouterr().out.split(" * prototype")[1].split("\n")[0].split()[-1]
        assert row["certificate"] <= float(printed) <= row["certificate"] + 1e-3


def test_demo(tmp_path, capsys, monkeypatch):
    policies = ("standard", "q50")
    monkeypatch.setattr(cli, "_POLICIES", policies)
    png = tmp_path / "demo.png"
    assert main(["demo", "--png", str(png)]) == 0
    printed = capsys.readouterr().out
    for policy in policies:
        assert f"\n{policy} " in printed
    assert png.read_bytes().startswith(b"\x89PNG")


def test_demo_without_matplotlib(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setattr(cli, "_POLICIES", ("standard",))
    assert main(["demo"]) == 0
    assert "pip install 'skballdp[plot]'" in capsys.readouterr().out


def test_progress_goes_to_standard_error(capsys):
    with cli._Progress(patience=3600.0) as progress:
        progress("early")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    with cli._Progress(patience=-1.0) as progress:
        progress("late")
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.endswith(" s] late\n")


def test_progress_of_a_long_step(capsys):
    with cli._Progress(patience=0.05) as progress:
        progress("long")
        text = ""
        for _ in range(6000):  # the thread that watches says it
            text += capsys.readouterr().err
            if text:
                break
            time.sleep(0.01)
    assert text.endswith(" s] long\n")
