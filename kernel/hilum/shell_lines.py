"""Commands that the user runs or stops.

A shell line, which the user types after ``!``, runs in the session's folder and sandbox. The agent
reads it and its output with the next prompt. A background command is one that the agent started.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from contextlib import suppress

import attrs
import msgspec
import trio

from hilum.errors import E_BLOCKED, UNAPPROVABLE, HilumError, StoreError, ToolDenied
from hilum.events import PluginEvent
from hilum.hooks import PLUGIN_EXCEPTIONS
from hilum.processes import CommandLost
from hilum.services import BackgroundCommand, Confinement
from hilum.session import Session
from hilum.unread_outputs import ATTACHED, MAX_UNREAD
from hilum.verdicts import judge_call

TOOL = "run_terminal_cmd"
ATTACHED_MARK = "The user ran: "
MAX_OUTPUT = 200_000  # characters
MAX_KEPT = 30_000  # in characters; the agent reads at most this much of the output
MAX_NOTED = 200
"""Number of characters of a command that the note about its end has."""
ENDED = "shell_line.ended"
"""Name of the event that says who ran what, and how it ended."""
STOP_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL when the user stops a background command."""


@attrs.define
class ShellLine:
    """A command that the user ran, and its output.

    Attributes:
        command: The command line.
        output: Output of the command so far, from standard output and standard error.
        status: Exit status; None while the command is running and if there is an error.
        error: Why the command did not start or ended unexpectedly.
        lost: Whether the command ended unexpectedly, after it had started.
        stopped: Whether the user stopped the command.
        note: What the sandbox refused and what to do about it; empty if it refused nothing.
        began: Unix time at which the command began.
    """

    command: str
    output: str = ""
    status: int | None = None
    error: str = ""
    lost: bool = False
    stopped: bool = False
    note: str = ""
    began: float = 0.0

    @property
    def attached(self) -> str:
        """The command and its output, in the form in which the agent reads them."""
        if self.lost:
            outcome = f"ended unexpectedly: {self.error}"
        elif self.error:
            outcome = f"did not start: {self.error}"
        elif self.stopped:
            outcome = "was stopped by the user"
        else:
            outcome = f"exit status {self.status}"
        text = self.output
        if len(text) > MAX_KEPT:
            half = MAX_KEPT // 2
            left_out = len(text) - MAX_KEPT
            text = f"{text[:half]}\n… {left_out:,} characters left out …\n{text[-half:]}"
        return f"{ATTACHED_MARK}{self.command}\n{outcome}\n{text}".rstrip()


def attach_output(session: Session, identity: str, text: str) -> str:
    """Add a command and its output to the next prompt of the main agent.

    Args:
        session: The session.
        identity: Id of the command.
        text: The command and its output, as ``ShellLine.attached``.

    Returns:
        What the user must know about older outputs that the agent will not read; usually empty.
    """
    forgotten = session.unread_outputs.add(identity, text)
    # If the log cannot be written, the output is still in memory: the agent reads it, unless the
    # session is opened again before its next prompt.
    with suppress(StoreError):
        session.note(ATTACHED, identity=identity, text=text)
    if not forgotten:
        return ""
    outputs = "output" if forgotten == 1 else f"{forgotten} outputs"
    return (
        f"The agent will not read the oldest {outputs}: together, the commands since your"
        f" last prompt wrote more than {MAX_UNREAD:,} characters."
    )


def note_end(session: Session, line: ShellLine, user: str, place: str) -> int:
    """Write in the log who ran what, so that every face shows it.

    Args:
        session: The session.
        line: The command, which has ended.
        user: Name of the user who ran it, as the subject of a sentence.
        place: Where the user typed it, for example "on the page".

    Returns:
        The sequence number of the event; 0 if the log cannot be written, and the session thus ends.
    """
    if line.lost:
        outcome = "ended unexpectedly."
    elif line.error:
        outcome = "did not start."
    elif line.stopped:
        outcome = "was stopped."
    else:
        outcome = f"ended with status {line.status}."
    command = line.command.strip()
    if len(command) > MAX_NOTED or "\n" in command:
        command = command.split("\n")[0][:MAX_NOTED] + " …"
    say = f"{user} ran `{command}` {place}; it {outcome}"
    data = {"say": say, "user": user, "status": line.status}
    try:
        return session.emit(PluginEvent(name=ENDED, data=data))
    except StoreError:
        return 0


async def run_shell_line(session: Session, line: ShellLine, changed: Callable[[], None]) -> None:
    """Run a command, and collect its output.

    Rules that deny a command also apply to what the user types, because they protect against typing
    errors. The command needs no approval, because the user typed it.

    Args:
        session: The session.
        line: The command; this function sets its other attributes.
        changed: Function to call when there is new output.
    """
    decoders = {
        stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in ("stdout", "stderr")
    }

    def add(stream: str, data: bytes) -> None:
        # A multi-byte character may be split between two chunks.
        add_text(decoders[stream].decode(data))

    def add_text(text: str) -> None:
        # A command may print an unlimited amount of output.
        line.output = (line.output + text)[-MAX_OUTPUT:]
        changed()

    try:
        await _check_rules(session, line.command)
        done = await session.processes.run(["bash", "-c", line.command], on_output=add)
        line.status = done.returncode
        # The output may end in the middle of a character.
        add_text("".join(decoder.decode(b"", final=True) for decoder in decoders.values()))
        if line.status:
            line.note = _explain_refusal(session, line.output)
    except HilumError as error:
        line.error = str(error)
        line.lost = isinstance(error, CommandLost)
    except trio.Cancelled:
        line.stopped = True
        raise
    except BaseExceptionGroup as group:
        # Several tasks read the output of a command, so its cancellation is a group.
        line.stopped = group.subgroup(trio.Cancelled) is not None
        raise


async def stop_background_command(command: BackgroundCommand) -> None:
    """End a background command with all its child processes, because the user wants it."""
    await command.stop("The user stopped it.", STOP_GRACE)


def _explain_refusal(session: Session, output: str) -> str:
    """Return why a command failed because of the sandbox; empty if it failed for another reason."""
    service = session.plugin(Confinement)
    if service is None:
        return ""
    try:
        return service.explain_refusal(output)
    except PLUGIN_EXCEPTIONS:
        # The output, which the user needs more, is shown without the explanation.
        return ""


async def _check_rules(session: Session, command: str) -> None:
    """Check a command against the rules.

    Raises:
        ToolDenied: A rule denies the command.
    """
    # Without the tool, the rules for commands are unknown.
    if TOOL not in session.tools:
        raise ToolDenied(
            "Commands cannot be checked, because the plugin `shell` is not loaded.",
            hint="Load it to run commands with `!`.",
        )
    arguments = msgspec.json.encode({"command": command}).decode()
    verdict = await judge_call(session.agents["main"], TOOL, arguments)
    if verdict.kind == "deny":
        # What the reason tells the model to do next is of no use to the user.
        reason = verdict.reason.removesuffix(UNAPPROVABLE).strip()
        hint = "To run it anyway, use another terminal." if verdict.code == E_BLOCKED else ""
        raise ToolDenied(reason or "A rule denies this command.", code=verdict.code, hint=hint)
