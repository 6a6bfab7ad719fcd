"""Describes tool calls in plain words, escaped for the terminal (see ``hilum_view``)."""

from __future__ import annotations

from functools import lru_cache

from hilum_view import Action, StreamedText, call_descriptions

from hilum_terminal.text_width import one_line

# Cards are redrawn in each frame, and the arguments of a call may be as long as a file.
unwrap_call = lru_cache(maxsize=64)(call_descriptions.unwrap_call)


def short_line(text: str, width: int = 0) -> str:
    """Return the first nonblank line, escaped; only the beginning of a long text is read.

    Args:
        text: Untrusted text.
        width: Maximum number of columns, 0 for no limit.
    """
    return one_line(call_descriptions.short_line(text), width)


@lru_cache(maxsize=64)
def describe_action(name: str, arguments: str) -> Action:
    """Return what a call does.

    Args:
        name: Name of the tool.
        arguments: The arguments as JSON text; they may be invalid.
    """
    return _escape(call_descriptions.describe_action(name, arguments))


def describe_streaming(arguments: StreamedText, name: str = "") -> Action:
    """Return what a call will do while its arguments are still arriving.

    Args:
        arguments: The beginning of the arguments.
        name: Name of the tool, which is missing from the chunks of a call; if the name is empty,
            the tool is guessed from the names of the arguments.
    """
    return _escape(call_descriptions.describe_streaming(arguments, name))


def _escape(action: Action) -> Action:
    return Action(one_line(action.verb), one_line(action.subject), one_line(action.details))
