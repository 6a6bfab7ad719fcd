"""Formats the results of a measurement for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hilum_cli.terminal import cells, cut

from hilum_eval.case import WEIGHTS, Case
from hilum_eval.report import Report
from hilum_eval.summary import CaseSummary, Summary

_MAX_TITLE = 34
_MAX_REASONS = 12


def render_report(report: Report, columns: int) -> list[str]:
    """Return the lines of a report.

    Args:
        report: The report.
        columns: Width of the terminal.
    """
    lines: list[str] = []
    for summary in report.summaries:
        lines += [*_render_summary(summary, columns), ""]
    for title, texts in report.sections:
        lines += [title, *(f"  {text}" for text in texts), ""]
    lines.append(report.measured)
    lines += report.problems
    return lines


def render_cases(cases: Sequence[Case]) -> list[str]:
    """Return a table of cases."""
    rows = [["case", "title", "dimensions", "turns", "tags"]]
    for case in cases:
        dimensions = ", ".join(case.dimensions) + (", gate" if case.gate else "")
        rows.append(
            [case.id, case.title, dimensions, str(case.expected_turns), " ".join(case.tags)]
        )
    return _align(rows, right=(3,))


def _render_summary(summary: Summary, columns: int) -> Iterator[str]:
    arm = summary.arm
    model = arm.model or f"simulated model ({arm.profile})"
    yield f"{arm.name}: {arm.agent} with {model}"
    rows = [
        ["case", "title", "passed", "score", "compl", "effic", "recov", "secur", "turns", "waste"]
    ]
    rows += [_make_row(case) for case in summary.cases]
    yield from _align(rows, right=range(2, 10))
    reasons = [f"{case.id}: {reason}" for case in summary.cases for reason in case.reasons]
    for reason in reasons[:_MAX_REASONS]:
        yield cut(f"  {reason}", columns)
    if len(reasons) > _MAX_REASONS:
        yield f"  and {len(reasons) - _MAX_REASONS} more reasons (see --json)"
    yield ""
    for name, weight in WEIGHTS.items():
        score = summary.dimensions[name]
        shown = "not measured" if score is None else f"{score:5.1f}"
        yield f"  {name:<14}{weight:>3} %  {shown}"
    total = "not measured" if summary.total is None else f"{summary.total:5.1f}"
    yield f"  {'total':<14}{'':>5}  {total}"
    yield ""
    for gate in summary.gates:
        mark = "met" if gate.is_met else "NOT MET"
        found = "not measured" if gate.found is None else f"{gate.found:.1f}"
        yield f"  {gate.name}: {found}, at least {gate.needed:g} needed: {mark}"
    yield _describe_usage(summary)
    counts = [
        (summary.broken, "broken"),
        (summary.skipped, "skipped"),
        (summary.missing, "not made"),
    ]
    left = ", ".join(f"{count} {name}" for count, name in counts if count)
    if left:
        yield f"  Not counted: {left}."


def _make_row(case: CaseSummary) -> list[str]:
    title = cut(case.title, _MAX_TITLE)
    if case.scores is None or case.score is None:
        state = "not made"
        if case.broken:
            state = "broken"
        elif case.skipped:
            state = "skipped"
        return [case.id, title, state, *[""] * 7]
    scores = case.scores
    shown = (scores.completion, scores.efficiency, scores.recovery, scores.security)
    return [
        case.id,
        title,
        f"{case.passed}/{case.attempts}",
        f"{case.score:.1f}",
        *(f"{score:.1f}" for score in shown),
        f"{case.usage['turns']:.1f}",
        f"{case.usage['wasted_calls']:.1f}",
    ]


def _describe_usage(summary: Summary) -> str:
    usage = summary.usage
    parts = [
        f"{usage.turns} turns",
        f"{usage.calls} calls ({usage.failed_calls} failed, {usage.recovered_calls} recovered,"
        f" {usage.wasted_calls} wasted)",
        f"{usage.input_tokens + usage.output_tokens:,} tokens",
        "cost unknown" if usage.dollars is None else f"${usage.dollars:.4f}",
        f"{usage.seconds:.1f} s, of which {usage.model_seconds:.1f} s for the model",
        f"at most {usage.peak_memory / 1e6:.0f} MB",
    ]
    if summary.tokens_per_solved is not None:
        parts.append(f"{summary.tokens_per_solved:,.0f} tokens per solved attempt")
    return "  " + ", ".join(parts)


def _align(rows: Sequence[Sequence[str]], right: Sequence[int]) -> list[str]:
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        texts = []
        for column, text in enumerate(row):
            space = " " * (widths[column] - cells(text))
            texts.append(space + text if column in right else text + space)
        lines.append("  ".join(texts).rstrip())
    return lines
