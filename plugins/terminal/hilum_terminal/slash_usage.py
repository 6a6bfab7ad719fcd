"""Commands that show the cost of a conversation and the use of its context window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from hilum import Usage, UsageError
from hilum.errors import E_BAD_ARGS
from hilum.window import WindowPart, WindowUse, measure_window
from hilum_view import (
    Answer,
    BudgetViews,
    Prompt,
    SessionView,
    Spent,
    ToolUse,
    compute_spending,
    first_line,
    format_budget_amount,
    format_cost,
    format_duration,
    format_tokens,
)

from hilum_terminal.chat_protocol import Chat
from hilum_terminal.slash_rows import bar_row, table_rows
from hilum_terminal.slash_session import read_events
from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_width import cut, escape_text, wrap

MAX_BAR = 60
# Number of layers, tools and sources that ``/context`` lists for each kind.
MAX_LISTED = 5
# Number of model calls that ``/cost turns`` lists: the last ones.
MAX_TURNS = 50
# The kinds, in the order in which a request contains them.
KINDS: dict[str, tuple[str, Style]] = {
    "instructions": ("Instructions", "accent"),
    "tools": ("Tools", "link"),
    "prompts": ("Your prompts", "good"),
    "context": ("Gathered context", "warning"),
    "answers": ("Answers", "heading"),
    "calls": ("Calls", "code"),
    "results": ("Results of calls", "bad"),
    "notes": ("Notes and summaries", "dim"),
}


# --- /cost ----------------------------------------------------------------------------------------


async def show_cost(chat: Chat, arguments: str) -> None:
    """Show tokens and cost by model, agent, plugin and tool, or by model call."""
    if arguments == "turns":
        _show_turns(chat)
        return
    if arguments:
        raise UsageError(
            f"Unknown argument of /cost: {arguments!r}.",
            code=E_BAD_ARGS,
            hint="/cost turns lists each model call with its duration.",
        )
    spending = compute_spending(await read_events(chat.session))
    view = chat.view
    if not spending.models:
        chat.say("No model has been called yet.", style="dim")
        return
    agents = {view.name_of(name) or name: spent for name, spent in spending.agents.items()}

    def make_rows(width: int, theme: Theme) -> list[str]:
        rows = [theme.paint("This conversation", "heading")]
        rows += wrap(_describe_total(view.totals.usage), width)
        if view.budgets.all:
            rows += ["", *_budget_rows(view.budgets, width, theme)]
        for title, table in (
            ("MODEL", spending.models),
            ("AGENT", agents),
            ("PURPOSE", spending.purposes),
        ):
            rows += ["", *_spent_rows(title, table, width, theme)]
        for title, calls in (("PLUGIN", spending.plugins), ("TOOL", spending.tools)):
            if calls:
                rows += ["", *_call_rows(title, calls, width, theme)]
        if spending.tools:
            note = "TOKENS of plugins and tools: the results of their calls, estimated."
            rows += [theme.paint(row, "dim") for row in wrap(note, width)]
        if None in [spent.usage.cost for spent in spending.models.values()]:
            note = "The price of at least one model is unknown; its tokens are not in the cost."
            rows += [theme.paint(row, "warning") for row in wrap(note, width)]
        return rows

    chat.say_rows(make_rows)


def _show_turns(chat: Chat) -> None:
    """Show the duration, tokens and cost of the last model calls, with their prompts."""
    view = chat.view
    prompts: dict[str, str] = {}
    answers = []
    for entry in view.entries:
        if isinstance(entry, Prompt) and not entry.steers:
            prompts[entry.run] = first_line(entry.typed or entry.text) or "(continued)"
        elif isinstance(entry, Answer) and entry.state == "done":
            answers.append(entry)
    if not answers:
        chat.say("No model has been called yet.", style="dim")
        return
    shown = answers[-MAX_TURNS:]

    def make_rows(width: int, theme: Theme) -> list[str]:
        title = "Model calls" if len(shown) == len(answers) else f"The last {MAX_TURNS} model calls"
        rows = [theme.paint(title, "heading")]
        # The runs of several agents alternate, so each table continues one run.
        for run, calls in groupby(shown, key=lambda answer: answer.run):
            turns = list(calls)
            name = view.name_of(turns[0].agent)
            heading = escape_text(prompts.get(run, ""))
            if name:
                heading = f"agent {escape_text(name)}: {heading}"
            rows += ["", cut(theme.paint(heading, "accent"), width)]
            rows += _turn_rows(turns, width, theme)
        return rows

    chat.say_rows(make_rows)


def _turn_rows(answers: Sequence[Answer], width: int, theme: Theme) -> list[str]:
    header = ("TURN", "TIME", "CALLS", "INPUT", "CACHED", "OUTPUT", "COST")
    lines = []
    for answer in answers:
        usage = answer.usage
        lines.append(
            (
                f"{answer.turn} {answer.model}",
                format_duration(answer.seconds),
                f"{answer.calls:,}",
                f"{usage.input:,}",
                _percent(usage.cached, usage.input),
                f"{usage.output:,}",
                format_cost(usage) or "?",
            )
        )
    return table_rows(header, lines, width=width, theme=theme)


def _describe_total(usage: Usage) -> str:
    facts = [format_cost(usage) or "price unknown", format_tokens(usage) or "no tokens counted"]
    if usage.input:
        facts.append(f"{_percent(usage.cached, usage.input)} of the input cached")
    return " · ".join(facts)


def _spent_rows(title: str, table: Mapping[str, Spent], width: int, theme: Theme) -> list[str]:
    header = (title, "CALLS", "INPUT", "CACHED", "OUTPUT", "COST")
    lines = []
    # Sort by cost, highest first; without prices, by tokens.
    ordered = sorted(
        table.items(), key=lambda item: (item[1].usage.cost or 0, item[1].usage.total), reverse=True
    )
    for name, spent in ordered:
        usage = spent.usage
        lines.append(
            (
                name or "(unknown)",
                f"{spent.calls:,}",
                f"{usage.input:,}",
                _percent(usage.cached, usage.input),
                f"{usage.output:,}",
                format_cost(usage) or "?",
            )
        )
    return table_rows(header, lines, width=width, theme=theme)


def _budget_rows(budgets: BudgetViews, width: int, theme: Theme) -> list[str]:
    header = ("BUDGET", "SPENT", "LIMIT", "SHARE")
    lines = []
    for budget in budgets.all.values():
        lines.append(
            (
                escape_text(budget.budget),
                format_budget_amount(budget.unit, budget.spent),
                format_budget_amount(budget.unit, budget.limit),
                f"{int(budget.share * 100)}%",
            )
        )
    return table_rows(header, lines, width=width, theme=theme)


def _call_rows(title: str, table: Mapping[str, ToolUse], width: int, theme: Theme) -> list[str]:
    header = (title, "CALLS", "FAILED", "TIME", "TOKENS")
    lines = []
    for name, used in sorted(table.items(), key=lambda item: item[1].tokens, reverse=True):
        lines.append(
            (
                name or "(did not run)",
                f"{used.calls:,}",
                f"{used.failed:,}",
                format_duration(used.seconds),
                f"{used.tokens:,}",
            )
        )
    return table_rows(header, lines, width=width, theme=theme)


def _percent(part: int, whole: int) -> str:
    if not whole:
        return "–"
    percent = 100 * part // whole
    if part and not percent:
        return "<1%"
    return f"{percent}%"


# --- /context -------------------------------------------------------------------------------------


async def show_context(chat: Chat, arguments: str) -> None:
    """Show the use of the context window."""
    if arguments not in ("", "all"):
        raise UsageError(
            f"Unknown argument of /context: {arguments!r}.",
            code=E_BAD_ARGS,
            hint="/context all lists every layer and tool.",
        )
    agent = chat.session.agents[chat.view.lead]
    use = await measure_window(agent)
    last = _find_last_usage(chat.view)
    max_rows = 0 if arguments else MAX_LISTED

    def make_rows(width: int, theme: Theme) -> list[str]:
        return context_rows(use, last, width=width, theme=theme, max_rows=max_rows)

    chat.say_rows(make_rows)


def _find_last_usage(view: SessionView) -> Usage:
    """Return the usage of the last request by the agent that the user talks to."""
    for entry in reversed(view.entries):
        if isinstance(entry, Answer) and entry.agent == view.lead and entry.usage.input:
            return entry.usage
    return Usage()


def context_rows(
    use: WindowUse, last: Usage, *, width: int, theme: Theme, max_rows: int = MAX_LISTED
) -> list[str]:
    """Return rows that show the use of a context window.

    Args:
        use: The use of the window.
        last: The usage of the last request.
        width: Width of the terminal in columns.
        theme: How styles look.
        max_rows: Maximum number of layers, tools and sources to list for each kind, 0 for all.
    """
    sums = dict.fromkeys(KINDS, 0)
    for part in use.parts:
        sums[part.kind] += part.tokens
    bar = [(sums[kind], style) for kind, (_, style) in KINDS.items()]
    title = f"Context of {use.model}: {use.total:,} of {use.window:,} tokens"
    rows = [theme.paint(row, "heading") for row in wrap(title, width)]
    rows.append(bar_row(bar, use.window, min(width, MAX_BAR), theme))
    for fact in _describe_window(use, last):
        rows += wrap(fact, width)
    rows.append("")
    lines = []
    for kind, (label, _) in KINDS.items():
        if not sums[kind]:
            continue
        lines.append((label, f"{sums[kind]:,}", _percent(sums[kind], use.window)))
        parts = [part for part in use.parts if part.kind == kind and part.name]
        lines += _list_parts(parts, use.window, max_rows)
    rows += table_rows(("WHAT", "TOKENS", "WINDOW"), lines, width=width, theme=theme)
    return rows


def _describe_window(use: WindowUse, last: Usage) -> list[str]:
    """Return sentences about a window's limits and the cached share of the last request."""
    facts = [
        f"Compaction at {use.compact_at:,} tokens ({_percent(use.compact_at, use.window)} of the"
        f" window): {use.free:,} left. {use.reserved:,} are reserved for the answer.",
    ]
    if last.input:
        facts.append(
            f"Last request: {last.input:,} tokens,"
            f" {last.cached:,} of them cached ({_percent(last.cached, last.input)})."
        )
    if not use.counted:
        facts.append("Estimates: the provider has not counted any request yet.")
    return facts


def _list_parts(
    parts: Sequence[WindowPart], window: int, max_rows: int
) -> list[tuple[str, str, str]]:
    """Return the largest parts of one kind as table rows."""
    largest = sorted(parts, key=lambda part: part.tokens, reverse=True)
    shown = largest[:max_rows] if max_rows else largest
    lines = []
    for part in shown:
        lines.append((f"  {part.name}", f"{part.tokens:,}", _percent(part.tokens, window)))
    rest = largest[len(shown) :]
    if rest:
        tokens = sum(part.tokens for part in rest)
        lines.append((f"  {len(rest)} more", f"{tokens:,}", _percent(tokens, window)))
    return lines
