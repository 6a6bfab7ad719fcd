"""Repetition: detection of calls that fail, or return the same result, several times in a row.

Calls are counted as long as nothing changes in between. ``FailureCounts`` is folded from an agent's
events, so that a resumed run continues the counts. A call that may have changed files resets the
counts. A test that fails after each of three edits is normal work, but a call that fails three
times in a row without a change is not. A write that found everything already in the requested state
does not reset the counts, and is itself counted.
"""

from __future__ import annotations

import re
from hashlib import sha256

import msgspec

from hilum.arguments import CALL_TOOL, is_readable, normalized
from hilum.events import CallStarted
from hilum.messages import Text, ToolCall, ToolResult

MAX_REPEATED_FAILURES = 3
SAME_RESULTS_NOTED = 5
MAX_SAME_RESULTS = 10

ADVICE = "Fix the cause, try another way, or tell the user what is in the way and ask."
# Codes of failures that reading the file again may resolve.
_CURED_BY_READING = frozenset({"E_STALE", "E_NOT_FOUND", "E_MULTIPLE_MATCHES"})
# Codes of failures after which a call that writes may have written nevertheless.
_MAY_HAVE_WRITTEN = frozenset(
    {"E_READBACK_FAIL", "E_TIMEOUT", "E_PLUGIN", "E_INTERRUPTED", "E_STOPPED"}
)
# Codes of calls that a crash or a stop interrupted, so that it is unknown whether they would have
# failed.
_NO_OUTCOME = frozenset({"E_INTERRUPTED", "E_STOPPED"})
# Codes that show that the model cannot form a valid call of the tool, whatever the target.
_WRONG_CALL = frozenset({"E_BAD_ARGS", "E_UNKNOWN_TOOL"})

# Durations are ignored in comparisons, because they differ even between otherwise equal results.
_DURATION = r"(?<!\d)\d++(?:\.\d++)? ?(?:ms|s|sec|secs|seconds?)\b"
_AFTER = r" after \d+(?:\.\d+)? s\b"

Aim = tuple[str, str, str]
"""A tool, the target of its call (a path, a program), and the code it failed with."""


class Failures(msgspec.Struct):
    """The consecutive failures of one call or aim.

    Attributes:
        tool: Name of the tool.
        code: The code of the last failure.
        count: Number of consecutive failures.
        turn: The turn of the last failure; several calls with the same aim in one response count as
            one.
        noted: Whether the model was informed about the failures.
        mixed: Whether the failures had different codes.
        text: Digest of the last result, for a call that may change files. If the digest changes,
            the call changed something.
        moved: Whether the digests differed, which means that the calls themselves changed
            something.
        curable: Number of failures that reading ``curable_paths`` may resolve.
    """

    tool: str
    code: str = ""
    count: int = 0
    mixed: bool = False
    turn: int = 0
    noted: bool = False
    text: str = ""
    moved: bool = False
    curable: int = 0
    curable_paths: frozenset[str] = frozenset()

    def cure(self, paths: frozenset[str]) -> None:
        """Subtract the failures that a successful read of the given paths may have resolved."""
        if self.curable_paths & paths:
            self.count -= self.curable
            self.curable = 0
            self.curable_paths = frozenset()
            self.noted = self.noted and self.count >= MAX_REPEATED_FAILURES

    def compare(self, text: str) -> None:
        """Record whether a result differs from the previous one.

        Args:
            text: Digest of the result; empty if the call cannot change anything.
        """
        self.moved = self.moved or bool(self.text and text and self.text != text)
        self.text = text


class SameResults(msgspec.Struct):
    """Consecutive equal results of a call that changes nothing or found nothing to change."""

    tool: str
    digest: str
    count: int = 1
    noted: bool = False


