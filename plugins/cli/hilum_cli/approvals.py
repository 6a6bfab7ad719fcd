"""Approvals and the agent's questions on the terminal: all of it is shown, and one thing asked at a time."""

from __future__ import annotations

import os
import time

import trio
from hilum import Session, UsageError
from hilum.events import ApprovalAnswered, ApprovalAsked, CallDone, Event
from hilum_plan import Question, question_asked, question_settled

from hilum_cli import questions
from hilum_cli.faces import Face
from hilum_cli.previews import describe, folded, lasting
from hilum_cli.progress import duration
from hilum_cli.terminal import Out, columns, is_terminal, neutral, wrap

LONGEST = 10_000


def can_ask() -> bool:
    """Whether somebody is there to ask: standard input and standard error are terminals."""
    return is_terminal(0) and is_terminal(2)


class Approver:
    """Asks about calls, and what agents ask, one after another, and answers the session.

    Args:
        session: Whose calls.
        face: What shows the run; it holds still while a question stands there.
    """

    def __init__(self, session: Session, face: Face) -> None:
        self._session, self._face = session, face
        self._send, self._queue = trio.open_memory_channel[ApprovalAsked | Question](float("inf"))
        self._settled: set[str] = set()
        self._open: ApprovalAsked | Question | None = None
        self._scope, self._why = trio.CancelScope(), ""
        self._err = Out(2)

    def note(self, event: Event) -> None:
        """Take an event: a new question, or the end of one."""
        if isinstance(event, ApprovalAsked):
            self._send.send_nowait(event)
        elif question := question_asked(event):
            self._send.send_nowait(question)
        elif isinstance(event, ApprovalAnswered):
            self._end(event.id, event.reason)
        elif settled := question_settled(event):
            self._end(settled.id, "the time is over" if settled.by == "timeout" else "")
        elif isinstance(event, CallDone) and self._open and _of_call(self._open) == (event.agent, event.result.call_id):
            self._end(self._open.id)

    def _end(self, identity: str, why: str = "") -> None:
        if identity in self._settled:  # the call of a question that ran out ends after it, and knows less
            return
        self._settled.add(identity)
        self._why = why
        if self._open and self._open.id == identity:
            self._scope.cancel()

    async def run(self) -> None:
        """Ask until cancelled."""
        async for asked in self._queue:
            if asked.id in self._settled:
                continue
            if isinstance(asked, ApprovalAsked) and (asked.scope or asked.call.name) in self._session.grants:
                self._answer(asked, True)
                continue
            self._open, self._scope = asked, trio.CancelScope()
            with self._face.held():
                with self._scope:
                    await (self._ask(asked) if isinstance(asked, ApprovalAsked) else self._ask_user(asked))
                if self._scope.cancelled_caught:
                    self._err.say(f"\nIt is settled: {(self._why or 'the run ended').rstrip('.')}.")
            self._open = None

    async def _ask_user(self, asked: Question) -> None:
        """Ask what an agent wants to know."""
        self._err.say(questions.describe(asked, duration(round(max(asked.deadline - time.time(), 0))), columns()))
        discard_typed()
        while True:
            self._err.put(b"Answer: ")
            try:
                return questions.give(self._session, asked, await read_line(0))
            except UsageError as error:
                self._err.say(neutral(str(error)))

    async def _ask(self, asked: ApprovalAsked) -> None:
        whole = await trio.to_thread.run_sync(describe, asked, self._session)
        short, is_folded = folded(whole, columns())
        covered = lasting(asked)
        try:
            left = duration(max(self._session.approval_shown(asked.id) - time.time(), 0))
        except UsageError:  # it was settled in this moment
            return
        choices = [
            "y: yes, this once",
            "n: no (n REASON tells the model why)",
            f"a: yes to {covered} until the session ends",
        ]
        if asked.scope:
            choices.append(f"always: yes to {covered} in this folder, in later sessions, too (kept as a rule)")
        if is_folded:
            choices.append("v: show all of it")
        choices.append(f"No answer in {left} is a no.")
        rules = "\n".join(wrap(choice, columns()) for choice in choices)
        self._err.say(f"\n{short}\n{rules}")
        discard_typed()
        keys = "y/n/a/v" if is_folded else "y/n/a"
        while True:
            self._err.put(f"Run it? [{keys}] ".encode())
            word, _, reason = (await read_line(0)).strip().partition(" ")
            match word.lower().rstrip(",:;"):
                case "y" | "yes":
                    return self._answer(asked, True)
                case "a" | "all":
                    return self._answer(asked, True, remember="session")
                case "always" if asked.scope:
                    return self._answer(asked, True, remember="always")
                case "n" | "no":
                    return self._answer(asked, False, reason=reason.strip())
                case "v" | "view":
                    self._err.say(f"\n{whole}")
                    continue
                case "\x04":
                    return self._answer(asked, False, reason="the user closed the input")
            self._err.say("Please answer y, n or a.")

    def _answer(self, asked: ApprovalAsked, accepted: bool, *, reason: str = "", remember: str = "once") -> None:
        try:
            self._session.answer(asked.id, accepted, reason=reason, remember=remember)
        except UsageError as error:  # it ran out between the key and here
            self._err.say(neutral(error.message))


def _of_call(asked: ApprovalAsked | Question) -> tuple[str, str]:
    """The agent and its call: two agents may number their calls alike."""
    return asked.agent, asked.call.id if isinstance(asked, ApprovalAsked) else asked.call


def discard_typed() -> None:
    """Forget what was typed before the question was there: it cannot be its answer."""
    try:
        import termios

        termios.tcflush(0, termios.TCIFLUSH)
    except (ImportError, OSError):  # not a POSIX terminal
        pass


async def read_line(fd: int) -> str:
    """Read a line from a terminal, cancellable at any time; the end of input gives ``\\x04``."""
    data = b""
    while not data.endswith(b"\n") and len(data) < LONGEST:
        await trio.lowlevel.wait_readable(fd)
        try:
            piece = os.read(fd, 4096)
        except OSError:  # the terminal was closed
            return "\x04"
        if not piece:
            return "\x04"
        data += piece
    return data.decode(errors="replace")
