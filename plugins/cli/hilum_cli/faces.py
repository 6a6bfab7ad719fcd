"""The faces of a headless run, which show nothing, plain lines, one JSON object, or JSON lines.

The module ``live`` contains the face for terminals that can move the cursor.
"""

from __future__ import annotations

import re
import shlex
import time
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import msgspec
from hilum import __version__
from hilum.errors import E_BUDGET, E_DENIED
from hilum.events import Delta, Event, ModelAnswered, PluginEvent, RunEnded
from hilum.store import spell_folder
from hilum_view import (
    AgentView,
    Card,
    Changes,
    SessionView,
    Totals,
    describe_end,
    format_cost,
    format_duration,
    format_tokens,
    is_resumable,
)

from hilum_cli import agents
from hilum_cli.lines import delta_line, event_line
from hilum_cli.output import SCHEMA, ResultLine, SessionLine, encode
from hilum_cli.rendering import (
    card_mark,
    card_summary,
    card_title,
    notice_line,
    status_line,
    todo_rows,
)
from hilum_cli.terminal import Out, escape_terminal, line, report, without_escapes

if TYPE_CHECKING:
    from hilum import HilumError, Session

# The command in the hint of E_BUDGET that raises the budget of the session.
_RAISING = re.compile(r"`(/budget [^`]+)`")

TOLD_EVENTS = ("redaction.prompt", "rules.not_done")
"""Events of plugins that programs are told about on standard error."""


class Face:
    """The base class of faces, which show a run and its end. It shows nothing itself.

    Attributes:
        deltas: Whether the face receives streaming output.
        lingers: Whether the face shows plugin messages after the end of the run, while the session
            closes.
        out: Standard output.
        err: Standard error.
        view: The view of the session, built from its events.
        turns: Maximum number of turns in the run, 0 for no limit.
    """

    deltas = False
    lingers = False

    def __init__(self) -> None:
        self.out = Out(1)
        self.err = Out(2)
        self.view = SessionView()
        self.turns = 0
        self._opened_at = time.time()

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Show that the session is open and the run is about to start."""
        self.lead(session, "main")

    def lead(self, session: Session, agent: str) -> None:
        """Set the agent that the user talks to from now on."""
        self.view.lead = agent
        limit = session.agents[agent].limit("turns") if agent in session.agents else None
        self.turns = int(limit or session.options.turns)

    def status(self, width: int = 0, *, before: str = "", after: str = "") -> str:
        """Return the status line; see ``rendering.status_line``."""
        started = self.view.agents.of_actor(self.view.lead)
        limit = (started.turns if started else 0) or self.turns
        seconds = time.time() - (self.view.lead_actor.began or self._opened_at)
        return status_line(self.view, seconds, turns=limit, width=width, before=before, after=after)

    async def tick(self) -> None:
        """Run as a background task while the session is open, until done or cancelled."""

    async def show(self, item: Event | Delta) -> None:
        """Show an event or a chunk of output."""
        self.view.apply(item)

    async def ended(self, end: RunEnded, session: str) -> None:
        """Show how the run ended; ``session`` is empty if the session was not stored."""

    async def finish(self) -> None:
        """Show the cost of the run, and leave the terminal ready for further output."""
        self.close()

    async def aside(self, text: str) -> None:
        """Show the agent's answer while agents that it started are still running."""

    async def advise(self, text: str) -> None:
        """Show the user's possible next steps, after the end of the run has been shown."""

    async def total(self, totals: Totals) -> None:
        """Show the total usage of all runs in the session."""
        used = format_tokens(totals.usage) or "no tokens"
        facts = [f"{totals.runs} runs", used, format_cost(totals.usage)]
        await self.advise(f"The whole session: {' · '.join(filter(None, facts))}")

    def failed(self, error: HilumError) -> None:
        """Show an error that prevented the run from starting or interrupted it."""

    def result(self, result: ResultLine) -> bytes:
        """Return the bytes to write to standard output when everything has ended.

        The result is empty for output formats that are meant for people.
        """
        return b""

    async def tell(self, text: str) -> None:
        """Write one of hilum's messages to standard error."""
        await self.err.write(f"hilum: {escape_terminal(text)}\n".encode(errors="backslashreplace"))

    def held(self) -> AbstractContextManager[None]:
        """Write nothing to the terminal inside this context, during which a question is open."""
        return nullcontext()

    def reopen(self) -> None:
        """Prepare for another run after the end of a run has been shown."""

    def close(self) -> None:
        """Restore the terminal to its previous state."""


