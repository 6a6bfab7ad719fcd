"""Formats the status line: the state of the run, and the session's settings and cost."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import attrs
from hilum.messages import Usage
from hilum_view import BudgetView, format_duration, format_money

from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_width import cells, cut, one_line

State = Literal[
    "idle",
    "preparing",
    "thinking",
    "answering",
    "working",
    "waiting",
    "waiting_for_agents",
    "retry",
    "stopping",
    "compacting",
]
SEPARATOR = " · "
MAX_MODEL = 30
MAX_BRANCH = 24
MAX_MODE = 16
RUN_WIDTH = 34
"""Columns that the parts take that are shown only during a run: duration, key and turn."""
LOW_CONTEXT = 0.15
"""Share of free context below which a warning is shown."""
# The date at the end of a model's name is not useful to the user.
_MODEL_DATE = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|latest)\Z")


@attrs.frozen(kw_only=True)
class StatusFacts:
    """The facts that the status line shows. A part whose value is empty is left out.

    Attributes:
        state: The state of the run.
        attempt: For ``retry``: number of the next attempt.
        attempts: For ``retry``: maximum number of attempts, 0 if unknown.
        retry_in: For ``retry``: seconds until the next attempt.
        agents: For ``waiting_for_agents``: number of agents.
        elapsed: Seconds since the run began; 0 while nothing is running.
        stop_key: Name of the key that stops the run; empty while nothing is running.
        spinner: The current frame of the progress spinner; empty while nothing is running.
        mode: The mode of the session.
        model: The model, provider/name.
        turn: Number of the model call in the run.
        turns: Maximum number of model calls in a run, 0 if unlimited.
        usage: Tokens and cost of the session.
        budget: The budget of which the largest share is spent; ``None`` without budgets.
        context_left: Free share of the model's window from 0 to 1; ``None`` if unknown.
        branch: The git branch.
        sandbox: Whether commands run in a sandbox; ``None`` if unknown.
        background: Number of commands in the background.
        is_joined: Whether another terminal has the conversation open, and this one only joined it.
    """

    state: State = "idle"
    attempt: int = 0
    attempts: int = 0
    retry_in: float = 0.0
    agents: int = 0
    elapsed: float = 0.0
    stop_key: str = ""
    spinner: str = ""
    mode: str = ""
    model: str = ""
    turn: int = 0
    turns: int = 0
    usage: Usage = Usage()
    budget: BudgetView | None = None
    context_left: float | None = None
    branch: str = ""
    sandbox: bool | None = None
    background: int = 0
    is_joined: bool = False


@attrs.define
class _Part:
    """A part of the status line, in several forms.

    Attributes:
        forms: Texts of the part, from longest to shortest.
        style: Style of the part.
        form: Index of the current text; an index after the last text means that the part is left
            out.
    """

    forms: list[str]
    style: Style = "dim"
    form: int = 0

    @property
    def text(self) -> str:
        """The current text; empty once the part is left out."""
        return self.forms[self.form] if self.form < len(self.forms) else ""

    def reduce(self) -> bool:
        """Change to the next shorter text, and return whether there was one."""
        if self.form >= len(self.forms):
            return False
        self.form += 1
        return True

    def restore(self) -> None:
        """Change back to the next longer text."""
        self.form -= 1


# The order in which parts are shortened or left out until the rest fits; a part with two forms is
# listed twice. The state and a missing sandbox come last, because they are relevant to safety.
_REDUCTIONS = (
    "tokens",
    "elapsed",
    "context",
    "background",
    "model",
    "branch",
    "sandbox",
    "budget",
    "cost",
    "tokens",
    "turn",
    "model",
    "background",
    "mode",
    "budget",
    "context",
    "joined",
    "stop",
    "no_sandbox",
)


def status_row(facts: StatusFacts, *, width: int, theme: Theme) -> str:
    """Return the status line, without its least important parts if the terminal is narrow.

    Args:
        facts: The facts to show.
        width: Available width in columns.
        theme: The styles.
    """
    parts = _make_parts(facts)
    reductions: Sequence[str] = _REDUCTIONS
    has_share = len(parts["tokens"].forms) > 1
    # The cached share does not come and go with each run: without a run, it is shown only if there
    # would also be room for the parts that a run adds.
    if not facts.spinner and has_share and _width_of(parts) > width - RUN_WIDTH:
        parts["tokens"].forms.pop(0)
        reductions = _REDUCTIONS[1:]
    reduced: list[_Part] = []
    for name in reductions:
        if _width_of(parts) <= width:
            break
        part = parts.get(name)
        if part is not None and part.reduce():
            reduced.append(part)
    # Leaving out a long part late may have made room for a short part.
    for part in reversed(reduced):
        part.restore()
        if _width_of(parts) > width:
            part.reduce()
    painted = [theme.paint(part.text, part.style) for part in parts.values()]
    return cut(_join(painted), width)


def _width_of(parts: dict[str, _Part]) -> int:
    return cells(_join([part.text for part in parts.values()]))


def _join(texts: list[str]) -> str:
    return SEPARATOR.join(text for text in texts if text)


def _make_parts(facts: StatusFacts) -> dict[str, _Part]:
    """Return the parts by name, in display order."""
    parts = {"state": _Part([_describe_state(facts)], _state_style(facts.state))}
    # Tenths of a second would distract.
    elapsed = int(facts.elapsed)
    duration = f"{elapsed} s" if elapsed < 10 else format_duration(elapsed)
    parts["elapsed"] = _Part([duration] if elapsed else [])
    parts["stop"] = _Part([f"{facts.stop_key} stops"] if facts.stop_key else [])
    parts["joined"] = _Part(["joined"] if facts.is_joined else [])
    if facts.sandbox is False:
        parts["no_sandbox"] = _Part(["NO SANDBOX"], "warning")
    parts["mode"] = _Part([one_line(facts.mode, MAX_MODE)], "accent")
    model = shorten_model(facts.model)
    short_model = cut(model, MAX_MODEL // 2)
    parts["model"] = _Part([model] if short_model == model else [model, short_model])
    parts["turn"] = _Part([_describe_turn(facts)])
    parts["tokens"] = _Part(_describe_tokens(facts.usage))
    parts["cost"] = _Part([_describe_cost(facts.usage)])
    parts["budget"] = _Part(*_describe_budget(facts.budget))
    parts["context"] = _Part(*_describe_context(facts.context_left))
    parts["branch"] = _Part([one_line(facts.branch, MAX_BRANCH)])
    parts["sandbox"] = _Part(["sandbox"] if facts.sandbox else [])
    parts["background"] = _Part(_describe_background(facts.background))
    return parts


_STATE_WORDS: dict[State, str] = {
    "idle": "ready",
    "preparing": "preparing",
    "thinking": "thinking",
    "answering": "answering",
    "working": "working",
    "waiting": "waiting for you",
    "stopping": "stopping",
    "compacting": "compacting the conversation",
}


def _describe_state(facts: StatusFacts) -> str:
    words = _STATE_WORDS.get(facts.state, "")
    if facts.state == "retry":
        of = f"/{facts.attempts}" if facts.attempts else ""
        # Rounded up, because "in 0 s" would look as if nothing were happening.
        seconds = -int(-facts.retry_in // 1)
        words = f"retry {facts.attempt}{of}"
        if seconds > 0:
            words += f" in {seconds} s"
    if facts.state == "waiting_for_agents":
        noun = "agent" if facts.agents == 1 else "agents"
        words = f"waiting for {facts.agents} {noun}"
    return f"{facts.spinner} {words}".strip()


def _state_style(state: State) -> Style:
    if state in ("waiting", "retry"):
        return "warning"
    return "dim" if state == "idle" else "accent"


def shorten_model(model: str) -> str:
    """Return a model's name without its provider and date, truncated to a readable length."""
    name = one_line(model).rpartition("/")[2] or one_line(model)
    return cut(_MODEL_DATE.sub("", name) or name, MAX_MODEL)


