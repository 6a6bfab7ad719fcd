"""The session entries that faces show: prompts, answers, calls, notices and run ends."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from hilum.errors import (
    CALL_ENDS,
    CALL_LOST,
    CALL_UNCERTAIN,
    E_ADDRESS,
    E_APPROVAL_TIMEOUT,
    E_BLOCKED,
    E_DENIED,
    E_INTERRUPTED,
    E_PLUGIN,
    E_REJECTED,
    E_STOPPED,
    E_TIMEOUT,
    GATE_TEXTS,
    RETRYABLE,
    UNATTENDED,
)
from hilum.events import RunEnded
from hilum.messages import ToolCall, ToolResult, Usage

from hilum_view.formatting import count_changes, describe_call, first_line
from hilum_view.images import ImageFacts

AnswerState = Literal["streaming", "done", "cut_off", "dropped"]
CardState = Literal[
    "pending", "waiting_for_approval", "running", "completed", "failed", "interrupted"
]
NoticeKind = Literal[
    "compacted",
    "error",
    "fallback",
    "plugin_failed",
    "rejected",
    "retry",
    "said",
    "settings",
    "undo",
    "user_needed",
]
Level = Literal["info", "warning"]
Refuser = Literal["", "user", "timeout", "nobody", "rule", "gate"]
# Error codes with which the kernel or a gate refuses a call that has not begun.
# The kernel's text for the model, which contains the user's reason.
_USER_REASON = re.compile(r"The user rejected the call: (.*?)\s*(?:Change your plan\.)?\s*", re.S)
_NO_REASON = "no reason given."
# The kernel's text about a call that was cut off begins with the call, which faces show anyway.
_CUT_OFF = re.compile(rf"`.*?` ({'|'.join(map(re.escape, CALL_ENDS))})(.*)", re.S)
# What people read about a question to which they gave no answer.
_UNANSWERED = {
    "headless": "Nobody could be asked, so the agent decides.",
    "shown": "The question is in the conversation; your next message can answer it.",
    "stop": "You left this to the agent.",
    "timeout": "Nobody answered in time, so the agent decides.",
    "user": "You left this to the agent.",
}
_GATE_CODES = (E_ADDRESS, E_BLOCKED, E_DENIED, E_PLUGIN)
# The beginning of a command's result; see ``Card.summary``.
COMMAND_RESULT = "Exit code"


class StreamedText:
    """A string that grows in chunks; adding a chunk does not copy the whole string."""

    # A long session has several of these objects for each of its answers.
    __slots__ = ("_pieces", "_size")

    def __init__(self, text: str = "") -> None:
        self._pieces = [text] if text else []
        self._size = len(text)

    def add(self, piece: str) -> None:
        """Append a chunk."""
        self._pieces.append(piece)
        self._size += len(piece)

    def tail(self, limit: int) -> str:
        """Return the last ``limit`` characters without joining the whole text."""
        pieces: list[str] = []
        missing = limit
        for piece in reversed(self._pieces):
            if missing <= 0:
                break
            pieces.append(piece[-missing:])
            missing -= len(piece)
        return "".join(reversed(pieces))

    def head(self, limit: int) -> str:
        """Return the first ``limit`` characters without joining the whole text."""
        pieces: list[str] = []
        missing = limit
        for piece in self._pieces:
            if missing <= 0:
                break
            pieces.append(piece[:missing])
            missing -= len(piece)
        return "".join(pieces)

    def __str__(self) -> str:
        # Cache the joined text, because a face reads it again after each chunk.
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    __hash__ = None  # type: ignore[assignment]  # its value changes


class Entry(msgspec.Struct, kw_only=True, tag_field="kind"):
    """The base class of all entries.

    Attributes:
        id: Index of the entry in ``SessionView.entries``, which never changes.
        seq: Number of the event that created the entry.
        at: Unix time of the event, in seconds.
        agent: Name of the agent; empty for the session's own entries.
        run: Id of the run; empty for the session's own entries.
    """

    id: int
    seq: int = 0
    at: float = 0.0
    agent: str = ""
    run: str = ""


class ContextSource(msgspec.Struct, frozen=True):
    """A block of context that was sent with a prompt.

    Attributes:
        source: Kind of the block, for example ``context:open_file``.
        characters: Length of the block in characters.
    """

    source: str
    characters: int


class Prompt(Entry, tag="prompt"):
    """An entry for a run that began, or for the user's message to a run.

    Attributes:
        text: The prompt from the user or another agent; empty for a run that continues another one.
        typed: What the user typed if a plugin replaced the text, as for the command ``/init``.
        model: The model of the run.
        mode: The mode of the run.
        attached: Text from another program, such as piped input, which is data, not instructions.
        images: The images that came with the prompt.
        context: The context that was gathered for the prompt.
        retries: Id of the run that this run continues; empty if this run has its own prompt.
        repeats: Id of the failed call that this run repeats; empty if this run has its own prompt.
        steers: Whether the user wrote the prompt while the agent was working, and the agent read it
            in the same run.
    """

    text: str = ""
    typed: str = ""
    model: str = ""
    mode: str = ""
    attached: str = ""
    images: tuple[ImageFacts, ...] = ()
    context: tuple[ContextSource, ...] = ()
    retries: str = ""
    repeats: str = ""
    steers: bool = False

    @property
    def request(self) -> str:
        """The prompt including the attached text."""
        return "\n".join(filter(None, (self.text, self.attached)))


class Answer(Entry, tag="answer"):
    """A model's answer, both while it is streaming and when it is complete.

    Attributes:
        state: State of the answer. A ``cut_off`` answer has the text that arrived before its run
            ended. A ``dropped`` answer is not shown, because no text arrived or its request failed.
        model: The model.
        turn: Number of the model call in the run.
        attempt: Number of the attempt; each new attempt begins with empty texts.
        text: The text so far.
        thinking: The reasoning text so far.
        tools: Names of the tools of calls that are streaming, by call id; empty if unknown.
        arguments: Arguments of calls that are streaming, by call id; empty once the answer is
            complete.
        usage: Tokens and cost of the answer.
        seconds: Duration in seconds.
        calls: Number of tool calls that the complete answer requests.
    """

    state: AnswerState = "streaming"
    model: str = ""
    turn: int = 0
    attempt: int = 1
    text: StreamedText = msgspec.field(default_factory=StreamedText)
    thinking: StreamedText = msgspec.field(default_factory=StreamedText)
    # msgspec gives each instance its own copy of an empty default.
    arguments: dict[str, StreamedText] = {}
    tools: dict[str, str] = {}
    usage: Usage = Usage()
    seconds: float = 0.0
    calls: int = 0

    def clear(self) -> None:
        """Discard the text streamed so far."""
        self.text = StreamedText()
        self.thinking = StreamedText()
        self.arguments = {}
        self.tools = {}


class Card(Entry, tag="card"):
    """A tool call.

    Attributes:
        call: The call as written by the model.
        repeats: Id of the failed call that the user repeated with this one; empty for a call by the
            model.
        repeated_by: Id of the call with which the user repeated this one last; empty if the user
            did not.
        turn: Number of the model call that requested this tool call.
        state: State of the call; ``interrupted`` if the run ended first.
        risk: The permission category of the tool: read, write, execute or network.
        plugin: Name of the plugin that provides the tool.
        rewritten: The arguments used for the call, if plugins changed them.
        rewritten_by: Names of the plugins that changed the arguments.
        began: Unix time at which the call began to run.
        seconds: Duration in seconds.
        output: The last part of the output so far; empty once the call has ended.
        result: Result of the call.
        images: The images in the result.
        decided_by: Who approved or denied the call, which is ``user``, ``timeout``, ``headless`` or
            ``stop``; empty if nobody was asked or nobody has answered yet.
        decided_name: Name of the person who answered, if the face that was used knows several.
    """

    call: ToolCall
    repeats: str = ""
    repeated_by: str = ""
    turn: int = 0
    state: CardState = "pending"
    risk: str = "read"
    plugin: str = ""
    rewritten: str = ""
    rewritten_by: tuple[str, ...] = ()
    began: float = 0.0
    seconds: float = 0.0
    output: str = ""
    result: ToolResult | None = None
    images: tuple[ImageFacts, ...] = ()
    decided_by: str = ""
    decided_name: str = ""

    @property
    def ended(self) -> bool:
        """Whether the call has ended."""
        return self.result is not None

    @property
    def title(self) -> str:
        """The tool's name and the arguments, on one line of any length."""
        return describe_call(self.call)

    @property
    def code(self) -> str:
        """The call's error code; empty if the call has not failed."""
        return self.result.code if self.result else ""

    @property
    def text(self) -> str:
        """The text that the model reads."""
        return self.result.text if self.result else ""

    @property
    def reason(self) -> str:
        """Why the call failed, on one line; empty if it has not failed."""
        if not self.code:
            return ""
        return first_line(self.text.removeprefix(f"{self.code}: "))

    @property
    def user_text(self) -> str:
        """The text of the result for people.

        For a call that was refused by the user or cut off, this is a sentence without the code, the
        call and what the model should do; otherwise, it is the text that the model reads.
        """
        if self.refused_by == "user":
            reason = self.user_reason
            return f"You rejected this: {reason}" if reason else "You rejected this."
        if self.refused_by == "timeout":
            return "Nobody answered in time, so this was not run."
        if self.call.name == "ask_question" and not self.code and not self.data.get("answers"):
            return _UNANSWERED.get(str(self.data.get("by")), self.text)
        text = self.text.removeprefix(f"{self.code}: ")
        found = _CUT_OFF.fullmatch(text) if self.code else None
        if found is None:
            return text if self.was_stopped else self.text
        # After these, there is only what the model should do.
        rest = "" if found[1] in (CALL_UNCERTAIN, CALL_LOST) else found[2]
        return f"This {found[1]}{rest}"

    @property
    def summary(self) -> str:
        """The first line of the result and, for a command, also the last one."""
        text = self.user_text.strip()
        # The first line of a command's result is its exit code; errors are usually on the last
        # line.
        if text.removeprefix("E_CMD_FAIL: ").startswith(COMMAND_RESULT) and "\n" in text:
            last = text.rpartition("\n")[2].strip()
            return f"{first_line(text, 40)} … {last}"
        return first_line(text)

    @property
    def user_reason(self) -> str:
        """The reason that the user gave for rejecting the call; empty if there is none."""
        if self.refused_by != "user":
            return ""
        found = _USER_REASON.fullmatch(self.text.removeprefix(f"{self.code}: "))
        reason = found[1] if found else self.reason
        return "" if reason == _NO_REASON else reason

    @property
    def data(self) -> dict[str, Any]:
        """The tool's data for faces."""
        return self.result.data if self.result else {}

    @property
    def diff(self) -> str:
        """The call's change to a file as a unified diff; empty if it changed no file."""
        diff = self.data.get("diff")
        # Any plugin's tool may use this key for other data.
        return diff if isinstance(diff, str) else ""

    @property
    def arguments(self) -> str:
        """The arguments with which the call runs, as JSON text; a plugin may have changed them."""
        return self.rewritten or self.call.arguments

    @property
    def exit_code(self) -> int | None:
        """The command's exit code; ``None`` if no command ran or it is still running.

        A negative code is the negated number of the signal that ended the command. A call can
        complete although its command failed.
        """
        code = self.data.get("exit_code")
        # Any plugin's tool may use this key for other data.
        return code if isinstance(code, int) and not isinstance(code, bool) else None

    @property
    def line_counts(self) -> tuple[int, int]:
        """The numbers of lines that the call added to and removed from a file."""
        return count_changes(self.diff)

    @property
    def was_stopped(self) -> bool:
        """Whether the call ended early because its run was stopped or interrupted."""
        return self.state == "interrupted" or self.code in (E_INTERRUPTED, E_STOPPED)

    @property
    def refused_by(self) -> Refuser:
        """Who refused the call before it ran; empty if it was not refused.

        The value is ``timeout`` if the user did not answer in time, ``nobody`` if no user was
        present, ``rule`` for a rule, the mode or the approval policy, and ``gate`` for a plugin
        that is not working.
        """
        if self.code == E_APPROVAL_TIMEOUT:
            return "timeout"
        if self.code == E_REJECTED:
            return "nobody" if self.decided_by == "headless" else "user"
        # A tool that has begun may report one of these codes itself.
        if self.began or self.code not in _GATE_CODES:
            return ""
        if any(text in self.text for text in GATE_TEXTS):
            return "gate"
        return "nobody" if UNATTENDED in self.text else "rule"


