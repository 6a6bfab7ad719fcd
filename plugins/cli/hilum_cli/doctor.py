"""``hilum doctor``: what is really enforced on this machine, what is found, and what to do about
the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hilum_commandline import Parser

from hilum_cli import exits
from hilum_cli.options import check_folder, check_text, run_command
from hilum_cli.terminal import Out, is_terminal, neutral

EPILOG = """\
ok: as it should be. warn: hilum works, with less. fail: mend it. The exit code is 1 if anything fails.
"""
Grade = Literal["ok", "warn", "fail"]


class Row(NamedTuple):
    """One line: how it is, what it is about, what was found, and what to do."""

    grade: Grade
    what: str
    found: str
    todo: str = ""


def main(argv: list[str]) -> int:
    """Show what is enforced and found on this machine, and what to do.

    Returns:
        The exit code: 1 if anything fails.
    """
    return run_command(lambda: _run(argv))


def _run(argv: Sequence[str]) -> int:
    check_text(argv)
    parser = Parser(
        "hilum doctor", "Show what is enforced and found on this machine, and what to do.", EPILOG
    )
    parser.add_argument("--json", action="store_true", help="one JSON array")
    parser.add_argument(
        "--workspace", "-C", default=".", metavar="DIR", help="folder whose project files count"
    )
    options = parser.parse_intermixed_args(argv)
    folder = Path(check_folder(options.workspace))
    rows = [
        *_settings(folder),
        *_folders(),
        *_rules(folder),
        *_sandbox(),
        *_programs(),
        *_browser(folder),
        *_terminal(),
    ]
    out = Out(1)
    if options.json:
        out.say(json.dumps([row._asdict() for row in rows], ensure_ascii=False, indent=1))
    else:
        width = max(len(row.what) for row in rows)
        for row in rows:
            todo = f"\n{'':{width + 8}}{row.todo}" if row.todo else ""
            out.say(neutral(f"{row.grade:4}  {row.what:{width}}  {row.found}{todo}"))
    if any(row.grade == "fail" for row in rows):
        return exits.FAILED
    return exits.COMPLETED


def _settings(folder: Path) -> Iterator[Row]:
    """Return whether settings and plugins load, and whether all gates stand once a session is
    open.
    """
    import trio
    from hilum import HilumError, open_standard_session
    from hilum.events import PluginFault
    from hilum.store import MemoryStore

    guards = set[str]()
    closed: list[str] = []
    failures: dict[str, str] = {}

    async def look() -> list[tuple[str, str, str]]:
        # Many a gate is in place only when a session opens. Nothing is asked of a model, and
        # nothing is kept.
        async with open_standard_session(
            folder, store=MemoryStore(), needs_model=False, attended=False
        ) as session:
            plugins = session.kernel.host.plugins.values()
            # Who provides the guard is told by its distribution: a plugin of another one may have
            # the name.
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
        plugins = trio.run(look)
    except HilumError as error:
        yield Row("fail", "settings", error.message, error.hint)
        return
    except Exception as error:
        yield Row(
            "fail",
            "session",
            f"does not open: {type(error).__name__}: {error}",
            "hilum plugins tells more.",
        )
        return
    yield Row("ok", "settings", "no mistakes")
    failed = {name: error for name, state, error in plugins if state in ("failed", "off")}
    # One that loads and does not open does nothing either.
    failed |= {name: error for name, error in failures.items() if name not in failed}
    if failed:
        listed = "; ".join(f"{name} ({error})" for name, error in failed.items())
        yield Row("fail", "plugins", f"not loaded: {listed}", "hilum plugins show tells more.")
    else:
        yield Row("ok", "plugins", f"{len(plugins)} loaded")
    if closed:
        todo = (
            "No call runs until these plugins work again, or are blocked by name: plugins.block, or"
            " --no-plugin."
        )
        yield Row("fail", "gates", "closed: " + "; ".join(closed), todo)
    if not guards & {name for name, state, _ in plugins if state == "ready"}:
        yield Row(
            "fail",
            "guard",
            "does not judge calls",
            "Take it out of plugins.block, or reinstall hilum-guard.",
        )


def _folders() -> Iterator[Row]:
    """Return whether hilum's own folders are the user's alone, and can be written."""
    from hilum import config_folder, data_folder

    for what, path in (("config folder", config_folder()), ("data folder", data_folder())):
        if path.exists():
            found = path
        else:
            found = next(parent for parent in path.parents if parent.exists())
        if not os.access(found, os.W_OK | os.X_OK) or not found.is_dir():
            yield Row(
                "fail",
                what,
                f"{path} cannot be written",
                f"Give yourself the right to write in {found}.",
            )
        elif not path.exists():
            yield Row("ok", what, f"{path} (made when it is needed)")
        elif (mode := stat.S_IMODE(path.stat().st_mode)) & 0o022:
            yield Row(
                "fail",
                what,
                f"{path} can be written by others (mode {mode:o})",
                f"chmod go-w {path}",
            )
        elif mode & 0o055 and what == "data folder":
            yield Row(
                "warn", what, f"{path} can be read by others (mode {mode:o})", f"chmod go-rx {path}"
            )
        else:
            yield Row("ok", what, str(path))


def _rules(folder: Path) -> Iterator[Row]:
    """Return whether the rules have mistakes, and whether the folder is trusted."""
    from hilum import HilumError, config_folder
    from hilum_guard import Redactor, Trust, load_rules

    rules = load_rules(config_folder(), folder)
    for mistake in rules.mistakes:
        yield Row(
            "fail",
            "permissions",
            mistake,
            "Mend the file; until then nothing that changes something runs.",
        )
    if not rules.mistakes:
        yield Row("ok", "permissions", f"{len(rules.rules)} rules, no mistakes")
    for name in Redactor().too_short:
        what = f"{name} has fewer than 8 characters: it is not replaced where it shows up in texts"
        yield Row(
            "warn", "redaction", what, "Use a longer key, or rename the variable if it is none."
        )
    try:
        state = Trust().state(folder)
        changes = Trust().changes(folder)
    except HilumError as error:
        yield Row("fail", "trust", error.message, error.hint)
        return
    if state == "changed":
        what = f": {', '.join(changes[:8])}{', …' * (len(changes) > 8)}" if changes else ""
        yield Row(
            "warn",
            "trust",
            f"what {folder} brings along has changed{what}",
            "Look at it, then: hilum trust",
        )
    else:
        yield Row(
            "ok",
            "trust",
            "this folder is trusted" if state == "trusted" else "this folder is not trusted",
        )


def _sandbox() -> Iterator[Row]:
    """What of the sandbox is really enforced."""
    from hilum_guard import report

    for what, found, todo in report():
        held = found.startswith("enforced")
        note = what == "sandbox: note"
        yield Row("ok" if held else "warn", what, found, todo if not note else "")


def _programs() -> Iterator[Row]:
    """Programs that hilum uses where they are."""
    from hilum_search import ripgrep

    rg = ripgrep()
    if rg:
        yield Row("ok", "search", f"ripgrep, {rg}")
    else:
        yield Row("warn", "search", "by Python, slower in large folders", "Install ripgrep (rg).")
    git = shutil.which("git")
    version = _output(git, "--version") if git else ""
    if version:
        yield Row("ok", "git", version)
    else:
        yield Row(
            "warn", "git", "not found, or it does not start", "Install Git: undo and diffs need it."
        )
    if not shutil.which("bash"):
        yield Row("warn", "shell", "no bash; commands run in sh", "Install bash.")


def _browser(folder: Path) -> Iterator[Row]:
    """What the tool browser_use needs."""
    import trio
    from hilum import HilumError, open_kernel
    from hilum_browser import BrowserSettings, report

    async def look() -> BrowserSettings:
        async with open_kernel(["browser"], workspace=folder) as kernel:
            return kernel.settings(BrowserSettings)

    try:
        settings = trio.run(look)
    except HilumError:  # told above
        return
    if settings.enabled:
        for well, found, todo in report(settings.executable):
            yield Row("ok" if well else "warn", "browser", found, todo)


def _output(*command: Any) -> str:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""


def _terminal() -> Iterator[Row]:
    """What faces can show."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    if encoding != "utf8":
        yield Row(
            "warn",
            "terminal",
            f"the encoding is {encoding or 'unknown'}",
            "Set LANG to a UTF-8 locale.",
        )
    elif not is_terminal(1):
        yield Row("ok", "terminal", "none: plain output")
    elif os.environ.get("TERM", "dumb") == "dumb":
        yield Row(
            "warn", "terminal", "TERM is dumb: plain lines", "Set TERM to what your terminal is."
        )
    else:
        size = shutil.get_terminal_size()
        yield Row("ok", "terminal", f"{os.environ['TERM']}, {size.columns} columns, UTF-8")
