"""Runs that ended in good order although calls could not run: nobody was there to approve, or a
gate was broken.

The model has answered, so the run looks complete. A program that only reads the state must not take
it for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from hilum.errors import E_DENIED, E_PLUGIN, GATE_TEXTS, UNATTENDED, approval_hint, unapproved

if TYPE_CHECKING:
    from hilum.events import CallStarted
    from hilum.messages import ToolCall, ToolResult

MAX_NAMES = 10
"""Calls that are named as not done."""
MAX_TARGET = 80
"""Characters of what such a call was about."""
_TARGETS = ("path", "command", "url", "query", "name")


class Refusal(msgspec.Struct, frozen=True):
    """Why a run is not complete although the model has answered.

    Attributes:
        code: ``E_PLUGIN`` where a gate is broken, ``E_DENIED`` where nobody could approve.
        error: What happened.
        hint: What to do.
        left: Which calls are not done.
    """

    code: str
    error: str
    hint: str
    left: str


class CallOutcome(msgspec.Struct, frozen=True):
    """What counts of a call for whether its run had an effect.

    Attributes:
        name: Name of the tool, and what the call was about.
        identity: Equal for calls of the same tool with the same arguments.
        denied: Whether it was denied because nobody was there to approve it.
        broken: Why a gate that is not in working order refused it; empty where none did.
        changed: Whether it succeeded and its tool does more than read.
        succeeded: Whether it succeeded.
    """

    name: str
    identity: int
    denied: bool
    broken: str
    changed: bool
    succeeded: bool

    @classmethod
    def of(cls, call: ToolCall, started: CallStarted | None, result: ToolResult) -> CallOutcome:
        """Create it from a call and its result."""
        refused = result.code in (E_DENIED, E_PLUGIN) and any(
            text in result.text for text in GATE_TEXTS
        )
        return cls(
            name=_described(call),
            identity=hash((call.name, call.arguments)),
            denied=result.code == E_DENIED and UNATTENDED in result.text,
            broken=result.text.removeprefix(f"{result.code}: ") if refused else "",
            changed=not result.code and started is not None and started.risk != "read",
            succeeded=not result.code,
        )


def _described(call: ToolCall) -> str:
    """Return the name of a call's tool, with the path, command or address that it was about."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return call.name
    if not isinstance(arguments, dict):
        return call.name
    for key in _TARGETS:
        target = arguments.get(key)
        if isinstance(target, str) and target:
            shown = " ".join(target.split())
            return f"{call.name} {shown[:MAX_TARGET]}"
    return call.name


def find_refusal(outcomes: Sequence[CallOutcome], approve: str) -> Refusal | None:
    """Return why a run whose model has answered is not complete; ``None`` where it is.

    Args:
        outcomes: The calls of the run, in order.
        approve: The approval policy of the session.
    """
    broken = _broken(outcomes)
    if broken:
        if len(broken) == len(outcomes):
            what = "No call was run."
        elif len(broken) == 1:
            what = f"The call {broken[0].name} was refused by a gate that is not working."
        else:
            what = f"{len(broken)} calls were refused by a gate that is not working."
        return Refusal(
            code=E_PLUGIN,
            error=f"{what} {broken[-1].broken}",
            hint=(
                "`hilum doctor` shows which gates are closed; correct the plugin, or leave it out"
                " with --no-plugin."
            ),
            left=f"Calls that were refused: {_names(broken)}.",
        )
    denied = [outcome for outcome in outcomes if outcome.denied]
    if not denied or any(outcome.changed for outcome in outcomes):
        return None
    return Refusal(
        code=E_DENIED, error=unapproved(len(denied)), hint=approval_hint(approve), left=""
    )


def _broken(outcomes: Iterable[CallOutcome]) -> list[CallOutcome]:
    """Return the calls that a broken gate refused, and that were not done later."""
    broken: dict[int, CallOutcome] = {}
    for outcome in outcomes:
        if outcome.broken:
            broken[outcome.identity] = outcome
        elif outcome.succeeded:
            broken.pop(outcome.identity, None)
    return list(broken.values())


def _names(outcomes: Iterable[CallOutcome]) -> str:
    names = list(dict.fromkeys(outcome.name for outcome in outcomes))
    return ", ".join(names[:MAX_NAMES])
