"""The question whether the user trusts a folder, asked before hilum opens a session in the folder.

The question lists the folder's files that could run code or instruct the model. These files have no
effect before the user answers, and "no" is always selected.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import attrs
import trio
from hilum import HilumError, data_folder, make_private_folder
from hilum.command import escape_terminal
from hilum.store import spell_folder
from hilum.trust import TrustedFolders, hash_files

from hilum_terminal.chat_protocol import Asker, Choice

MAX_NAMES = 6  # of one kind
MAX_CHANGES = 8
# Maximum number of declined folders to remember; only the latest ones are kept.
MAX_DECLINED = 500
MAX_READ = 1_000_000  # in bytes, for a file that declares MCP servers
DECLINED_FILE = "declined-folders.json"


class _Kind(NamedTuple):
    """A kind of file that a folder may contain, identified by the beginning of the path."""

    prefix: str
    effect: str


_AGENTS = "instructions for agents, and the tools that they use"
_SKILLS = "instructions, and scripts that the agent may run"
_COMMANDS = "commands for you to type, and shell commands that these run first"
_SERVERS = "programs to start as MCP servers; each one also needs your approval"
# The first kind that matches a path is used.
_KINDS = (
    _Kind(".hilum/plugins/", "code that runs inside hilum"),
    _Kind(".hilum/agents/", _AGENTS),
    _Kind(".hilum/skills/", _SKILLS),
    _Kind(".hilum/commands/", _COMMANDS),
    _Kind(".hilum/mcp", _SERVERS),
    _Kind(".agents/skills/", _SKILLS),
    _Kind(".claude/skills/", _SKILLS),
    _Kind(".codex/skills/", _SKILLS),
    _Kind(".cursor/skills/", _SKILLS),
    _Kind(".gemini/skills/", _SKILLS),
    _Kind(".github/skills/", _SKILLS),
    _Kind(".opencode/skill", _SKILLS),
    _Kind(".windsurf/skills/", _SKILLS),
    _Kind(".claude/agents/", _AGENTS),
    _Kind(".codex/agents/", _AGENTS),
    _Kind(".cursor/agents/", _AGENTS),
    _Kind(".gemini/agents/", _AGENTS),
    _Kind(".github/agents/", _AGENTS),
    _Kind(".github/chatmodes/", _AGENTS),
    _Kind(".opencode/agent", _AGENTS),
    _Kind(".claude/commands/", _COMMANDS),
    _Kind(".gemini/commands/", _COMMANDS),
    _Kind(".opencode/command", _COMMANDS),
    _Kind(".hilum/", "files that extend hilum"),
)
# Files in which other clients declare MCP servers. These files need trust, but the servers are
# approved separately.
_SERVER_FILES = (
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    ".roo/mcp.json",
    ".agents/mcp.json",
    "mcp.json",
    ".gemini/settings.json",
    "gemini-extension.json",
    "opencode.json",
    "opencode.jsonc",
    ".opencode/opencode.json",
    ".opencode/opencode.jsonc",
    ".codex/config.toml",
    ".zed/settings.json",
)
# Parts of the keys under which other clients' files list MCP servers.
_SERVER_WORDS = (b"mcp", b"context_servers")
# Instructions that hilum reads with or without trust, because they are only text for the model and
# grant no permissions.
_INSTRUCTIONS = (
    "AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    ".claude/CLAUDE.md",
    ".claude/rules",
    "GEMINI.md",
    ".cursorrules",
    ".cursor/rules",
    ".github/copilot-instructions.md",
    ".github/instructions",
    ".hilum/rules",
)


@attrs.frozen
class FolderContents:
    """The files in a folder that matter for trust.

    Attributes:
        root: The folder, resolved.
        state: ``trusted``, ``changed`` or ``unknown``.
        names: Paths of files that could run code or instruct the model, relative to the folder.
        changes: What has changed since the folder was trusted, as in ``changed .hilum/mcp.json``.
        instructions: Files with instructions that hilum reads with or without trust.
        digest: A digest of the files.
        problem: Why the folder cannot be trusted; empty if it can.
    """

    root: Path
    state: str
    names: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    digest: str = ""
    problem: str = ""


async def ask_trust(asker: Asker, workspace: str | os.PathLike[str]) -> Literal["readonly"] | None:
    """Ask whether the user trusts a folder, if necessary.

    The session reads itself whether the folder is trusted. If the user decides to use a folder
    without its extensions, the question is not asked again until the extensions change.

    Returns:
        The approval policy to open the session with; ``None`` for the configured one. If the user
        pressed Esc, the session may only read.
    """
    contents = await trio.to_thread.run_sync(read_contents, workspace)
    if contents.state == "trusted" or not (contents.names or contents.problem):
        return None
    if await trio.to_thread.run_sync(_is_declined, contents):
        asker.say(
            f"The extensions of this folder are off ({_count(contents.names)}). `/trust`"
            " turns them on.",
            style="dim",
        )
        return None
    for line in describe(contents):
        asker.say(line)
    chosen = await asker.choose(_title(contents), _choices(contents), has_filter=False)
    if chosen is None or chosen.value == "look":
        return "readonly"
    if chosen.value == "without":
        await trio.to_thread.run_sync(_remember_declined, contents)
        return None
    return await _trust(asker, contents)


async def _trust(asker: Asker, shown: FolderContents) -> Literal["readonly"] | None:
    """Trust a folder, unless it has changed since its contents were shown."""
    try:
        is_same = await trio.to_thread.run_sync(_add_if_unchanged, shown)
    except HilumError as error:
        asker.say(f"The folder is not trusted: {error.message} {error.hint}", style="bad")
        return None
    if not is_same:
        asker.say("The folder changed while you were deciding.", style="warning")
        return await ask_trust(asker, shown.root)
    return None


def _add_if_unchanged(shown: FolderContents) -> bool:
    if read_contents(shown.root).digest != shown.digest:
        return False
    TrustedFolders().add(shown.root)
    return True


# --- the contents of a folder ---------------------------------------------------------------------


def read_contents(workspace: str | os.PathLike[str]) -> FolderContents:
    """Return a folder's files that matter for trust, and its trust state; blocks."""
    root = Path(os.path.realpath(workspace))
    folders = TrustedFolders()
    instructions = tuple(name for name in _INSTRUCTIONS if (root / name).exists())
    try:
        hashes = {**hash_files(str(root)), **_hash_server_files(root)}
        state = folders.state(root)
        changes = folders.changes(root) if state == "changed" else []
    except HilumError as error:
        problem = " ".join(filter(None, (error.message, error.hint)))
        return FolderContents(root, "unknown", instructions=instructions, problem=problem)
    digest = sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()
    return FolderContents(root, state, tuple(hashes), tuple(changes), instructions, digest)


