"""What both faces do: run a conversation, carry out the user's actions, and handle signals.

A face is the program's main object. It holds the other objects, which know it as a
``FaceProtocol``::

    Face | PlainFace            the terminal, the keys or lines, and what is drawn
      └ FaceBase                the tasks, the signals, and the queues of the user's actions
          ├ Conversation        the open session, its view and its transcript; prompts and stops
          │   └► FaceProtocol   … asks the face to show something, and to give texts back
          └ ChatCommands        carries out commands, and the user's decisions about calls
              └► FaceProtocol   … asks the face the questions of commands

    Face only:
      ├ Composer                the draft, its history and its completions
      │   └► FaceProtocol       … sends what the user entered
      ├ ApprovalPrompt          the question about a call, plan or question of the agent
      ├ Overlays                the questions of commands, which cover everything else
      ├ LiveRows, Drawing, Tty  the rows at the bottom, when to draw them, and the device

``ChatCommands`` implements the protocol ``Chat``, through which the commands (``slash_*``) see the
conversation; tests implement it, too. ``Asker`` is the part of ``Chat`` that only asks and tells.
``ChatCommands`` and both faces implement it, because a folder's trust is asked about before a
session is open.

``leave`` of the face is the only way to end the program: it also cancels what the face still asks.
"""

from __future__ import annotations

import contextlib
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, Session
from hilum_view import SessionView

from hilum_terminal.actions import Action, ActionQueue
from hilum_terminal.approval_items import Item
from hilum_terminal.chat import ChatCommands
from hilum_terminal.chat_protocol import Choice
from hilum_terminal.conversation import Conversation
from hilum_terminal.full_view import FullView
from hilum_terminal.input_kinds import UserInput, read_argument, read_input
from hilum_terminal.printed_lines import PrintedLines
from hilum_terminal.slash_names import name_next_step
from hilum_terminal.styles import Style, Theme
from hilum_terminal.system_clipboard import SystemClipboard
from hilum_terminal.transcript import Block, Transcript

if TYPE_CHECKING:
    from hilum_terminal.options import ChatOptions

BUG_TEXT = (
    "This is a bug in hilum. Please report it with the lines above. The conversation continues."
)
# Seconds until a failed task is restarted.
PAUSE_SECONDS = 0.5
# Time limit, in seconds, for writing the last lines when hilum ends, because the terminal may be
# stopped.
SETTLE_TIMEOUT = 2.0
STOPPING = "Stopping …"


