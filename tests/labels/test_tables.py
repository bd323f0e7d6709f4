"""The tables in docs/label-mechanisms.md are what the benchmark prints."""

from pathlib import Path

from benchmarks import label_mechanisms

PAGE = Path(__file__).parents[2] / "docs" / "label-mechanisms.md"


def test_the_tables_of_the_page(capsys):
    label_mechanisms.main(None)
    rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("| ")]
    assert len(rows) == 22
    assert set(rows) <= set(PAGE.read_text(encoding="utf-8").splitlines())