def _hash_server_files(root: Path) -> dict[str, str]:
    """Return a hash of each file that declares MCP servers, if hilum can start such servers."""
    hashes: dict[str, str] = {}
    # ``find_spec`` does not import the plugin, which may be missing.
    if find_spec("hilum_mcp") is None:
        return hashes
    for name in _SERVER_FILES:
        with suppress(OSError):
            data = _read_regular(root / name)
            # Some of these files contain other programs' settings; only files with servers matter.
            if any(word in data.lower() for word in _SERVER_WORDS):
                hashes[name] = sha256(data).hexdigest()
    return hashes


def _read_regular(path: Path) -> bytes:
    """Return the beginning of a regular file; of anything else, return nothing.

    Raises:
        OSError: The file cannot be read.
    """
    # Without O_NONBLOCK, opening a named pipe would block forever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return b""
        return file.read(MAX_READ)


def describe(contents: FolderContents) -> list[str]:
    """Return lines that describe the contents of a folder."""
    lines = []
    if contents.changes:
        lines.append("Changed since you trusted this folder:")
        lines += _shorten([f"  {_show(change)}" for change in contents.changes], MAX_CHANGES)
    if contents.names:
        lines.append("This folder contains:")
    for effect, names in _group(contents.names).items():
        listed = ", ".join(_shorten([_show(name) for name in names], MAX_NAMES))
        lines.append(f"  {listed}: {effect}")
    if contents.problem:
        lines.append(f"This folder cannot be trusted: {_show(contents.problem)}")
    if contents.instructions:
        listed = ", ".join(contents.instructions)
        lines.append(f"Instructions that are read whether or not you trust the folder: {listed}")
    return lines


def _group(names: Sequence[str]) -> Mapping[str, list[str]]:
    """Group the names by what the files can do, most powerful kind first."""
    groups: dict[str, list[str]] = {kind.effect: [] for kind in _KINDS}
    for name in names:
        if name in _SERVER_FILES:
            groups[_SERVERS].append(name)
            continue
        # A folder that is a symbolic link out of the project is listed without a trailing slash.
        fits = [kind for kind in _KINDS if f"{name}/".startswith(kind.prefix)]
        effect = fits[0].effect if fits else _KINDS[-1].effect
        groups[effect].append(name)
    return {effect: found for effect, found in groups.items() if found}


def _shorten(items: list[str], max_rows: int) -> list[str]:
    if len(items) <= max_rows:
        return items
    return [*items[:max_rows], f"and {len(items) - max_rows} more"]


def _show(text: str) -> str:
    """Return a file name, or a sentence with one, as one line with escaped characters."""
    return escape_terminal(text).replace("\n", "\\n").replace("\t", "\\t")


def _count(names: Sequence[str]) -> str:
    return "1 file" if len(names) == 1 else f"{len(names)} files"


def _title(contents: FolderContents) -> str:
    if contents.problem:
        return "How do you want to work here?"
    if contents.state == "changed":
        return "Do you trust this folder again?"
    return "Do you trust this folder?"


def _choices(contents: FolderContents) -> list[Choice]:
    choices = [
        Choice("look", "No, only look around", "nothing is changed and no command runs"),
        Choice("without", "No, work without them", "hilum asks before it changes anything"),
    ]
    if not contents.problem:
        hint = "if you have read them, or know their author"
        choices.append(Choice("trust", "Yes, use them", hint, partial(_preview, contents)))
    return choices


def _preview(contents: FolderContents) -> str:
    """Return the names of all files."""
    return "\n".join(_show(name) for name in contents.names)


# --- folders that the user has decided to use without their extensions ----------------------------


def _declined_file() -> Path:
    return data_folder() / DECLINED_FILE


def _is_declined(contents: FolderContents) -> bool:
    known = _read_declined()
    return bool(contents.digest) and known.get(spell_folder(contents.root)) == contents.digest


def _read_declined() -> dict[str, str]:
    try:
        data = json.loads(_declined_file().read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {str(name): value for name, value in data.items() if isinstance(value, str)}


def _remember_declined(contents: FolderContents) -> None:
    """Remember that the user wants to use a folder without its extensions.

    If the decision cannot be saved, the user is asked again next time.
    """
    known = _read_declined()
    name = spell_folder(contents.root)
    known.pop(name, None)
    known[name] = contents.digest
    latest = dict(list(known.items())[-MAX_DECLINED:])
    path = _declined_file()
    with suppress(OSError):
        make_private_folder(path.parent)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(latest, indent=1), encoding="utf-8")
        os.replace(new, path)