class Notice(Entry, tag="notice"):
    """An entry for an event that is neither an answer nor a call.

    Attributes:
        about: Subject of the notice.
        text: One sentence or, for ``said``, a plugin's text.
        code: Code of an error.
        hint: The next step for the user.
        level: ``warning`` if the user should read it, otherwise ``info``.
    """

    about: NoticeKind
    text: str
    code: str = ""
    hint: str = ""
    level: Level = "warning"

    @property
    def is_in_outcome(self) -> bool:
        """Whether the outcome of the run repeats this error, as it does for an exceeded time limit."""
        return self.about == "error" and self.code == E_TIMEOUT


class Outcome(Entry, tag="outcome"):
    """An entry for a run that ended.

    Attributes:
        end: The event that ended the run.
        unread: The user's messages for this run that the agent has not read.
    """

    end: RunEnded
    unread: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """A description of the end; see ``describe_end``."""
        return describe_end(self.end)

    @property
    def next_step(self) -> Literal["", "retry", "prompt"]:
        """The user's next step, such as retrying the run; empty for a completed run."""
        if self.end.state == "completed":
            return ""
        return "retry" if is_resumable(self.end) else "prompt"


AnyEntry = Prompt | Answer | Card | Notice | Outcome


def is_resumable(end: RunEnded) -> bool:
    """Return whether a run with this end can be continued without a new prompt."""
    if end.state == "failed":
        return end.code in RETRYABLE
    return end.state in ("interrupted", "stopped", "timed_out")


def describe_end(end: RunEnded) -> str:
    """Return a description of a run's end, with one line per fact.

    The facts are the outcome, the completed work, the remaining work and the next step.
    """
    if end.state == "completed":
        return "completed"
    if end.state == "stopped":
        return f"stopped. Everything it had started has ended.\n{end.left}".rstrip()
    if end.code:
        first = f"{end.code}: {end.error}"
    else:
        first = end.error or end.state.replace("_", " ")
    # If there is only one reason, ``left`` may repeat ``error``.
    rest = [text for text in (end.done, end.left, end.hint) if text and text not in first]
    return "\n".join([first, *rest])
