"""Checks of what agents do: written as lines or as sentences, and judged on what a call does.

A check knows neither rules files nor prompts: it is a typed value with a notation.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hilum_checks.answers import check_context, describe_due, find_due, judge_answer
    from hilum_checks.compiling import compile_lines, compile_rule
    from hilum_checks.model import Check, Compiled
    from hilum_checks.sandbox_paths import find_protected_paths, name_protecting_rules
    from hilum_checks.used_paths import find_used_paths
    from hilum_checks.verdicts import (
        describe_creation,
        describe_rewrite,
        judge,
        judge_call,
        needs_history,
        needs_reads,
    )

__all__ = [
    "WORKSPACE",
    "Check",
    "Compiled",
    "check_context",
    "compile_lines",
    "compile_rule",
    "describe_creation",
    "describe_due",
    "describe_rewrite",
    "find_due",
    "find_protected_paths",
    "find_used_paths",
    "judge",
    "judge_answer",
    "judge_call",
    "name_protecting_rules",
    "needs_history",
    "needs_reads",
]

WORKSPACE = PurePosixPath(".")
"""The folder of the rules that govern the whole workspace."""

# Modules are loaded on first use, because most sessions have no enforced rules and do not need
# them.
_MODULES = {
    "Check": "model",
    "Compiled": "model",
    "check_context": "answers",
    "compile_lines": "compiling",
    "compile_rule": "compiling",
    "describe_creation": "verdicts",
    "describe_due": "answers",
    "describe_rewrite": "verdicts",
    "find_due": "answers",
    "find_protected_paths": "sandbox_paths",
    "find_used_paths": "used_paths",
    "judge": "verdicts",
    "judge_answer": "answers",
    "judge_call": "verdicts",
    "name_protecting_rules": "sandbox_paths",
    "needs_history": "verdicts",
    "needs_reads": "verdicts",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"hilum_checks.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
