"""The report: exact JSON, tables, text, Markdown and the page."""

import dataclasses
import html
import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from skballdp import AuditReport, BallDPRidgePrototype, MAPReconstructionAuditor
from skballdp.audit import Check, Rate
from skballdp.audit.report import COLUMNS, DISCLAIMER, QUESTIONS, check_table, table

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def report():
    """A small audit with every part that a report can have."""
    X, y = load_digits(return_X_y=True)
    X, y = normalize(X[:400]), y[:400]
    auditor = MAPReconstructionAuditor(
        BallDPRidgePrototype(radius=0.7, epsilon=2.0),
        n_candidates=5,
        n_supports=2,
        n_releases=200,
        n_fits=4,
        eta=0.3,
        unknown_label=True,
        random_state=0,
    )
    return auditor.fit(X, y).report_


@pytest.fixture(scope="module")
def failed(report):
    """As if the noise were too small, in a void certificate with an infinite epsilon."""
    checks = tuple(
        dataclasses.replace(check, p_value=0.0) if check.name == "unit scale" else check
        for check in report.checks
    )
    return dataclasses.replace(
        report,
        checks=checks,
        epsilon=math.inf,
        voided_by=("epsilon is infinite & <nothing> is hidden",),
        estimator="<b>Head</b>",
        repeated=None,
        inversion=None,
        implementation=None,
    )


def test_json_round_trip_is_exact(report, failed):
    for each in (report, failed):
        text = each.to_json()
        assert AuditReport.from_json(text) == each
        assert AuditReport.from_json(text).to_json() == text
        json.loads(text, parse_constant=pytest.fail)  # no NaN, no Infinity
    assert json.loads(failed.to_json())["epsilon"] == "inf"
    assert json.loads(report.to_json())["covered_by_certificate"] is False


def edited(report, *path, value):
    """The JSON of a report with one entry replaced."""
    record = part = json.loads(report.to_json())
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return json.dumps(record)


@pytest.mark.parametrize("version", [1, 3, "2", None])
def test_other_versions_are_refused(report, version):
    with pytest.raises(ValueError, match="version 2"):
        AuditReport.from_json(edited(report, "version", value=version))


@pytest.mark.parametrize("text", ["[]", "1", "null", "{}", "{"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError):
        AuditReport.from_json(text)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("covered_by_certificate",), True, "covered_by_certificate must be false"),
        (("epsilon",), "two", "epsilon must be a number"),
        (("epsilon",), math.nan, "epsilon must be a finite number"),
        (("epsilon",), math.inf, 'finite number or "inf"'),
        (("epsilon",), 10**400, "epsilon must be a finite number"),
        (("n_releases",), 1.5, "n_releases must be of type int"),
        (("n_releases",), True, "n_releases must be of type int"),
        (("synthetic",), 1, "synthetic must be of type bool"),
        (("advantage_interval",), [0.0], "advantage_interval must have 2 entries"),
        (("supports",), {}, "supports must be a list"),
        (("supports", 0, "measured", "hits"), 10**9, "hits=1000000000 in trials"),
        (("measured", "rate"), 0.01, "rate=0.01 is not that of"),
        (("checks", 0, "name"), "all is well", "name='all is well' must be one of exact-ID rate"),
        (("antipodal", "surprise"), 1, "missing or unknown fields: surprise"),
    ],
)
def test_tampered_fields_are_refused(report, path, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        AuditReport.from_json(edited(report, *path, value=value))


def test_a_missing_field_is_refused(report):
    record = json.loads(report.to_json())
    del record["antipodal"]["shift"]
    with pytest.raises(ValueError, match="shift"):
        AuditReport.from_json(json.dumps(record))


def test_parts_check_themselves():
    with pytest.raises(ValueError, match="hits=3 in trials=2"):
        Rate(hits=3, trials=2, rate=1.5, interval=(0.0, 1.0))
    with pytest.raises(ValueError, match="name='other'"):
        Check(name="other", p_value=1.0, level=0.1)


def test_attacks_and_frame(report):
    names = [name for name, _ in report.attacks()]
    assert names[:3] == ["support 1", "support 2", "antipodal pair"]
    assert names[-1] == "4 releases" and names[3] == "at 1.5 r"
    frame = report.to_frame()
    assert list(frame.index) == names and list(frame.columns) == list(COLUMNS)
    assert all(pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes)
    pair = frame.loc["antipodal pair"]
    assert pair["hits"] == report.antipodal.measured.hits
    assert pair["support bound"] == report.antipodal.support_bound
    assert pair["epsilon >="] == report.antipodal.epsilon_lower


def test_frame_without_pandas(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'skballdp\[pandas\]'"):
        report.to_frame()


def test_tables_round_to_the_safe_side(report):
    for row, (_, part) in zip(table(report), report.attacks(), strict=True):
        cells = dict(zip(COLUMNS, row[1:], strict=True))
        for heading in ("certificate", "support bound", "advantage bound", "shift bound", "high"):
            exact = COLUMNS[heading].value(part)
            assert exact <= float(cells[heading]) <= exact + 1e-3 * abs(exact) + 1e-12
        for heading in ("low", "mu >=", "epsilon >=", "advantage low"):
            exact = COLUMNS[heading].value(part)
            assert exact >= float(cells[heading]) >= exact - 1e-3 * abs(exact) - 1e-12


def test_checks(report, failed):
    assert report.passed and report.failed_checks == ()
    assert not failed.passed and failed.failed_checks == ("unit scale",)
    assert report.check("null arm").question.endswith("?")
    with pytest.raises(ValueError, match=r"no check of this report; there are: exact-ID rate"):
        report.check("other")


def test_text(report, failed):
    text = str(report)
    assert DISCLAIMER in " ".join(text.split())
    assert text.index("NOT covered") < text.index("Verdict: passed")
    for name, *_ in (*table(report), *check_table(report)):
        assert f"\n  {name} " in text
    assert max(map(len, text.splitlines())) <= 100
    assert "within eta of the target" in text and "inversion with noise" in text
    assert "Unknown label (not covered by the certificate)" in text
    text = " ".join(str(failed).split())
    assert "Verdict: FAILED: unit scale" in text
    assert "The certificate is void: epsilon is infinite" in text
    assert "No real fits were tested" in text


def test_markdown(report, failed):
    text = report.to_markdown()
    assert text.index(DISCLAIMER) < text.index("Verdict") < text.index("## Attacks")
    for row in (*table(report), *check_table(report)):
        assert f"| {' | '.join(row)} |" in text
    blocks = re.findall(r"(?:^\|.*\n)+", text, re.M)
    assert len(blocks) == 4
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert "**The certificate is void: " in failed.to_markdown()
    assert "| FAILED |" in failed.to_markdown()


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "audit.html"
    report.to_html(path)
    return path.read_text(encoding="utf-8")


def test_page_is_self_contained(page):
    assert "http" not in page and "//" not in page  # not even a protocol-relative address
    for loading in ("<script", "<link", "<img", "<iframe", "@import", " src=", "onload"):
        assert loading not in page
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', page))
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))


