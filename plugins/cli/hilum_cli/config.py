"""``hilum config``: shows every setting, its value, and the source of the value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import hilum
from hilum.command import Parser, check_folder, check_text
from hilum.errors import unknown_name_error

from hilum_cli.options import run_async
from hilum_cli.terminal import Out, escape_terminal

EPILOG = """\
In increasing order of precedence: defaults, the user's settings.toml, the project's \
.hilum/settings.toml, environment variables
(HILUM_SHELL_TIMEOUT for shell.timeout), the command line (hilum run --set shell.timeout=60). \
Secrets are never shown.
"""


def main(argv: list[str]) -> int:
    """Show every setting, its value, and the source of the value.

    Returns:
        The exit code (see ``exits``).
    """
    check_text(argv)
    parser = Parser(
        "hilum config", "Show every setting, its value, and the source of the value.", EPILOG
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="path | SECTION | KEY",
        help="path: show the settings files; otherwise show only keys with this prefix",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    parser.add_argument(
        "--workspace", "-C", default=".", metavar="DIR", help="folder whose project settings apply"
    )
    options = parser.parse_intermixed_args(argv)
    folder = check_folder(options.workspace)
    out = Out(1)
    if options.what == "path":
        out.say(f"{hilum.config_folder() / 'settings.toml'}\n{folder}/.hilum/settings.toml")
    else:
        rows = _rows(folder, options.what)
        if options.json:
            out.say_json(rows)
        else:
            out.say(table(rows))
    return out.finish()


def _rows(folder: str, what: str) -> list[dict[str, Any]]:
    """Collect the settings.

    Raises:
        SettingsError: A source is invalid. The error lists every mistake in every source.
        UsageError: No setting starts with the given prefix.
    """

    async def explain() -> Sequence[Any]:
        # The kernel is opened, because plugins declare most settings.
        async with hilum.open_kernel(workspace=folder) as kernel:
            if kernel.ignored:
                lines = [
                    "Project settings that are ignored:",
                    *(f"  {each}" for each in kernel.ignored),
                ]
                Out(2).say(escape_terminal("\n".join(lines)))
            return kernel.explain()

    rows = [row._asdict() for row in run_async(explain)]
    if not what:
        return rows
    found = [
        row for row in rows if row["key"] == what or row["key"].startswith(what.rstrip(".") + ".")
    ]
    if not found:
        raise unknown_name_error(
            "setting", what, [row["key"] for row in rows], hint="`hilum config` lists all settings."
        )
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Format settings as ``key = value``, with the source unless it is the default."""
    lines = []
    width = max(len(row["key"]) for row in rows)
    for row in rows:
        # For a secret, the value is only a placeholder, which must not look like a string.
        if row["secret"]:
            value = row["value"]
        else:
            value = json.dumps(row["value"], ensure_ascii=False)
        value = "(not set)" if row["value"] is None else value
        source = "" if row["source"] == "default" else f"   # {row['source']}"
        lines.append(escape_terminal(f"{row['key']:{width}} = {value}{source}"))
    return "\n".join(lines)
