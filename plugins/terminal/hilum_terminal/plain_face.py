"""The conversation as plain lines, without redrawing: for screen readers and simple terminals.

The terminal stays in its normal mode, so that it edits the line that the user types. Every line is
written once, from top to bottom, and contains no escape sequence. The user answers a question with
a whole word and Enter.

All output goes through one channel, so that its order is kept even while the terminal is stopped or
slow.
"""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
)
from typing import TYPE_CHECKING

import attrs
import trio
from hilum_view import Approval, Card, SessionView, format_duration

from hilum_terminal.approval_items import (
    EditCall,
    Item,
    PlanDecision,
    ShowWhole,
    WaitingCall,
    WaitingPlan,
)
from hilum_terminal.approval_rules import find_also_covered
from hilum_terminal.call_descriptions import describe_action
from hilum_terminal.chat_protocol import Choice
from hilum_terminal.ended_items import BROKEN_LOG, describe_end, is_answered_elsewhere
from hilum_terminal.face_base import FaceBase
from hilum_terminal.full_view import FullView
from hilum_terminal.input_kinds import read_input
from hilum_terminal.plain_questions import (
    AskedItem,
    Misfit,
    NextStep,
    PlainStep,
    Reply,
    allows_something,
    answer_rows,
    answers_left,
    cancel,
    describe_result,
    question_rows,
    read_reply,
)
from hilum_terminal.plain_terminal import PlainTerminal
from hilum_terminal.settings import TerminalSettings
from hilum_terminal.styles import PLAIN, Style
from hilum_terminal.text_width import escape_text, one_line, wrap_text
from hilum_terminal.transcript import THREAD_SIZE, Block, Transcript

if TYPE_CHECKING:
    from hilum_terminal.options import ChatOptions

EARLY = 0.3
"""Seconds after a question is written during which no line answers it. Nobody reads and types so
quickly, so such a line was begun before the question appeared."""
ALONE = 0.2
"""Seconds before and after a line that allows something in which no other line may arrive. The
terminal delivers a paste like typed lines, but much faster than anybody types."""
SILENCE = 30.0
"""Seconds without output after which hilum says that it is still working."""
SHORT_CALL = 0.5
"""Minimum duration, in seconds, of a call that is announced. A shorter call is written only once,
with its result."""
LEAVE_SECONDS = 3.0
"""Seconds within which Ctrl-C must be pressed again to leave."""
REMINDER = 60.0
"""Seconds before a question's deadline at which hilum reminds the user of it."""
REOPEN_DELAY = 0.3
"""Seconds to wait for the edited version of a call after the editor is closed."""
HELP = (
    "Type a prompt and press Enter. What you type while the agent is running is sent to it at once;"
    " Ctrl-C or /stop stops it. When hilum asks a question, answer with a whole word and Enter."
    " /help lists the commands, ? shows this help, /exit or Ctrl-D exits hilum."
)


def run_plain(options: ChatOptions) -> int:
    """Run a conversation in plain lines, and return the exit code."""
    return trio.run(PlainFace(options).run)


@attrs.frozen
class _Text:
    """Text to write.

    Attributes:
        text: The text.
        end: Text to write after ``text``; empty if the user types on the same line.
        written: Function to call when the text has been written to the terminal.
    """

    text: str
    end: str = "\n"
    written: Callable[[], None] = lambda: None


@attrs.frozen
class _Bell:
    """A request to ring the bell."""


@attrs.define(eq=False)
class _OpenQuestion:
    """A command's question, which waits for a line of input.

    Attributes:
        secret: Whether to hide the text that the user types.
        allows: Returns whether an answer allows something, so that it must come alone.
        is_open: Whether a line can answer the question yet.
        line: The answer; None if the user cancelled the question.
        answered: Whether ``line`` is set.
    """

    secret: bool
    allows: Callable[[str], bool]
    is_open: bool = False
    line: str | None = None
    answered: trio.Event = attrs.field(factory=trio.Event)

    def answer(self, line: str | None) -> None:
        """Set the answer."""
        if not self.answered.is_set():
            self.line = line
            self.answered.set()


def _is_nothing(line: str) -> bool:
    return False


def _is_yes(line: str) -> bool:
    return line.strip().lower() == "yes"


def _is_anything(line: str) -> bool:
    return bool(line.strip())


