"""The conversation in a terminal that can be redrawn: reads keys and draws rows.

The face runs plain trio tasks in one thread, which read keys, draw frames, render finished blocks,
follow the session and carry out the user's actions.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, UsageError, make_redactor
from hilum.errors import E_TOO_LARGE
from hilum.settings import use_environment
from hilum_view import SessionView

from hilum_terminal.approval_items import Item, WaitingCall
from hilum_terminal.approvals import (
    FOCUS_KEY,
    FOCUS_PAUSE,
    ApprovalPrompt,
    Routed,
    route_key,
)
from hilum_terminal.attention import attention
from hilum_terminal.careful_choice import CarefulChoice
from hilum_terminal.chat_protocol import Choice
from hilum_terminal.composer import Composer
from hilum_terminal.drawing import Drawing, Layout
from hilum_terminal.ended_items import BROKEN_LOG, describe_end, is_answered_elsewhere
from hilum_terminal.face_base import STOPPING, FaceBase
from hilum_terminal.full_view import FullView
from hilum_terminal.history import History, history_file
from hilum_terminal.key_bindings import list_keys
from hilum_terminal.keys import FocusChange, Key, KeyDecoder, Paste
from hilum_terminal.live_rows import SPINNER_SECONDS, LiveRows
from hilum_terminal.overlays import Overlay, Overlays
from hilum_terminal.pickers import Picked, Picker
from hilum_terminal.prompts import Confirmed, ConfirmPrompt, Entered, TextPrompt
from hilum_terminal.screen import terminal_reflows
from hilum_terminal.settings import TerminalSettings
from hilum_terminal.styles import Style, find_theme
from hilum_terminal.system_clipboard import MAX_TERMINAL_TEXT, terminal_copy
from hilum_terminal.transcript import Block, Transcript
from hilum_terminal.tty import Tty

if TYPE_CHECKING:
    from hilum_terminal.options import ChatOptions

# Seconds after which an escape byte counts as the Esc key, not as the beginning of a sequence.
ESCAPE_SECONDS = 0.03
# Seconds without input after which an unfinished paste is treated as complete.
PASTE_SECONDS = 1.0
# Seconds within which a key must be pressed again to leave hilum or to go back to an earlier
# message.
TWICE_SECONDS = 1.5
# Seconds without a key press after which the user is assumed to be away.
AWAY_SECONDS = 60.0
OPEN_PASTE = "The paste has not ended yet. If it was cut off, Esc or Ctrl-C ends it."


def run_face(options: ChatOptions) -> int:
    """Run a conversation, and return the exit code."""
    face = Face(options)
    return trio.run(face.run)


class Face(FaceBase):
    """A conversation in a terminal.

    Args:
        options: The options of the conversation.
    """

    def __init__(self, options: ChatOptions) -> None:
        super().__init__(options)
        self.theme = find_theme(options.environ)
        self.tty = Tty(
            on_leave=lambda: self.drawing.leave(), on_return=lambda: self._redraw_after_return()
        )
        self.drawing = Drawing(
            self.tty, self.theme, self._layout, reflows=terminal_reflows(options.environ)
        )
        self._open_conversation()
        self.overlays = Overlays(
            self._overlay_changed, self._may_show_overlay, lambda text: self.give_back([text])
        )
        self.approvals = ApprovalPrompt()
        with use_environment(options.environ):
            file = history_file()
        self.composer = Composer(self, History(file, options.workspace, redact=redact))
        self.live = LiveRows(self)
        self.notice = ""
        self.is_watched = True
        self._notice_until = 0.0
        self._last: dict[str, float] = {}
        self._decoder = KeyDecoder()
        # What was typed while an editor was opening.
        self._typed_ahead: list[Key | Paste] = []
        self._last_key = 0.0
        # When the user last typed text into the input.
        self._last_typed = -math.inf
        self._changed = trio.Event()

    # --- the program ------------------------------------------------------------------------------

    def _terminal_context(self) -> AbstractAsyncContextManager[Any]:
        return self.tty

    def _tasks(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return (
            self._load_history,
            self._read_keys,
            self.drawing.draw,
            self.drawing.paint,
            self._run_clock,
            self.live.watch,
        )

    def _greet(self) -> None:
        self.drawing.redraw(at_once=True)

    def _say_goodbye(self, text: str) -> None:
        self.tty.last_words = f"{text}\n"

    async def _settle(self) -> None:
        await self.composer.save_draft()
        self.drawing.close_full()
        await self.drawing.settle()

    async def _load_history(self) -> None:
        """Load the texts that the user sent in earlier sessions."""
        history = self.composer.history
        await trio.to_thread.run_sync(history.load)
        if history.problem:
            self.show_notice(history.problem, 10.0)

    async def _read_keys(self) -> None:
        """Read the terminal's input, and handle it key by key."""
        while True:
            data: bytes | None = None
            if self._decoder.pending_escape:
                with trio.move_on_after(ESCAPE_SECONDS):
                    data = await self.tty.read()
                keys = self._decoder.flush() if data is None else self._decoder.feed(data)
            elif self._decoder.in_paste:
                # The end marker of the paste may be lost, or the connection may be slow.
                with trio.move_on_after(PASTE_SECONDS):
                    data = await self.tty.read()
                keys = self._decoder.pause_paste() if data is None else self._decoder.feed(data)
                if data is None and not keys:
                    self.show_notice(OPEN_PASTE, 2 * PASTE_SECONDS)
            else:
                data = await self.tty.read()
                keys = self._decoder.feed(data)
            if data == b"":  # the terminal was closed
                self.leave()
                return
            if sum(not isinstance(key, FocusChange) for key in keys) > 1:
                self._note_burst()
            for key in keys:
                self._last_key = trio.current_time()
                try:
                    self._handle(key)
                except HilumError as error:
                    self.show_error(error)
                except Exception as error:
                    self.show_bug(error)
            self.drawing.redraw(at_once=True)
            self._changed.set()

    @property
    def _signals(self) -> Sequence[signal.Signals]:
        return (
            signal.SIGWINCH,
            signal.SIGTSTP,
            signal.SIGCONT,
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGINT,
            signal.SIGQUIT,
        )

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGWINCH:
            self.drawing.redraw(at_once=True)
        elif number == signal.SIGTSTP and self.tty.is_lent:
            # The user's editor suspends its whole process group. The terminal is already as the
            # editor left it.
            os.kill(os.getpid(), signal.SIGSTOP)
        elif number == signal.SIGTSTP:
            self.spawn(self.tty.suspend)
        elif number == signal.SIGCONT:
            if self.tty.resume():
                self.drawing.start_below()
                self._hide_questions()
        elif number != signal.SIGINT or not self.tty.is_lent:
            # Ctrl-C in an external editor is for the editor.
            self._leave_by_signal(number)

    async def _run_clock(self) -> None:
        """Redraw while something changes over time: a spinner, a countdown or a notice."""
        while True:
            now = trio.current_time()
            self._tick_questions(now)
            moment = self._next_moment(now)
            self._changed = trio.Event()
            if moment is None:
                await self._changed.wait()
            else:
                with trio.move_on_at(max(moment, now + 0.02)):
                    await self._changed.wait()
            self.drawing.redraw()

    @property
    def _is_covered(self) -> bool:
        """Whether the user sees something else than the conversation."""
        return self.drawing.full is not None or self.tty.is_lent

    def _tick_questions(self, now: float) -> None:
        """Let time pass for the questions, of which none that is hidden takes the focus or a key."""
        if self._is_covered:
            return
        if self.overlays.current is None:
            routed = self.approvals.tick(now, draft_empty=self.composer.is_empty)
            self._take_routed(routed)
        self.overlays.tick(now)
        self.overlays.update()

    def _next_moment(self, now: float) -> float | None:
        moments = [self.approvals.next_tick(now)]
        if not self._is_covered:
            moments.append(self.overlays.next_tick())
        if self.overlays.is_waiting and now < self._last_typed + FOCUS_PAUSE:
            moments.append(self._last_typed + FOCUS_PAUSE)
        if self.live.is_animated:
            moments.append(now + SPINNER_SECONDS)
        if self._notice_until > now:
            moments.append(self._notice_until)
        return min((moment for moment in moments if moment is not None), default=None)

    # --- keys -------------------------------------------------------------------------------------

    def _note_burst(self) -> None:
        """Let keys that arrive together answer nothing: they are a paste, or quick typing."""
        now = trio.current_time()
        self.approvals.note_burst(now)
        self.overlays.note_burst(now)
        if self.drawing.full is not None:
            self.drawing.full.note_burst(now)

    def _handle(self, key: Key | Paste | FocusChange) -> None:
        now = trio.current_time()
        if isinstance(key, FocusChange):
            self.is_watched = key.focused
            return
        # A question that opens while the user types must not take the next key for an answer.
        self.approvals.note_key(now)
        if self._holds_keys:
            self._typed_ahead.append(key)
            return
        if isinstance(key, Key) and self._handle_everywhere(key):
            return
        if self.drawing.full is not None:
            view = self.drawing.full
            if view.handle(key, now):
                self.drawing.close_full()
                if view.is_answered:
                    self._take_routed(self.approvals.answer_viewed(now))
                # The user opened the view from the question, so the question keeps the focus.
                self._hide_questions(ends_focus=False)
            return
        if self.overlays.current is not None:
            self._handle_overlay(self.overlays.current, key, now)
            return
        if self.overlays.is_waiting and key == Key(FOCUS_KEY):
            self.overlays.show_now()
            return
        if self.approvals.current is not None:
            self._take_routed(route_key(self.approvals, key, now))
            return
        self._compose(key)

    def _handle_overlay(self, overlay: Overlay, key: Key | Paste, now: float) -> None:
        """Pass a key to a command's question; what is not for the question is for the input."""
        passed = self.overlays.handle(key, now)
        if overlay is self.overlays.current and overlay.typed:
            # If the command is stopped now, its next question must not take the next keys.
            self._last_typed = now
        elif isinstance(key, Key) and key.name == "enter":
            self._last_typed = -math.inf
            self.overlays.update()
        for each in passed:
            self._compose(each)

    def _may_show_overlay(self) -> bool:
        """Return whether a command's question may take the keys: the user is not typing."""
        is_covered = self._is_covered or self._holds_keys
        is_typing = trio.current_time() < self._last_typed + FOCUS_PAUSE
        is_writing = not self.composer.is_empty or self.approvals.is_writing
        return not (is_covered or is_typing or is_writing)

    def _overlay_changed(self) -> None:
        self._hide_approvals()
        self.changed()

    def _hide_approvals(self, *, ends_focus: bool = True) -> None:
        """Let no key answer a waiting item until the user has seen it again."""
        self._take_routed(self.approvals.hide(ends_focus=ends_focus))

    def _hide_questions(self, *, ends_focus: bool = True) -> None:
        """Let no key answer anything until the user has seen it again."""
        held = self.overlays.hide()
        if self.overlays.is_open:
            # It appears again at once, unless the user goes on typing.
            self.overlays.put_aside()
        self._hide_approvals(ends_focus=ends_focus)
        for key in held:
            self._compose(key)

    def _return_typed_ahead(self) -> None:
        typed = self._typed_ahead
        self._typed_ahead = []
        if self.composer.add_typed_ahead(typed):
            # The next keys continue this text.
            if self.overlays.is_open:
                self.overlays.put_aside()
            self.show_notice("What you typed before the editor opened is in the input.", 5.0)
        self.changed()

    def _handle_everywhere(self, key: Key) -> bool:
        """Handle a global key, and return whether the key is global."""
        match key.name:
            case "ctrl-l":
                self.drawing.restart()
            case "ctrl-z":
                self.spawn(self.tty.suspend)
            case _:
                return False
        return True

    def _compose(self, key: Key | Paste) -> None:
        """Pass a key to the composer, or handle it as a key of the conversation."""
        if isinstance(key, Paste) or key.name == "text":
            self._last_typed = trio.current_time()
        elif key.name == "enter" and not self.overlays.is_open:
            # What was typed is sent. If it is a command, its question may open at once.
            self._last_typed = -math.inf
        # In a nonempty draft, Ctrl-T transposes two characters.
        if key == Key("ctrl-t") and self.composer.is_empty:
            self.live.toggle_panels()
            return
        # In a nonempty draft, Ctrl-B moves the cursor.
        if key == Key("ctrl-b") and self.composer.is_empty:
            self.spawn(lambda: self.commands.run("/background"))
            return
        if self.composer.handle(key):
            return
        if not isinstance(key, Key):
            return
        match key.name:
            case "esc":
                self._escape()
            case "ctrl-c":
                self._interrupt()
            case "ctrl-d" if self.composer.is_empty:
                self._leave_twice("ctrl-d", "Ctrl-D")
            case "ctrl-o":
                self.live.unfold_last()
            case "alt-o":
                self.live.open_last()
            case "alt-m":
                self.commands.next_mode()
            case "alt-up":
                self._edit_queued()
            case "shift-tab":
                self.reopen_plan()

    def _escape(self) -> None:
        if self._stop():
            return
        if not self.composer.is_empty:
            self.show_notice("Ctrl-C clears the draft; Up restores it.")
            return
        if self._is_second("esc"):
            self.enqueue(lambda: self.commands.run("/rewind"), "/rewind")
        else:
            self.show_notice("Press Esc again to go back to an earlier message.")

    def _interrupt(self) -> None:
        """Handle Ctrl-C: clear the draft, or stop the run, or leave at the second press."""
        if not self.composer.is_empty:
            self.composer.put_away()
            self.show_notice("The draft was cleared. Up restores it.")
            return
        if not self._stop():
            self._leave_twice("ctrl-c", "Ctrl-C")

    def _leave_twice(self, key: str, label: str) -> None:
        if self._is_second(key):
            self.leave()
        else:
            self.show_notice(f"Press {label} again to exit.")

    def _is_second(self, key: str) -> bool:
        now = trio.current_time()
        is_second = now - self._last.get(key, -TWICE_SECONDS) < TWICE_SECONDS
        self._last = {} if is_second else {key: now}
        return is_second

    def _edit_queued(self) -> None:
        text = self.take_last_message()
        if text:
            self.composer.give_back([text])

    def _take_routed(self, routed: Routed) -> None:
        """Apply the result of routing a key through the approval prompt."""
        for result in routed.results:
            self.commands.decide(result)
        if routed.returned:
            self.composer.give_back([routed.returned])
        for key in routed.composer:
            self._compose(key)

    def _run_command(self, text: str) -> None:
        # The draft that contained the command is gone.
        self.conversation.transcript.write_command(text)
        super()._run_command(text)

    def show_keys(self) -> None:
        """Show the list of keys."""
        self.say(list_keys())

    # --- what the conversation tells --------------------------------------------------------------

    def make_transcript(self, view: SessionView) -> Transcript:
        """Return a transcript that is written to the scrollback."""
        return Transcript(view, self.drawing.commit)

    def changed(self) -> None:
        """Redraw soon."""
        self.drawing.redraw()
        self._changed.set()

    async def welcome(self) -> None:
        """Greet the user in a new session, and help them choose a model if there is none."""
        self._apply_settings()
        await super().welcome()

    def _apply_settings(self) -> None:
        """Apply the user's settings, which are known once the session is open."""
        session = self.conversation.session
        if session is None:
            return
        settings = session.settings(TerminalSettings)
        background = "" if settings.background == "auto" else settings.background
        self.theme = find_theme(self.options.environ, background=background)
        self.drawing.theme = self.theme
        self.composer.keeps_history = settings.history

    def give_back(self, texts: list[str], *, is_typed: bool = False) -> None:
        """Insert texts into the draft again."""
        self.composer.give_back(texts, is_typed=is_typed)
        self.drawing.redraw(at_once=True)

    def _write_problem(self, text: str, *, is_bug: bool = False) -> None:
        self.conversation.transcript.note(text if is_bug else f"✗ {text}", "bad")

    def say(self, text: str, *, style: Style = "plain") -> None:
        """Write lines above the input."""
        self.conversation.transcript.note(text.rstrip("\n"), style)

    def commit(self, block: Block) -> None:
        """Write a finished block above the input."""
        self.drawing.commit(block)

    def open_full_view(self, view: FullView) -> None:
        """Show a text in the full-screen view until the user closes it."""
        self.drawing.open_full(view)

    def show_notice(self, text: str, seconds: float = 3.0) -> None:
        """Show a notice above the input for a few seconds."""
        self.notice = text
        self._notice_until = trio.current_time() + seconds
        self._changed.set()

    def call_attention(self, text: str) -> None:
        """Ring the bell or show a notification, unless the user is looking at the terminal."""
        session = self.conversation.session
        # Many terminals do not report whether they have the focus; a key press shows that the user
        # is there.
        is_away = trio.current_time() - self._last_key > AWAY_SECONDS
        if session is None or (self.is_watched and not is_away):
            return
        way = session.settings(TerminalSettings).notify
        self.tty.write(attention(way, text))
        self.drawing.redraw()

    def _copy_by_terminal(self, text: str) -> str:
        data = terminal_copy(text)
        if not data:
            return ""
        self.tty.write(data)
        self.drawing.redraw()
        return "through the terminal, if it allows this (OSC 52)"

    def _offer_text(self, text: str) -> str:
        size = len(text.encode(errors="replace"))
        raise UsageError(
            f"The text has {size:,} bytes, and a terminal copies at most {MAX_TERMINAL_TEXT:,}."
            " Nothing was copied.",
            code=E_TOO_LARGE,
            hint="Install wl-clipboard (Wayland) or xclip (X11), or write the conversation to a file"
            " with `/export FILE`.",
        )

    def lend(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which another program may use the terminal."""
        return self.tty.lent()

    # --- what commands ask ------------------------------------------------------------------------

    async def _choose(
        self, title: str, choices: Sequence[Choice], selected: int, *, has_filter: bool
    ) -> Choice | None:
        overlay: Picker[Choice] | CarefulChoice[Choice]
        if has_filter:
            overlay = Picker(title, choices, selected=selected, is_guarded=True)
        else:
            overlay = CarefulChoice(title, choices, selected=selected)
        result = await self.overlays.show(overlay)
        return result.entry if isinstance(result, Picked) else None

    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        """Ask a yes-or-no question; "no" is selected."""
        prompt = ConfirmPrompt(question, yes=yes, no=no, details=details)
        result = await self.overlays.show(prompt)
        return isinstance(result, Confirmed) and result.accepted

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        """Ask for a line of text; return ``None`` if the user pressed Esc."""
        result = await self.overlays.show(TextPrompt(question, default=default, secret=secret))
        return result.text if isinstance(result, Entered) else None

    def show_waiting(self, items: Sequence[Item]) -> None:
        """Show the items that wait for the user."""
        now = trio.current_time()
        current = self.approvals.current
        ended = ""
        if current is not None:
            ended = describe_end(
                current,
                self.conversation.session,
                is_working=self.conversation.is_working,
                now=now,
            )
        known = {item.id for item in self.approvals.waiting}
        # The transcript reports the answer to a call that was given elsewhere.
        is_reported = (
            isinstance(current, WaitingCall)
            and ended != BROKEN_LOG
            and is_answered_elsewhere(current.id, self.conversation.session)
        )
        routed = self.approvals.update(items, now, ended=ended, is_reported=is_reported)
        for item in items:
            # For approvals, the conversation itself notifies the user.
            if item.id not in known and not isinstance(item, WaitingCall):
                self.call_attention("hilum is waiting for your answer")
        self._take_routed(routed)
        self.drawing.redraw()
        self._changed.set()

    def reopen_item(self, identity: str) -> None:
        """Show an item again, because its answer could not be delivered."""
        self.approvals.reopen(identity)

    def end_edit(self, identity: str) -> None:
        """Let an item that was open in the user's editor be answered again."""
        self.approvals.end_edit(identity)
        self._changed.set()

    # --- drawing ----------------------------------------------------------------------------------

    def _layout(self, size: tuple[int, int]) -> Layout:
        now = trio.current_time()
        has_stopped = self.notice == STOPPING and not self.is_busy
        if self._notice_until <= now or has_stopped:
            self.notice = ""
        layout = self.live.layout(size, now)
        for identity in self.approvals.take_shown():
            self.commands.start_clock(identity)
        return layout

    def _redraw_after_return(self) -> None:
        # Another program wrote to the alternate screen, too.
        self.drawing.restart()
        # What was typed before the question is drawn again was meant for the other program.
        self._hide_questions()


def redact(text: str) -> str:
    """Return a prompt with its secrets redacted, for the history; empty if redaction fails."""
    try:
        return make_redactor()(text)
    except HilumError:
        # Without the guard, a prompt that may contain secrets is not saved.
        return ""
