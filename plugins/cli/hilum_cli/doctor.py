"""``hilum doctor``: checks the installation, the settings and this machine, and suggests fixes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from argparse import SUPPRESS
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import hilum
import msgspec
from hilum import HilumError
from hilum.checks import Check, run_checks
from hilum.command import Parser, check_folder, check_text
from hilum.events import PluginFault
from hilum.hooks import describe_error
from hilum.store import MemoryStore
from hilum.trust import TrustedFolders, list_files

from hilum_cli import exits
from hilum_cli.options import run_async
from hilum_cli.terminal import Out, escape_terminal, is_terminal

if TYPE_CHECKING:
    from hilum import Session

EPILOG = """\
ok: no problem. warn: hilum works with limitations. fail: must be fixed. The exit code is 1 if \
any check fails.
"""


SUBJECT_WIDTH = 14  # in columns; a longer subject only shifts the text in its own line
MAX_CHANGES = 8
_COMMAND_FOLDERS = (
    ".hilum/commands/",
    ".claude/commands/",
    ".gemini/commands/",
    ".opencode/command/",
    ".opencode/commands/",
)


def main(argv: list[str]) -> int:
    """Show what hilum enforces and has detected on this machine, and how to fix problems.

    Returns:
        The exit code: 1 if any check fails.
    """
    check_text(argv)
    parser = Parser(
        "hilum doctor",
        "Show what hilum enforces and has detected on this machine, and how to fix problems.",
        EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    parser.add_argument(
        "--workspace",
        "-C",
        default=".",
        metavar="DIR",
        help="folder whose project files are checked",
    )
    parser.add_argument(
        "--online",
        action="store_true",
        help="also check whether the model servers respond (no model is called)",
    )
    # The terminal passes this option: the conversation itself reports the terminal and its model.
    parser.add_argument("--in-conversation", action="store_true", help=SUPPRESS)
    options = parser.parse_intermixed_args(argv)
    folder = Path(check_folder(options.workspace))
    out = Out(1)
    rows = []
    for row in chain(
        _settings(folder),
        _folders(),
        _trust(folder),
        _programs(),
        run_checks(folder, online=options.online),
        () if options.in_conversation else _terminal(),
    ):
        rows.append(row)
        if not options.json:
            # Written immediately, because a later check may take a long time or end the process.
            out.say(escape_terminal(_format(row)))
    if options.json:
        out.say_json(msgspec.to_builtins(rows))
    failed = any(row.grade == "fail" for row in rows)
    return out.finish(exits.FAILED if failed else exits.COMPLETED)


def _format(check: Check) -> str:
    """Return a check's result as text: the finding, with the fix below it."""
    lines = [f"{check.grade:4}  {check.subject:{SUBJECT_WIDTH}}  {check.found}"]
    if check.fix:
        lines += [" " * (SUBJECT_WIDTH + 8) + line for line in check.fix.split("\n")]
    return "\n".join(lines)


def _settings(folder: Path) -> Iterator[Check]:
    """Check that settings and plugins load, and that all gates work once a session is open."""

    async def check() -> list[Check]:
        # Some gates exist only once a session is open. No model is called, and nothing is stored.
        async with hilum.open_standard_session(
            folder, store=MemoryStore(), needs_model=False, attended=False
        ) as session:
            return list(_check_session(session))

    try:
        rows = run_async(check)
    except HilumError as error:
        yield Check("fail", "settings", error.message, error.hint)
        return
    # This command exists to explain failures, so an error in a plugin must not end it.
    except Exception as error:
        found = f"does not open: {describe_error(error)}"
        yield Check("fail", "session", found, "`hilum plugins` shows more.")
        return
    yield Check("ok", "settings", "no mistakes")
    yield from rows


def _check_session(session: Session) -> Iterator[Check]:
    """Check the plugins and gates in an open session."""
    plugins = session.kernel.host.plugins.values()
    failed = {plugin.name: plugin.error for plugin in plugins if plugin.state in ("failed", "off")}
    # A plugin that loads but cannot be opened also has no effect.
    for event in session.journal.read_all():
        if isinstance(event, PluginFault) and event.hook != "load":
            failed.setdefault(event.plugin, f"{event.hook}: {event.error}")
    if failed:
        listed = "; ".join(f"{name} ({error})" for name, error in failed.items())
        yield Check("fail", "plugins", f"not loaded: {listed}", "`hilum plugins` shows more.")
    else:
        yield Check("ok", "plugins", f"{len(plugins)} loaded")
    closed = []
    for gate, reasons in session.hooks.closed.items():
        for plugin, why in reasons.items():
            closed.append(f"{gate or 'every gate'}: {plugin} ({why})")
    if closed:
        fix = (
            "No call runs until these plugins work again. If you can do without their protection,"
            " block them by name: plugins.block, or --no-plugin."
        )
        yield Check("fail", "gates", f"closed: {'; '.join(closed)}", fix)
    # A plugin from another distribution may have the same name, so the name alone proves nothing.
    points = {plugin.point: plugin.state for plugin in plugins if plugin.point is not None}
    states = [state for point, state in points.items() if point.distribution == "hilum-guard"]
    if "ready" not in states:
        fix = "Remove it from plugins.block, or reinstall hilum-guard."
        yield Check("fail", "guard", "does not judge calls", fix)


