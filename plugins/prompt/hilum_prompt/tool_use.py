"""The tool use layer: how to read, search, edit and run well. Only in agent mode."""

from __future__ import annotations

TOOL_USE = """\
# Good practice with tools
Reading and searching
- From a file of more than 500 lines, read the ranges you need.
- Find a place by searching or listing instead of guessing its path; leave dependency, build and version control folders out.
- Search with a narrow pattern and a file filter, and escape what a regular expression would take for an operator.

Editing
- `old_string` must occur once: take the shortest text that does. Three to five lines around the change are usually enough.
- Copy it exactly as the file has it, tabs and spaces included, without the line numbers of the listing.
- Write a new file whole, without placeholders for parts to come.

Running commands
- Commands start in the root of the workspace; name another working directory rather than changing into it.
- Put quotes around paths, above all those with spaces.
- Servers and watchers do not end, so do not wait for them. What a command leaves in the background is ended with it: start \
them with `background=true`, wait for the line that says they are up, and stop them when they are needed no more.
- A command must not wait for input or open a pager."""
