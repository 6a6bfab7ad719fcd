"""Ask the user in the terminal for approvals and for answers to agents' questions.

Each question is shown in full, and only one at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection

import trio
from hilum import ApprovalFacts, Session, UsageError, find_approval_facts, says_the_same
from hilum.command import discard_typed
from hilum.events import ApprovalAnswered, ApprovalAsked, CallDone, Event, PluginEvent, StopAsked
from hilum_view import Question, format_duration, read_question, read_question_end

from hilum_cli import questions
from hilum_cli.faces import Face
from hilum_cli.previews import folded
from hilum_cli.terminal import Out, columns, escape_terminal, is_terminal, wrap

MAX_LINE = 10_000  # bytes


def can_ask() -> bool:
    """Return whether the user can be asked: standard input and standard error must be terminals."""
    return is_terminal(0) and is_terminal(2)


class Approver:
    """The part of a face that asks the user questions and passes the answers to the session.

    Args:
        session: The session whose approvals and questions are shown.
        face: The face that shows the run; it writes nothing while a question is open.
    """

    def __init__(self, session: Session, face: Face) -> None:
        self._session = session
        self._face = face
        # The channel is unbounded, because ``note`` is not async: showing events must not wait for
        # the user.
        self._send, self._queue = trio.open_memory_channel[ApprovalAsked | Question](float("inf"))
        self._settled: set[str] = set()
        self._open: ApprovalAsked | Question | None = None
        self._scope = trio.CancelScope()
        self._why = ""
        self._err = Out(2)
        self._stopped = False

    def note(self, event: Event) -> None:
        """Process an event, such as a new question or the end of one."""
        match event:
            case ApprovalAsked():
                self._send.send_nowait(event)
            case StopAsked():
                self._stop()
            case ApprovalAnswered():
                is_elsewhere = event.id in self._session.sent_elsewhere
                why = "it was answered in another terminal" if is_elsewhere else event.reason
                self._end(event.id, why)
            case CallDone():
                ended = (event.agent, event.result.call_id)
                if self._open and _of_call(self._open) == ended:
                    self._end(self._open.id)
            case PluginEvent():
                self._note_question(event)

    def _note_question(self, event: PluginEvent) -> None:
        question = read_question(event)
        if question is not None:
            self._send.send_nowait(question)
        end = read_question_end(event)
        if end is not None:
            reason = "the time limit was reached" if end.by == "timeout" else ""
            self._end(end.id, reason)

    def _end(self, identity: str, why: str = "") -> None:
        # The event that ends the call comes later and contains no reason.
        if identity in self._settled:
            return
        self._settled.add(identity)
        self._why = why
        if self._open and self._open.id == identity:
            self._scope.cancel()

    async def run(self) -> None:
        """Ask until cancelled."""
        async for asked in self._queue:
            # The question expired or was answered elsewhere while an earlier question was open.
            if asked.id in self._settled:
                continue
            # The answer to an earlier question in the queue may also cover this call.
            if isinstance(asked, ApprovalAsked) and self._is_granted(asked):
                self._answer(asked, True)
                continue
            self._open = asked
            self._scope = trio.CancelScope()
            # Otherwise, a progress line would overwrite what the user is typing.
            with self._face.held():
                with self._scope:
                    if isinstance(asked, ApprovalAsked):
                        await self._ask_approval(asked)
                    else:
                        await self._ask_question(asked)
                if self._scope.cancelled_caught and not self._stopped:
                    why = (self._why or "the run ended").rstrip(".")
                    self._err.say(f"\nThe question is closed: {why}.")
            self._open = None

    def _is_granted(self, asked: ApprovalAsked) -> bool:
        # No lasting approval covers a dangerous call.
        if asked.once_only:
            return False
        return (asked.scope or asked.call.name) in self._session.grants

    def _stop(self) -> None:
        """Report that an open question no longer needs an answer, because the run was stopped."""
        if self._open and not self._stopped:
            # Report this now, because the task that asks may be cancelled together with the run.
            self._err.say("\nThe run was stopped; the call was not run.")
        self._stopped = True

    async def _ask_question(self, asked: Question) -> None:
        """Ask an agent's question."""
        left = format_duration(round(max(asked.deadline - time.time(), 0)))
        self._err.say(questions.describe(asked, left, columns()))
        discard_typed()
        while True:
            self._err.put(b"Answer: ")
            try:
                typed = await read_line(0)
                if typed == "\x04":
                    self._err.say("\nInput ended (Ctrl-D): the agent decides.")
                return questions.give(self._session, asked, typed)
            except UsageError as error:
                self._err.say(escape_terminal(str(error)))

    async def _ask_approval(self, asked: ApprovalAsked) -> None:
        facts = await find_approval_facts(asked, self._session)
        whole = facts.text
        short, is_folded = folded(whole, columns())
        try:
            # The time limit starts now: an approval must not expire while it waits behind another
            # one.
            deadline = self._session.approval_shown(asked.id)
        except UsageError:  # the question was answered in the meantime
            return
        offered = _find_offered(asked, facts)
        left = format_duration(max(deadline - time.time(), 0))
        # Only the sentences are wrapped; the lines of the diff below them must stay as they are.
        head, reason, *body = [*short.split("\n"), ""]
        sentences = wrap(f"{head}\n{reason}", columns())
        question = "\n".join([sentences, *body]).rstrip("\n")
        self._err.say(f"\n{question}\n{_describe_answers(asked, facts, left, offered)}")
        discard_typed()
        while True:
            self._err.put(question_line(offered, view=is_folded).encode())
            word, reason = parse_choice(await read_line(0))
            match word:
                case "y" | "yes":
                    return self._answer(asked, True)
                case "a" | "all" | "always" if "session" in offered:
                    return self._answer(asked, True, remember="session")
                case "f" | "forever" if "always" in offered:
                    return self._answer(asked, True, remember="always")
                case "n" | "no":
                    return self._answer(asked, False, reason=reason)
                case "v" | "view":
                    self._err.say(f"\n{whole}")
                case "?" | "h" | "help":
                    self._err.say(_explain_answers(facts.covers, offered))
                case "\x04":
                    self._err.say("\nInput ended (Ctrl-D): the call is denied.")
                    return self._answer(asked, False, reason="the user closed the input")
                case _:
                    keys = answer_keys(offered, view=is_folded)
                    self._err.say(f"Please answer {keys}, then press Enter; ? explains them.")

    def _answer(
        self, asked: ApprovalAsked, accepted: bool, *, reason: str = "", remember: str = "once"
    ) -> None:
        try:
            self._session.answer(asked.id, accepted, reason=reason, remember=remember)
        except UsageError as error:  # the question expired after the key was pressed
            self._err.say(escape_terminal(error.message))