class FailureCounts(msgspec.Struct):
    """The counts of an agent's failed and repeated calls."""

    calls: dict[str, Failures] = {}
    aims: dict[Aim, Failures] = {}
    results: dict[str, SameResults] = {}

    def refusal(self, call: ToolCall) -> str:
        """Return why the given call must not run again; empty if it may run."""
        key = _fingerprint(call)
        failures = self.calls.get(key)
        if failures is not None and failures.count >= MAX_REPEATED_FAILURES:
            if is_readable(call.arguments) and not call.problem:
                what = "This exact call"
            else:
                what = f"Such a call of {call.name}"
            return (
                f"{what} failed three times in a row {_with_code(failures)}, and nothing changed in"
                " between, so it was not run again."
            )
        same = self.results.get(key)
        if same is not None and same.count >= MAX_SAME_RESULTS:
            return (
                f"This exact call returned the same result {same.count} times in a row, and nothing"
                " changed in between, so it was not run again."
            )
        return ""

    def record(
        self, call: ToolCall, started: CallStarted | None, result: ToolResult, turn: int
    ) -> None:
        """Count the outcome of a call.

        Args:
            call: The call as the model wrote it.
            started: The event of the call's start, if the call started.
            result: The result of the call.
            turn: Number of the turn that the call belongs to.
        """
        if result.code == "E_REPEATED":  # a refused call has no effect on the counts
            return
        key = _fingerprint(call)
        aim = _aim(call, started, result.code)
        may_change = started is not None and may_have_changed(started, result)
        if may_change:
            self.clear(key, aim[:2])
        if result.code in _NO_OUTCOME:
            return
        if result.code:
            text = _digest(re.sub(_DURATION, "", result.text)) if may_change else ""
            is_one_call = is_readable(call.arguments) and not call.problem
            self._count_failure(key, aim, started, turn, text, is_one_call=is_one_call)
            return
        self._clear_failures(key, aim)
        if started is not None and started.risk == "read":
            self._clear_cured(frozenset(started.paths))
        if started is not None and (started.effect == "pure" or not result.changed):
            self._count_result(key, aim[0], result)

    def _clear_failures(self, key: str, aim: Aim) -> None:
        """Drop the failures of a call that succeeded, and all failures with the same aim."""
        self.calls.pop(key, None)
        self.aims = {
            other: failures for other, failures in self.aims.items() if other[:2] != aim[:2]
        }
        # The success shows that the model can form a valid call of the tool.
        for code in _WRONG_CALL:
            self.aims.pop((aim[0], "", code), None)

    def clear(self, call: str = "", aim: tuple[str, ...] = ()) -> None:
        """Drop all failures, because the state of the world may have changed.

        Args:
            call: Fingerprint of the call that changed something; its own failures still count.
            aim: First two fields of the aim of that call; failures with this aim also still count.
        """
        self.calls = {key: failures for key, failures in self.calls.items() if key == call}
        self.aims = {key: failures for key, failures in self.aims.items() if key[:2] == aim}
        self.results.clear()

    def keep_only(self, call: ToolCall) -> None:
        """Drop everything except the failures of the given call, which the user has refused."""
        self.clear(_fingerprint(call))

    def due(self) -> list[str]:
        """Return the notes for the model that are due, until ``mark_noted`` is called."""
        notes = {}
        for failures in self.reached():
            notes[failures.tool, failures.code] = f"{failed_note(failures)} {ADVICE}"
        for same in self.results.values():
            if same.count >= SAME_RESULTS_NOTED and not same.noted:
                notes[same.tool, ""] = (
                    f"The same call of {same.tool} returned the same result {same.count} times in a"
                    " row, and nothing changed in between. Use that result, or do something else."
                )
        return list(notes.values())

    def reached(self) -> list[Failures]:
        """Return the failures to report to the user, one for each tool and code."""
        due = {}
        for failures in (*self.aims.values(), *self.calls.values()):
            if failures.count >= MAX_REPEATED_FAILURES and not failures.noted:
                due[failures.tool, failures.code] = failures
        return list(due.values())

    def mark_noted(self) -> None:
        """Mark all due notes as delivered."""
        for failures in (*self.aims.values(), *self.calls.values()):
            failures.noted = failures.noted or failures.count >= MAX_REPEATED_FAILURES
        for same in self.results.values():
            same.noted = same.noted or same.count >= SAME_RESULTS_NOTED

    def _count_failure(
        self,
        key: str,
        aim: Aim,
        started: CallStarted | None,
        turn: int,
        text: str,
        *,
        is_one_call: bool,
    ) -> None:
        tool, about, code = aim
        # A failure ends a series of equal results.
        self.results.pop(key, None)
        paths = frozenset(started.paths) if started is not None else frozenset()
        failures = self.calls.setdefault(key, Failures(tool))
        failures.compare(text)
        if failures.moved:  # the result changes each time, so the call makes progress
            failures = self.calls[key] = Failures(tool, text=text)
        failures.mixed = failures.mixed or (failures.count > 0 and failures.code != code)
        failures.code = code
        # All calls whose arguments cannot be read share a fingerprint, but several in one response
        # may be different calls, so they count as one.
        if is_one_call or failures.turn != turn:
            failures.count += 1
            if code in _CURED_BY_READING:
                failures.curable += 1
                failures.curable_paths |= paths
        failures.turn = turn
        # If an aim has no path or program, only failures of the same call are counted. Invalid
        # calls are the exception: all invalid calls of a tool share an aim.
        if not about and code not in _WRONG_CALL:
            return
        same = self.aims.setdefault(aim, Failures(tool, code))
        same.compare(text)
        if same.turn != turn:
            same.count += 1
            same.turn = turn

    def _clear_cured(self, paths: frozenset[str]) -> None:
        """Drop failures that a successful read of the given paths may have resolved."""
        for failures in self.calls.values():
            failures.cure(paths)
        self.calls = {key: failures for key, failures in self.calls.items() if failures.count}

    def _count_result(self, key: str, tool: str, result: ToolResult) -> None:
        line, _, rest = result.text.partition("\n")
        # Two screenshots may differ although their texts are equal.
        others = tuple(part for part in result.parts if not isinstance(part, Text))
        digest = _digest(
            f"{re.sub(_AFTER, '', line)}\n{rest}\n{msgspec.json.encode(others).decode()}"
        )
        same = self.results.get(key)
        if same is not None and same.digest == digest:
            same.count += 1
        else:
            self.results[key] = SameResults(tool, digest)


