"""The tool use layer, only in agent mode: how to read, search, edit and run commands well."""

from __future__ import annotations

from hilum_prompt.abilities import Abilities

READING = """\
Reading and searching
- From a file of more than 500 lines, read the ranges you need.
- Search or list instead of guessing a path. Search with a narrow pattern and a file filter; \
escape regular expression \
operators."""

EDITING = """\
Editing
- `old_string` must occur once: take the shortest text that does, usually three to five lines \
around the change.
- Copy it exactly, tabs and spaces included, without the line numbers of the listing.
- Write a new file whole, without placeholders."""

RUNNING = """\
Running commands
- Commands start in the root of the workspace; name another working directory instead of changing \
into it.
- Put quotes around paths.
- Servers and watchers do not end, so do not wait for them: start them with `background=true`, \
read their output until they \
are up, and stop them when they are no longer needed.
- A command must not wait for input or open a pager."""


def make_tool_use_text(abilities: Abilities) -> str:
    """Return the tool use layer for what an agent can do."""
    parts = ["# Good practice with tools", READING]
    if abilities.edits:
        parts += ["", EDITING]
    if abilities.runs_commands:
        parts += ["", RUNNING]
    return "\n".join(parts)