def _folders() -> Iterator[Check]:
    """Check whether hilum's own folders are writable and accessible only to the user."""
    for what, path in (
        ("config folder", hilum.config_folder()),
        ("data folder", hilum.data_folder()),
    ):
        yield _check_folder(what, path)


def _check_folder(what: str, path: Path) -> Check:
    # A missing folder can be created if its nearest existing parent is writable.
    found = next(folder for folder in (path, *path.parents) if folder.exists())
    if not os.access(found, os.W_OK | os.X_OK) or not found.is_dir():
        fix = f"Give yourself write permission for {found}."
        return Check("fail", what, f"{path} is not writable", fix)
    if not path.exists():
        return Check("ok", what, f"{path} (created when needed)")
    mode = stat.S_IMODE(path.stat().st_mode)
    # Anyone who can write to these folders can allow any call or run programs as the user.
    if mode & 0o022:
        problem = f"{path} is writable by others (mode {mode:o})"
        return Check("fail", what, problem, f"chmod go-w {path}")
    # Sessions contain source code and command output.
    if mode & 0o055 and what == "data folder":
        problem = f"{path} is readable by others (mode {mode:o})"
        return Check("warn", what, problem, f"chmod go-rx {path}")
    return Check("ok", what, str(path))


def _trust(folder: Path) -> Iterator[Check]:
    """Check whether the user trusts the workspace folder."""
    try:
        trust = TrustedFolders()
        state = trust.state(folder)
        changes = trust.changes(folder)
        untrusted = list_files(folder) if state == "unknown" else []
    except HilumError as error:
        yield Check("fail", "trust", error.message, error.hint)
        return
    if state != "changed":
        yield _describe_trust(untrusted, is_trusted=state == "trusted")
        return
    found = f"the content of {folder} that hilum loads has changed"
    if changes:
        found += f": {', '.join(changes[:MAX_CHANGES])}"
    if len(changes) > MAX_CHANGES:
        found += ", …"
    yield Check("warn", "trust", found, "Review the changes, then run: hilum trust")


def _describe_trust(untrusted: list[str], *, is_trusted: bool) -> Check:
    """Return the check of a folder whose content has not changed since it was trusted.

    Args:
        untrusted: Files that hilum loads only from a trusted folder.
        is_trusted: Whether the user trusts the folder.
    """
    if is_trusted:
        return Check("ok", "trust", "this folder is trusted")
    if not untrusted:
        return Check("ok", "trust", "not needed: this folder has no extensions for hilum")
    # The text of a command is sent all the same, because the user types its name.
    commands = [path for path in untrusted if path.startswith(_COMMAND_FOLDERS)]
    others = [path for path in untrusted if path not in commands]
    parts = []
    if others:
        parts.append(f"does not load {_list_first(others)}")
    if commands:
        parts.append(f"runs no shell inserts of {_list_first(commands)}")
    found = f"this folder is not trusted, so hilum {' and '.join(parts)}"
    return Check("warn", "trust", found, "Review these files, then run: hilum trust")


def _list_first(paths: list[str]) -> str:
    more = ", …" if len(paths) > MAX_CHANGES else ""
    return ", ".join(paths[:MAX_CHANGES]) + more


def _programs() -> Iterator[Check]:
    """Check for optional programs that hilum uses."""
    git = shutil.which("git")
    version = _read_version(git) if git else ""
    if version:
        yield Check("ok", "git", version)
    else:
        fix = "Install Git: undo and diffs need it."
        yield Check("warn", "git", "not found or does not start", fix)
    if not shutil.which("bash"):
        yield Check("warn", "shell", "bash not found; commands run in sh", "Install bash.")


def _read_version(program: str) -> str:
    """Return the output of ``program --version``, or an empty string if the program fails."""
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip()


def _terminal() -> Iterator[Check]:
    """Check the encoding and the capabilities of the terminal."""
    # Standard output may be closed, or replaced by an object without an encoding.
    encoding = getattr(sys.stdout, "encoding", "") or ""
    encoding = encoding.lower().replace("-", "")
    if encoding != "utf8":
        found = f"the encoding is {encoding or 'unknown'}"
        yield Check("warn", "terminal", found, "Set LANG to a UTF-8 locale.")
    elif not is_terminal(1):
        yield Check("ok", "terminal", "the output does not go to a terminal: plain output")
    elif os.environ.get("TERM", "dumb") == "dumb":
        fix = "Set TERM to the type of your terminal."
        yield Check("warn", "terminal", "TERM is dumb: plain lines", fix)
    else:
        size = shutil.get_terminal_size()
        yield Check("ok", "terminal", f"{os.environ['TERM']}, {size.columns} columns, UTF-8")
