"""The faces of a headless run: nothing, plain lines, one JSON object, or an event per line. ``live`` has the rich one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
from hilum.events import (
    ApprovalAnswered,
    Delta,
    ErrorRaised,
    Event,
    ModelAnswered,
    ModelFailed,
    PluginEvent,
    PluginFault,
    RunEnded,
    Trimmed,
    UserNeeded,
    encode,
)

from hilum_cli import agents
from hilum_cli.agents import AgentView
from hilum_cli.progress import Progress, duration
from hilum_cli.terminal import Out, line, neutral, report

if TYPE_CHECKING:
    from hilum import HilumError, Session


class Face:
    """Shows a run while it goes on, and its end. This one shows nothing.

    Attributes:
        deltas: Whether it wants output on its way.
        lingers: Whether it shows what plugins tell after the end, while the session closes.
        out: Standard output.
    """

    deltas = False
    lingers = False

    def __init__(self) -> None:
        self.out = Out(1)
        self.progress = Progress()

    async def opened(self, session: Session) -> None:
        """The session is open; the run is about to start."""
        self.lead(session, "main")

    def lead(self, session: Session, agent: str) -> None:
        """From now on the user talks to this agent."""
        self.progress.lead = agent
        limit = session.agents[agent].limit("turns") if agent in session.agents else None
        self.progress.turns = int(limit or session.options.turns)

    async def tick(self) -> None:
        """Called once when the session is open; may run until cancelled."""

    async def show(self, item: Event | Delta) -> None:
        """Show an event, or a piece of output."""
        if isinstance(item, Event):
            self.progress.apply(item)

    async def ended(self, end: RunEnded, session: str) -> None:
        """Show how the run ended. ``session`` is empty where it was not kept."""

    async def finish(self) -> None:
        """Say what it has cost, and leave the terminal for what is written next."""
        self.close()

    async def aside(self, text: str) -> None:
        """Show what the agent said while others it has started go on: not its last word."""

    async def advise(self, text: str) -> None:
        """Say what the user can do next, after the end was shown."""

    def failed(self, error: HilumError) -> None:
        """Show an error that kept the run from starting, or broke it off."""

    def held(self) -> AbstractContextManager[None]:
        """Hold still while a question stands on the terminal."""
        return nullcontext()

    def reopen(self) -> None:
        """Show another run, after the end of one was shown."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class TextFace(Face):
    """The answer on standard output; errors, and nothing else, on standard error."""

    def __init__(self) -> None:
        super().__init__()
        self.err = Out(2)

    async def ended(self, end: RunEnded, session: str) -> None:
        """Give the answer; say what is wrong with it, and how to go on."""
        self.close()
        if end.text:
            text = neutral(end.text) if self.out.terminal else end.text
            await self.out.write((text.rstrip("\n") + "\n").encode(errors="replace"))
        for view in self.progress.agents.ended():
            if view.reports and view.actor != self.progress.lead:
                await self.report(view)
        if end.state != "completed":
            await self.tell(ending(end))
            if session:
                await self.tell(f"To go on: hilum run --resume {session}" + ("" if resumable(end) else ' "…"'))

    def news(self, item: Event) -> list[str]:
        """Say what an event has changed of the agents that run, and of the todo list."""
        if isinstance(item, PluginEvent) and item.name == "plan.todos" and item.agent == self.progress.lead:
            return self.progress.todos.rows()
        moved = self.progress.moved
        if moved is None or moved.actor == self.progress.lead:
            return []
        if not moved.over:
            return [agents.change(moved)] if agents.change(moved) else []
        said = line(moved.said, 100)
        return [f"{moved.mark} {moved.ending()}", *([f"    {said}"] if said else [])]

    async def report(self, view: AgentView) -> None:
        """Give the answer of an agent that reports to the user."""
        text = neutral(view.said) if self.out.terminal else view.said
        head = f"── {view.name} ({view.id}): {view.status.replace('_', ' ')}"
        await self.out.write(f"\n{head}\n{text.rstrip()}\n".encode(errors="replace"))

    def failed(self, error: HilumError) -> None:
        """Tell code, message and hint."""
        self.close()
        report(error.message, hint=error.hint, code=error.code)

    async def tell(self, text: str) -> None:
        """Write a message on standard error."""
        await self.err.write(f"hilum: {neutral(text)}\n".encode(errors="backslashreplace"))


def resumable(end: RunEnded) -> bool:
    """Whether ``--resume`` without a prompt has something to go on with."""
    return end.state == "interrupted"


def ending(end: RunEnded) -> str:
    """Say in words how a run ended that did not complete."""
    if end.state == "stopped":
        return "stopped. Everything it had started has ended."
    said = f"{end.code}: {end.error}" if end.code else end.error or end.state.replace("_", " ")
    rest = [text for text in (end.left, end.hint) if text and text not in said]
    return "\n".join([said, *rest[:1]])


