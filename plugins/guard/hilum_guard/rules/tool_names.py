"""Define the names that rules can use: effects, session kinds, tools and permission categories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from hilum.errors import similar_names

from hilum_guard.rules.patterns import NAMED, split_arguments

if TYPE_CHECKING:
    from hilum import Tool

Effect = Literal["allow", "ask", "deny"]
EFFECTS: tuple[Effect, ...] = ("allow", "ask", "deny")
KINDS = ("main", "shared", "headless")
"""The kinds of sessions that rules can be limited to."""
CATEGORIES = ("read", "write", "execute", "network")

# A rule may name a tool from a standard plugin that is currently disabled.
STANDARD: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            """read_file list_directory search_files semantic_search glob_search read_lints
            read_service list_services recall_result remember todo_write ask_question task
            get_agent_result use_skill find_tools find_definition find_references
            list_symbols""".split(),
            "read",
        ),
        **dict.fromkeys(
            "write_file edit_file multi_edit delete_file rename_symbol forget".split(), "write"
        ),
        **dict.fromkeys(
            "run_terminal_cmd write_service stop_service handover call_tool".split(), "execute"
        ),
        **dict.fromkeys("web_search web_fetch browser_use generate_image".split(), "network"),
    }
)


def server_tools(pattern: str) -> str:
    """Return a pattern with MCP tool names in hilum's form, ``server__tool``.

    Other programs write ``mcp__server__tool``, and ``mcp__server`` for all of a server's tools.
    """
    rest = pattern.removeprefix("mcp__")
    if rest == pattern:
        return pattern
    if rest in ("", "*"):
        return "*__*"
    return rest if "__" in rest else f"{rest.rstrip('_')}__*"


# Every call is compared with every rule, and most rules name one of a few tools.
@lru_cache(maxsize=10_000)
def names(pattern: str, tool: str, category: str = "") -> bool:
    """Return whether the first part of a rule names a tool or its category."""
    if pattern in CATEGORIES:
        return pattern == category
    return fnmatchcase(tool, pattern) or fnmatchcase(tool, server_tools(pattern))


class KnownTool(NamedTuple):
    """A tool that rules can be checked against.

    Attributes:
        category: The permission category.
        parameters: The names of the tool's parameters.
    """

    category: str
    parameters: frozenset[str]


def describe_tools(tools: Mapping[str, Tool]) -> dict[str, KnownTool]:
    """Return the tools that rules can be checked against, by name."""
    return {
        name: KnownTool(tool.risk, frozenset(tool.spec.parameters.get("properties", ())))
        for name, tool in tools.items()
    }


def named_parameters(pattern: str | None) -> list[str]:
    """Return the parameters that a pattern such as ``url=https://x/**, method=GET`` names."""
    if pattern is None or not NAMED.match(pattern):
        return []
    return [part.partition("=")[0] for part in split_arguments(pattern)]


def explain_unknown_parameter(
    tool: str, pattern: str | None, tools: Mapping[str, KnownTool]
) -> str:
    """Return an explanation if a rule names a parameter that its tools lack; otherwise empty.

    Args:
        tool: The first part of the rule.
        pattern: The pattern of the rule.
        tools: The known tools. Other tools are not checked.
    """
    named = named_parameters(pattern)
    found = [known for name, known in tools.items() if names(tool, name, known.category)]
    # In a rule about commands, `NAME=value` is an assignment before a command. The tools of MCP
    # servers can change at any time.
    is_command = any("command" in each.parameters for each in found)
    if not named or not found or is_command or "__" in tool:
        return ""
    parameters = frozenset[str]().union(*(each.parameters for each in found))
    reasons = []
    for name in named:
        if name in parameters:
            continue
        similar = similar_names(name, sorted(parameters), 1)
        if name == "domain" and any(each.category == "network" for each in found):
            hint = "did you mean domain: with a colon?"
        elif similar:
            hint = f"did you mean {similar[0]}?"
        else:
            hint = f"known: {', '.join(sorted(parameters)) or 'none'}"
        reasons.append(f"{tool} has no parameter {name!r}; {hint}")
    return "; ".join(reasons)


def explain_unknown_tool(pattern: str, tools: Iterable[str]) -> str:
    """Return an explanation if a rule names neither a tool nor a category; otherwise empty.

    Tools of MCP servers (``server__tool``) are not checked: a server may not have started yet.
    """
    # The server of such a tool may not have started yet.
    if pattern in CATEGORIES or "__" in pattern:
        return ""
    known = {*STANDARD, *tools}
    if any(names(pattern, tool) for tool in known):
        return ""
    from difflib import get_close_matches  # takes 2 ms, needed only for an error

    near = get_close_matches(pattern, [*known, *CATEGORIES], n=3, cutoff=0.6)
    if near:
        return f"there is no tool {pattern!r}; perhaps {' or '.join(near)} is meant"
    return (
        f"there is no tool {pattern!r}; known: {', '.join(sorted(known))}; categories:"
        f" {', '.join(CATEGORIES)}"
    )