def _describe_turn(facts: StatusFacts) -> str:
    if not facts.turn:
        return ""
    return f"turn {facts.turn}/{facts.turns}" if facts.turns else f"turn {facts.turn}"


def _describe_tokens(usage: Usage) -> list[str]:
    """Return two forms of the token usage: with and without the cached share of the input."""
    if not usage.total:
        return []
    read = f"{format_number(usage.input)} in"
    written = f"{format_number(usage.output)} out"
    short = f"{read} {written}"
    if not usage.cached or not usage.input:
        return [short]
    # Rounded down, because 100 % would mean that all input was cached.
    share = min(100 * usage.cached // usage.input, 100)
    return [f"{read} ({share} % cached) {written}", short]


def _describe_cost(usage: Usage) -> str:
    return "" if usage.cost is None else format_money(usage.cost)


def _describe_budget(budget: BudgetView | None) -> tuple[list[str], Style]:
    if budget is None:
        return [], "dim"
    # Rounded down, because 100 % would mean that nothing is left.
    percent = int(100 * min(budget.share, 9.99))
    name = one_line(budget.budget, MAX_MODEL)
    style: Style = "warning" if budget.is_nearly_spent else "dim"
    return [f"{name} budget {budget.describe()}", f"{percent} % of budget"], style


def _describe_context(left: float | None) -> tuple[list[str], Style]:
    if left is None:
        return [], "dim"
    percent = int(100 * min(max(left, 0.0), 1.0))
    style: Style = "warning" if left < LOW_CONTEXT else "dim"
    return [f"{percent} % context left", f"{percent} % left"], style


def _describe_background(count: int) -> list[str]:
    if not count:
        return []
    noun = "command" if count == 1 else "commands"
    return [f"{count} {noun} in the background", f"{count} in background"]


def format_number(number: int) -> str:
    """Return a number of tokens in short form, such as ``999``, ``1.2k`` or ``1.2M``."""
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        # The unit depends on the rounded number, so that 999,999 does not become "1000k".
        value = number / limit
        if value >= 0.9995:
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return str(number)
