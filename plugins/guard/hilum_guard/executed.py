"""The files of a workspace that other programs execute, or take commands from, outside the sandbox.

This table is the one list of them. The file tools ask before they write one, commands that are read
are asked for where a redirection writes one, and the sandbox keeps them from being written by any
program (see ``watching``). What Git executes through its metadata depends on the content of that
metadata; ``repositories`` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hilum_guard.names import folded


class Executed(NamedTuple):
    """A kind of file that is executed.

    Attributes:
        pattern: Its name in any folder, in lower case; a ``*`` before it for any text. ``a/b`` is
            ``b`` in a folder ``a``.
        program: The program that executes it, or takes commands from it.
        when: When that happens.
        folder: Whether it is a folder, everything in which counts.
        mask: Whether the sandbox puts an empty, read-only folder in its place where it is missing.
            Only for folders that programs follow while they run: the empty folder is seen by the
            user, and by Git it is not.
        data: Whether commands may write it, since ordinary work does: it names what is used later,
            or has what the package managers of a project install. File tools ask.
    """

    pattern: str
    program: str
    when: str
    folder: bool = False
    mask: bool = False
    data: bool = False


TABLE = (
    # Git. What is below `.git` is judged by its content where a command writes it, and asked for
    # where a file tool does.
    Executed(
        ".git", "git", "at every command, through configuration, hooks and pointers", folder=True
    ),
    Executed(
        ".gitconfig",
        "git",
        "at every command, as a home folder's configuration or an included file",
    ),
    Executed(
        ".gitmodules", "git", "when submodules are updated, as addresses and paths", data=True
    ),
    Executed(".hg/hgrc", "hg", "at every command, through hooks and extensions"),
    Executed(".hg/hgrc-not-shared", "hg", "at every command, through hooks and extensions"),
    Executed(".jj/repo/config.toml", "jj", "at every command, through its tools"),
    # Managers of Git hooks.
    Executed(".husky", "git", "at a commit, where core.hooksPath names it", folder=True),
    Executed(".githooks", "git", "at a commit, where core.hooksPath names it", folder=True),
    *(
        Executed(f".huskyrc{ending}", "husky", "at a commit")
        for ending in ("", ".js", ".cjs", ".json", ".yaml", ".yml")
    ),
    Executed("husky.config.js", "husky", "at a commit"),
    Executed(".pre-commit-config.yaml", "pre-commit", "at a commit"),
    Executed(".pre-commit-config.yml", "prek", "at a commit"),
    Executed("prek.toml", "prek", "at a commit"),
    *(
        Executed(f"{name}.{ending}", "lefthook", "at a commit")
        for name in ("lefthook", ".lefthook", "lefthook-local", ".lefthook-local")
        for ending in ("yml", "yaml", "toml", "json", "jsonc")
    ),
    Executed(".lefthook", "lefthook", "at a commit", folder=True),
    Executed(".overcommit.yml", "overcommit", "at a commit"),
    # Editors.
    Executed(
        ".vscode",
        "VS Code",
        "when the folder is opened, and at each change of its settings",
        folder=True,
        mask=True,
    ),
    Executed("*.code-workspace", "VS Code", "when the workspace is opened"),
    Executed(".idea", "IDEs of JetBrains", "when the folder is opened", folder=True),
    Executed(".zed", "Zed", "when the folder is opened", folder=True),
    Executed(".fleet", "Fleet", "when the folder is opened", folder=True),
    Executed("*.sublime-project", "Sublime Text", "when the project is opened or built"),
    Executed(".vim", "Vim", "when a file is opened (exrc, plugins for projects)", folder=True),
    Executed(".vimrc", "Vim", "when it is started in the folder (exrc)"),
    Executed(".gvimrc", "Vim", "when it is started in the folder (exrc)"),
    Executed(".lvimrc", "Vim", "when a file is opened (localvimrc)"),
    Executed(".exrc", "Vim", "when it is started in the folder (exrc)"),
    Executed(".nvim", "Neovim", "when a file is opened (plugins for projects)", folder=True),
    Executed(".nvimrc", "Neovim", "when it is started in the folder (exrc)"),
    Executed(".nvim.lua", "Neovim", "when it is started in the folder (exrc)"),
    Executed(
        ".helix",
        "Helix",
        "when it is started in the folder, as language servers and formatters",
        folder=True,
    ),
    Executed(".dir-locals.el", "Emacs", "when a file is opened"),
    Executed(".dir-locals-2.el", "Emacs", "when a file is opened"),
    Executed(".devcontainer", "editors", "when the folder is opened in a container", folder=True),
    Executed(".devcontainer.json", "editors", "when the folder is opened in a container"),
    # Shells and what they run when a folder is entered.
    Executed(".envrc", "direnv", "when the folder is entered"),
    Executed(".mise.toml", "mise", "when the folder is entered"),
    Executed(".mise.local.toml", "mise", "when the folder is entered"),
    Executed("mise.toml", "mise", "when the folder is entered"),
    Executed("mise.local.toml", "mise", "when the folder is entered"),
    Executed(".mise", "mise", "when the folder is entered", folder=True),
    Executed(".config/mise", "mise", "when the folder is entered"),
    Executed("mise/config.toml", "mise", "when the folder is entered"),
    Executed("mise/config.local.toml", "mise", "when the folder is entered"),
    Executed("mise/conf.d", "mise", "when the folder is entered"),
    Executed(".autoenv", "autoenv", "when the folder is entered"),
    Executed(".autoenv.zsh", "autoenv", "when the folder is entered"),
    Executed(".autoenv_leave.zsh", "autoenv", "when the folder is left"),
    Executed(".autoenv_leave", "autoenv", "when the folder is left"),
    Executed(".env.leave", "autoenv", "when the folder is left"),
    # Debuggers.
    Executed(".pdbrc", "pdb", "when it is started in the folder"),
    Executed(".gdbinit", "gdb", "when it is started in the folder"),
    Executed(".lldbinit", "lldb", "when it is started in the folder"),
    Executed(".bashrc", "bash", "when it starts in a home folder"),
    Executed(".bash_profile", "bash", "when it starts in a home folder"),
    Executed(".bash_login", "bash", "when it starts in a home folder"),
    Executed(".bash_logout", "bash", "when it ends in a home folder"),
    Executed(".bash_aliases", "bash", "when it starts in a home folder"),
    Executed(".profile", "shells", "when they start in a home folder"),
    Executed(".zshrc", "zsh", "when it starts in a home folder"),
    Executed(".zshenv", "zsh", "when it starts in a home folder"),
    Executed(".zprofile", "zsh", "when it starts in a home folder"),
    Executed(".zlogin", "zsh", "when it starts in a home folder"),
    Executed(".zlogout", "zsh", "when it ends in a home folder"),
    Executed(".ssh", "ssh", "when it connects, and when somebody logs in", folder=True),
    # What managers of packages execute or install.
    Executed(".yarnrc.yml", "Yarn", "at every command, as its own program and plugins", data=True),
    Executed(".npmrc", "npm", "at every command, as its shell and options", data=True),
    Executed(
        ".venv",
        "Python",
        "when a program of the virtual environment is started",
        folder=True,
        data=True,
    ),
    Executed(
        "venv",
        "Python",
        "when a program of the virtual environment is started",
        folder=True,
        data=True,
    ),
    # Agents, hilum among them: servers that they start, hooks that they run, what they may do
    # without a question.
    Executed(".hilum", "hilum", "when a session starts", folder=True, mask=True),
    Executed(".mcp.json", "agents", "when a session starts, as MCP servers"),
    Executed("mcp.json", "agents", "when a session starts, as MCP servers"),
    Executed(".agents", "agents", "when a session starts", folder=True),
    Executed(".claude", "Claude Code", "when a session starts, and at its hooks", folder=True),
    Executed(".codex", "Codex", "when a session starts", folder=True),
    Executed(
        ".cursor",
        "Cursor",
        "when the folder is opened, and at each change of its servers",
        folder=True,
        mask=True,
    ),
    Executed(".gemini", "Gemini CLI", "when a session starts", folder=True),
    Executed("gemini-extension.json", "Gemini CLI", "when a session starts, as MCP servers"),
    Executed(".github/agents", "agents", "when a session starts"),
    Executed(".github/chatmodes", "agents", "when a session starts"),
    Executed(".github/hooks", "agents", "when a session starts, and at its hooks"),
    Executed(".opencode", "opencode", "when a session starts", folder=True),
    Executed("opencode.json", "opencode", "when a session starts, as MCP servers"),
    Executed("opencode.jsonc", "opencode", "when a session starts, as MCP servers"),
    Executed(".roo", "Roo Code", "when the folder is opened", folder=True),
    Executed(".kiro", "Kiro", "when the folder is opened, and at its hooks", folder=True),
    Executed(".qwen", "Qwen Code", "when a session starts, and at its hooks", folder=True),
    Executed(".amp", "Amp", "when a session starts, as MCP servers", folder=True),
    Executed(".crush", "Crush", "when a session starts", folder=True),
    Executed(".crush.json", "Crush", "when a session starts, as MCP servers"),
    Executed("crush.json", "Crush", "when a session starts, as MCP servers"),
    Executed(".aider.conf.yml", "aider", "when a session starts, as commands for tests and lint"),
    Executed(".windsurf", "Windsurf", "when the folder is opened", folder=True),
    Executed(".continue", "Continue", "when the folder is opened, as MCP servers", folder=True),
    Executed(
        ".amazonq", "Amazon Q", "when a session starts, as MCP servers and hooks", folder=True
    ),
    Executed(".openhands", "OpenHands", "when a session starts", folder=True),
    Executed(".factory", "Factory", "when a session starts, and at its hooks", folder=True),
    Executed(".clinerules", "Cline", "when a task starts, and at its hooks", folder=True),
    Executed(".kilocode", "Kilo Code", "when the folder is opened, as MCP servers", folder=True),
    Executed(".junie", "Junie", "when a session starts, as MCP servers", folder=True),
    Executed(".trae", "Trae", "when the folder is opened, as MCP servers", folder=True),
)
# `.tool-versions`, `.nvmrc` and `.python-version` are not among them: they name versions, and
# nothing executes them. `.inputrc` is not: readline reads the one of the home folder only. `.in`
# and `.out` of autoenv are not: they are common names. `.gitattributes` is not: it chooses among
# drivers that the configuration defines, and cannot define one.

MASKED = tuple(row.pattern for row in TABLE if row.mask)
"""Folders of the workspace's root that are masked where they are missing."""
_NAMES = {row.pattern: row for row in TABLE if "/" not in row.pattern and "*" not in row.pattern}
_ENDINGS = {row.pattern[1:]: row for row in TABLE if row.pattern.startswith("*")}
_ALL_ENDINGS = tuple(_ENDINGS)
_INNER = tuple((tuple(row.pattern.split("/")), row) for row in TABLE if "/" in row.pattern)
PARENTS = frozenset(parts[0] for parts, _ in _INNER)
"""Folders that are not executed, in which something is."""
PATTERNS = tuple(row.pattern for row in TABLE if "/" not in row.pattern)
"""Patterns for one component of a path."""


