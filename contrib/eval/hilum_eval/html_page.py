"""The report as one web page that opens without a network, in light and dark.

The page contains no script, and its policy allows none. Texts of models and verifiers are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib import import_module

from hilum import UsageError
from hilum.errors import E_NOT_INSTALLED

from hilum_eval.case import WEIGHTS
from hilum_eval.report import Report
from hilum_eval.summary import CaseSummary, Summary

_MAX_REASON = 300
_STYLE = """
:root { color-scheme: light dark; --text: #1c1c1c; --faint: #555; --ground: #fff; --line: #bbb }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --faint: #aaa; --ground: #151515; --line: #555 }
}
body { margin: 0 auto; padding: 1rem; max-width: 70rem; font: 15px/1.5 system-ui, sans-serif;
  color: var(--text); background: var(--ground) }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem } h3 { font-size: 1rem }
.faint { color: var(--faint) }
.table { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; overflow-wrap: break-word }
td.number, th.number { text-align: right; white-space: nowrap }
.bad { color: #c62828; font-weight: 600 } .good { color: #2e7d32 }
@media (prefers-color-scheme: dark) { .bad { color: #ff8a80 } .good { color: #81c784 } }
pre { white-space: pre-wrap; overflow-wrap: anywhere }
svg { width: 100%; height: auto; max-height: 60rem }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def make_page(report: Report) -> str:
    """Return the page of a report.

    Raises:
        UsageError: matplotlib, which draws the charts, is not installed (``E_NOT_INSTALLED``).
    """
    charts = list(_draw_charts(report))
    body = "".join(
        [
            f"<h1>hilum eval: {_state(report.is_passed)}</h1>",
            f'<p class="faint">{escape(report.measured)}</p>',
            *(f'<p class="bad">{escape(problem)}</p>' for problem in report.problems),
            _make_overview(report),
            *charts,
            *(_make_section(title, lines) for title, lines in report.sections),
            *(_make_arm(summary) for summary in report.summaries),
        ]
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width">
<title>hilum eval</title>
<style>{_STYLE}</style></head><body>
{body}
</body></html>
"""


def check_charts() -> None:
    """Check that charts can be drawn, before hours are spent on a measurement.

    Raises:
        UsageError: matplotlib is not installed (``E_NOT_INSTALLED``).
    """
    try:
        import_module("hilum_eval.charts")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise UsageError(
            "--html needs matplotlib, which is not installed.",
            code=E_NOT_INSTALLED,
            hint="Install it: pip install 'hilum[eval]'.",
        ) from None


def _draw_charts(report: Report) -> Iterator[str]:
    check_charts()
    charts = import_module("hilum_eval.charts")
    summaries = [each for each in report.summaries if each.attempts]
    if not summaries:
        return
    yield f"<h2>Dimensions</h2>{charts.draw_dimensions(summaries)}"
    yield f"<h2>Scores of the cases</h2>{charts.draw_cases(summaries)}"
    yield f"<h2>Wasted calls</h2>{charts.draw_usage(summaries, 'wasted_calls', 'Calls')}"
    yield f"<h2>Turns</h2>{charts.draw_usage(summaries, 'turns', 'Answers of the model')}"


def _make_overview(report: Report) -> str:
    rows = ["".join(f"<th>{each}</th>" for each in ("Arm", "Agent and model", "Gates"))]
    rows[0] += "".join(
        f'<th class="number">{each}</th>'
        for each in ("Total", "Passed", "Tokens", "Dollars", "Tokens per solved", "Wasted calls")
    )
    for summary in report.summaries:
        arm = summary.arm
        model = arm.model or f"simulated model ({arm.profile})"
        usage = summary.usage
        passed = sum(case.passed for case in summary.cases)
        numbers = [
            _number(summary.total, 1),
            f"{passed} of {summary.attempts}",
            f"{usage.input_tokens + usage.output_tokens:,}",
            _number(usage.dollars, 4),
            _number(summary.tokens_per_solved, 0),
            f"{usage.wasted_calls} of {usage.calls}",
        ]
        rows.append(
            f"<td>{escape(arm.name)}</td><td>{escape(f'{arm.agent}, {model}')}</td>"
            f"<td>{_make_gates(summary)}</td>"
            + "".join(f'<td class="number">{number}</td>' for number in numbers)
        )
    return _make_table(rows)


def _make_gates(summary: Summary) -> str:
    texts = []
    for gate in summary.gates:
        css = "good" if gate.is_met else "bad"
        text = f"{gate.name}: {_number(gate.found, 1)}, needs {gate.needed:g}"
        texts.append(f'<span class="{css}">{escape(text)}</span>')
    return "<br>".join(texts)


def _make_section(title: str, lines: tuple[str, ...]) -> str:
    return f"<h2>{escape(title)}</h2><pre>{escape(chr(10).join(lines))}</pre>"


def _make_arm(summary: Summary) -> str:
    head = "<th>Case</th><th>Title</th>" + "".join(
        f'<th class="number">{each}</th>'
        for each in ("Passed", "Score", "Completion", "Efficiency", "Recovery", "Security")
    )
    rows = [f"{head}<th>Reasons</th>", *map(_make_case, summary.cases)]
    dimensions = []
    for name, weight in WEIGHTS.items():
        score = summary.dimensions[name]
        shown = "not measured" if score is None else f"{score:.1f}"
        dimensions.append(f"{name} ({weight} %): {shown}")
    return (
        f"<h2>{escape(summary.arm.name)}</h2>"
        f'<p class="faint">{escape(", ".join(dimensions))}</p>{_make_table(rows)}'
    )


def _make_case(case: CaseSummary) -> str:
    css = "good" if case.attempts and case.passed == case.attempts else "bad"
    numbers = [f'<span class="{css}">{case.passed}/{case.attempts}</span>', _number(case.score, 1)]
    for name in ("completion", "efficiency", "recovery", "security"):
        numbers.append(_number(getattr(case.scores, name, None), 1))
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    reasons = "<br>".join(escape(reason[:_MAX_REASON]) for reason in case.reasons[:5])
    return f"<td>{escape(case.id)}</td><td>{escape(case.title)}</td>{cells}<td>{reasons}</td>"


def _make_table(rows: list[str]) -> str:
    lines = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="table"><table>{lines}</table></div>'


def _number(number: float | None, digits: int) -> str:
    return "–" if number is None else f"{number:,.{digits}f}"


def _state(is_passed: bool) -> str:
    return "all gates are met" if is_passed else "not all gates are met"
