"""Reads what a hook answers: with its exit code, or with JSON on its standard output."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from hilum_hooks_claude.hook import (
    POST_TOOL_USE,
    POST_TOOL_USE_FAILURE,
    PRE_TOOL_USE,
    SESSION_START,
    STOP,
    SUBAGENT_STOP,
    USER_PROMPT_SUBMIT,
)

BLOCK_CODE = 2
"""The exit code with which a hook blocks."""
MAX_REASON = 4_000
"""Maximum number of characters of a reason."""
MAX_CONTEXT = 10_000
"""Maximum number of characters of what a hook adds to the conversation."""
MAX_MESSAGE = 1_000
"""Maximum number of characters of a message to the user."""
Decision = Literal["none", "allow", "ask", "deny"]
# Exit codes of a shell: the program cannot be executed, and it does not exist.
_NOT_STARTED = (126, 127)
# Values of `decision` that let something pass. The last ones are common mistakes without a meaning.
_PASSING = frozenset({"", "approve", "allow", "continue", "pass"})
READ_ONLY = re.compile(r"read-only file system", re.IGNORECASE)
"""What programs say that the sandbox kept from writing a file."""
_LOG_PLACE = re.compile(r"complete log of this run can be found in", re.IGNORECASE)
_CONTEXT_EVENTS = frozenset({USER_PROMPT_SUBMIT, SESSION_START})


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a hook answered, or why it failed.

    Attributes:
        decision: ``deny`` stands for every kind of blocking.
        reason: The reason for the decision.
        context: Text that the model is to read.
        updated: The changed input of a tool.
        stops: Whether the agent is to stop.
        message: A message to the user.
        is_quiet: Whether the hook does not want its work to be shown.
        failure: Why the hook did not work, as a sentence; empty if it did.
    """

    decision: Decision = "none"
    reason: str = ""
    context: str = ""
    updated: dict[str, Any] | None = None
    stops: bool = False
    message: str = ""
    is_quiet: bool = False
    failure: str = ""


def read_answer(event: str, code: int, stdout: str, stderr: str) -> Answer:
    """Return the answer of a hook that has ended.

    Args:
        event: The event at which it ran.
        code: Its exit code; negative if a signal ended it.
        stdout: Its standard output.
        stderr: Its standard error.
    """
    if code == BLOCK_CODE:
        return Answer("deny", _read_reason(stdout, stderr)[:MAX_REASON])
    if code:
        return read_failure(code, stderr)
    text = stdout.strip()
    if text.startswith("{"):
        return _read_json(event, text)
    if event in _CONTEXT_EVENTS:
        return Answer(context=text[:MAX_CONTEXT])
    return Answer()


def _read_reason(stdout: str, stderr: str) -> str:
    """Return why a hook blocks that ended with the exit code for it.

    Only the standard error is meant for it, but many hooks print the reason to the standard output.
    That a hook could not write its log is no reason.
    """
    said = stderr.strip()
    printed = stdout.strip()
    lines = [line for line in said.splitlines() if not READ_ONLY.search(line)]
    if lines or printed:
        said = "\n".join(lines).strip()
    if not printed.startswith("{"):
        return "\n".join(filter(None, (said, printed))) or "It gave no reason."
    return said or _find_reason(printed) or printed


def _find_reason(text: str) -> str:
    """Return the reason in an answer of JSON; empty if there is none."""
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    specific = data.get("hookSpecificOutput")
    if not isinstance(specific, dict):
        specific = {}
    given = (specific.get("permissionDecisionReason"), data.get("reason"), data.get("stopReason"))
    return next((each.strip() for each in given if isinstance(each, str) and each.strip()), "")