def test_page_says_everything(page, report):
    text = html.unescape(re.sub(r"<style.*?</style>|<svg.*?</svg>|<[^>]*>", "\n", page, flags=re.S))
    words = " ".join(text.split())
    cells = {line.strip() for line in text.splitlines()}
    for row in (*table(report), *check_table(report)):
        assert set(row) <= cells
    for column, described in COLUMNS.items():
        assert column in cells and described.meaning in cells
    order = ["not covered by the certificate", "Verdict", "The promise", "Figure 1", "Checks"]
    order += ["All attacks", "How to read it"]
    positions = [words.index(heading) for heading in order]
    assert positions == sorted(positions)


def test_page_is_accessible_and_well_formed(page):
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert '<meta name="viewport" content="width=device-width' in page
    assert "@media print" in page and "prefers-color-scheme: dark" in page
    pictures = re.findall(r"<svg[^>]*>", page)
    assert len(pictures) == 2
    for picture in pictures:
        assert 'role="img"' in picture and "antipodal pair: measured" in pictures[1]
    assert all(re.search(r'scope="(row|col)"', cell) for cell in re.findall(r"<th\b[^>]*>", page))
    names = re.findall(r'\bid="([^"]*)"', page)
    assert len(names) == len(set(names))
    used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', page))
    assert used and used <= set(names)
    # As XML, but for what HTML leaves open.
    closed = re.sub(r"<(meta)([^>]*)>", r"<\1\2/>", page.removeprefix("<!DOCTYPE html>\n"))
    ET.fromstring(closed.replace("xlink:href", "href"))


def test_page_escapes(failed, tmp_path):
    failed.to_html(tmp_path / "audit.html")
    text = (tmp_path / "audit.html").read_text(encoding="utf-8")
    for shown in (text, failed._repr_html_()):
        assert "<b>Head" not in shown and "&lt;b&gt;Head&lt;/b&gt;" in shown
        assert "<nothing>" not in shown and "&amp; &lt;nothing&gt;" in shown
        assert "FAILED: unit scale" in shown
    assert "promises nothing" in text


def test_page_is_deterministic_whatever_the_style(report, page, tmp_path):
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 20, "svg.hashsalt": None}):
        report.to_html(str(tmp_path / "again.html"))
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page


def test_page_without_matplotlib(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'skballdp\[plot\]'"):
        report.to_html(tmp_path / "audit.html")
    assert not (tmp_path / "audit.html").exists()


def test_notebook_summary(report):
    shown = report._repr_html_()
    assert DISCLAIMER in shown and "passed" in shown
    for name, _ in report.attacks():
        assert f">{name}</th>" in shown
    ET.fromstring(shown)


def test_documentation_explains_every_check():
    text = (Path(__file__).parents[2] / "docs" / "auditing.md").read_text(encoding="utf-8")
    explained = text[text.index("## Reading the report") :]
    assert [name for name in QUESTIONS if name not in explained] == []
