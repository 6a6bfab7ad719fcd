"""The faces of a headless run: nothing, plain lines, one JSON object, or an event per line.

``live`` has the rich one.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from hilum import __version__
from hilum.errors import RETRYABLE
from hilum.events import (
    ApprovalAnswered,
    Delta,
    Event,
    ModelAnswered,
    ModelFailed,
    PluginEvent,
    PluginFault,
    RunEnded,
    Trimmed,
    UserNeeded,
)
from hilum.store import spell_folder

from hilum_cli import agents
from hilum_cli.agents import AgentView
from hilum_cli.lines import delta_line, event_line
from hilum_cli.output import SCHEMA, ResultLine, SessionLine, encode
from hilum_cli.progress import Progress, duration, money, tokens
from hilum_cli.terminal import Out, line, neutral, report, without_escapes
from hilum_cli.totals import Totals

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

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Show that the session is open and the run about to start."""
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

    async def total(self, totals: Totals) -> None:
        """Show what the session has used, all its runs together."""
        cost = f" · {money(totals.usage.cost)}" if totals.usage.cost is not None else ""
        used = tokens(totals.usage) or "no tokens"
        await self.advise(f"The whole session: {totals.runs} runs · {used}{cost}")

    def failed(self, error: HilumError) -> None:
        """Show an error that kept the run from starting, or broke it off."""

    def result(self, result: ResultLine) -> bytes:
        """Return what is written on standard output when everything has ended.

        Nothing where people read it.
        """
        return b""

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
        self.raw = False

    async def ended(self, end: RunEnded, session: str) -> None:
        """Write the answer; say what is wrong with it, and how to continue."""
        self.close()
        if end.text:
            await self.out.write(
                (self.cleaned(end.text).rstrip("\n") + "\n").encode(errors="replace")
            )
        for view in self.progress.agents.ended():
            if view.reports and view.actor != self.progress.lead:
                await self.report(view)
        if end.state != "completed":
            await self.tell(ending(end))
            if session:
                prompt = "" if resumable(end) else ' "…"'
                await self.tell(f"To continue: hilum run --resume {session}{prompt}")

    def cleaned(self, text: str) -> str:
        """Return a model's text without what a terminal would obey: a pipe may end at one
        (``hilum run … | tee``).
        """
        if self.raw:
            return text
        if self.out.terminal:
            return neutral(text)
        return without_escapes(text)

    def news(self, item: Event) -> list[str]:
        """Return what an event has changed of the agents that run, and of the todo list."""
        if (
            isinstance(item, PluginEvent)
            and item.name == "plan.todos"
            and item.agent == self.progress.lead
        ):
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
        text = self.cleaned(view.said)
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
    """Return whether ``--resume`` without a prompt continues the run."""
    if end.state == "failed":
        return end.code in RETRYABLE
    return end.state in ("interrupted", "stopped", "timed_out")


def ending(end: RunEnded) -> str:
    """Say in words how a run ended that did not complete."""
    if end.state == "stopped":
        return "stopped. Everything it had started has ended."
    if end.code:
        said = f"{end.code}: {end.error}"
    else:
        said = end.error or end.state.replace("_", " ")
    rest = [text for text in (end.done, end.left, end.hint) if text and text not in said]
    return "\n".join([said, *rest])


class PlainFace(TextFace):
    """Progress as plain lines on standard error, the answer on standard output."""

    lingers = True

    async def advise(self, text: str) -> None:
        """Write it on standard error."""
        await self.tell(text)

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Say which session it is."""
        await super().opened(session, resumed=resumed)
        await self.tell(f"session {session.id} in {spell_folder(session.workspace.root)}")

    async def show(self, item: Event | Delta) -> None:
        """Write a line about an event worth one."""
        if not isinstance(item, Event):
            return
        call = self.progress.apply(item)
        text = happening(item)
        if text:
            await self._line(text)
        elif call and call.done and not self.progress.covered(call):
            first = call.summary(70)
            who = self.progress.shown_as(call.agent)
            text = f"{call.mark} {call.title()} ({duration(call.seconds)})" + (
                f": {first}" if first else ""
            )
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
    """Say in one line what neither a call nor an answer tells.

    Nothing for an event that need not be told.
    """
    match item:
        case ApprovalAnswered(accepted=False):
            return f"! rejected: {line(item.reason or 'no reason given')}"
        case ModelFailed():
            follows = {
                "retry": f"; again in {item.wait:g} s",
                "fallback": f"; goes on with {item.next}",
            }
            if item.action != "give_up":
                return f"! {line(item.message, 200)}{follows.get(item.action, '')}"
            return ""
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
    """One JSON object at the end, on standard output.

    Errors and notes on the prompt on standard error.
    """

    async def ended(self, end: RunEnded, session: str) -> None:
        """Write on standard error why the run did not complete."""
        if end.state != "completed":
            await Out(2).write(f"hilum: {neutral(ending(end))}\n".encode(errors="backslashreplace"))

    def failed(self, error: HilumError) -> None:
        """Write code, message and hint on standard error."""
        report(error.message, hint=error.hint, code=error.code)

    async def show(self, item: Event | Delta) -> None:
        """Write on standard error that the prompt was changed: nobody else would notice before the
        end.
        """
        await super().show(item)
        if isinstance(item, PluginEvent) and item.name == "redaction.prompt":
            text = f"hilum: {neutral(str(item.data.get('say', '')))}\n"
            await Out(2).write(text.encode(errors="backslashreplace"))

    def result(self, result: ResultLine) -> bytes:
        """Return the object."""
        return encode(result)


class StreamFace(JsonFace):
    """A line of JSON for every event and for every piece of output, and the result as the last
    line.

    Args:
        include_prompt: Whether the texts of the system prompt, of tools and of context are
            included.
    """

    deltas = True
    lingers = True

    def __init__(self, *, include_prompt: bool = False) -> None:
        super().__init__()
        self._include_prompt = include_prompt

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Write the first line."""
        await super().opened(session, resumed=resumed)
        line = SessionLine(
            seq=0 if resumed else 1,  # in the log it is the event that opened the session
            at=time.time(),
            schema=SCHEMA,
            version=__version__,
            session=session.id,
            workspace=spell_folder(session.workspace.root),
            kind=session.kind,
            mode=session.mode.name,
            model=session.model,
            approve=session.approve,
            resumed=resumed,
        )
        await self.out.write(encode(line))

    async def show(self, item: Event | Delta) -> None:
        """Write the line."""
        await super().show(item)
        if isinstance(item, Delta):
            await self.out.write(encode(delta_line(item)))
            return
        line = event_line(item, include_prompt=self._include_prompt)
        if line is not None:
            await self.out.write(encode(line))
