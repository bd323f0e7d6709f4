"""The audit report as one self-contained page, and as a short summary for notebooks."""

import io
import re
from collections.abc import Iterable, Sequence
from html import escape

from skballdp.audit.report import (
    APPROXIMATE,
    COLUMNS,
    DISCLAIMER,
    AuditReport,
    approximate_table,
    check_table,
    key_numbers,
    other_attacks,
    promise,
    table,
    verdict,
)

__all__ = ["page", "summary"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --soft: #f1f1ef; --line: #c9c9c5;
  --good: #00664a; --bad: #a13c00; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececec; --paper: #17181a; --soft: #25272a; --line: #4a4d52; --good: #5fd3ab;
    --bad: #ff9a5c; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 1rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
.not, .void { border-left: .4rem solid var(--bad); background: var(--soft); padding: .75rem 1rem;
  margin: 0; }
.void { margin-top: 1rem; }
.verdict { border: 2px solid; border-radius: .4rem; padding: .75rem 1rem; margin: 1rem 0; }
.verdict strong { font-size: 1.25rem; }
.passed { color: var(--good); }
.failed { color: var(--bad); }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; max-width: 36rem; height: auto; background: #fff;
  border-radius: .4rem; }
figcaption { font-size: .9rem; margin-top: .4rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
tr:last-child > * { border-bottom: 0; }
thead th { background: var(--soft); vertical-align: bottom; }
.numbers td { text-align: right; white-space: nowrap; }
.numbers thead th + th { text-align: right; }
.numbers th[scope=row], .numbers thead th:first-child { position: sticky; left: 0;
  background: var(--soft); white-space: nowrap; }
dt { font-weight: 600; margin-top: .6rem; }
dd { margin: 0 0 0 1rem; }
@media (max-width: 36rem) {
  .stack thead { position: absolute; width: 1px; height: 1px; overflow: hidden;
    clip-path: inset(50%); }
  .stack tr, .stack th, .stack td { display: block; border: 0; padding: .1rem .6rem; }
  .stack tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .stack td[data-label]::before { content: attr(data-label) ": "; opacity: .75; }
}
@media print {
  @page { margin: 1.5cm; }
  :root { font-size: 9.5pt; color-scheme: light; --ink: #000; --paper: #fff; --soft: #f4f4f4;
    --line: #999; --good: #00513b; --bad: #7a2d00; }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; border: 0; }
  .numbers { font-size: 7pt; }
  .numbers th, .numbers td { padding: .1rem .2rem; white-space: normal; position: static; }
  figure svg { max-width: 11cm; }
  dl { columns: 2; }
  figure, tr, .numbers, .verdict, .not, dd { break-inside: avoid; }
  h2, h3, thead, dt { break-after: avoid; }
}
"""

_READING = """
<p>The attacker knows the training procedure, every record but one, the label of that one, and a
list of candidates for it that was fixed before the hidden one was drawn. He guesses as well as can
be guessed. A <em>support</em> is such a list: records in a ball around a training record.</p>
<p>Each rate should be close to the success of the best attack, between the blind guess and the
certificate. Close to the certificate is no alarm, and far below it no proof of safety: the
certificate is for the worst candidates in the ball, and the <em>antipodal pair</em> comes closest
to them. The attacks <em>at</em> a multiple of r or in the <em>whole ball</em> of the norm bound use
candidates from larger balls, and <em>several releases</em> are for an attacker who saw the model
trained again on the same data: both have certificates of their own.</p>
<p>The verdict does not use the intervals shown. Each check fails below its own level, chosen so
small that a correct program practically never fails; a p-value of 1 says that nothing was seen, not
that nothing is there.</p>
<p>An audit cannot see defects that need other data, other parameters or cleverer attacks; a radius,
a scaler or a norm bound that was read off the private data before; or whether the candidates are
those a real attacker would have.</p>
"""


def page(report: AuditReport) -> str:
    """HTML of the page.

    Parameters
    ----------
    report : AuditReport
        What was found.

    Returns
    -------
    str
        A document without scripts that loads nothing; equal for equal reports and one version of
        matplotlib.

    Raises
    ------
    ImportError
        If matplotlib is missing; the message names the command that installs it.
    """
    title = escape(f"Audit of a {report.estimator}")
    result = "passed" if report.passed else "failed"
    void = "".join(
        f'<p class="void"><strong>The certificate is void:</strong> {escape(sentence)}.</p>\n'
        for sentence in report.voided_by
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: {result}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<p class="not" role="note"><strong>This page is not covered by the certificate.</strong>
{escape(DISCLAIMER)}</p>
<h1>{title}</h1>
{_verdict(report)}
{void}<h2>The promise, and what was found</h2>
{_paragraphs(promise(report))}
{_stacked("Key numbers", ("quantity", "value", "note"), key_numbers(report))}
<h2>Figures</h2>
{_figures(report)}
<h2>Checks</h2>
{_checks(report)}
<h2>All attacks</h2>
{_attacks(report)}
{_paragraphs(other_attacks(report))}
<h2>How to read it</h2>
{_READING}
<h3>The rows of the table</h3>
<dl>
{_meanings()}
</dl>
</main>
</body>
</html>
"""


def summary(report: AuditReport) -> str:
    """HTML of the verdict, the attacks in short, and what failed: for notebooks."""
    headings = ("rate", "low", "high", "best attack", "support bound", "certificate")
    cell = 'style="text-align: right"'
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td {cell}>{escape(value)}</td>" for value in values)
        + "</tr>"
        for name, *values in table(report, headings)
    )
    columns = "".join(f'<th scope="col" {cell}>{escape(name)}</th>' for name in headings)
    void = "".join(
        f"<p><strong>The certificate is void: {escape(sentence)}.</strong></p>\n"
        for sentence in report.voided_by
    )
    return f"""<div class="skballdp-audit">
<p>{escape(DISCLAIMER)}</p>
<p><strong>Audit of a {escape(report.estimator)}: {escape(verdict(report))}</strong></p>
{void}<table>
<thead><tr><th scope="col">attack</th>{columns}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>"""


def _verdict(report: AuditReport) -> str:
    result, sign = ("passed", "&#10003;") if report.passed else ("failed", "&#10007;")
    sign = f'<span aria-hidden="true">{sign}</span>'
    words = escape(verdict(report))
    return f'<p class="verdict {result}"><strong>{sign} Verdict:</strong> {words}</p>'


def _paragraphs(sentences: Iterable[str]) -> str:
    return "\n".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _stacked(name: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose rows turn into blocks on a narrow screen."""
    body = "\n".join(
        f'<tr role="row"><th scope="row" role="rowheader">{escape(first)}</th>'
        + "".join(
            f'<td role="cell" data-label="{escape(heading)}">{escape(cell)}</td>'
            for heading, cell in zip(headings[1:], cells, strict=True)
        )
        + "</tr>"
        for first, *cells in rows
    )
    return _table("stack", name, headings, body)


def _table(kind: str, name: str, headings: Iterable[str], body: str) -> str:
    columns = "".join(
        f'<th scope="col" role="columnheader">{escape(heading)}</th>' for heading in headings
    )
    # Scrolling must be possible from the keyboard; and the roles are said because browsers forget
    # them for rows that are displayed as blocks.
    return f"""<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">
<table class="{kind}" role="table">
<thead role="rowgroup"><tr role="row">{columns}</tr></thead>
<tbody role="rowgroup">
{body}
</tbody>
</table>
</div>"""


def _checks(report: AuditReport) -> str:
    rows = [
        (name, question, result, p_value, level)
        for name, question, p_value, level, result in check_table(report)
    ]
    return _stacked("Checks", ("check", "question", "result", "p-value", "fails below"), rows)


def _attacks(report: AuditReport) -> str:
    """The full table with one attack a column: fits on paper, and scrolls on a phone."""
    names, *rows = zip(*table(report), strict=True)
    body = "\n".join(
        f'<tr role="row"><th scope="row" role="rowheader">{escape(heading)}</th>'
        + "".join(f'<td role="cell">{escape(cell)}</td>' for cell in cells)
        + "</tr>"
        for heading, cells in zip(COLUMNS, rows, strict=True)
    )
    tables = [_table("numbers", "All attacks", ("", *names), body)]
    if within := approximate_table(report):
        tables.append("<h3>Approximate reconstruction</h3>")
        tables.append(_stacked("Approximate reconstruction", APPROXIMATE, within))
    return "\n".join(tables)


def _meanings() -> str:
    return "\n".join(
        f"<dt>{escape(heading)}</dt><dd>{escape(column.meaning)}</dd>"
        for heading, column in COLUMNS.items()
    )


def _figures(report: AuditReport) -> str:
    names = [name for name, _ in report.attacks()]
    first = names[: len(report.supports)]
    parts = [
        (first, "The supports. What the certificate rules out is grey."),
        (names[len(first) :], "The other attacks, each with the certificate that applies to it."),
    ]
    return "\n".join(
        f"<figure>\n{_svg(report, shown, f'figure{k}', caption)}\n"
        f"<figcaption>Figure {k}. {escape(caption)}</figcaption>\n</figure>"
        for k, (shown, caption) in enumerate(parts, start=1)
    )


def _svg(report: AuditReport, names: Sequence[str], prefix: str, caption: str) -> str:
    """The exact-ID picture as an element of the page."""
    from skballdp.plotting import ExactIDDisplay, require_matplotlib

    require_matplotlib()
    import matplotlib.style
    from matplotlib.figure import Figure

    # Whatever style the caller has set, and without salts and dates that differ between runs.
    style = {"svg.hashsalt": prefix, "svg.fonttype": "none"}
    with matplotlib.style.context(["default", style]):
        figure = Figure(figsize=(4.8, 1.9 + 0.36 * len(names)), layout="constrained")
        ExactIDDisplay.from_report(report, names=names).plot(figure.subplots())
        stream = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(stream, format="svg", metadata=nothing)
    text = stream.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)  # implied in HTML
    # Names must be unique in the page.
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'(xlink:href="#|url\(#)', rf"\1{prefix}-", text)
    alternative = [
        f"{name}: measured {rate}, best attack {best}, certificate {bound}"
        for name, rate, best, bound in table(report, ("rate", "best attack", "certificate"))
        if name in names
    ]
    label = escape(f"{caption} {'; '.join(alternative)}.")
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
