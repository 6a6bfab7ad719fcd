"""The rules of a user and a project: found, read, shown to the model, reloaded when they change,
and enforced.

What stands here loads at first use: importing the package loads neither a parser nor a pattern.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_rules.settings import RulesSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_rules.half import Rules
    from hilum_rules.loading import load_rules
    from hilum_rules.rule import Bundle, Enforce, Mode, Problem, Rule, RulesFile, RuleType

__all__ = [
    "Bundle",
    "Enforce",
    "Mode",
    "Problem",
    "Rule",
    "RuleType",
    "Rules",
    "RulesFile",
    "RulesSettings",
    "load_rules",
    "open_session",
]

# What the instance of a session implements: without it no call runs.
gates = ("check_answer", "on_tool_call")
# Where what is public stands.
_HOMES = {"Rules": "half", "load_rules": "loading"} | dict.fromkeys(
    ("Bundle", "Enforce", "Mode", "Problem", "Rule", "RuleType", "RulesFile"), "rule"
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum_rules.{_HOMES[name]}"), name)
    return value


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Rules]:
    """Read the rules of the session's workspace, and hold them until it closes."""
    import trio

    from hilum_rules.half import Rules

    settings = session.settings(RulesSettings)
    current = await trio.to_thread.run_sync(_load, session.workspace.root, settings, session.kind)
    yield Rules(session, current, settings.prompt_limit, settings.remind)


def _load(root: Any, settings: RulesSettings, kind: str) -> Any:
    from hilum import config_folder

    from hilum_rules.current import Current
    from hilum_rules.places import where

    current = Current(where(root, config_folder()), settings, kind)
    current.refresh(force=True)
    return current
