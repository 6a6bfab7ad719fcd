"""The rules of a user and a project: found, read, shown to the model, reloaded when they change, and enforced."""

from __future__ import annotations

from hilum_rules.rule import Bundle, Enforce, Mode, Problem, Rule, RulesFile, RuleType

__all__ = ["Bundle", "Enforce", "Mode", "Problem", "Rule", "RuleType", "RulesFile"]