@attrs.frozen(eq=False)
class _HeldLine:
    """A line that answers a question if no other line follows at once."""

    line: str
    question: _OpenQuestion | AskedItem


class PlainFace(FaceBase):
    """A conversation in plain lines.

    Args:
        options: The options of the conversation.
    """

    has_keys = False

    def __init__(self, options: ChatOptions) -> None:
        super().__init__(options)
        self.theme = PLAIN
        self.terminal = PlainTerminal(
            on_line=self._take_line, on_end=self._take_end, on_lost=self.leave
        )
        self._output_send, self._output = trio.open_memory_channel[Block | _Text | _Bell](
            float("inf")
        )
        self._unwritten = 0
        self._settled = trio.Event()
        self._at_line_start = True
        self._wrote = trio.Event()
        self._is_leaving = False
        self._last_interrupt = -LEAVE_SECONDS
        # The lines that were typed while an editor was opening.
        self._typed_ahead: list[str] = []
        # Number of editors that were closed so recently that no question is written again yet.
        self._reopenings = 0
        # Commands ask one question at a time, and hilum asks about no waiting item meanwhile,
        # because a "yes" must have only one meaning.
        self._one_question = trio.Lock()
        self._question: _OpenQuestion | None = None
        self._last_line = -math.inf
        # A line that allows something if no other line follows at once.
        self._held: _HeldLine | None = None
        self._forget_session()
        self._open_conversation()

    def _forget_session(self) -> None:
        """Discard the state of a session, because ids and numbers restart in the next one."""
        # The calls that were announced or will be announced.
        self._begun: set[int] = set()
        # The waiting items, the item that is asked about, and the answered items that are about to
        # disappear.
        self._items: tuple[Item, ...] = ()
        self._asked: AskedItem | None = None
        self._answered: set[str] = set()
        # Items that were asked about and still wait, so that their end can be reported.
        self._seen: dict[str, Item] = {}
        self._cards_of_seen: dict[str, Card] = {}
        self._reminded: set[str] = set()

    # --- the program ------------------------------------------------------------------------------

    @asynccontextmanager
    async def _terminal_context(self) -> AsyncIterator[None]:
        with self.terminal:
            yield

    def _tasks(self) -> Sequence[Callable[[], Awaitable[None]]]:
        return (self.terminal.read, self._paint, self._watch_silence)

    def _greet(self) -> None:
        self.show_keys()

    def _say_goodbye(self, text: str) -> None:
        self.say(text)

    def leave(self) -> None:
        """End the conversation, even while a question is open."""
        self._is_leaving = True
        if self._question is not None:
            self._question.answer(None)
        super().leave()

    @property
    def _signals(self) -> Sequence[signal.Signals]:
        return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGINT:
            self._interrupt()
        else:
            self._leave_by_signal(number)

    def _interrupt(self) -> None:
        """Handle Ctrl-C: cancel the question, or stop the run, or leave at the second press."""
        if self.terminal.is_lent:
            # Ctrl-C was meant for the editor.
            return
        self.terminal.forget_partial_line()
        if self._held is not None:
            self.give_back([self._held.line])
            self._held = None
        if self._question is not None:
            self._question.answer(None)
        elif self._stop():
            return
        elif trio.current_time() - self._last_interrupt < LEAVE_SECONDS:
            self.leave()
        else:
            self._last_interrupt = trio.current_time()
            self.say("Press Ctrl-C again to exit.")

    async def _watch_silence(self) -> None:
        """Report every 30 seconds that the agent is still working, unless there is other output."""
        count = 0
        while True:
            self._wrote = trio.Event()
            with trio.move_on_after(SILENCE):
                await self._wrote.wait()
            if self._wrote.is_set():
                count = 0
                continue
            count += 1
            waits = self._asked is not None or self._question is not None
            if self.conversation.is_working and not waits:
                text = f"… still working ({format_duration(count * SILENCE)})"
                self._put(_Text(text))

    # --- lines out --------------------------------------------------------------------------------

    async def _paint(self) -> None:
        """Write all queued output, in order."""
        async for piece in self._output:
            try:
                await self._write_piece(piece)
            finally:
                self._unwritten -= 1
                if not self._unwritten:
                    self._settled.set()

    async def _write_piece(self, piece: Block | _Text | _Bell) -> None:
        if isinstance(piece, _Bell):
            await self.terminal.ring()
        elif isinstance(piece, _Text):
            await self._write_lines(piece.text, piece.end)
            piece.written()
        else:
            rows = await self._make_rows(piece)
            if rows:
                await self._write_lines("\n".join(rows), "\n")

    async def _make_rows(self, block: Block) -> list[str]:
        width = self.terminal.width()
        if block.size <= THREAD_SIZE:
            return block.make(width, self.theme)
        return await trio.to_thread.run_sync(block.make, width, self.theme)

    async def _write_lines(self, text: str, end: str) -> None:
        # If the user is being asked on the same line, other output begins on a new line.
        start = "" if self._at_line_start else "\n"
        self._at_line_start = end == "\n"
        await self.terminal.send(f"{start}{text}{end}")

    def _put(self, piece: Block | _Text | _Bell) -> None:
        if isinstance(piece, Block) and piece.kind != "note":
            # The work that is written now separates the line that the user typed from its run.
            self.conversation.transcript.echoed = ""
        self._unwritten += 1
        self._output_send.send_nowait(piece)

    async def _settle(self) -> None:
        """Wait until all output has been written."""
        while self._unwritten and not self.terminal.gone:
            self._settled = trio.Event()
            await self._settled.wait()

    def say(self, text: str, *, style: Style = "plain") -> None:
        """Write lines; the style is not visible in plain text."""
        self._write_rows(wrap_text(escape_text(text.rstrip("\n")), self.terminal.width()))

    def _write_rows(self, rows: Sequence[str], written: Callable[[], None] = lambda: None) -> None:
        self._wrote.set()
        self._put(_Text("\n".join(rows), written=written))

    # --- lines in ---------------------------------------------------------------------------------

    def _take_line(self, line: str) -> None:
        """Pass a line to the open question or, if there is none, send it."""
        now = trio.current_time()
        is_alone = now >= self._last_line + ALONE
        self._last_line = now
        held = self._held
        self._held = None
        if held is not None:
            # Both lines are parts of one text, so neither of them may allow anything.
            self._pass_line(held.line, is_alone=False)
        self._pass_line(line, is_alone=is_alone)

    def _pass_line(self, line: str, *, is_alone: bool) -> None:
        """Pass a line to the open question or, if there is none, send it.

        Args:
            line: The line.
            is_alone: Whether no other line arrived with it, so that it may allow something.
        """
        question = self._question
        if question is not None and question.answered.is_set():
            # This line arrived together with the answer, before the command could go on.
            question = None
        if question is None or not question.secret:
            # The terminal has echoed the newline.
            self._at_line_start = True
        if self._holds_keys:
            self._typed_ahead.append(line)
        elif question is not None:
            self._answer_question(question, line, is_alone=is_alone)
        elif self._asked is not None and self._answer_item(self._asked, line, is_alone=is_alone):
            return
        elif line.strip() == "?":
            self.show_keys()
        elif line.strip().lower() == "plan" and self._postponed_plan():
            self.reopen_plan()
            self._ask_next()
        elif line.strip():
            self._submit_line(line)

    def _submit_line(self, line: str) -> None:
        """Send a line that is no answer, and say so if a question is open."""
        asked = self._asked
        # From now on, the next output comes after the line that the terminal has echoed.
        self.conversation.transcript.echoed = line.strip()
        self.submit(line)
        if asked is not None and asked.is_open and read_input(line).kind == "prompt":
            self.say(f"This is not an answer, so the agent reads it as text. {answers_left(asked)}")

    def _postponed_plan(self) -> bool:
        """Return whether there is a plan that the user has left undecided."""
        return any(
            isinstance(item, WaitingPlan) and item.id in self._answered for item in self._items
        )

    def _return_typed_ahead(self) -> None:
        typed = self._typed_ahead
        self._typed_ahead = []
        self.give_back([line for line in typed if line.strip()])

    def _hold(self, line: str, question: _OpenQuestion | AskedItem) -> None:
        """Answer a question with a line if no other line follows at once."""
        assert self._nursery is not None
        held = _HeldLine(line, question)
        self._held = held
        self._nursery.start_soon(self._answer_later, held)

    async def _answer_later(self, held: _HeldLine) -> None:
        await trio.sleep(ALONE)
        if self._held is not held:
            return
        self._held = None
        question = held.question
        if isinstance(question, _OpenQuestion):
            question.answer(held.line)
            return
        reply = read_reply(question, held.line, self._open_items())
        if question is self._asked and reply is not None:
            self._carry_out(question, reply)
        else:
            # The question has ended or changed meanwhile.
            self._submit_line(held.line)

    def _answer_question(self, question: _OpenQuestion, line: str, *, is_alone: bool) -> None:
        if question.is_open and not question.allows(line):
            question.answer(line)
        elif question.is_open and is_alone:
            self._hold(line, question)
        elif question.is_open:
            self.say(f"hilum discarded this line because it came together with others: {line}")
        elif question.secret:
            # The line may be the secret, so the agent must not read it.
            self.say(
                "hilum discarded that line because you typed it before the question. Type it again."
            )
        elif line.strip():
            self.say(f"hilum discarded this line because you typed it before the question: {line}")

    def _take_end(self) -> None:
        """Handle Ctrl-D: cancel the open question or, if there is none, leave hilum."""
        if self._holds_keys:
            # Ctrl-D was meant for the editor that is opening.
            return
        if self._question is not None:
            self._question.answer(None)
        elif self._asked is not None and self._asked.is_open:
            self._carry_out(self._asked, cancel(self._asked))
        elif self._asked is not None or self._reopenings:
            # The user pressed it before they could read the question, perhaps to end an editor's
            # input. It must neither answer nor end the conversation.
            self.say("Ctrl-D had no effect, because it came before the question. Press it again.")
        else:
            self.leave()

    async def _open_question(self, question: _OpenQuestion | AskedItem) -> None:
        """Let lines answer a question, but only lines that were typed after it was shown."""
        await trio.sleep(EARLY)
        # If the program was busy, lines that were typed before the question are still unread.
        self.terminal.take_input()
        question.is_open = True

    def _run_command(self, text: str) -> None:
        if text == "/stop" and self.conversation.is_working:
            # The command must not wait for the action that is running.
            self._stop()
        else:
            super()._run_command(text)

    def show_keys(self) -> None:
        """Write how to use the plain lines."""
        self.say(HELP)

    # --- what commands ask ------------------------------------------------------------------------

    async def _choose(
        self, title: str, choices: Sequence[Choice], selected: int, *, has_filter: bool
    ) -> Choice | None:
        lines = [title]
        for number, choice in enumerate(choices, 1):
            mark = "*" if number - 1 == selected else " "
            hint = f"  ({one_line(choice.hint)})" if choice.hint else ""
            lines.append(f"{mark} {number}. {one_line(choice.label)}{hint}")
        self.say("\n".join(lines))
        while True:
            # A list without a filter asks for a decision, such as the trust in a folder.
            allows = _is_anything if not has_filter else _is_nothing
            typed = await self._ask_line("Number, or Enter to cancel:", allows=allows)
            if not typed:
                return None
            # isdigit() would also accept characters such as "²".
            if typed.isdecimal() and 1 <= int(typed) <= len(choices):
                return choices[int(typed) - 1]
            self.say(f"Please type a number from 1 to {len(choices)}.")

    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        """Ask a yes-or-no question; only the word ``yes`` means yes."""
        if details:
            self.say(details)
        text = f"{question} Type yes ({yes}), or Enter ({no}):"
        typed = await self._ask_line(text, allows=_is_yes)
        return typed is not None and _is_yes(typed)

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        """Ask for a line of text; return ``None`` if the user pressed Ctrl-D or Ctrl-C."""
        if secret:
            return await self._ask_line(f"{question} (not shown)", secret=True)
        hint = f" [{default}]" if default else ""
        typed = await self._ask_line(f"{question}{hint}")
        return typed if typed is None else typed or default

    async def _ask_line(
        self, text: str, *, secret: bool = False, allows: Callable[[str], bool] | None = None
    ) -> str | None:
        """Write a question, and return the line that answers it; ``None`` if the user cancelled.

        Args:
            text: The question.
            secret: Whether to hide the text that the user types.
            allows: Returns whether a line allows something; by default, no line does.
        """
        async with self._one_question:
            if self._is_leaving:
                return None
            question = _OpenQuestion(secret, allows or _is_nothing)
            self._question = question
            self._asked = None
            shown = "\n".join(wrap_text(escape_text(text), self.terminal.width()))
            try:
                with self.terminal.hidden() if secret else nullcontext():
                    written = lambda: self._begin_question(question)  # noqa: E731
                    self._put(_Text(shown, end=" ", written=written))
                    await question.answered.wait()
            finally:
                self._question = None
                # Ask about the waiting item again, because the command's question was written
                # below it.
                self._ask_next()
        return question.line.strip() if question.line is not None else None

    def _begin_question(self, question: _OpenQuestion | AskedItem) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(self._open_question, question)

    # --- what waits for the user ------------------------------------------------------------------

    def show_waiting(self, items: Sequence[Item]) -> None:
        """Ask about the waiting items one after another, and report items that no longer wait."""
        ids = {item.id for item in items}
        for identity in [each for each in self._seen if each not in ids]:
            item = self._seen.pop(identity)
            card = self._cards_of_seen.pop(identity, None)
            if identity not in self._answered:
                why = describe_end(
                    item,
                    self.conversation.session,
                    is_working=self.conversation.is_working,
                    now=trio.current_time(),
                    card=card,
                )
                # The transcript reports the answer to a call that was given elsewhere.
                is_reported = (
                    isinstance(item, WaitingCall)
                    and why != BROKEN_LOG
                    and is_answered_elsewhere(identity, self.conversation.session)
                )
                if not is_reported:
                    self.say(f"No longer waiting: {why}.")
        self._answered &= ids
        self._items = tuple(items)
        for item in items:
            if item.id in self._seen:
                self._seen[item.id] = item
                self._remind_of(item)
        self._ask_next()

    def _ask_next(self) -> None:
        """Ask again about the last item, or about the first one if the last one no longer waits."""
        waiting = self._open_items()
        # If the log cannot be written, nothing can be answered.
        if self._question is not None or not waiting or self.conversation.is_broken:
            self._asked = None
            return
        asked = self._asked
        current = waiting[0]
        if asked is not None:
            current = next((item for item in waiting if item.id == asked.item.id), current)
            if current == asked.item:
                self._say_count(asked, len(waiting))
                return
        self._ask_about(current, waiting)

    def _open_items(self) -> list[Item]:
        """Return the items that wait for an answer, oldest first."""
        return [item for item in self._items if item.id not in self._answered]

    def _say_count(self, asked: AskedItem, count: int) -> None:
        if count > asked.count:
            self.say(f"{count} questions are waiting. The one above is question 1 of {count}.")
        asked.count = count

    def _ask_about(self, item: Item, waiting: Sequence[Item], step: PlainStep = "choose") -> None:
        approval = self._find_approval(item)
        asked = AskedItem(
            item,
            step,
            count=len(waiting),
            seconds=approval.seconds if approval is not None else 0.0,
            unconfined=approval is not None and approval.risk == "execute" and not _sandbox(item),
            also=find_also_covered(item, waiting),
        )
        is_new = item.id not in self._seen
        self._asked = asked
        self._seen[item.id] = item
        if approval is not None:
            card = self._find_card(approval)
            if card is not None:
                self._cards_of_seen[item.id] = card

        def begin() -> None:
            # The time limit starts when the user can read the question.
            self.commands.start_clock(item.id)
            self._begin_question(asked)

        self._write_rows(question_rows(asked, self.terminal.width()), begin)
        if is_new and not isinstance(item, WaitingCall):
            # For approvals, the conversation itself notifies the user.
            self.call_attention("hilum is waiting for your answer")

    def _find_approval(self, item: Item) -> Approval | None:
        for approval in self.conversation.view.waiting:
            if isinstance(approval, Approval) and approval.id == item.id:
                return approval
        return None

    def _find_card(self, approval: Approval) -> Card | None:
        for card in reversed(self.conversation.view.cards):
            if card.agent == approval.agent and card.call.id == approval.call.id:
                return card
        return None

    def _remind_of(self, item: Item) -> None:
        """Remind the user of a question one minute before its deadline."""
        wait = item.deadline - REMINDER - trio.current_time() if item.deadline else 0.0
        if wait <= 0 or item.id in self._reminded or self._nursery is None:
            return
        self._reminded.add(item.id)

        async def remind() -> None:
            await trio.sleep(wait)
            if item.id in self._seen and item.id not in self._answered:
                self.say(f"{REMINDER:.0f} seconds left to answer.")

        self._nursery.start_soon(remind)

    def _answer_item(self, asked: AskedItem, line: str, *, is_alone: bool) -> bool:
        """Answer the open question with a line, and return whether the line is an answer."""
        reply = read_reply(asked, line, self._open_items())
        if reply is None:
            return False
        if not asked.is_open:
            self.say("You typed that line before the question, so it is sent as a message.")
            return False
        if not allows_something(reply):
            self._carry_out(asked, reply)
        elif is_alone:
            self._hold(line, asked)
        else:
            self.say("That line came together with other text, so it is sent as a message.")
            return False
        return True

    def _carry_out(self, asked: AskedItem, reply: Reply) -> None:
        """Carry out the user's reply to the open question."""
        if isinstance(reply, Misfit):
            self.say(reply.text)
            return
        if isinstance(reply, NextStep):
            self._ask_about(asked.item, self._open_items(), reply.step)
            return
        if isinstance(reply[0], ShowWhole):
            self.commands.decide(reply[0])
            self._write_rows(answer_rows(asked, self.terminal.width()))
            return
        is_edit = isinstance(reply[0], EditCall) or (
            isinstance(reply[0], PlanDecision) and reply[0].decision == "edit"
        )
        if is_edit:
            self.commands.decide(reply[0])
            return
        self._asked = None
        for result in reply:
            self._answered.add(result.id)
            self.commands.decide(result)
        # An answer that could not be delivered has opened the item again.
        confirmation = describe_result(reply[0])
        if confirmation and reply[0].id in self._answered:
            self.say(confirmation)
        self._ask_next()

    def reopen_item(self, identity: str) -> None:
        """Ask about an item again, because its answer could not be delivered."""
        self._answered.discard(identity)

    def end_edit(self, identity: str) -> None:
        """Do nothing: the question is written again before it can be answered."""

    # --- what the conversation tells --------------------------------------------------------------

    def make_transcript(self, view: SessionView) -> Transcript:
        """Return a transcript for a new session, which is written line by line."""
        self._forget_session()
        # No key shows a call in full here.
        return Transcript(view, self.commit, unfold_key="")

    def open_full_view(self, view: FullView) -> None:
        """Write the text of the view instead: in plain lines, nothing covers the screen."""
        page = view.page
        self.commit(
            Block("note", lambda width, theme: list(page.make_rows(width, theme)), page.size)
        )

    def commit(self, block: Block) -> None:
        """Write a finished block."""
        self._wrote.set()
        self._put(block)

    def changed(self) -> None:
        """Announce calls that have begun."""
        view = self.conversation.view
        for card in view.cards[-64:]:
            if card.state == "running" and card.id not in self._begun:
                self._begun.add(card.id)
                if card.agent == view.lead and self._nursery is not None:
                    self._nursery.start_soon(self._announce, card, view)

    async def _announce(self, card: Card, view: SessionView) -> None:
        await trio.sleep(SHORT_CALL)
        if card.state == "running" and view is self.conversation.view and not view.is_covered(card):
            action = describe_action(card.call.name, card.arguments)
            self.say(one_line(f"running: {action}", self.terminal.width()))

    def give_back(self, texts: list[str], *, is_typed: bool = False) -> None:
        """Show texts that were not sent, so that the user can copy them."""
        for text in texts:
            self.say(f"Not sent: {text}")

    def _write_problem(self, text: str, *, is_bug: bool = False) -> None:
        self.say(text)

    def show_notice(self, text: str, seconds: float = 3.0) -> None:
        """Write a line."""
        self.say(text)

    def call_attention(self, text: str) -> None:
        """Ring the bell."""
        session = self.conversation.session
        if session is not None and session.settings(TerminalSettings).notify != "off":
            self._put(_Bell())

    def _copy_by_terminal(self, text: str) -> str:
        # The sequence that copies text must not be written to a simple terminal.
        return ""

    def _offer_text(self, text: str) -> str:
        self.say(text)
        return "as the lines above, because no program can access a clipboard"

    def lend(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which another program may use the terminal."""
        return self._lend()

    @asynccontextmanager
    async def _lend(self) -> AsyncIterator[None]:
        try:
            async with self.terminal.lent():
                yield
        finally:
            # The other program may have covered the question or scrolled it away.
            self._asked = None
            assert self._nursery is not None
            self._reopenings += 1
            self._nursery.start_soon(self._ask_again)

    async def _ask_again(self) -> None:
        # After this delay, the edited version has usually arrived, and hilum asks about it.
        await trio.sleep(REOPEN_DELAY)
        self._reopenings -= 1
        if self._asked is None:
            self._ask_next()


def _sandbox(item: Item) -> str:
    return item.sandbox if isinstance(item, WaitingCall) else ""