class FaceBase(ABC):
    """The part of a face that does not depend on how the terminal is drawn.

    A subclass calls ``_open_conversation`` when it can show a transcript.

    Args:
        options: The options of the conversation.

    Attributes:
        theme: The colors.
        conversation: The conversation that the face shows.
        commands: The object that carries out commands and decisions.
        has_keys: Whether single keys have a meaning, unlike in plain lines.
        clipboard: The system's clipboard.
    """

    theme: Theme
    conversation: Conversation
    commands: ChatCommands
    has_keys = True

    def __init__(self, options: ChatOptions) -> None:
        self.options = options
        self.clipboard = SystemClipboard(options.environ, self.spawn)
        # Commands, and the messages that must wait for one of them.
        self._actions = ActionQueue()
        # All other messages. A command may be slow, and a message must reach a running agent.
        self._messages = ActionQueue()
        self._nursery: trio.Nursery | None = None
        self._signal = 0
        # Number of editors that are opening or open.
        self._editors = 0

    def _open_conversation(self) -> None:
        self.conversation = Conversation(self.options, self)
        self.commands = ChatCommands(self)

    # --- the program ------------------------------------------------------------------------------

    async def run(self) -> int:
        """Run the conversation until the user leaves, and return the exit code."""
        code = 0
        # What plugins print must not disturb the rows of the face.
        printed = PrintedLines(self.say)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            async with self._terminal_context(), trio.open_nursery() as nursery:
                self._nursery = nursery
                for task in (*self._tasks(), self._act, self._send_messages, self._watch_signals):
                    nursery.start_soon(self._keep_running, task)
                nursery.start_soon(self._keep_running, self.commands.watch_waiting_items)
                self._greet()
                if self.options.prompt:
                    self._enter(read_argument(self.options.prompt))
                try:
                    await self.conversation.run()
                except HilumError as error:
                    self.show_error(error)
                    code = error.exit_code
                # Let the lines arrive that were printed last.
                await trio.lowlevel.checkpoint()
                printed.finish()
                identity = self.conversation.stored_id
                if identity and self.conversation.has_prompts:
                    self._say_goodbye(f"To continue: hilum --resume {identity}")
                with trio.move_on_after(SETTLE_TIMEOUT):
                    await self._settle()
                nursery.cancel_scope.cancel()
            await self.clipboard.aclose()
        # The same exit code that shells report for a program that was ended by a signal.
        return 128 + self._signal if self._signal else code

    @abstractmethod
    def _terminal_context(self) -> AbstractAsyncContextManager[Any]:
        """Return a context in which the face uses the terminal."""

    @abstractmethod
    def _tasks(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """Return the tasks of the face, which run until the conversation ends."""

    @abstractmethod
    def _greet(self) -> None:
        """Write what the user sees first."""

    @abstractmethod
    def _say_goodbye(self, text: str) -> None:
        """Write the last line."""

    @abstractmethod
    async def _settle(self) -> None:
        """Wait until everything has been written."""

    async def _keep_running(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task of the face; after an unexpected error, show the error and restart it."""
        while True:
            try:
                await task()
            except Exception as error:
                self.show_bug(error)
                # An error that recurs immediately must not cause a busy loop.
                await trio.sleep(PAUSE_SECONDS)
            else:
                return

    def leave(self) -> None:
        """End the conversation."""
        self.conversation.leave()

    # --- signals ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _signals(self) -> Sequence[signal.Signals]:
        """The signals that the face handles."""

    @abstractmethod
    def _handle_signal(self, number: int) -> None:
        """Handle a signal."""

    async def _watch_signals(self) -> None:
        with trio.open_signal_receiver(*self._signals) as received:
            async for number in received:
                self._handle_signal(number)

    def _leave_by_signal(self, number: int) -> None:
        """End the conversation because of a signal, which determines the exit code."""
        self._signal = number
        self.leave()

    # --- actions ----------------------------------------------------------------------------------

    async def _act(self) -> None:
        """Carry out the user's actions one after another."""
        await self._actions.run(lambda action: self._try(action.run))

    async def _send_messages(self) -> None:
        """Send the messages that need not wait for a command, one after another."""
        await self._messages.run(lambda action: self._try(action.run))

    async def _try(self, action: Callable[[], Awaitable[Any]]) -> None:
        """Carry out an action; after an error, show the error and continue the conversation."""
        try:
            await action()
        except HilumError as error:
            self.show_error(error)
        except Exception as error:
            self.show_bug(error)

    def enqueue(
        self,
        run: Callable[[], Awaitable[Any]],
        text: str = "",
        *,
        keeps_conversation: bool = False,
    ) -> None:
        """Carry out an async action after all actions that were requested earlier.

        Args:
            run: Async function that carries out the action.
            text: What the user entered.
            keeps_conversation: Whether messages that the user sends later need not wait for it.
        """

        async def run_after_messages() -> None:
            if not keeps_conversation:
                # The messages that were sent earlier belong to the conversation as it is now.
                await self._messages.wait_until_empty()
            await run()

        self._actions.add(Action(run_after_messages, text, keeps_conversation=keeps_conversation))

    def spawn(self, action: Callable[[], Awaitable[Any]]) -> None:
        """Start an async action that runs concurrently with everything else."""
        assert self._nursery is not None
        self._nursery.start_soon(self._try, action)

    @property
    def is_busy(self) -> bool:
        """Whether the agent or a shell line is running."""
        return self.conversation.is_working or bool(self.conversation.shells)

    def _stop(self) -> bool:
        """Stop the running work, and return whether any work was running."""
        # The messages that wait for a command are the newest ones.
        messages = [*self._messages.take_messages(), *self._actions.take_messages()]
        is_busy = self.is_busy
        current = self._actions.current
        if is_busy:
            self.show_notice(STOPPING)
            self.conversation.stop()
        elif current is not None:
            self._actions.cancel()
            self.show_notice(f"Stopped: {current.text}")
            is_busy = True
        if messages:
            self.give_back(messages)
        return is_busy or bool(messages)

    # --- what the user enters ---------------------------------------------------------------------

    def submit(self, text: str, *, afterwards: bool = False, is_typed: bool = True) -> None:
        """Send what the user entered: a prompt, a command, or a shell line.

        Args:
            text: The text.
            afterwards: Whether the text waits for the end of the run instead of steering it.
            is_typed: Whether the user typed the beginning of the text; see ``read_input``.
        """
        self._enter(read_input(text, is_typed=is_typed), afterwards=afterwards)

    def _enter(self, entered: UserInput, *, afterwards: bool = False) -> None:
        match entered.kind:
            case "command":
                self._run_command(entered.text)
            case "shell":
                self.spawn(lambda: self.conversation.run_shell(entered.text))
            case "memory":
                self.enqueue(
                    lambda: self.commands.remember(entered.text),
                    f"# {entered.text}",
                    keeps_conversation=True,
                )
            case "prompt":
                self._send_text(entered.text, afterwards)

    def _run_command(self, text: str) -> None:
        self.enqueue(
            lambda: self.commands.run(text),
            text,
            keeps_conversation=self.commands.keeps_conversation(text),
        )

    def _send_text(self, text: str, afterwards: bool) -> None:
        steers = self.conversation.is_working and not afterwards
        has_images = bool(self.conversation.images.find(text))
        if steers and has_images:
            self.show_notice("A message with an image is sent when the agent has finished.")
        if steers and not has_images and not self.commands.calls_agent(text):
            self._send_message(lambda: self.conversation.steer(text), text)
        else:
            self._send_message(lambda: self.conversation.prompt(text), text)

    def _send_message(self, send: Callable[[], Awaitable[Any]], text: str) -> None:
        """Send a message after the earlier messages, and after a command that affects it."""
        queue = self._actions if self._actions.delays_messages else self._messages
        queue.add(Action(send, text, is_message=True))

    @property
    def unsent_messages(self) -> list[str]:
        """The messages that wait for a command, so that the session does not have them yet."""
        return [*self._messages.messages, *self._actions.messages]

    def take_last_message(self) -> str:
        """Take back the newest message that the agent has not read, and return its text.

        Raises:
            StoreError: The log cannot be written.
        """
        return (
            self._actions.take_last_message()
            or self._messages.take_last_message()
            or self.conversation.take_last_queued()
        )

    def remember_images(self, paths: Sequence[str]) -> None:
        """Remember that the user pasted images, given by their paths, into the sent text."""
        self.conversation.images.remember(paths)

    async def save_clipboard(self) -> str:
        """Save the image in the clipboard to a file, and return the file's path."""
        return await self.conversation.images.save_clipboard(self.clipboard)

    def hold_keys(self) -> None:
        """Hold what the user types, because it is meant for an editor that is opening.

        Until the editor has the terminal, hilum still reads the keys. They must neither be lost nor
        answer a question or stop the run. The key that opens the editor calls this at once, and the
        action that runs the editor calls it again for as long as it needs; whoever holds the keys
        releases them. The last release returns the typed text to the user.
        """
        self._editors += 1

    def release_keys(self) -> None:
        """Stop holding keys, and return to the user what was typed in the meantime."""
        self._editors -= 1
        if not self._editors:
            self._return_typed_ahead()

    @property
    def _holds_keys(self) -> bool:
        return self._editors > 0

    @abstractmethod
    def _return_typed_ahead(self) -> None:
        """Return to the user what was typed while an editor was opening."""

    async def edit_draft(self, text: str) -> str:
        """Let the user edit text in an editor, and return the edited text."""
        return await self.commands.edit(text)

    # --- the conversation -------------------------------------------------------------------------

    @property
    def opened_session(self) -> Session | None:
        """The open session; None while a session is being opened."""
        return self.conversation.session

    @property
    def is_working(self) -> bool:
        """Whether the agent is working."""
        return self.conversation.is_working

    async def ask_trust(self, folder: str) -> str | None:
        """Ask whether the user trusts a folder; return the resulting approval policy, if any."""
        return await self.commands.ask_trust(folder)

    async def welcome(self) -> None:
        """Greet the user in a new session, and help them choose a model if there is none."""
        await self._try(self.commands.welcome)

    def note_waiting(self) -> None:
        """Request a new check of the items that wait for the user."""
        self.commands.note_waiting()

    def show_error(self, error: HilumError) -> None:
        """Show an error with its code and its hint."""
        text = f"{error.code}: {error.message}"
        hint = name_next_step(error.code, error.hint)
        if hint:
            text += f"\n{hint}"
        self._write_problem(text)

    def show_bug(self, error: Exception) -> None:
        """Show an unexpected error with its traceback; the conversation continues."""
        text = "".join(traceback.format_exception(error))
        self._write_problem(f"{text}\n{BUG_TEXT}", is_bug=True)

    # --- what commands ask ------------------------------------------------------------------------

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        selected: int = 0,
        empty: str = "",
        has_filter: bool = True,
    ) -> Choice | None:
        """Let the user choose; return ``None`` if there are no choices or the user cancelled."""
        if not choices:
            self.say(empty or "There is nothing to choose.")
            return None
        return await self._choose(title, choices, selected, has_filter=has_filter)

    # --- what depends on the terminal -------------------------------------------------------------

    @abstractmethod
    async def _choose(
        self, title: str, choices: Sequence[Choice], selected: int, *, has_filter: bool
    ) -> Choice | None:
        """Let the user choose one of several choices."""

    @abstractmethod
    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        """Ask a yes-or-no question; "no" is selected."""

    @abstractmethod
    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        """Ask for a line of text; return ``None`` if the user cancelled."""

    @abstractmethod
    def say(self, text: str, *, style: Style = "plain") -> None:
        """Write lines."""

    @abstractmethod
    def _write_problem(self, text: str, *, is_bug: bool = False) -> None:
        """Write an error."""

    @abstractmethod
    def show_notice(self, text: str, seconds: float = 3.0) -> None:
        """Show a notice for a few seconds."""

    @abstractmethod
    def show_keys(self) -> None:
        """Show the list of keys."""

    @abstractmethod
    def call_attention(self, text: str) -> None:
        """Notify the user, if the terminal is in the background."""

    @abstractmethod
    def give_back(self, texts: list[str], *, is_typed: bool = False) -> None:
        """Return texts to the user that were not sent or not read.

        Args:
            texts: The texts.
            is_typed: Whether the user typed the texts; otherwise they are prompts, even if they
                begin like a shell line.
        """

    @abstractmethod
    def make_transcript(self, view: SessionView) -> Transcript:
        """Return the transcript that finished entries are written to."""

    @abstractmethod
    def commit(self, block: Block) -> None:
        """Write a finished block."""

    @abstractmethod
    def changed(self) -> None:
        """Show what has changed in the view."""

    async def copy(self, text: str) -> str:
        """Copy text to the clipboard, and return how it was copied.

        Raises:
            UsageError: Neither a program nor the terminal can copy the text.
        """
        program, is_lasting = await self.clipboard.copy(text)
        if is_lasting:
            return f"with {program}"
        if program:
            # A terminal that allows this keeps the text when hilum ends.
            self._copy_by_terminal(text)
            return f"with {program}, which may keep it only until hilum exits"
        return self._copy_by_terminal(text) or self._offer_text(text)

    @abstractmethod
    def open_full_view(self, view: FullView) -> None:
        """Show a text on the whole screen until the user closes it."""

    @abstractmethod
    def _copy_by_terminal(self, text: str) -> str:
        """Copy text through the terminal, and return how; empty if the terminal refuses it."""

    @abstractmethod
    def _offer_text(self, text: str) -> str:
        """Give the user a text that cannot be copied, and return how.

        Raises:
            UsageError: There is no way.
        """

    @abstractmethod
    def lend(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which another program may use the terminal."""

    @abstractmethod
    def show_waiting(self, items: Sequence[Item]) -> None:
        """Show the items that wait for the user."""

    @abstractmethod
    def reopen_item(self, identity: str) -> None:
        """Show an item again, because its answer could not be delivered."""

    def reopen_plan(self) -> bool:
        """Ask again about a plan that the user left undecided, and return whether there is one."""
        proposal = self.conversation.view.lead_actor.proposal
        if proposal is None:
            return False
        self.reopen_item(f"plan {proposal.run}")
        self.note_waiting()
        return True

    @abstractmethod
    def end_edit(self, identity: str) -> None:
        """Let an item that was open in the user's editor be answered again."""