class PlainFace(TextFace):
    """Progress as plain lines on standard error, the answer on standard output."""

    lingers = True

    async def advise(self, text: str) -> None:
        """Write it on standard error."""
        await self.tell(text)

    async def opened(self, session: Session) -> None:
        """Say which session it is."""
        await super().opened(session)
        await self.tell(f"session {session.id} in {session.workspace.root}")

    async def show(self, item: Event | Delta) -> None:
        """Write a line about an event worth one."""
        if not isinstance(item, Event):
            return
        call = self.progress.apply(item)
        if text := happening(item):
            await self._line(text)
        elif call and call.done and not self.progress.covered(call):
            first, who = call.summary(70), self.progress.shown_as(call.agent)
            text = f"{call.mark} {call.title()} ({duration(call.seconds)})" + (f": {first}" if first else "")
            await self._line(f"  {who}: {text}" if who else text)
        elif isinstance(item, ModelAnswered) and item.message.calls and item.message.text.strip():
            await self._line(neutral(item.message.text.strip()))
        for text in self.news(item):
            await self._line(text)

    async def aside(self, text: str) -> None:
        """Write it on standard error."""
        await self._line(neutral(text.strip()))

    async def finish(self) -> None:
        """Write the line."""
        if self.progress.turn:
            await self._line(self.progress.status())

    async def ended(self, end: RunEnded, session: str) -> None:
        """Give the answer below what it has cost."""
        await self.finish()
        await super().ended(end, session)

    async def _line(self, text: str) -> None:
        await self.err.write((text + "\n").encode(errors="backslashreplace"))


TRIM_CAUSES = {
    "window": "to fit the model's window",
    "model": "to fit the window of another model",
    "too_long": "because the provider found it too long",
    "asked": "as it was asked for",
}
SAID = 4_000
"""Characters of a plugin's note to the user that are shown."""


def happening(item: Event) -> str:
    """Say in one line what neither a call nor an answer tells; nothing for an event that need not be told."""
    match item:
        case ApprovalAnswered(accepted=False):
            return f"! rejected: {line(item.reason or 'no reason given')}"
        case ModelFailed():
            follows = {"retry": f"; again in {item.wait:g} s", "fallback": f"; goes on with {item.next}"}
            return f"! {line(item.message, 200)}{follows.get(item.action, '')}" if item.action != "give_up" else ""
        case PluginFault():
            off = "; it is switched off" if item.switched_off else ""
            return f"! the plugin {item.plugin} failed in {item.hook}: {line(item.error, 160)}{off}"
        case UserNeeded():
            return f"! {line(item.message, 200)}"
        case PluginEvent(data={"say": str(said)}):
            return "· " + neutral(said[:SAID])
        case Trimmed(upto=0) if not item.thinned:
            return "· nothing of the conversation could be cut"
        case Trimmed():
            how = "the conversation was cut" if item.upto else "old results were shortened"
            return f"! {how} {TRIM_CAUSES[item.cause]} (about {item.before:,} tokens before)"
    return ""


class JsonFace(Face):
    """One JSON object at the end, on standard output."""

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, Any] = {"session": "", "workspace": ""}

    async def opened(self, session: Session) -> None:
        """Note what the object will name."""
        await super().opened(session)
        self.about = {"session": session.id, "workspace": str(session.workspace.root)}

    async def ended(self, end: RunEnded, session: str) -> None:
        """Write the object."""
        data = self._data(
            state=end.state, text=end.text, code=end.code, error=end.error, hint=end.hint, left=end.left,
            turns=end.turns, seconds=round(end.seconds, 3), usage=end.usage, cost=end.usage.cost,
        )  # fmt: skip
        await self.out.write(data)

    def failed(self, error: HilumError) -> None:
        """Write the object for a run that did not start or broke off."""
        data = self._data(
            state="failed", text="", code=error.code, error=error.message, hint=error.hint, left="",
            turns=self.progress.turn, seconds=0.0, usage=self.progress.usage, cost=self.progress.usage.cost,
        )  # fmt: skip
        self.out.put(data)

    def _data(self, **fields: Any) -> bytes:
        usage = msgspec.structs.asdict(fields["usage"])
        usage.pop("cost")
        more = {
            "model": self.progress.model,
            "calls": [view.as_data() for view in self.progress.calls.values()],
            "agents": [view.as_data() for view in self.progress.agents.ended()],
            "faults": [{"plugin": f.plugin, "hook": f.hook, "error": f.error} for f in self.progress.faults],
        }
        return msgspec.json.encode({"type": "result", **fields, "usage": usage, **self.about, **more}) + b"\n"


class StreamFace(Face):
    """Every event as a line of JSON, as the log has it, and pieces of output between them."""

    deltas = True

    async def show(self, item: Event | Delta) -> None:
        """Write the line."""
        line = b'{"type":"delta",' + msgspec.json.encode(item)[1:] if isinstance(item, Delta) else encode(item)
        await self.out.write(line + b"\n")

    async def ended(self, end: RunEnded, session: str) -> None:
        """``run_ended`` was the last line, unless no run was needed."""
        if not end.seq:
            await self.out.write(encode(end) + b"\n")

    def failed(self, error: HilumError) -> None:
        """Write an event of the type ``error_raised``."""
        event = ErrorRaised(code=error.code, message=error.message, hint=error.hint)
        self.out.put(encode(event) + b"\n")
