"""Judge an agent's tool calls before they run, and confine its child processes to a sandbox.

A call passes through the modules in this order: ``session_guard`` receives it, ``call_judge`` loads
the rules, ``call_reader`` checks its arguments, ``commands`` parses a command line, ``effects``
determines what the commands do, ``rules`` compares the rules with the call, and ``gate`` decides.

Public names load on first use: importing the package loads neither the shell grammar nor the
sandboxes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import trio
from hilum import hookimpl

from hilum_guard.sandbox.early_trial import expects_command, try_sandbox
from hilum_guard.settings import GuardSettings

if TYPE_CHECKING:
    from hilum import Kernel, Session

    from hilum_guard.checks import report_sandbox
    from hilum_guard.command_paths import as_seen_by_commands, locate
    from hilum_guard.commands import judge_command
    from hilum_guard.commands.predicted_output import python_prints
    from hilum_guard.commands.shell_grammar import Source as ShellSource
    from hilum_guard.commands.shell_words import Unreadable as UnreadableShell
    from hilum_guard.commands.verdicts import CommandVerdict, SimpleCommand
    from hilum_guard.effects.command_effects import read_effects
    from hilum_guard.effects.file_access import CHANGED, UNKNOWN, CommandEffects, FileAccess
    from hilum_guard.effects.file_search import Findings, search
    from hilum_guard.effects.git_effects import git_words
    from hilum_guard.file_names import resolve_links
    from hilum_guard.hosts.addresses import host_of
    from hilum_guard.new_files import (
        filter_tracked,
        is_new_file,
        is_own_file,
        is_tracked,
        note_tracked,
    )
    from hilum_guard.previews import describe_call, describe_scope, find_dangers
    from hilum_guard.programs.options import make_syntax as make_option_syntax
    from hilum_guard.programs.options import operands
    from hilum_guard.programs.options import parse as parse_options
    from hilum_guard.protected_files import hidden as explain_hidden_file
    from hilum_guard.protected_files import secret as explain_secret_file
    from hilum_guard.repositories.changed_files import list_changed_files
    from hilum_guard.repositories.repository_settings import repository_doubt
    from hilum_guard.repositories.tracked_files import find_git_top, list_tracked_files
    from hilum_guard.rules.matching import explain as explain_rule
    from hilum_guard.rules.matching import parse as parse_rule
    from hilum_guard.rules.patterns import fit_path, fit_words, pattern_words
    from hilum_guard.rules.rule_files import add as add_rule
    from hilum_guard.rules.rule_files import load as load_rules
    from hilum_guard.rules.rule_files import remove as remove_rule
    from hilum_guard.rules.tool_names import explain_unknown_tool, server_tools
    from hilum_guard.sandbox.enforcement import FULL_SANDBOX, Enforcement
    from hilum_guard.sandbox.sandbox_probe import probe
    from hilum_guard.sandbox.session_sandbox import ExtraAccess, ProtectedPaths
    from hilum_guard.secrets.redaction import Redactor
    from hilum_guard.session_guard import CallExplanation, Guard

__all__ = [
    "CHANGED",
    "FULL_SANDBOX",
    "UNKNOWN",
    "CallExplanation",
    "CommandEffects",
    "CommandVerdict",
    "Enforcement",
    "ExtraAccess",
    "FileAccess",
    "Findings",
    "Guard",
    "GuardSettings",
    "ProtectedPaths",
    "Redactor",
    "ShellSource",
    "SimpleCommand",
    "UnreadableShell",
    "add_rule",
    "as_seen_by_commands",
    "describe_call",
    "describe_scope",
    "explain_hidden_file",
    "explain_rule",
    "explain_secret_file",
    "explain_unknown_tool",
    "filter_tracked",
    "find_dangers",
    "find_git_top",
    "fit_path",
    "fit_words",
    "git_words",
    "host_of",
    "is_new_file",
    "is_own_file",
    "is_tracked",
    "judge_command",
    "list_changed_files",
    "list_tracked_files",
    "load_rules",
    "locate",
    "looks_secret",
    "make_option_syntax",
    "note_tracked",
    "open_session",
    "operands",
    "parse_options",
    "parse_rule",
    "pattern_words",
    "probe",
    "python_prints",
    "read_effects",
    "remove_rule",
    "report_sandbox",
    "repository_doubt",
    "resolve_links",
    "search",
    "server_tools",
]

# The hooks that a session's guard implements. No call runs without these hooks.
gates = ("check_result", "on_tool_call", "redact_texts", "wrap_process")
# The module that defines each public name, and the name in that module if it is different.
_MODULES = {
    "CommandVerdict": "commands.verdicts",
    "SimpleCommand": "commands.verdicts",
    "judge_command": "commands",
    "ShellSource": "commands.shell_grammar:Source",
    "UnreadableShell": "commands.shell_words:Unreadable",
    "is_new_file": "new_files",
    "as_seen_by_commands": "command_paths",
    "locate": "command_paths",
    "resolve_links": "file_names",
    "is_own_file": "new_files",
    "is_tracked": "new_files",
    "filter_tracked": "new_files",
    "note_tracked": "new_files",
    "CHANGED": "effects.file_access",
    "UNKNOWN": "effects.file_access",
    "CommandEffects": "effects.file_access",
    "FileAccess": "effects.file_access",
    "Findings": "effects.file_search",
    "git_words": "effects.git_effects",
    "make_option_syntax": "programs.options:make_syntax",
    "operands": "programs.options",
    "parse_options": "programs.options:parse",
    "read_effects": "effects.command_effects",
    "search": "effects.file_search",
    "CallExplanation": "session_guard",
    "Guard": "session_guard",
    "Redactor": "secrets.redaction",
    "describe_call": "previews",
    "describe_scope": "previews",
    "find_dangers": "previews",
    "explain_hidden_file": "protected_files:hidden",
    "host_of": "hosts.addresses",
    "repository_doubt": "repositories.repository_settings",
    "find_git_top": "repositories.tracked_files",
    "list_changed_files": "repositories.changed_files",
    "list_tracked_files": "repositories.tracked_files",
    "looks_secret": "sandbox.environment",
    "python_prints": "commands.predicted_output",
    "explain_secret_file": "protected_files:secret",
    "add_rule": "rules.rule_files:add",
    "load_rules": "rules.rule_files:load",
    "remove_rule": "rules.rule_files:remove",
    "explain_rule": "rules.matching:explain",
    "parse_rule": "rules.matching:parse",
    "pattern_words": "rules.patterns",
    "fit_path": "rules.patterns",
    "fit_words": "rules.patterns",
    "server_tools": "rules.tool_names",
    "explain_unknown_tool": "rules.tool_names",
    "FULL_SANDBOX": "sandbox.enforcement",
    "Enforcement": "sandbox.enforcement",
    "ProtectedPaths": "sandbox.session_sandbox",
    "ExtraAccess": "sandbox.session_sandbox",
    "probe": "sandbox.sandbox_probe",
    "report_sandbox": "checks",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, inner = _MODULES[name].partition(":")
    value = getattr(import_module(f"hilum_guard.{module}"), inner or name)
    globals()[name] = value  # `__getattr__` then runs only once for each name
    return value


@hookimpl
async def open_kernel(kernel: Kernel) -> AsyncIterator[None]:
    """Try the sandbox while the session opens, if a command follows at once."""
    async with trio.open_nursery() as nursery:
        if expects_command(kernel):
            nursery.start_soon(try_sandbox, name="guard: trial of the sandbox")
        yield None
        nursery.cancel_scope.cancel()


@hookimpl
async def open_session(session: Session) -> AsyncIterator[Guard]:
    """Judge the session's calls and wrap its child processes until the session closes."""
    from hilum_guard.session_guard import open_guard  # loaded with the first session

    async with open_guard(session) as guard:
        yield guard
