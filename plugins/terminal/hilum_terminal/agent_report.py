"""Formats everything about one start of an agent: its task, its calls and its answer."""

from __future__ import annotations

from hilum_view import AgentView, Prompt, SessionView

from hilum_terminal.cards import card_rows, ended_call_rows
from hilum_terminal.panels import describe_ended_agent
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cut, escape_text, one_line, wrap_text

INDENT = "    "


def agent_report_rows(
    agent: AgentView,
    view: SessionView,
    *,
    width: int,
    theme: Theme,
    now: float,
    unfolded: bool = False,
) -> list[str]:
    """Return the rows of an agent's task, calls and answer.

    Args:
        agent: The agent; it may still be running.
        view: The session.
        width: Available width in columns.
        theme: The styles.
        now: Unix time.
        unfolded: Whether to show the whole arguments and results of the agent's calls.
    """
    if agent.ended:
        rows = [describe_ended_agent(agent, width=width, theme=theme)]
    else:
        head = f"· agent {one_line(agent.name)} · {one_line(agent.activity)}"
        rows = [cut(head, width)]
    task = _find_task(agent, view)
    if task:
        rows += _section("Task:", task, width, theme)
    for card in view.cards:
        if card.agent != agent.actor:
            continue
        if card.ended or card.state == "interrupted":
            rows += ended_call_rows(card, view, width=width, theme=theme, unfolded=unfolded)
        else:
            rows += card_rows(card, view, width=width, now=now, theme=theme, spinner="·")
    answer = agent.answer if agent.ended else agent.last_words
    if answer.strip():
        rows += _section("Answer:", answer, width, theme)
    if agent.ended:
        note = f"{INDENT}/agents result {one_line(agent.id)} shows the answer again."
        rows.append(theme.paint(cut(note, width), "dim"))
    return rows


def _find_task(agent: AgentView, view: SessionView) -> str:
    """Return the first prompt that an agent got; empty if the log does not contain it."""
    for entry in view.entries:
        if isinstance(entry, Prompt) and entry.agent == agent.actor and entry.text:
            return entry.text
    return ""


def _section(title: str, text: str, width: int, theme: Theme) -> list[str]:
    rows = wrap_text(escape_text(text.strip("\n")), max(width - len(INDENT), 2))
    head = theme.paint(cut(f"{INDENT}{title}", width), "dim")
    return [head, *(cut(f"{INDENT}{row}", width) for row in rows)]
