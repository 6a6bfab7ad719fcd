"""What a run looks like so far: a fold over its events, which all faces of the command line
share.
"""

from __future__ import annotations

import json
import time
from typing import Any, Literal

import msgspec
from hilum.errors import E_DENIED, UNATTENDED
from hilum.events import (
    CallDone,
    CallStarted,
    Event,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    PluginEvent,
    PluginFault,
    RunEnded,
    RunRetried,
    RunStarted,
)
from hilum.messages import ToolCall, Usage

from hilum_cli.agents import AgentView, AgentViews
from hilum_cli.terminal import cells, line
from hilum_cli.todos import Todos
from hilum_cli.totals import used_by


class CallView(msgspec.Struct):
    """One tool call: what was asked, how far it is, and how it ended."""

    call: ToolCall
    agent: str
    turn: int
    began: float = 0.0
    seconds: float = 0.0
    running: bool = False
    done: bool = False
    code: str = ""
    text: str = ""
    risk: str = "read"

    @property
    def mark(self) -> str:
        """One character that says its state."""
        if self.done:
            return "✗" if self.code else "✓"
        return "▸" if self.running else "·"

    def title(self, width: int = 80) -> str:
        """Name and arguments on one line."""
        return line(f"{self.call.name} {arguments(self.call.arguments)}".strip(), width)

    def summary(self, width: int = 100) -> str:
        """The first line of the result.

        Of a command's output also the last one, which says most.
        """
        last = self.text.rstrip().rpartition("\n")[2].strip()
        if (
            self.text.removeprefix("E_CMD_FAIL: ").startswith("Exit code")
            and last
            and "\n" in self.text.strip()
        ):
            return line(f"{line(self.text, 40)} … {last}", width)
        return line(self.text, width)

    @property
    def state(self) -> Literal["running", "completed", "failed"]:
        """How far it is, in one word."""
        if not self.done:
            return "running"
        return "failed" if self.code else "completed"


