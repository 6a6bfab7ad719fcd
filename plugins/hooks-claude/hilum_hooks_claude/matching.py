"""Decides for which tools and occasions a hook runs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_PATTERN = 500
"""Maximum number of characters in a pattern; a longer one matches everything."""
_PLAIN = re.compile(r"[\w\-, |]+", re.ASCII)
# A permission rule in the place of a matcher, as in `Bash(git push *)`.
_RULE = re.compile(r"\s*(\w+)\((.*)\)\s*", re.DOTALL)
_SEPARATORS = re.compile(r"&&|\|\||[;|&\n]")
_SUBSTITUTION = re.compile(r"\$\(|`|<\(|>\(|\beval\b")
_ASSIGNMENTS = re.compile(r"^\s*(?:\w+=\S*\s+)*")
_PATHS = ("file_path", "notebook_path", "path")


def matches(matcher: str, name: str, values: Mapping[str, Any] | None = None) -> bool:
    """Return whether a matcher covers a tool or an occasion.

    A matcher of letters, digits, spaces and ``_ - ,`` is a name or, with ``|``, a list of names. Any
    other one is a regular expression, which need not match from the beginning, or a rule such as
    ``Bash(git *)``. A matcher that is neither matches everything, because a guard with a mistake must
    not stop guarding.

    Args:
        matcher: The matcher.
        name: The name of the tool, or of the occasion.
        values: The input of the tool's call.
    """
    matcher = matcher.strip()
    if matcher in ("", "*"):
        return True
    if _PLAIN.fullmatch(matcher):
        return name in {each.strip() for each in re.split(r"[|,]", matcher)}
    rule = _RULE.fullmatch(matcher)
    if rule is not None:
        return fits_condition(matcher, name, values or {})
    return _compile_matcher(matcher)(name)


@functools.lru_cache(maxsize=256)
def _compile_matcher(matcher: str) -> Callable[[str], bool]:
    if len(matcher) > MAX_PATTERN:
        return lambda _: True
    try:
        pattern = re.compile(matcher)
    except (re.error, RecursionError, OverflowError):
        if "*" in matcher:
            glob = _compile_glob(matcher, any_separator=True)
            return lambda name: glob.fullmatch(name) is not None
        return lambda _: True
    return lambda name: pattern.search(name) is not None


def fits_condition(condition: str, name: str, values: Mapping[str, Any]) -> bool:
    """Return whether a call fits a permission rule such as ``Bash(rm *)`` or ``Edit(src/**)``.

    A command that cannot be split into its parts fits, so that the hook decides.

    Args:
        condition: The rule; an empty one fits every call.
        name: The name of the tool.
        values: The input of the call. Paths are absolute.
    """
    condition = condition.strip()
    if not condition:
        return True
    rule = _RULE.fullmatch(condition)
    if rule is None:
        return matches(condition, name) if _PLAIN.fullmatch(condition) else True
    tool, pattern = rule[1], rule[2].strip()
    if tool != name:
        # A rule about `Edit` also covers the other tools that write.
        return tool == "Edit" and name in ("Write", "MultiEdit") and _fits_path(pattern, values)
    if pattern in ("", "*"):
        return True
    if name == "Bash":
        return _fits_command(pattern, str(values.get("command", "")))
    if name == "WebFetch" and pattern.startswith("domain:"):
        return _fits_domain(pattern.removeprefix("domain:"), str(values.get("url", "")))
    if any(key in values for key in _PATHS):
        return _fits_path(pattern, values)
    return True


def _fits_command(pattern: str, command: str) -> bool:
    if _SUBSTITUTION.search(command):
        return True
    if pattern.endswith(":*"):
        pattern = f"{pattern.removesuffix(':*')} *"
    glob = _compile_glob(pattern, any_separator=True)
    # `git push *` also covers `git push` without arguments.
    bare = pattern.removesuffix(" *")
    for part in (command, *_SEPARATORS.split(command)):
        text = _ASSIGNMENTS.sub("", part).strip()
        if glob.fullmatch(text) or (bare != pattern and text == bare):
            return True
    return False


def _fits_domain(domain: str, url: str) -> bool:
    host = re.sub(r"^\w+://", "", url).partition("/")[0].rpartition("@")[2].partition(":")[0]
    return host.lower() == domain.lower() or host.lower().endswith(f".{domain.lower()}")


def _fits_path(pattern: str, values: Mapping[str, Any]) -> bool:
    path = next((str(values[key]) for key in _PATHS if key in values), "")
    pattern = pattern.removeprefix("./")
    if pattern.startswith("//"):
        return _compile_glob(pattern[1:]).fullmatch(path) is not None
    # Relative patterns may begin at any folder of the path; a rule that covers too much only makes
    # the hook run once more.
    pattern = pattern.removeprefix("~").lstrip("/")
    return _compile_glob(f"**/{pattern}").fullmatch(path) is not None


@functools.lru_cache(maxsize=256)
def _compile_glob(pattern: str, *, any_separator: bool = False) -> re.Pattern[str]:
    """Return a pattern with ``*``, ``**`` and ``?`` as a regular expression.

    Args:
        pattern: The pattern.
        any_separator: Whether ``*`` also matches slashes.
    """
    one = "." if any_separator else "[^/]"
    text = ""
    for piece in re.split(r"(\*\*/|\*+|\?)", pattern[:MAX_PATTERN]):
        if piece == "**/":
            text += "(?:.*/)?"
        elif piece == "?":
            text += one
        elif piece and not piece.strip("*"):
            text += ".*" if len(piece) > 1 else f"{one}*"
        else:
            text += re.escape(piece)
    return re.compile(text, re.DOTALL)
