"""``hilum config``: every setting, its value, and where the value came from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hilum_commandline import Parser

from hilum_cli import exits
from hilum_cli.options import check_folder, check_text, run_command
from hilum_cli.terminal import Out, neutral, quiet_exit

EPILOG = """\
Weakest to strongest: defaults, the user's settings.toml, the project's .hilum/settings.toml, environment variables
(HILUM_SHELL_TIMEOUT for shell.timeout), the command line (hilum run --set shell.timeout=60). Secrets are never shown.
"""


def main(argv: list[str]) -> int:
    """Show every setting, its value and where it came from.

    Returns:
        The exit code (see ``exits``).
    """
    return run_command(lambda: _run(argv))


def _run(argv: Sequence[str]) -> int:
    check_text(argv)
    parser = Parser(
        "hilum config", "Show every setting, its value, and where the value came from.", EPILOG
    )
    parser.add_argument(
        "what",
        nargs="?",
        default="",
        metavar="path | SECTION | KEY",
        help="path: where the settings files are; otherwise only keys that begin so",
    )
    parser.add_argument("--json", action="store_true", help="one JSON array")
    parser.add_argument(
        "--workspace", "-C", default=".", metavar="DIR", help="folder whose project settings count"
    )
    options = parser.parse_intermixed_args(argv)
    folder = check_folder(options.workspace)
    out = Out(1)
    if options.what == "path":
        from hilum import config_folder

        out.say(f"{config_folder() / 'settings.toml'}\n{folder}/.hilum/settings.toml")
    else:
        rows = _rows(folder, options.what)
        out.say(json.dumps(rows, ensure_ascii=False, indent=1) if options.json else table(rows))
    if out.gone:
        quiet_exit()
        return exits.BROKEN_PIPE
    return exits.COMPLETED


def _rows(folder: str, what: str) -> list[dict[str, Any]]:
    """Collect the settings.

    Raises:
        SettingsError: With every mistake in every source.
        UsageError: No setting begins so.
    """
    import trio
    from hilum import open_kernel

    async def explain() -> Sequence[Any]:
        async with open_kernel(workspace=folder) as kernel:
            if kernel.ignored:
                lines = [
                    "Settings of the project that do not count:",
                    *(f"  {each}" for each in kernel.ignored),
                ]
                Out(2).say(neutral("\n".join(lines)))
            return kernel.explain()

    rows = [row._asdict() for row in trio.run(explain)]
    if not what:
        return rows
    found = [
        row for row in rows if row["key"] == what or row["key"].startswith(what.rstrip(".") + ".")
    ]
    if not found:
        from hilum.errors import unknown

        raise unknown("setting", what, [row["key"] for row in rows], hint="hilum config lists all.")
    return found


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Write settings as ``key = value``, with the source where it is not the default."""
    lines = []
    width = max(len(row["key"]) for row in rows)
    for row in rows:
        if row["secret"]:
            value = row["value"]
        else:
            value = json.dumps(row["value"], ensure_ascii=False)
        value = "(not set)" if row["value"] is None else value
        source = "" if row["source"] == "default" else f"   # {row['source']}"
        lines.append(neutral(f"{row['key']:{width}} = {value}{source}"))
    return "\n".join(lines)