def parse_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments of a call.

    ``None`` where the text is not a JSON object that can be written again.
    """
    try:
        data = msgspec.json.decode(text or "{}")
        # What is nested too deeply, or is a number beyond all bounds, can be read and not written.
        msgspec.json.encode(data)
    except (ValueError, RecursionError, OverflowError):
        return None
    return data if isinstance(data, dict) else None


def parsed(text: str) -> Any:
    """Return arguments as data where they are a JSON object, else the text that the model wrote."""
    data = parse_arguments(text)
    return text if data is None else data


def arguments(text: str) -> str:
    """Write arguments briefly: ``path=src/a.py start_line=3``."""
    data = parsed(text)
    if not isinstance(data, dict):
        return text
    return " ".join(f"{key}={_brief(value)}" for key, value in data.items())


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    lines = [part.strip() for part in text.splitlines() if part.strip()] or [""]
    if text.count("\n") == 0:
        short = lines[0]
    else:
        short = f"{lines[0][:40]}… ({len(text.splitlines())} lines)"
    return short if short and " " not in short else f'"{short}"'


def changed_files(data: dict[str, Any]) -> list[str]:
    """Return the paths in an event ``files.changed``.

    None where it is not what the plugin files writes.
    """
    changes = data.get("changes")
    if not isinstance(changes, list | tuple):
        return []
    paths = []
    for change in changes:
        if isinstance(change, list | tuple) and change:
            path = change[0]
        else:
            path = getattr(change, "path", "")
        if isinstance(path, str) and path:
            paths.append(unspell(path))
    return paths


def unspell(path: str) -> str:
    """Return a path that can be shown: a name that is not Unicode is written as NUL and hexadecimal
    digits.
    """
    if not path.startswith("\0"):
        return path
    try:
        return bytes.fromhex(path[1:]).decode(errors="backslashreplace")
    except ValueError:
        return path


class Progress(msgspec.Struct):
    """The fold. Feed it every event of the run, in order.

    Attributes:
        turns: Most turns of the run, for showing.
        calls: All calls by agent and id, in the order in which they were asked for.
        faults: Faults of plugins.
        lead: The agent that the user talks to; what is told of turns, state and todo list is about
            it.
        agents: The agents that were started.
        moved: The one of them whose state the last event has changed.
        todos: The lead's todo list.
        files: Paths of files that calls changed, in the order in which they were first changed.
        unattended: Number of calls that were denied because nobody was there to approve them.
        effects: Number of calls with effects that succeeded.
        runs: Number of runs of the main agent.
        redacted: Names of the secrets that were replaced in the user's prompts.
    """

    turns: int = 0
    lead: str = "main"
    turn: int = 0
    model: str = ""
    state: str = "preparing"
    began: float = msgspec.field(default_factory=time.time)
    usage: Usage = Usage()
    calls: dict[tuple[str, str, int], CallView] = msgspec.field(default_factory=dict)
    faults: list[PluginFault] = msgspec.field(default_factory=list)
    retry: str = ""
    todos: Todos = msgspec.field(default_factory=Todos)
    agents: AgentViews = msgspec.field(default_factory=AgentViews)
    moved: AgentView | None = None
    files: dict[str, None] = msgspec.field(default_factory=dict)
    unattended: int = 0
    effects: int = 0
    runs: int = 0
    redacted: dict[str, None] = msgspec.field(default_factory=dict)
    _turn_of: dict[str, int] = msgspec.field(default_factory=dict)

    def apply(self, event: Event) -> CallView | None:
        """Fold one event; gives the call it is about."""
        leads = event.agent == self.lead
        self.moved = self.agents.apply(event)
        self.usage += used_by(event) or Usage()
        match event:
            case RunStarted() | RunRetried():
                self._turn_of[event.agent] = 0
                self.runs += event.agent == "main"
                if leads:
                    self.began = event.at or time.time()
                    self.model = event.model
                    self.turn = 0
                    started = self.agents.of(event.agent)
                    self.turns = (started.turns if started else 0) or self.turns
            case ModelStarted():
                self._turn_of[event.agent] = event.turn
                if leads:
                    self.state = "thinking"
                    self.retry = ""
                    self.model = event.model
                    self.turn = event.turn
            case ModelFailed() if leads:
                self.retry = {
                    "retry": f"again in {event.wait:g} s",
                    "fallback": f"goes on with {event.next}",
                }.get(event.action, "")
            case ModelAnswered():
                if leads:
                    self.state = "working" if event.message.calls else "answering"
                for call in event.message.calls:
                    self._view(event.agent, call)
            case CallStarted():
                view = self._view(event.agent, event.call)
                view.running = True
                view.began = event.at
                view.risk = event.risk
                return view
            case CallDone(result=result):
                view = self._view(event.agent, ToolCall(result.call_id, result.name, ""))
                view.done = True
                view.running = False
                view.code = result.code
                view.seconds = event.seconds
                view.text = result.text
                if result.code == E_DENIED and UNATTENDED in result.text:
                    self.unattended += 1
                elif not result.code and view.risk != "read":
                    self.effects += 1
                return view
            case PluginEvent(name="plan.todos", data=data) if leads:
                self.todos.apply(data)
            case PluginEvent(name="files.changed", data=data):
                self.files |= dict.fromkeys(changed_files(data))
            case PluginEvent(name="redaction.prompt", data={"names": list(names)}):
                self.redacted |= dict.fromkeys(map(str, names))
            case PluginFault():
                self.faults.append(event)
            case RunEnded() if leads:
                self.state = event.state
        return None

    def _view(self, agent: str, call: ToolCall) -> CallView:
        # Ids are unique in one answer only, so the turn is part of the key.
        turn = self._turn_of.get(agent, 0)
        return self.calls.setdefault((agent, call.id, turn), CallView(call, agent, turn))

    def running(self) -> list[CallView]:
        """The calls that run now."""
        return [view for view in self.calls.values() if view.running]

    def covered(self, view: CallView) -> bool:
        """Return whether a call need not be shown, because what it did is shown otherwise."""
        data = parsed(view.call.arguments)
        if view.code or not isinstance(data, dict):
            return False
        if view.call.name == "todo_write":
            return view.agent == self.lead
        if view.call.name == "task":
            title = " ".join(str(data.get("description", "")).split())[:80]
        else:
            title = ""
        return view.call.name in ("task", "handover") and self.agents.started_by(view.agent, title)

    def shown_as(self, agent: str) -> str:
        """What an agent is called where it is not the one that the user talks to.

        Empty for that one.
        """
        view = self.agents.of(agent)
        if agent == self.lead:
            return ""
        return view.name if view else line(agent, 40)

    def status(self, width: int = 0, *, before: str = "", after: str = "") -> str:
        """One line: turn, todo list, tokens, cost, model, time.

        Args:
            width: Columns it may take; what matters least is left out. 0 for any number.
            before: What stands at its beginning.
            after: What stands at its end.
        """
        turn = f"turn {self.turn}/{self.turns}" if self.turns else f"turn {self.turn}"
        turn = turn if self.turn else ""
        cost = money(self.usage.cost) if self.usage.cost is not None else ""
        todo = f"todo {self.todos.done}" if self.todos.done else ""
        parts = [before, turn, todo, tokens(self.usage), cost, line(self.model, 50)]
        parts += [duration(time.time() - self.began), after]
        for number in (5, 3, 4, 1, 2, 6):  # the first to go is the model's name
            text = " · ".join(part for part in parts if part)
            if not width or cells(text) <= width:
                break
            parts[number] = ""
        return " · ".join(part for part in parts if part)


def tokens(usage: Usage) -> str:
    """Write token use: input and output, and how much of the input was cached."""
    cached = f" ({_count(usage.cached)} cached)" if usage.cached else ""
    if usage.total:
        return f"{_count(usage.input)} in{cached}, {_count(usage.output)} out"
    return ""


def _count(number: int) -> str:
    if number >= 1000:
        return f"{number / 1000:.1f}k"
    return str(number)


def money(dollars: float) -> str:
    """Write US dollars so that small amounts stay visible."""
    if 0 < dollars < 0.1:
        return f"${dollars:.4f}"
    return f"${dollars:.2f}"


def duration(seconds: float) -> str:
    """Write a time that passed."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = (
        f"{hours} h" if hours else "",
        f"{minutes} min" if minutes else "",
        f"{rest} s" if rest and not hours else "",
    )
    return " ".join(part for part in parts if part)
