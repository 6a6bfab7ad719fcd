"""The face on a terminal: what is finished scrolls by, what is going on stands below it.

Only this module imports rich.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, cast

import trio
from hilum.events import FINAL, Delta, Event, ModelAnswered, ModelFailed, ModelStarted, RunEnded
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hilum_cli import agents
from hilum_cli.faces import TextFace, happening
from hilum_cli.progress import CallView, duration
from hilum_cli.terminal import TerminalFile, cut, line, neutral

if TYPE_CHECKING:
    from hilum import Session

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
EVERY = 0.1
TAIL = 4_000
STATES = {
    "preparing": "preparing",
    "thinking": "thinking",
    "working": "working",
    "answering": "finishing",
}


class LiveFace(TextFace):
    """Streams the answer dimmed, shows each call on a line, and a status line below."""

    deltas = True
    lingers = True

    def __init__(self) -> None:
        super().__init__()
        self.console = Console(
            file=cast(IO[str], TerminalFile(self.err)), highlight=False, markup=False, emoji=False
        )
        self._live: Live | None = None
        self._text = ""
        self._output: dict[str, str] = {}
        self._frame = 0
        self._held = False
        self._waiting: list[Text] = []

    async def opened(self, session: Session, *, resumed: bool = False) -> None:
        """Start to draw."""
        await super().opened(session, resumed=resumed)
        self.console.print(
            Text(f"session {session.id} · {neutral(str(session.workspace.root))}", style="dim")
        )
        self._start()

    def _start(self) -> None:
        self._live = Live(
            console=self.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def reopen(self) -> None:
        """Draw again."""
        self._start()

    async def advise(self, text: str) -> None:
        """Write it below the answer."""
        await self.tell(text)

    async def tick(self) -> None:
        """Redraw until cancelled."""
        while True:
            self._frame += 1
            self._draw()
            await trio.sleep(EVERY)

    def _draw(self) -> None:
        if self._live is not None and not self._held:
            self._live.update(self._below(), refresh=True)

    def _below(self) -> Group:
        rows: list[Any] = []
        width, height = self.console.size
        if self._text.strip():
            shown = Text(neutral(self._text[-TAIL:]).strip("\n"), style="dim")
            rows += shown.wrap(self.console, width)[-max(height // 2, 3) :]
        spin = FRAMES[self._frame % len(FRAMES)]
        calls = [view for view in self.progress.running() if view.agent == self.progress.lead]
        for view in [view for view in calls if not self.progress.covered(view)][-8:]:
            rows.append(_cut(Text(f"{spin} {view.title(width - 12)}"), width))
            output = self._output.get(view.call.id)
            if output:
                last = output.rstrip("\n").rpartition("\n")[2]
                rows.append(_cut(Text(f"    {line(last, width - 6)}", style="dim"), width))
        views = [view for view in self.progress.agents.open() if view.actor != self.progress.lead]
        rows += [
            Text(row) for row in agents.rows(views, width, max(height // 3, 4), spin, time.time())
        ]
        if self.progress.todos.current:
            rows.append(Text(cut(f"▸ {self.progress.todos.current}", width), style="dim"))
        rows.append(_cut(Text(self._status(spin, len(views), width), style="cyan"), width))
        return Group(*rows)

    def _status(self, spin: str, others: int, width: int) -> str:
        state = self.progress.retry or STATES.get(
            self.progress.state, self.progress.state.replace("_", " ")
        )
        if others and (self.progress.state in (*FINAL, "working") or not self.progress.turn):
            state = f"waits for {others} agent{'s' if others > 1 else ''}"
        stops = "Ctrl-C stops all" if others else "Ctrl-C stops"
        return self.progress.status(width, before=f"{spin} {state}", after=stops)

    async def show(self, item: Event | Delta) -> None:
        """Print what is finished; keep what is on its way."""
        if isinstance(item, Delta):
            if item.kind == "text" and item.agent == self.progress.lead:
                self._text += item.text
            elif item.kind == "output":
                self._output[item.call_id] = (self._output.get(item.call_id, "") + item.text)[
                    -TAIL:
                ]
            return
        call = self.progress.apply(item)
        leads = item.agent == self.progress.lead
        if isinstance(item, ModelStarted | ModelFailed | RunEnded) and leads:
            self._text = ""
        if isinstance(item, ModelAnswered) and leads:
            self._text = ""
            if item.message.calls and item.message.text.strip():
                self._print(Text(neutral(item.message.text.strip()), style="dim"))
        text = happening(item)
        if text:
            self._print(Text(text, style="yellow"))
        elif call and call.done:
            self._output.pop(call.call.id, None)
            if (leads or call.code) and not self.progress.covered(call):
                self._print_call(call)
        # That one waits or has begun stands in its row already.
        if self.progress.moved is None or self.progress.moved.over:
            for number, text in enumerate(self.news(item)):
                self._print(_cut(Text(text, style="dim" if number else ""), self.console.width))

    async def aside(self, text: str) -> None:
        """Print it above what goes on."""
        self._print(Text(neutral(text.strip()), style="dim"))

    async def finish(self) -> None:
        """Print the line."""
        self.close()
        if self.progress.turn:
            self.console.print(Text(self.progress.status(self.console.width), style="cyan"))

    async def ended(self, end: RunEnded, session: str) -> None:
        """Give the answer below what it has cost."""
        await self.finish()
        await super().ended(end, session)

    def _print(self, text: Text) -> None:
        """Print a line; while a question stands there, it waits for the answer."""
        if self._held:
            self._waiting.append(text)
        else:
            self.console.print(text)

    def _print_call(self, view: CallView) -> None:
        width = self.console.width
        took = f" {duration(view.seconds)}"
        who = self.progress.shown_as(view.agent)
        head = Text(f"{view.mark} ", style="red" if view.code else "green")
        head.append(cut(f"{who}: " if who else "", width // 3))
        head.append(view.title(width - len(took) - head.cell_len - 1), style="bold")
        head.append(took, style="dim")
        self._print(_cut(head, width))
        first = view.summary(width - 6)
        if first:
            self._print(_cut(Text(f"    {first}", style="red dim" if view.code else "dim"), width))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Take the live part away while a question stands there."""
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
            if self.progress.state not in FINAL or self.progress.agents.open():
                self._start()

    def close(self) -> None:
        """Take the live part away, and give the cursor back."""
        if self._live is not None:
            self._live.update(Group())
            self._live.stop()
            self._live = None


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    text.no_wrap = True
    return text
