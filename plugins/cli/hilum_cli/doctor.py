"""``hilum doctor``: shows what works and is enforced on this machine, and how to fix the rest."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import hilum
import msgspec
from hilum import HilumError
from hilum.checks import Check, run_checks
from hilum.command import Parser, check_folder, check_text
from hilum.events import PluginFault
from hilum.hooks import describe_error
from hilum.store import MemoryStore
from hilum.trust import TrustedFolders

from hilum_cli import exits
from hilum_cli.options import run_async
from hilum_cli.terminal import Out, escape_terminal, is_terminal

EPILOG = """\
ok: no problem. warn: hilum works with limitations. fail: must be fixed. The exit code is 1 if \
any check fails.
"""


SUBJECT_WIDTH = 14  # columns; a longer subject moves only its own line


def main(argv: list[str]) -> int:
    """Show what is enforced and found on this machine, and how to fix problems.

    Returns:
        The exit code: 1 if any check fails.
    """
    check_text(argv)
    parser = Parser(
        "hilum doctor",
        "Show what is enforced and found on this machine, and how to fix problems.",
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
        _terminal(),
    ):
        rows.append(row)
        if not options.json:
            # At once: a later check may take long, or end the process.
            out.say(escape_terminal(_format(row)))
    if options.json:
        out.say_json(msgspec.to_builtins(rows))
    if any(row.grade == "fail" for row in rows):
        return exits.FAILED
    return exits.COMPLETED


def _format(check: Check) -> str:
    """Return the lines of a check; what to do is below what was found."""
    lines = [f"{check.grade:4}  {check.subject:{SUBJECT_WIDTH}}  {check.found}"]
    if check.fix:
        lines += [" " * (SUBJECT_WIDTH + 8) + line for line in check.fix.split("\n")]
    return "\n".join(lines)


def _settings(folder: Path) -> Iterator[Check]:
    """Check that settings and plugins load, and that all gates work once a session is open."""
    guards = set[str]()
    closed: list[str] = []
    failures: dict[str, str] = {}

    async def look() -> list[tuple[str, str, str]]:
        # Some gates exist only once a session is open. No model is called, and
        # nothing is stored.
        async with hilum.open_standard_session(
            folder, store=MemoryStore(), needs_model=False, attended=False
        ) as session:
            plugins = session.kernel.host.plugins.values()
            # The guard is identified by its distribution, because another distribution's plugin may
            # have the same name.
            ours = {
                plugin.name
                for plugin in plugins
                if plugin.point and plugin.point.distribution == "hilum-guard"
            }
            guards.update(ours)
            for gate, by in session.hooks.closed.items():
                closed.extend(
                    f"{gate or 'every gate'}: {plugin} ({why})" for plugin, why in by.items()
                )
            for event in session.journal.read_all():
                if isinstance(event, PluginFault) and event.hook != "load":
                    failures.setdefault(event.plugin, f"{event.hook}: {event.error}")
            return [(plugin.name, plugin.state, plugin.error) for plugin in plugins]

    try:
        plugins = run_async(look)
    except HilumError as error:
        yield Check("fail", "settings", error.message, error.hint)
        return
    # The command exists to explain failures, so no plugin's error may end it.
    except Exception as error:
        yield Check(
            "fail",
            "session",
            f"does not open: {describe_error(error)}",
            "`hilum plugins` shows more.",
        )
        return
    yield Check("ok", "settings", "no mistakes")
    failed = {name: error for name, state, error in plugins if state in ("failed", "off")}
    # A plugin that loads but does not open has no effect either.
    failed |= {name: error for name, error in failures.items() if name not in failed}
    if failed:
        listed = "; ".join(f"{name} ({error})" for name, error in failed.items())
        yield Check("fail", "plugins", f"not loaded: {listed}", "`hilum plugins` shows more.")
    else:
        yield Check("ok", "plugins", f"{len(plugins)} loaded")
    if closed:
        todo = (
            "No call runs until these plugins work again or are blocked by name: plugins.block, or"
            " --no-plugin."
        )
        yield Check("fail", "gates", "closed: " + "; ".join(closed), todo)
    if not guards & {name for name, state, _ in plugins if state == "ready"}:
        yield Check(
            "fail",
            "guard",
            "does not judge calls",
            "Remove it from plugins.block, or reinstall hilum-guard.",
        )


def _folders() -> Iterator[Check]:
    """Check whether hilum's own folders are writable and accessible only to the user."""
    for what, path in (
        ("config folder", hilum.config_folder()),
        ("data folder", hilum.data_folder()),
    ):
        if path.exists():
            found = path
        else:
            # A missing folder can be created if its nearest existing parent is writable.
            found = next(parent for parent in path.parents if parent.exists())
        if not os.access(found, os.W_OK | os.X_OK) or not found.is_dir():
            yield Check(
                "fail",
                what,
                f"{path} is not writable",
                f"Give yourself write permission for {found}.",
            )
        elif not path.exists():
            yield Check("ok", what, f"{path} (created when needed)")
        # Whoever can write here can allow any call or run programs as the user.
        elif (mode := stat.S_IMODE(path.stat().st_mode)) & 0o022:
            yield Check(
                "fail",
                what,
                f"{path} is writable by others (mode {mode:o})",
                f"chmod go-w {path}",
            )
        # Sessions contain source code and command output.
        elif mode & 0o055 and what == "data folder":
            yield Check(
                "warn", what, f"{path} is readable by others (mode {mode:o})", f"chmod go-rx {path}"
            )
        else:
            yield Check("ok", what, str(path))


def _trust(folder: Path) -> Iterator[Check]:
    """Check whether the folder is trusted."""
    try:
        trust = TrustedFolders()
        state = trust.state(folder)
        changes = trust.changes(folder)
    except HilumError as error:
        yield Check("fail", "trust", error.message, error.hint)
        return
    if state == "changed":
        what = f": {', '.join(changes[:8])}{', …' * (len(changes) > 8)}" if changes else ""
        yield Check(
            "warn",
            "trust",
            f"what {folder} provides has changed{what}",
            "Review the changes, then run: hilum trust",
        )
    else:
        yield Check(
            "ok",
            "trust",
            "this folder is trusted" if state == "trusted" else "this folder is not trusted",
        )


def _programs() -> Iterator[Check]:
    """Check for optional programs that hilum uses."""
    git = shutil.which("git")
    version = _output(git, "--version") if git else ""
    if version:
        yield Check("ok", "git", version)
    else:
        yield Check(
            "warn", "git", "not found or does not start", "Install Git: undo and diffs need it."
        )
    if not shutil.which("bash"):
        yield Check("warn", "shell", "bash not found; commands run in sh", "Install bash.")


def _output(*command: Any) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""


def _terminal() -> Iterator[Check]:
    """Check the encoding and the capabilities of the terminal."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    if encoding != "utf8":
        yield Check(
            "warn",
            "terminal",
            f"the encoding is {encoding or 'unknown'}",
            "Set LANG to a UTF-8 locale.",
        )
    elif not is_terminal(1):
        yield Check("ok", "terminal", "none: plain output")
    elif os.environ.get("TERM", "dumb") == "dumb":
        yield Check(
            "warn",
            "terminal",
            "TERM is dumb: plain lines",
            "Set TERM to the type of your terminal.",
        )
    else:
        size = shutil.get_terminal_size()
        yield Check("ok", "terminal", f"{os.environ['TERM']}, {size.columns} columns, UTF-8")
