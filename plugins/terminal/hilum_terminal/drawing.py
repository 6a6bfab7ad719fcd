"""Draws the terminal: finished blocks go into the scrollback; the live rows below are redrawn."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import trio

from hilum_terminal.full_view import FullView
from hilum_terminal.markdown_rows import load_renderer
from hilum_terminal.screen import ERASE_BELOW, Screen, Size, encode_full_screen
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cut, one_line
from hilum_terminal.transcript import THREAD_SIZE, Block, Kind

if TYPE_CHECKING:
    from hilum_terminal.tty import Tty

FRAME_SECONDS = 1 / 30
# Number of finished rows above which no further blocks are rendered until rows have been written.
MAX_WAITING_ROWS = 500
# Seconds for which finished rows wait after a key press if the terminal is slow.
HOLD_SECONDS = 0.3


@attrs.frozen
class Layout:
    """The live rows of one frame.

    Attributes:
        rows: The rows, from top to bottom.
        cursor: Row and column of the cursor; None to hide it.
        parked: Whether output is arriving, so that the cursor must be on the first row in case of a
            resize.
        whole: Whether all rows are drawn even while the window is dragged, because they contain a
            question that the user must not answer without reading it.
    """

    rows: list[str]
    cursor: tuple[int, int] | None = None
    parked: bool = False
    whole: bool = False


class Drawing:
    """The output side of the terminal.

    Args:
        tty: The terminal.
        theme: The styles of the terminal.
        layout: Function that returns the live rows for a size in columns and lines.
        reflows: Whether the terminal rewraps its lines when its width changes.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        layout: Callable[[tuple[int, int]], Layout],
        *,
        reflows: bool = True,
    ) -> None:
        self.theme = theme
        self._tty = tty
        self._layout = layout
        self._screen = Screen(reflows=reflows)
        self._send, self._blocks = trio.open_memory_channel[Block](float("inf"))
        self._waiting = 0
        self._commits: deque[str] = deque()
        self._last_kind: Kind | None = None
        self._dirty = trio.Event()
        self._urgent = trio.Event()
        self._written = trio.Event()
        self._taken = trio.Event()
        self._was_parked = False
        self._held_since = math.inf
        self._full: FullView | None = None
        self._full_closed = trio.Event()
        self._full_frame = b""

    @property
    def is_behind(self) -> bool:
        """Whether finished rows wait because the terminal is slow."""
        return bool(self._waiting or self._commits) and self._tty.pace.is_slow(trio.current_time())

    def commit(self, block: Block) -> None:
        """Write a finished block after all earlier ones."""
        self._waiting += 1
        self._send.send_nowait(block)

    def redraw(self, *, at_once: bool = False) -> None:
        """Request a frame soon, or immediately because the user pressed a key."""
        self._dirty.set()
        if at_once:
            self._urgent.set()

    def restart(self) -> None:
        """Erase and redraw everything, because another program wrote to the terminal."""
        self._tty.write(self.leave())
        self._full_frame = b""
        self.redraw(at_once=True)

    def start_below(self) -> None:
        """Draw the live rows below the cursor: the shell has written below the previous ones."""
        self._screen.forget()
        self._full_frame = b""
        self.redraw(at_once=True)

    @property
    def full(self) -> FullView | None:
        """The full-screen view that is open."""
        return self._full

    def open_full(self, view: FullView) -> None:
        """Show a full-screen view; finished blocks wait until it is closed."""
        if self._full is None:
            self._tty.write(self.leave())
            self._tty.enter_alternate()
            self._full_closed = trio.Event()
        self._full = view
        self._full_frame = b""
        self.redraw(at_once=True)

    def close_full(self) -> None:
        """Return from the full-screen view to the conversation."""
        if self._full is None:
            return
        self._full = None
        self._tty.leave_alternate()
        self._full_closed.set()
        self.redraw(at_once=True)

    def leave(self) -> bytes:
        """Return the bytes that erase the live rows at the end of the program."""
        return self._screen.leave(self._tty.size())

    async def settle(self) -> None:
        """Wait until all finished blocks are in the scrollback."""
        while self._waiting or self._commits:
            self._written = trio.Event()
            self.redraw(at_once=True)
            await self._written.wait()

    async def paint(self) -> None:
        """Render finished blocks as rows, in order, until cancelled."""
        is_loaded = False
        async for block in self._blocks:
            # A slow terminal must not make memory grow: what waits is kept as source text, which the
            # session holds anyway.
            while len(self._commits) > MAX_WAITING_ROWS:
                self._taken = trio.Event()
                await self._taken.wait()
            # The window may have another size when the full-screen view is closed.
            while self._full is not None:
                await self._full_closed.wait()
            width = self._tty.size()[0]
            rows = _without_blank_ends(await self._make_rows(block, width))
            is_apart = block.kind in ("prompt", "text") or block.kind != self._last_kind
            if rows and is_apart and not block.continues and self._last_kind is not None:
                self._commits.append("")
            if rows:
                self._last_kind = block.kind
            self._commits.extend(rows)
            self._waiting -= 1
            self.redraw()
            if not self._waiting and not self._commits:
                self._written.set()
            if not is_loaded:
                # The first block is the greeting in plain text, which must not wait for this.
                is_loaded = True
                await trio.to_thread.run_sync(load_renderer, self.theme)

    async def _make_rows(self, block: Block, width: int) -> list[str]:
        try:
            if block.size <= THREAD_SIZE:
                return block.make(width, self.theme)
            return await trio.to_thread.run_sync(block.make, width, self.theme)
        except Exception as error:
            # A block that cannot be shown must not end the conversation.
            text = f"This part cannot be shown: {type(error).__name__}: {error}"
            return [self.theme.paint(cut(one_line(text), width), "bad")]

    async def draw(self) -> None:
        """Draw frames until cancelled: at most 30 per second, except after key presses."""
        last = -FRAME_SECONDS
        while True:
            # After a resize, rows that were left out for a moment are drawn again.
            with trio.move_on_at(self._calm_end(last)):
                await self._dirty.wait()
            if not self._urgent.is_set():
                allowed = self._tty.pace.next_frame(trio.current_time())
                with trio.move_on_at(max(last + FRAME_SECONDS, allowed)):
                    await self._urgent.wait()
            is_urgent = self._urgent.is_set()
            self._dirty = trio.Event()
            self._urgent = trio.Event()
            last = trio.current_time()
            await self._draw_frame(is_urgent)

    def _calm_end(self, last: float) -> float:
        end = self._screen.calm_until
        return end if end > last else math.inf

    async def _draw_frame(self, is_urgent: bool) -> None:
        # The size is read before each frame, because the terminal may not report size changes.
        size = self._tty.size()
        if self._full is not None:
            await self._draw_full(self._full, size)
            return
        try:
            layout = self._layout(size)
        except Exception as error:
            text = f"The rows cannot be drawn: {type(error).__name__}: {error}"
            layout = Layout([cut(one_line(text), size[0])])
        commits = [] if self._must_hold_back(layout, is_urgent) else self._take_commits()
        self._was_parked = layout.parked
        data = self._screen.frame(
            commits,
            layout.rows,
            size,
            layout.cursor,
            parked=layout.parked,
            whole=layout.whole,
            now=trio.current_time(),
        )
        self._tty.write(data)
        # Besides frames, the buffer may contain a bell or a text for the clipboard.
        if self._tty.has_output:
            await self._tty.flush()
        is_slow = self._tty.pace.is_slow(trio.current_time())
        if self._commits or (commits and is_slow):
            # After the last finished rows, the live rows no longer say that some are missing.
            self.redraw()
        if not self._commits and not self._waiting:
            self._written.set()

    def _must_hold_back(self, layout: Layout, is_urgent: bool) -> bool:
        """Return whether finished rows wait for a later frame.

        On a slow terminal, the response to a key press, such as the stopped state after Esc, goes
        first. It may take several frames, so finished rows wait for a moment. They are never held
        back for longer, so a key that is held down does not stop them.
        """
        now = trio.current_time()
        has_ended = self._was_parked and not layout.parked
        if self.is_behind and (is_urgent or has_ended):
            self._held_since = min(self._held_since, now)
        if self._held_since <= now < self._held_since + HOLD_SECONDS:
            return True
        self._held_since = math.inf
        return False

    async def _draw_full(self, view: FullView, size: Size) -> None:
        await view.prepare(size[0], self.theme)
        # Laying out a long text takes time, in which the user may have closed the view.
        if self._full is view:
            data = encode_full_screen(
                view.rows(*size, self.theme, trio.current_time()), size, view.cursor
            )
            if data != self._full_frame:
                self._full_frame = data
                self._tty.write(data)
        if self._tty.has_output:
            await self._tty.flush()

    def _take_commits(self) -> list[str]:
        taken: list[str] = []
        size = 0
        # The response to a key press has to wait for the frame, which takes longer on a slow
        # connection.
        room = self._tty.pace.row_bytes(trio.current_time())
        while self._commits and size < room:
            row = self._commits.popleft()
            size += len(row.encode("utf-8", "replace")) + len(ERASE_BELOW)
            taken.append(row)
        self._taken.set()
        return taken


def _without_blank_ends(rows: list[str]) -> list[str]:
    """Return the rows without blank rows at the beginning and end."""
    first = 0
    last = len(rows)
    while first < last and not rows[first].strip():
        first += 1
    while last > first and not rows[last - 1].strip():
        last -= 1
    return rows[first:last]