def read_failure(code: int, stderr: str) -> Answer:
    """Return the answer of a hook that did not work.

    Args:
        code: Its exit code; negative if a signal ended it.
        stderr: Its standard error.
    """
    said = stderr.strip()
    # `test -f x && …` and `grep -q` end with 1 and say nothing if they find nothing. A program that
    # crashes says why.
    if code == 1 and not said:
        return Answer()
    if code < 0:
        how = f"It was ended by signal {-code}"
    elif code in _NOT_STARTED:
        how = f"It could not be started (exit code {code})"
    else:
        how = f"It ended with exit code {code}"
    # npm ends with the place of a log, which the sandbox removes.
    lines = [line for line in said.splitlines() if not _LOG_PLACE.search(line)]
    last = lines[-1][:MAX_MESSAGE] if lines else ""
    return Answer(failure=f"{how}: {last}" if last else f"{how}.")


def _read_json(event: str, text: str) -> Answer:
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        return Answer(failure=f"Its answer begins like JSON, but is not: {error}.")
    if not isinstance(data, dict):
        return Answer(failure="Its answer is not a JSON object.")
    try:
        return _convert(event, data)
    except (ValueError, TypeError) as error:
        return Answer(failure=f"Its answer is not valid: {error}.")


def _convert(event: str, data: dict[str, Any]) -> Answer:
    """Return the answer in a JSON object.

    Raises:
        ValueError: A field has a value that cannot be understood.
    """
    specific = data.get("hookSpecificOutput")
    if specific is None:
        specific = {}
    if not isinstance(specific, dict):
        raise ValueError("`hookSpecificOutput` is not an object")
    decision, reason = _read_decision(event, data, specific)
    stops = data.get("continue") is False
    if stops and not reason:
        reason = _read_text(data, "stopReason")
    return Answer(
        decision,
        reason[:MAX_REASON],
        _read_text(specific, "additionalContext")[:MAX_CONTEXT],
        _read_updated(event, specific),
        stops,
        _read_text(data, "systemMessage")[:MAX_MESSAGE],
        data.get("suppressOutput") is True,
    )


def _read_decision(
    event: str, data: dict[str, Any], specific: dict[str, Any]
) -> tuple[Decision, str]:
    """Return the decision in an answer, and its reason.

    Raises:
        ValueError: The decision cannot be understood.
    """
    wanted = specific.get("permissionDecision")
    if event == PRE_TOOL_USE and wanted is not None:
        if wanted not in ("allow", "ask", "deny"):
            raise ValueError(f"`permissionDecision` is {wanted!r}, not allow, ask or deny")
        return wanted, _read_text(specific, "permissionDecisionReason")
    given = data.get("decision")
    reason = _read_text(data, "reason")
    if given is None or given in _PASSING:
        is_allowed = event == PRE_TOOL_USE and given in ("approve", "allow")
        return ("allow" if is_allowed else "none"), reason
    if given in ("block", "deny"):
        return "deny", reason or "It gave no reason."
    if given == "ask" and event == PRE_TOOL_USE:
        return "ask", reason
    raise ValueError(f"`decision` is {given!r}, not block")


def _read_updated(event: str, specific: dict[str, Any]) -> dict[str, Any] | None:
    """Return the changed input of a tool.

    Raises:
        ValueError: It is not an object.
    """
    updated = specific.get("updatedInput")
    if updated is None or event != PRE_TOOL_USE:
        return None
    if not isinstance(updated, dict):
        raise ValueError("`updatedInput` is not an object")
    return updated


def _read_text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"`{name}` is not a text")
    return value.strip()


def describe_effect(event: str, answer: Answer) -> str:
    """Return what an answer causes, as a phrase; empty if it causes nothing."""
    if answer.failure:
        return "failed"
    if answer.stops:
        return "stopped the run"
    if answer.decision == "deny":
        return _BLOCKING.get(event, "objected")
    if answer.decision == "ask":
        return "asks you"
    if answer.updated is not None:
        return "changed the call"
    if answer.context:
        return "added context"
    return ""


_BLOCKING = {
    PRE_TOOL_USE: "denied the call",
    POST_TOOL_USE: "objected to the result",
    POST_TOOL_USE_FAILURE: "objected to the result",
    USER_PROMPT_SUBMIT: "blocked the prompt",
    STOP: "objected to the answer",
    SUBAGENT_STOP: "objected to the answer",
}