def find_name(name: str) -> Executed | None:
    """Return the row for a single name, None if nothing executes files of that name."""
    low = folded(name)
    row = _NAMES.get(low)
    if row:
        return row
    if low.endswith(_ALL_ENDINGS):
        return next(row for ending, row in _ENDINGS.items() if low.endswith(ending))
    return None


def find_path(path: str) -> tuple[str, Executed] | None:
    """Return the row for a path relative to the workspace, and the part of the path that it is
    about; None if there is none.

    Args:
        path: Relative to the workspace, existing or not.
    """
    parts = [part for part in path.split("/") if part]
    for part in parts:
        row = find_name(part)
        if row:
            return part, row
    low = [folded(part) for part in parts]
    for wanted, row in _INNER:
        for start in _starts(low, wanted):
            return "/".join(parts[start : start + len(wanted)]), row
    return None


def inner_paths(name: str) -> tuple[str, ...]:
    """Return the paths below a folder of this name that are executed, where the folder as a whole
    is not.
    """
    low = folded(name)
    return tuple("/".join(parts[1:]) for parts, row in _INNER if parts[0] == low and not row.data)


def _starts(parts: list[str], wanted: tuple[str, ...]) -> Iterator[int]:
    count = len(wanted)
    return (
        start
        for start in range(len(parts) - count + 1)
        if tuple(parts[start : start + count]) == wanted
    )
