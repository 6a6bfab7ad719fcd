"""Detection of runs that ended without an error although calls could not run.

No user was present to approve the calls, or a gate was broken. The model gave a final answer, so
the run looks complete. A program that only reads the run's state must not mistake such a run for a
successful one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from hilum.errors import (
    BY_POLICY,
    E_DENIED,
    E_PLUGIN,
    GATE_TEXTS,
    RULE,
    UNATTENDED,
    approval_hint,
    unapproved,
)

if TYPE_CHECKING:
    from hilum.events import CallStarted
    from hilum.messages import ToolCall, ToolResult

MAX_NAMES = 10
"""Maximum number of refused calls that a message names."""
MAX_TARGET = 160
"""Maximum length of a call's target in a message, in characters."""
MAX_PATH = 4096
"""Maximum length of a path in characters, as on Linux."""
_TARGETS = ("path", "command", "url", "query", "name")


class Refusal(msgspec.Struct, frozen=True):
    """The reason why a run is not complete although the model gave a final answer.

    Attributes:
        code: ``E_PLUGIN`` if a gate was broken, ``E_DENIED`` if no user could approve the calls.
        error: A sentence about the problem.
        hint: A sentence about the next step.
        left: The calls that did not run.
    """

    code: str
    error: str
    hint: str
    left: str


class CallOutcome(msgspec.Struct, frozen=True):
    """A summary of a call that ended, without its full arguments, which may be large.

    Attributes:
        tool: Name of the tool.
        title: Name of the tool, with the path, command or address that the call was about.
        code: The error code of the call; empty for success.
        texts: The arguments that may be paths, which serve only to list written files; empty for a
            failed call.
        identity: A hash that is equal for calls of the same tool with the same arguments.
        denied: Whether the call was denied because no user was present to approve it.
        rule: A rule that would have allowed the call; empty if none is known.
        by_policy: Whether the approval policy ``auto`` would let the call run.
        broken: Why a broken gate refused the call; empty if no broken gate did.
        changed: Whether the call succeeded and its tool does more than read.
        began: Whether the tool began to run.
    """

    tool: str
    title: str
    code: str
    texts: dict[str, str]
    identity: int
    denied: bool
    rule: str
    broken: str
    changed: bool
    began: bool = True
    by_policy: bool = False

    @classmethod
    def of(cls, call: ToolCall, started: CallStarted | None, result: ToolResult) -> CallOutcome:
        """Create the summary from a call and its result."""
        code = result.code
        texts: dict[str, str] = {}
        if not code:
            for name, value in _decode_arguments(call).items():
                if isinstance(value, str) and len(value) <= MAX_PATH:
                    texts[name] = value
        broken = ""
        if code in (E_DENIED, E_PLUGIN) and any(text in result.text for text in GATE_TEXTS):
            broken = result.text.removeprefix(f"{code}: ")
        return cls(
            tool=call.name,
            title=describe_call(call),
            code=code,
            texts=texts,
            identity=hash((call.name, call.arguments)),
            denied=code == E_DENIED and UNATTENDED in result.text,
            rule=str(result.data.get(RULE, "")),
            broken=broken,
            changed=not code and started is not None and started.risk != "read",
            began=started is not None,
            by_policy=bool(result.data.get(BY_POLICY)),
        )


def _decode_arguments(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call; empty if they are not a JSON object."""
    try:
        return msgspec.json.decode(call.arguments or "{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}


def describe_call(call: ToolCall) -> str:
    """Return the name of a call's tool, with the path, command or address of the call."""
    arguments = _decode_arguments(call)
    for key in _TARGETS:
        target = arguments.get(key)
        if isinstance(target, str) and target:
            shown = " ".join(target.split())
            if len(shown) > MAX_TARGET:
                shown = f"{shown[: MAX_TARGET - 1]}…"
            return f"{call.name} {shown}"
    return call.name


def find_refusal(outcomes: Sequence[CallOutcome], approve: str) -> Refusal | None:
    """Return why a run with a final answer is not complete; ``None`` if it is complete.

    Args:
        outcomes: The calls in the run, in order.
        approve: The approval policy of the session.
    """
    broken = _broken(outcomes)
    if broken:
        return _gate_refusal(broken, len(outcomes))
    denied = [outcome for outcome in outcomes if outcome.denied]
    if not denied or any(outcome.changed for outcome in outcomes):
        return None
    rules = dict.fromkeys(outcome.rule for outcome in denied if outcome.rule)
    hint = approval_hint(approve, rules, by_policy=any(each.by_policy for each in denied))
    return Refusal(code=E_DENIED, error=unapproved(len(denied)), hint=hint, left="")


def _gate_refusal(broken: Sequence[CallOutcome], count: int) -> Refusal:
    """Return why a run in which a broken gate refused calls is not complete.

    Args:
        broken: The refused calls.
        count: Number of calls in the run.
    """
    if len(broken) == count:
        what = "No call was run."
    elif len(broken) == 1:
        what = f"The call {broken[0].title} was refused by a gate that is not working."
    else:
        what = f"{len(broken)} calls were refused by a gate that is not working."
    return Refusal(
        code=E_PLUGIN,
        error=f"{what} {broken[-1].broken}",
        hint=(
            "`hilum doctor` shows which gates are closed; correct the plugin, or leave it out"
            " with --no-plugin, or with without=[…] in a program."
        ),
        left=f"Calls that were refused: {_names(broken)}.",
    )


def _broken(outcomes: Iterable[CallOutcome]) -> list[CallOutcome]:
    """Return the calls that a broken gate refused and that did not succeed later."""
    broken: dict[int, CallOutcome] = {}
    for outcome in outcomes:
        if outcome.broken:
            broken[outcome.identity] = outcome
        elif not outcome.code:
            broken.pop(outcome.identity, None)
    return list(broken.values())


def _names(outcomes: Iterable[CallOutcome]) -> str:
    names = list(dict.fromkeys(outcome.title for outcome in outcomes))
    return ", ".join(names[:MAX_NAMES])
