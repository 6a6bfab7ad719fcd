"""The face for a terminal: finished work scrolls up, and running work is shown below it.

Only this module imports rich.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, cast

import trio
from hilum.events import FINAL, Delta, Event, ModelAnswered, RunEnded
from hilum_view import Card, Changes, format_duration
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hilum_cli import agents
from hilum_cli.faces import TextFace
from hilum_cli.rendering import card_mark, card_summary, card_title, notice_line
from hilum_cli.terminal import TerminalFile, cut, escape_terminal, line

if TYPE_CHECKING:
    from hilum import Session

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
FRAME_SECONDS = 0.1
TAIL = 4_000
"""Maximum number of characters of a streaming answer to draw."""
MAX_CALLS = 8
"""Maximum number of running calls to draw."""
STATES = {
    "preparing": "preparing",
    "thinking": "thinking",
    "working": "working",
    "answering": "finishing",
}


class LiveFace(TextFace):
    """A face that streams the answer in dim text above a line per call and a status line."""

    deltas = True
    lingers = True

    def __init__(self) -> None:
        super().__init__()
        self.console = Console(
            file=cast(IO[str], TerminalFile(self.err)), highlight=False, markup=False, emoji=False
        )
        self._live: Live | None = None
        self._frame = 0
        self._held = False
        self._waiting: list[Text] = []

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Start drawing."""
        await super().opened(session, resumed=resumed)
        folder = escape_terminal(str(session.workspace.root))
        self.console.print(Text(f"session {session.id} · {folder}", style="dim"))
        self._start()

    def _start(self) -> None:
        self._live = Live(
            console=self.console,
            # Otherwise, rich would refresh in a separate thread while the event loop changes the
            # view.
            auto_refresh=False,
            transient=True,
            # Otherwise, rich would replace ``sys.stdout``, which hilum has already redirected.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def reopen(self) -> None:
        """Draw again."""
        self._start()

    async def advise(self, text: str) -> None:
        """Write the text below the answer."""
        await self.tell(text)

    async def tick(self) -> None:
        """Redraw until cancelled."""
        while True:
            self._frame += 1
            self._draw()
            await trio.sleep(FRAME_SECONDS)

    def _draw(self) -> None:
        if self._live is not None and not self._held:
            self._live.update(self._below(), refresh=True)

    def _below(self) -> Group:
        """Build the live part: answer, calls, agents, current todo item and status."""
        width, height = self.console.size
        spin = FRAMES[self._frame % len(FRAMES)]
        # Use at most half of the screen, because rich cannot erase a live part that is taller than
        # the screen.
        rows = self._answer_rows(width, max(height // 2, 3))
        rows += self._call_rows(spin, width)
        others = [view for view in self.view.agents.open() if view.actor != self.view.lead]
        most = max(height // 3, 4)
        rows += [Text(row) for row in agents.rows(others, width, most, spin, time.time())]
        current = self.view.lead_actor.todos.current
        if current is not None:
            rows.append(Text(cut(f"▸ {line(current.content, 200)}", width), style="dim"))
        rows.append(_cut(Text(self._status(spin, len(others), width), style="cyan"), width))
        return Group(*rows)

    def _answer_rows(self, width: int, most: int) -> list[Text]:
        answer = self.view.streaming()
        # Wrapping a whole long answer ten times a second would waste CPU time.
        text = answer.text.tail(TAIL) if answer else ""
        if not text.strip():
            return []
        shown = Text(escape_terminal(text).strip("\n"), style="dim")
        return list(shown.wrap(self.console, width))[-most:]

    def _call_rows(self, spin: str, width: int) -> list[Text]:
        running = self.view.running(self.view.lead)
        cards = [card for card in running if not self.view.is_covered(card)]
        rows = []
        for card in cards[-MAX_CALLS:]:
            rows.append(_cut(Text(f"{spin} {card_title(card, width - 12)}"), width))
            if card.output:
                last = card.output.rstrip("\n").rpartition("\n")[2]
                rows.append(_cut(Text(f"    {line(last, width - 6)}", style="dim"), width))
        return rows

    def _status(self, spin: str, others: int, width: int) -> str:
        actor = self.view.lead_actor
        state = actor.retry or STATES.get(actor.activity, actor.activity.replace("_", " "))
        if others and (actor.activity in (*FINAL, "working") or not actor.turn):
            state = f"waiting for {others} agent{'s' if others > 1 else ''}"
        stops = "Ctrl-C stops all" if others else "Ctrl-C stops"
        return self.status(width, before=f"{spin} {state}", after=stops)

    async def show(self, item: Event | Delta) -> None:
        """Print finished entries; the live part shows streaming entries."""
        changes = self.view.apply(item)
        if isinstance(item, Delta):
            return
        if isinstance(item, ModelAnswered):
            self._print_commentary(item)
        self._print_entries(changes)
        # The agent's row already shows that it is waiting or has begun.
        if changes.agent is None or changes.agent.ended:
            for number, row in enumerate(self.news(item, changes)):
                self._print(_cut(Text(row, style="dim" if number else ""), self.console.width))

    def _print_commentary(self, item: ModelAnswered) -> None:
        """Print the text that the lead agent wrote along with its calls."""
        text = item.message.text.strip()
        if item.message.calls and text and item.agent == self.view.lead:
            self._print(Text(escape_terminal(text), style="dim"))

    def _print_entries(self, changes: Changes) -> None:
        """Print a notice or a finished call."""
        text = notice_line(changes.notice)
        if text:
            self._print(Text(text, style="yellow"))
        elif changes.card is not None and self._is_worth_a_line(changes.card):
            self._print_call(changes.card)

    def _is_worth_a_line(self, card: Card) -> bool:
        """Return whether to print a call; of other agents' calls, only failed ones are printed."""
        if not card.ended or self.view.is_covered(card):
            return False
        return card.agent == self.view.lead or bool(card.code)

    async def aside(self, text: str) -> None:
        """Print the text above the running work."""
        self._print(Text(escape_terminal(text.strip()), style="dim"))

    async def finish(self) -> None:
        """Remove the live part and print the status line."""
        self.close()
        if self.view.lead_actor.turn:
            self.console.print(Text(self.status(self.console.width), style="cyan"))

    async def ended(self, end: RunEnded, session: str) -> None:
        """Print the status line, then the answer."""
        await self.finish()
        await super().ended(end, session)

    def _print(self, text: Text) -> None:
        """Print a line; while a question is open, defer it until the answer."""
        if self._held:
            self._waiting.append(text)
        else:
            self.console.print(text)

    def _print_call(self, card: Card) -> None:
        width = self.console.width
        took = f" {format_duration(card.seconds)}"
        who = agents.shown_as(self.view, card.agent)
        head = Text(f"{card_mark(card)} ", style="red" if card.code else "green")
        head.append(cut(f"{who}: " if who else "", width // 3))
        head.append(card_title(card, width - len(took) - head.cell_len - 1), style="bold")
        head.append(took, style="dim")
        self._print(_cut(head, width))
        first = card_summary(card, width - 6)
        if first:
            self._print(_cut(Text(f"    {first}", style="red dim" if card.code else "dim"), width))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Remove the live part while a question is open."""
        self.close()
        self._held = True
        try:
            yield
        finally:
            self._held = False
            waiting = self._waiting
            self._waiting = []
            for text in waiting:
                self.console.print(text)
            if self.view.lead_actor.activity not in FINAL or self.view.agents.open():
                self._start()

    def close(self) -> None:
        """Remove the live part and restore the cursor."""
        if self._live is not None:
            # The live part is emptied first; otherwise, its last state would stay on the screen.
            self._live.update(Group())
            self._live.stop()
            self._live = None


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    text.no_wrap = True
    return text
