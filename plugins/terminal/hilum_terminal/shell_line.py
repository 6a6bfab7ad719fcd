"""Runs a command that the user types after ``!``, in the session's folder and sandbox."""

from __future__ import annotations

import codecs
from collections.abc import Callable

import attrs
import msgspec
import trio
from hilum import Confinement, HilumError, Session, ToolDenied, judge_call
from hilum.errors import E_BLOCKED, UNAPPROVABLE
from hilum.hooks import PLUGIN_EXCEPTIONS

TOOL = "run_terminal_cmd"
ATTACHED_MARK = "The user ran: "
MAX_OUTPUT = 200_000  # characters
MAX_KEPT = 30_000  # in characters; the agent reads at most this much of the output


@attrs.define
class ShellLine:
    """A command that the user ran, and its output.

    Attributes:
        command: The command line.
        output: Output of the command so far, from standard output and standard error.
        status: Exit status; None while the command is running or if it did not start.
        error: Why the command did not start.
        stopped: Whether the user stopped the command.
        note: What the sandbox refused and what to do about it; empty if it refused nothing.
        began: Unix time at which the command began.
    """

    command: str
    output: str = ""
    status: int | None = None
    error: str = ""
    stopped: bool = False
    note: str = ""
    began: float = 0.0

    @property
    def attached(self) -> str:
        """The command and its output, in the form in which the agent reads them."""
        if self.error:
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


async def run_shell_line(session: Session, line: ShellLine, changed: Callable[[], None]) -> None:
    """Run a command, and collect its output.

    Rules that deny a command also apply to what the user types, because they protect against typing
    errors. The command needs no approval, because the user typed it.

    Args:
        session: The session.
        line: The command; this function sets its other attributes.
        changed: Function to call when there is new output.
    """
    try:
        await _check_rules(session, line.command)
    except HilumError as error:
        line.error = str(error)
        return

    decoders = {
        stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in ("stdout", "stderr")
    }

    def add(stream: str, data: bytes) -> None:
        # A multi-byte character may be split between two chunks.
        text = decoders[stream].decode(data)
        # A command may print an unlimited amount of output.
        line.output = (line.output + text)[-MAX_OUTPUT:]
        changed()

    try:
        done = await session.processes.run(["bash", "-c", line.command], on_output=add)
        line.status = done.returncode
        if line.status:
            line.note = _explain_refusal(session, line.output)
    except HilumError as error:
        line.error = str(error)
    except trio.Cancelled:
        line.stopped = True
        raise


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
