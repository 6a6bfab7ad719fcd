"""Hard constraints made checks, and calls, answers and contexts judged by them."""

from __future__ import annotations

from hilum_rules.checks.compiling import compile_lines, compile_rule
from hilum_rules.checks.model import Check, Compiled

__all__ = ["Check", "Compiled", "compile_lines", "compile_rule"]
