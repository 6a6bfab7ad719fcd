"""A user's and a project's rules, read from the rules files of all agents.

The model reads all rules, and hilum enforces those that it can check. Modules are loaded on first
use: importing the package loads no parser and compiles no pattern.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_rules.settings import RulesSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_rules.loading import load_rules
    from hilum_rules.rule import Bundle, Enforce, Mode, Problem, Rule, RulesFile, RuleType
    from hilum_rules.rule_store import open_store
    from hilum_rules.session_rules import Rules

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
    "open_store",
]

# No call runs unless the session plugin provides these hooks.
gates = ("check_answer", "check_result", "on_tool_call")
# The modules of the public names; those of the others are in ``rule``.
_MODULES = {"Rules": "session_rules", "load_rules": "loading", "open_store": "rule_store"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"hilum_rules.{_MODULES.get(name, 'rule')}")
    value = getattr(module, name)
    # Python does not call ``__getattr__`` again for a name that is in the module.
    globals()[name] = value
    return value


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Rules]:
    """Load the rules of the session's workspace, and yield them until the session closes."""
    import trio

    from hilum_rules.rule_store import open_store
    from hilum_rules.session_rules import Rules

    settings = session.settings(RulesSettings)
    root = session.workspace.root
    # A thread loads the rules, because reading and parsing all files could block the event loop for
    # too long.
    store = await trio.to_thread.run_sync(open_store, root, settings, session.kind)
    yield Rules(session, store)
