"""Looks things up: the four ways in which a call can fail."""

from hilum import NeedsUser, Tool, ToolDenied, ToolError, hookimpl, tool

CAPITALS = {"France": "Paris", "Japan": "Tokyo"}


@tool(risk="read", effect="pure")
def look_up(key: str) -> str:
    """Look something up.

    Args:
        key: What to look up: kind/name.
    """
    kind, name = key.split("/")  # a key without a slash raises ValueError: a failure of the plugin
    if kind == "salary":
        raise ToolDenied("Salaries are not shown.")
    if kind == "licence":
        raise NeedsUser(
            "The licence server wants a sign-in.", hint="Ask the user to run: licence login."
        )
    if name not in CAPITALS:
        raise ToolError(
            f"There is no {kind} of {name}.",
            code="E_NOT_FOUND",
            hint=f"Known: {', '.join(CAPITALS)}.",
        )
    return CAPITALS[name]


@hookimpl
def provide_tools() -> list[Tool]:
    return [look_up]
