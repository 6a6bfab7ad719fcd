"""Hard constraints made checks, and calls, answers and contexts judged by them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum_rules.checks.model import Check, Compiled

if TYPE_CHECKING:
    from hilum_rules.checks.answers import judge_answer, may_load
    from hilum_rules.checks.compiling import compile_lines, compile_rule
    from hilum_rules.checks.holding import guard_paths
    from hilum_rules.checks.judging import judge, judge_call, rewrites

__all__ = [
    "Check",
    "Compiled",
    "compile_lines",
    "compile_rule",
    "guard_paths",
    "judge",
    "judge_answer",
    "judge_call",
    "may_load",
    "rewrites",
]

# Where what is public stands: most sessions have no rule that is enforced, and need none of it.
_HOMES = {
    "compile_lines": "compiling",
    "compile_rule": "compiling",
    "guard_paths": "holding",
    "judge": "judging",
    "judge_answer": "answers",
    "judge_call": "judging",
    "may_load": "answers",
    "rewrites": "judging",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"hilum_rules.checks.{_HOMES[name]}"), name)
    return value