class TextFace(Face):
    """A face that writes the answer to standard output, and only errors to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = False

    async def ended(self, end: RunEnded, session: str) -> None:
        """Write the answer; after an incomplete run, also the reason and how to continue."""
        self.close()
        if end.text:
            answer = self.cleaned(end.text).rstrip("\n")
            await self.out.write(f"{answer}\n".encode(errors="replace"))
        for view in self.view.agents.ended():
            if view.reports and view.actor != self.view.lead:
                await self.report(view)
        if end.state == "completed":
            return
        # The command that allows denied calls is on the last line, where it is easy to find and
        # copy.
        allowing = end.hint if end.code == E_DENIED else ""
        shown = msgspec.structs.replace(end, hint="") if allowing else end
        await self.tell(describe_end(shown))
        if session:
            await self.tell(how_to_continue(end, session))
        if allowing:
            await self.tell(allowing)

    def cleaned(self, text: str) -> str:
        """Return a model's text without sequences that a terminal would interpret.

        A pipe may lead to a terminal (``hilum run … | tee``).
        """
        if self.raw:
            return text
        if self.out.terminal:
            return escape_terminal(text)
        return without_escapes(text)

    def news(self, item: Event, changes: Changes) -> list[str]:
        """Return lines that describe changes to the todo list or to a running agent."""
        if "todos" in changes.parts and item.agent == self.view.lead:
            return todo_rows(self.view.lead_actor.todos)
        moved = changes.agent
        if moved is None or moved.actor == self.view.lead:
            return []
        rows = [agents.change(moved)]
        if moved.ended:
            answer = line(moved.answer, 100)
            rows = [agents.ending(moved), f"    {answer}" if answer else ""]
        return [row for row in rows if row]

    async def report(self, view: AgentView) -> None:
        """Write the answer from an agent that reports to the user."""
        text = self.cleaned(view.answer)
        status = view.status.replace("_", " ")
        head = f"── {agents.name_of(view)} ({view.id}): {status}"
        await self.out.write(f"\n{head}\n{text.rstrip()}\n".encode(errors="replace"))

    def failed(self, error: HilumError) -> None:
        """Write the error's code, message and hint."""
        self.close()
        report(error.message, hint=error.hint, code=error.code)


def how_to_continue(end: RunEnded, session: str) -> str:
    """Return the command that continues an incomplete run."""
    resume = f"hilum run --resume {session}"
    raising = _RAISING.search(end.hint) if end.code == E_BUDGET else None
    if raising is not None:
        # The budget would refuse any other prompt.
        return f'To continue: {resume} {shlex.quote(raising[1])} && {resume} "continue"'
    prompt = "" if is_resumable(end) else ' "…"'
    return f"To continue: {resume}{prompt}"


class PlainFace(TextFace):
    """A face that writes progress to standard error, and the answer to standard output."""

    lingers = True

    async def advise(self, text: str) -> None:
        """Write the text to standard error."""
        await self.tell(text)

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Write the session's id."""
        await super().opened(session, resumed=resumed)
        await self.tell(f"session {session.id} in {spell_folder(session.workspace.root)}")

    async def show(self, item: Event | Delta) -> None:
        """Write a line about an event, if it needs one."""
        if not isinstance(item, Event):
            return
        changes = self.view.apply(item)
        for text in (self._main_line(item, changes), *self.news(item, changes)):
            if text:
                await self._line(text)

    def _main_line(self, item: Event, changes: Changes) -> str:
        """Return the line for a notice, a finished call, or text between calls."""
        text = notice_line(changes.notice)
        card = changes.card
        if text:
            return text
        if card is not None and card.ended and not self.view.is_covered(card):
            return self._card_line(card)
        # Text without calls is the answer, which goes to standard output at the end.
        if isinstance(item, ModelAnswered) and item.message.calls:
            return escape_terminal(item.message.text.strip())
        return ""

    def _card_line(self, card: Card) -> str:
        took = format_duration(card.seconds)
        text = f"{card_mark(card)} {card_title(card)} ({took})"
        summary = card_summary(card, 70)
        if summary:
            text += f": {summary}"
        who = agents.shown_as(self.view, card.agent)
        return f"  {who}: {text}" if who else text

    async def aside(self, text: str) -> None:
        """Write the text to standard error."""
        await self._line(escape_terminal(text.strip()))

    async def finish(self) -> None:
        """Write the status line."""
        if self.view.lead_actor.turn:
            await self._line(self.status())

    async def ended(self, end: RunEnded, session: str) -> None:
        """Write the status line, then the answer."""
        await self.finish()
        await super().ended(end, session)

    async def _line(self, text: str) -> None:
        await self.err.write((text + "\n").encode(errors="backslashreplace"))


class JsonFace(Face):
    """A face that writes one JSON object to standard output at the end.

    Errors and notes about the prompt go to standard error.
    """

    async def ended(self, end: RunEnded, session: str) -> None:
        """Write to standard error why the run did not complete."""
        if end.state != "completed":
            await self.tell(describe_end(end))

    def failed(self, error: HilumError) -> None:
        """Write the error's code, message and hint to standard error."""
        report(error.message, hint=error.hint, code=error.code)

    async def show(self, item: Event | Delta) -> None:
        """Write to standard error what the result does not say.

        That the prompt was changed would otherwise be noticed only at the end of the run, and that
        the agent answered without what a rule requires, not at all.
        """
        await super().show(item)
        if isinstance(item, PluginEvent) and item.name in TOLD_EVENTS:
            await self.tell(str(item.data.get("say", "")))

    def result(self, result: ResultLine) -> bytes:
        """Return the JSON object."""
        return encode(result)


class StreamFace(JsonFace):
    """A face that writes one line of JSON for every event and every chunk of output.

    The last line is the result.

    Args:
        include_prompt: Whether to include the texts of the system prompt, tools and context.
    """

    deltas = True
    lingers = True

    def __init__(self, *, include_prompt: bool = False) -> None:
        super().__init__()
        self._include_prompt = include_prompt

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Write the first line, which describes the session."""
        await super().opened(session, resumed=resumed)
        line = SessionLine(
            seq=0 if resumed else 1,  # in a new session, event 1 opened the session
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
        """Write the line for an event or a chunk of output."""
        await super().show(item)
        if isinstance(item, Delta):
            await self.out.write(encode(delta_line(item)))
            return
        line = event_line(item, include_prompt=self._include_prompt)
        if line is not None:
            await self.out.write(encode(line))
