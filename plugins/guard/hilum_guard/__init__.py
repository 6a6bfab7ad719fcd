"""Judges what an agent wants to do before it is done, and keeps its child processes in a sandbox.

What stands here loads at first use: importing the package loads neither the grammar of the shell
nor what makes sandboxes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

from hilum_guard.settings import GuardSettings

if TYPE_CHECKING:
    from hilum import Session

    from hilum_guard.addresses import host_of
    from hilum_guard.commands import CommandVerdict, SimpleCommand, judge_command
    from hilum_guard.half import Explained, Guard
    from hilum_guard.harmless_git import repository_doubt
    from hilum_guard.leftovers import make_folder
    from hilum_guard.printed import python_prints
    from hilum_guard.protected import hidden
    from hilum_guard.protected import secret as secret_file
    from hilum_guard.redaction import Redactor
    from hilum_guard.rule_files import add as add_rule
    from hilum_guard.rule_files import load as load_rules
    from hilum_guard.rule_files import remove as remove_rule
    from hilum_guard.rules import explain as explain_rule
    from hilum_guard.rules import fit_path, fit_words, pattern_words
    from hilum_guard.rules import parse as parse_rule
    from hilum_guard.sandbox import Enforced, Held, Wider, probe, report
    from hilum_guard.tool_names import server_tools
    from hilum_guard.tool_names import unknown as unknown_tool
    from hilum_guard.trust import Trust, distrust, trusted

__all__ = [
    "CommandVerdict",
    "Enforced",
    "Explained",
    "Guard",
    "GuardSettings",
    "Held",
    "Redactor",
    "SimpleCommand",
    "Trust",
    "Wider",
    "add_rule",
    "distrust",
    "explain_rule",
    "fit_path",
    "fit_words",
    "hidden",
    "host_of",
    "judge_command",
    "load_rules",
    "looks_secret",
    "make_folder",
    "open_session",
    "parse_rule",
    "pattern_words",
    "probe",
    "python_prints",
    "remove_rule",
    "report",
    "repository_doubt",
    "secret_file",
    "server_tools",
    "trusted",
    "unknown_tool",
]

# What the instance of a session implements: without it no call runs.
gates = ("check_result", "on_tool_call", "redact_texts", "wrap_process")
# Where what is public stands: module and name there.
_HOMES = {
    "CommandVerdict": "commands",
    "SimpleCommand": "commands",
    "judge_command": "commands",
    "Explained": "half",
    "Guard": "half",
    "Redactor": "redaction",
    "hidden": "protected",
    "host_of": "addresses",
    "repository_doubt": "harmless_git",
    "make_folder": "leftovers",
    "looks_secret": "environment",
    "python_prints": "printed",
    "secret_file": "protected.secret",
    "add_rule": "rule_files.add",
    "load_rules": "rule_files.load",
    "remove_rule": "rule_files.remove",
    "explain_rule": "rules.explain",
    "parse_rule": "rules.parse",
    "pattern_words": "rules.pattern_words",
    "fit_path": "rules.fit_path",
    "fit_words": "rules.fit_words",
    "server_tools": "tool_names",
    "unknown_tool": "tool_names.unknown",
    "Enforced": "sandbox",
    "Held": "sandbox",
    "Wider": "sandbox",
    "probe": "sandbox",
    "report": "sandbox",
    "Trust": "trust",
    "distrust": "trust",
    "trusted": "trust",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, inner = _HOMES[name].partition(".")
    value = globals()[name] = getattr(import_module(f"hilum_guard.{module}"), inner or name)
    return value


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Guard]:
    """Judge the session's calls, and wrap its child processes, until it closes."""
    from hilum_guard.half import open_guard

    async with open_guard(session) as guard:
        yield guard