def _find_offered(asked: ApprovalAsked, facts: ApprovalFacts) -> tuple[str, ...]:
    """Return the lasting approvals that a call can get: ``session`` and ``always``, or none."""
    if facts.once_only:
        return ()
    # Without a scope, no rule can describe the call, so no approval can be saved.
    return ("session", "always") if asked.scope else ("session",)


def answer_keys(offered: Collection[str], *, view: bool) -> str:
    """Return a list of the keys that answer a question, as text; see ``question_line``."""
    keys = ["y", "n"]
    if "session" in offered:
        keys.append("a")
    if "always" in offered:
        keys.append("f")
    if view:
        keys.append("v")
    return f"{', '.join(keys[:-1])} or {keys[-1]}"


def question_line(offered: Collection[str], *, view: bool) -> str:
    """Return the line that asks for a decision and names every possible answer.

    Args:
        offered: The lasting approvals that the call can get, ``session`` and ``always``.
        view: Whether part of the call is hidden.
    """
    answers = ["[y]es", "[n]o"]
    if "session" in offered:
        answers.append("[a]lways")
    if "always" in offered:
        answers.append("[f]orever")
    if view:
        answers.append("[v]iew all")
    return f"Run it? {', '.join(answers)}, [?] help: "


def parse_choice(typed: str) -> tuple[str, str]:
    """Return the first word of the input in lowercase, and the text after it."""
    word, _, rest = typed.strip().partition(" ")
    return word.lower().rstrip(",:;"), rest.strip()


def _describe_answers(
    asked: ApprovalAsked, facts: ApprovalFacts, left: str, offered: Collection[str]
) -> str:
    """Return the lines below a call: its dangers, the scope of lasting approvals, the time limit.

    Args:
        asked: The question.
        facts: What the user must know of the call.
        left: The time limit.
        offered: The lasting approvals that the call can get.
    """
    rows = []
    for danger in facts.dangers:
        # The question begins with the reason.
        if says_the_same(asked.reason, danger.text):
            continue
        kind = "Danger" if danger.grave else "Note"
        rows.append(f"{kind}: {danger.text}")
    if facts.once_only:
        rows.append("This call is dangerous, so only this call can be allowed.")
    if "session" in offered:
        rows.append(f"[a]lways: allow {facts.covers} until the session ends.")
    if "always" in offered:
        rows.append(
            f"[f]orever: allow {facts.covers} in this folder, also in later sessions (saved as a"
            " rule)."
        )
    rows.append(f"No answer in {left} counts as no.")
    return wrap("\n".join(rows), columns())


def _explain_answers(covered: str, offered: Collection[str]) -> str:
    """Return the help: a description of each answer.

    Args:
        covered: Description of the calls that a lasting approval covers.
        offered: The lasting approvals that the call can get.
    """
    rows = [
        "y, yes: run this call.",
        "n, no: do not run it; `n REASON` tells the model why.",
    ]
    if "session" in offered:
        rows.append(
            f"a, always: run it, and do not ask again about {covered} until the session ends."
        )
    if "always" in offered:
        rows.append(
            "f, forever: the same in this folder, also in later sessions. `hilum permissions` shows"
            " the rule."
        )
    rows.append("v, view: show the whole call.")
    rows.append("Ctrl-D: the same as no; the run continues.")
    rows.append("Ctrl-C: stops the whole run; `hilum run --resume` continues it.")
    return wrap("\n".join(rows), columns())


def _of_call(asked: ApprovalAsked | Question) -> tuple[str, str]:
    """Return the agent and the call id, because two agents may use the same call id."""
    return asked.agent, asked.call.id if isinstance(asked, ApprovalAsked) else asked.call_id


async def read_line(fd: int) -> str:
    """Read a line from a terminal, cancellable at any time; ``\\x04`` means end of input."""
    data = b""
    while not data.endswith(b"\n") and len(data) < MAX_LINE:
        # Do not read in a thread, which could not be cancelled and would consume the next input.
        await trio.lowlevel.wait_readable(fd)
        try:
            piece = os.read(fd, 4096)
        except OSError:  # the terminal was closed
            return "\x04"
        if not piece:
            return "\x04"
        data += piece
    return data.decode(errors="replace")
