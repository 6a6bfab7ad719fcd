"""List the workspace files that other programs execute, or take commands from, outside the sandbox.

The table in this module is the only list of executed files. Writing to an executed file with the
file tools or by redirection needs approval, and the sandbox keeps programs from writing to these
files (see ``workspace_watcher``). What Git executes because of a repository's metadata depends on
the content of the metadata, which ``repositories`` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hilum_guard.file_names import folded


class ExecutedFile(NamedTuple):
    """A kind of file that other programs execute.

    Attributes:
        pattern: The file's name in any folder, in lower case; a leading ``*`` stands for any text.
            ``a/b`` is a file ``b`` in a folder ``a``.
        program: The program that executes the file or takes commands from it.
        when: When that happens.
        folder: Whether the name is that of a folder, whose whole content is executed.
        mask: Whether the sandbox creates an empty, read-only folder if the folder is missing. Set
            only for folders that programs watch while they run, because the user sees the empty
            folder (Git ignores it).
        data: Whether commands may write to the file, because ordinary work requires it: the file
            names what is used later, or contains what the project's package managers install. File
            tools still need approval.
    """

    pattern: str
    program: str
    when: str
    folder: bool = False
    mask: bool = False
    data: bool = False


def _rows(
    program: str,
    when: str,
    patterns: str,
    *,
    folder: bool = False,
    mask: bool = False,
    data: bool = False,
) -> Iterator[ExecutedFile]:
    """Yield the rows for patterns, which are separated by spaces."""
    for pattern in patterns.split():
        yield ExecutedFile(pattern, program, when, folder, mask, data)


_ENTERED = "when the folder is entered"
_OPENED = "when the folder is opened"
_SESSION = "when a session starts"
_COMMIT = "at a commit"
TABLE = (
    # Git. For commands that write below `.git`, the content determines the verdict; file tools need
    # approval.
    *_rows(
        "git",
        "at every command, through configuration, hooks and pointers",
        ".git",
        folder=True,
    ),
    *_rows(
        "git",
        "at every command, as a home folder's configuration or an included file",
        ".gitconfig",
    ),
    *_rows("git", "when submodules are updated, as addresses and paths", ".gitmodules", data=True),
    *_rows("hg", "at every command, through hooks and extensions", ".hg/hgrc .hg/hgrc-not-shared"),
    *_rows("jj", "at every command, through its tools", ".jj/repo/config.toml"),
    # Git hook managers.
    *_rows("git", "at a commit, where core.hooksPath names it", ".husky .githooks", folder=True),
    *_rows(
        "husky",
        _COMMIT,
        ".huskyrc .huskyrc.js .huskyrc.cjs .huskyrc.json .huskyrc.yaml .huskyrc.yml"
        " husky.config.js",
    ),
    *_rows("pre-commit", _COMMIT, ".pre-commit-config.yaml"),
    *_rows("prek", _COMMIT, ".pre-commit-config.yml prek.toml"),
    *_rows(
        "lefthook",
        _COMMIT,
        "lefthook.yml lefthook.yaml lefthook.toml lefthook.json lefthook.jsonc .lefthook.yml"
        " .lefthook.yaml .lefthook.toml .lefthook.json .lefthook.jsonc lefthook-local.yml"
        " lefthook-local.yaml lefthook-local.toml lefthook-local.json lefthook-local.jsonc"
        " .lefthook-local.yml .lefthook-local.yaml .lefthook-local.toml .lefthook-local.json"
        " .lefthook-local.jsonc",
    ),
    *_rows("lefthook", _COMMIT, ".lefthook", folder=True),
    *_rows("overcommit", _COMMIT, ".overcommit.yml"),
    # Editors.
    *_rows(
        "VS Code",
        "when the folder is opened, and at each change of its settings",
        ".vscode",
        folder=True,
        mask=True,
    ),
    *_rows("VS Code", "when the workspace is opened", "*.code-workspace"),
    *_rows("JetBrains IDEs", _OPENED, ".idea", folder=True),
    *_rows("Zed", _OPENED, ".zed", folder=True),
    *_rows("Fleet", _OPENED, ".fleet", folder=True),
    *_rows("Sublime Text", "when the project is opened or built", "*.sublime-project"),
    *_rows("Vim", "when a file is opened (exrc, project plugins)", ".vim", folder=True),
    *_rows("Vim", "when it is started in the folder (exrc)", ".vimrc .gvimrc .exrc"),
    *_rows("Vim", "when a file is opened (localvimrc)", ".lvimrc"),
    *_rows("Neovim", "when a file is opened (project plugins)", ".nvim", folder=True),
    *_rows("Neovim", "when it is started in the folder (exrc)", ".nvimrc .nvim.lua"),
    *_rows(
        "Helix",
        "when it is started in the folder, as language servers and formatters",
        ".helix",
        folder=True,
    ),
    *_rows("Emacs", "when a file is opened", ".dir-locals.el .dir-locals-2.el"),
    *_rows("editors", "when the folder is opened in a container", ".devcontainer", folder=True),
    *_rows("editors", "when the folder is opened in a container", ".devcontainer.json"),
    # Shells, and programs that they run when a folder is entered.
    *_rows("direnv", _ENTERED, ".envrc"),
    *_rows(
        "mise",
        _ENTERED,
        ".mise.toml .mise.local.toml mise.toml mise.local.toml .config/mise mise/config.toml"
        " mise/config.local.toml mise/conf.d",
    ),
    *_rows("mise", _ENTERED, ".mise", folder=True),
    *_rows("autoenv", _ENTERED, ".autoenv .autoenv.zsh"),
    *_rows("autoenv", "when the folder is left", ".autoenv_leave.zsh .autoenv_leave .env.leave"),
    # Debuggers.
    *_rows("pdb", "when it is started in the folder", ".pdbrc"),
    *_rows("gdb", "when it is started in the folder", ".gdbinit"),
    *_rows("lldb", "when it is started in the folder", ".lldbinit"),
    # Start-up files, if the workspace is a home folder.
    *_rows(
        "bash",
        "when it starts in a home folder",
        ".bashrc .bash_profile .bash_login .bash_aliases",
    ),
    *_rows("bash", "when it ends in a home folder", ".bash_logout"),
    *_rows("shells", "when they start in a home folder", ".profile"),
    *_rows("zsh", "when it starts in a home folder", ".zshrc .zshenv .zprofile .zlogin"),
    *_rows("zsh", "when it ends in a home folder", ".zlogout"),
    *_rows("ssh", "when it connects, and when somebody logs in", ".ssh", folder=True),
    *_rows("fish", "when it starts in a home folder", ".config/fish"),
    *_rows(
        "desktops",
        "when the user logs in, if this is a home folder",
        ".xprofile .xsession .xsessionrc .xinitrc .config/autostart .config/environment.d"
        " .config/plasma-workspace/env",
    ),
    *_rows("systemd", "as services, if this is a home folder", ".config/systemd/user"),
    # Files that package managers execute or install.
    *_rows("Yarn", "at every command, as its own program and plugins", ".yarnrc.yml", data=True),
    *_rows("npm", "at every command, as its shell and options", ".npmrc", data=True),
    *_rows(
        "Python",
        "when a program of the virtual environment is started",
        ".venv venv",
        folder=True,
        data=True,
    ),
    # Agents, including hilum: servers that they start, hooks that they run, and their permissions.
    *_rows("hilum", _SESSION, ".hilum", folder=True, mask=True),
    *_rows("a coding agent", f"{_SESSION}, as MCP servers", ".mcp.json mcp.json"),
    *_rows("a coding agent", _SESSION, ".agents", folder=True),
    *_rows("Claude Code", f"{_SESSION}, and at its hooks", ".claude", folder=True),
    *_rows("Codex", _SESSION, ".codex", folder=True),
    *_rows(
        "Cursor",
        "when the folder is opened, and at each change of its servers",
        ".cursor",
        folder=True,
        mask=True,
    ),
    # Without this file, hilum itself would read and send what the file excludes.
    *_rows(
        "hilum",
        _SESSION,
        ".cursorignore .geminiignore .aiderignore .codeiumignore",
    ),
    *_rows("Gemini CLI", _SESSION, ".gemini", folder=True),
    *_rows("Gemini CLI", f"{_SESSION}, as MCP servers", "gemini-extension.json"),
    *_rows("a coding agent", _SESSION, ".github/agents .github/chatmodes .github/skills"),
    *_rows("a coding agent", f"{_SESSION}, and at its hooks", ".github/hooks"),
    *_rows("opencode", _SESSION, ".opencode", folder=True),
    *_rows("opencode", f"{_SESSION}, as MCP servers", "opencode.json opencode.jsonc"),
    *_rows("Roo Code", _OPENED, ".roo", folder=True),
    *_rows("Kiro", f"{_OPENED}, and at its hooks", ".kiro", folder=True),
    *_rows("Qwen Code", f"{_SESSION}, and at its hooks", ".qwen", folder=True),
    *_rows("Amp", f"{_SESSION}, as MCP servers", ".amp", folder=True),
    *_rows("Crush", _SESSION, ".crush", folder=True),
    *_rows("Crush", f"{_SESSION}, as MCP servers", ".crush.json crush.json"),
    *_rows("aider", f"{_SESSION}, as commands for tests and lint", ".aider.conf.yml"),
    *_rows("Windsurf", _OPENED, ".windsurf", folder=True),
    *_rows("Continue", f"{_OPENED}, as MCP servers", ".continue", folder=True),
    *_rows("Amazon Q", f"{_SESSION}, as MCP servers and hooks", ".amazonq", folder=True),
    *_rows("OpenHands", _SESSION, ".openhands", folder=True),
    *_rows("Factory", f"{_SESSION}, and at its hooks", ".factory", folder=True),
    *_rows("Cline", "when a task starts, and at its hooks", ".clinerules", folder=True),
    *_rows("Kilo Code", f"{_OPENED}, as MCP servers", ".kilocode", folder=True),
    *_rows("Junie", f"{_SESSION}, as MCP servers", ".junie", folder=True),
    *_rows("Trae", f"{_OPENED}, as MCP servers", ".trae", folder=True),
)
# Not listed: `.tool-versions`, `.nvmrc` and `.python-version`, because they name versions and are
# not executed; `.inputrc`, because readline reads only the one in the home folder; `.in` and `.out`
# of autoenv, because they are common names; `.gitattributes`, because it can only choose among
# drivers that the configuration defines.

MASKED = tuple(row.pattern for row in TABLE if row.mask)
"""Folders in the workspace root that the sandbox masks if they are missing."""
_NAMES = {row.pattern: row for row in TABLE if "/" not in row.pattern and "*" not in row.pattern}
_ENDINGS = {row.pattern[1:]: row for row in TABLE if row.pattern.startswith("*")}
_ALL_ENDINGS = tuple(_ENDINGS)
_INNER = tuple((tuple(row.pattern.split("/")), row) for row in TABLE if "/" in row.pattern)
PARENTS = frozenset(parts[0] for parts, _ in _INNER)
"""Folders that are not executed as a whole, but contain an executed file."""
PATTERNS = tuple(row.pattern for row in TABLE if "/" not in row.pattern)
"""Patterns for one component of a path."""


def find_name(name: str) -> ExecutedFile | None:
    """Return the row for a file name, or None if nothing executes such files."""
    low = folded(name)
    row = _NAMES.get(low)
    if row:
        return row
    if low.endswith(_ALL_ENDINGS):
        return next(row for ending, row in _ENDINGS.items() if low.endswith(ending))
    return None


# Any component of the path counts, because everything in an executed folder is executed.
def find_path(path: str) -> tuple[str, ExecutedFile] | None:
    """Return the executed part of a path, and its row, or None if no row matches.

    Args:
        path: The path relative to the workspace, whether it exists or not.
    """
    parts = [part for part in path.split("/") if part]
    for part in parts:
        row = find_name(part)
        if row:
            return part, row
    low = [folded(part) for part in parts]
    for wanted, row in _INNER:
        for start in _find_starts(low, wanted):
            return "/".join(parts[start : start + len(wanted)]), row
    return None


def inner_paths(name: str) -> tuple[str, ...]:
    """Return the executed paths below a folder that is not executed as a whole.

    Args:
        name: The name of the folder.
    """
    low = folded(name)
    rows = [(parts, row) for parts, row in _INNER if parts[0] == low]
    return tuple("/".join(parts[1:]) for parts, row in rows if not row.data)


def _find_starts(parts: list[str], wanted: tuple[str, ...]) -> Iterator[int]:
    """Yield the positions at which a sequence of parts begins in a path."""
    count = len(wanted)
    for start in range(len(parts) - count + 1):
        if tuple(parts[start : start + count]) == wanted:
            yield start
