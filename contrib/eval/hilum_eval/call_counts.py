"""Counts failed, recovered and wasted calls of an attempt.

A call has *failed* if its result has an error code. A failed call is *recovered* if the agent then
reached what the call was for:

- A call that was refused (by the guard, the user or a limit) is recovered if the agent did not make
  the identical call again and still answered the prompt.
- A command that failed is recovered if a later command of the same prompt that runs the same program
  succeeded.
- Any other call is recovered if a later call of the same prompt succeeded that either uses the same
  file and also writes (or also only reads), or is one of the same tool whose failure was about the
  arguments themselves, such as a file that does not exist.

A call is *wasted* if it contributed nothing:

- It failed, unless it is a command that ran: the first failure of a command after a change is
  information, such as the failing test before a repair.
- It succeeded, but the identical call had already succeeded and nothing was written in between.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import attrs

from hilum_eval.attempt import Usage
from hilum_eval.transcript import Call, Transcript

COMMAND_FAILED = "E_CMD_FAIL"
_REFUSED = frozenset(
    "E_APPROVAL_TIMEOUT E_BLOCKED E_CONTENT E_DENIED E_HOST E_PATH_TRAVERSAL E_REJECTED".split()
)
# The arguments name something that does not exist or is not what the agent believed.
_WRONG_ARGUMENTS = frozenset(
    "E_BAD_ARGS E_FILE_NOT_FOUND E_NOT_FOUND E_UNKNOWN E_UNKNOWN_TOOL E_REPEATED".split()
)
_PATH_KEYS = ("path", "file_path", "filepath", "file", "filename", "target_file")
_COMMAND_KEYS = ("command", "cmd", "script")
# What comes before the program in a command line: a change of the folder, and variables.
_PREFIX = re.compile(r"^\s*(?:cd\s+\S+\s*(?:&&|;)\s*|\w+=\S*\s+)+")
_INTERPRETER = re.compile(r"^(?:\S*/)?(?:python[\d.]*)\s+-m\s+")


def count_calls(transcript: Transcript) -> Usage:
    """Return the usage of a transcript with its calls counted."""
    calls = transcript.calls
    failed = [index for index, call in enumerate(calls) if call.code]
    answered = len(transcript.answers)
    recovered = [index for index in failed if _is_recovered(calls, index, answered)]
    wasted = [index for index in range(len(calls)) if _is_wasted(calls, index)]
    return attrs.evolve(
        transcript.usage,
        calls=len(calls),
        failed_calls=len(failed),
        recovered_calls=len(recovered),
        wasted_calls=len(wasted),
    )


def find_path(call: Call) -> str:
    """Return the file that a call names; empty if it names none."""
    for key in _PATH_KEYS:
        value = call.arguments.get(key)
        if isinstance(value, str) and value:
            return value.removeprefix("./")
    return ""


def find_program(call: Call) -> str:
    """Return the program that a call runs; empty if it runs none."""
    for key in _COMMAND_KEYS:
        value = call.arguments.get(key)
        if isinstance(value, str) and value.strip():
            command = _INTERPRETER.sub("", _PREFIX.sub("", value))
            return command.split()[0].rpartition("/")[2] if command.split() else ""
    return ""


def _is_recovered(calls: Sequence[Call], index: int, answered: int) -> bool:
    failed = calls[index]
    later = [call for call in calls[index + 1 :] if call.prompt == failed.prompt]
    if failed.code in _REFUSED:
        is_repeated = any(_make_key(call) == _make_key(failed) for call in later)
        return not is_repeated and answered >= failed.prompt
    return any(not call.code and _reaches(call, failed) for call in later)


def _reaches(call: Call, failed: Call) -> bool:
    """Return whether a successful call reached what a failed one was for."""
    program = find_program(failed)
    if program:
        return find_program(call) == program
    if failed.code == "E_UNKNOWN_TOOL":
        return True
    path = find_path(failed)
    # A call whose arguments were refused never ran, so nothing says whether it would have written.
    is_same_kind = call.tool == failed.tool or (call.writes == failed.writes and failed.started > 0)
    if path and is_same_kind and find_path(call) == path:
        return True
    if call.tool != failed.tool:
        return False
    return failed.code in _WRONG_ARGUMENTS or not path


def _is_wasted(calls: Sequence[Call], index: int) -> bool:
    call = calls[index]
    is_information = call.code == COMMAND_FAILED and call.started > 0
    if call.code and not is_information:
        return True
    for earlier in reversed(calls[:index]):
        if _make_key(earlier) == _make_key(call) and bool(earlier.code) == bool(call.code):
            return True
        # Commands count as changes only if they are not the command itself.
        if earlier.writes and not earlier.code:
            return False
    return False


def _make_key(call: Call) -> tuple[str, str]:
    return call.tool, json.dumps(call.arguments, sort_keys=True, default=str)