def _digest(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()


def failed_note(failures: Failures) -> str:
    """Return a sentence about a call that failed three times in a row."""
    unchanged = "" if failures.moved else ", and nothing changed in between"
    return f"{failures.tool} failed three times in a row {_with_code(failures)}{unchanged}."


def _with_code(failures: Failures) -> str:
    if failures.mixed:
        return f"with different errors, the last one {failures.code}"
    return f"with {failures.code}"


def may_have_changed(started: CallStarted, result: ToolResult) -> bool:
    """Return whether a call may have changed anything outside the conversation.

    Args:
        started: The event of the call's start.
        result: The result of the call.
    """
    if started.effect == "pure" or not result.changed:
        return False
    if started.risk == "write":
        return not result.code or result.code in _MAY_HAVE_WRITTEN
    return started.risk != "read" or started.effect == "once"


def _fingerprint(call: ToolCall) -> str:
    """Return a digest that is equal for equal calls, regardless of the spelling of their JSON.

    All calls of a tool whose arguments cannot be read have the same digest, because their purpose
    is unknown.
    """
    if is_readable(call.arguments):
        arguments = normalized(call.arguments)
    else:
        arguments = "unreadable"
    text = f"{call.name}\n{call.problem}\n{arguments}"
    return _digest(text)


def _aim(call: ToolCall, started: CallStarted | None, code: str) -> Aim:
    tool = _tool_name(call)
    if started is None:
        return tool, "", code
    return tool, started.aim or ", ".join(started.paths), code


def _tool_name(call: ToolCall) -> str:
    """Return the name of the tool that a call is for, including calls through ``call_tool``."""
    if call.name != CALL_TOOL or call.problem or not is_readable(call.arguments):
        return call.name
    name = msgspec.json.decode(call.arguments or "{}").get("name")
    return name if isinstance(name, str) else call.name
