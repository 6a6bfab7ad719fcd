"""Suggest the rule that a lasting approval of a command creates.

The rule contains the program and its sub-command, or the command's exact text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum_guard.rules.matching import exact_pattern, harmless_wrapper

if TYPE_CHECKING:
    from hilum_guard.commands.verdicts import CommandVerdict

_PLAIN = re.compile(r"[\w./:@+-]+")
# Programs whose first word names the action.
_SUB = frozenset(
    """apt apt-get brew bundle cargo conda docker dotnet git go helm hg jj just kubectl make npm
    nox pip pip3 pnpm podman poetry rustup svn systemctl terraform tox uv yarn""".split()
)
# Programs whose first two words name the action.
_TWO = frozenset(
    """aws gcloud az doctl hcloud linode-cli oci heroku fly flyctl gh glab vault consul nomad
    op""".split()
)
# Programs without sub-commands, whose options do not change the kind of action.
_SINGLE = frozenset(
    """pytest py.test mypy pyright black isort flake8 pylint tsc eslint prettier jest vitest mocha
    phpunit rspec gcc g++ cc c++ clang clang++ rustc javac ctest cppcheck shellcheck yamllint ls
    cat grep rg wc head tail sort uniq diff tree mkdir touch stat file du df which date basename
    dirname realpath readlink cmp comm cut tr fold nl seq sleep pwd printf echo""".split()
)
# Sub-commands that run the words after them; the rule also names the command that these words form.
_PASS_ON = frozenset(
    {("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("pipenv", "run"), ("hatch", "run")}
)
# Sub-commands followed by a name, such as a script's, which the rule includes.
_NAMED = frozenset(
    {
        ("npm", "run"),
        ("pnpm", "run"),
        ("yarn", "run"),
        ("python", "-m"),
        ("python3", "-m"),
        ("git", "stash"),
    }
    | {("git", "remote"), ("uv", "pip"), ("docker", "compose"), ("go", "tool")}
)
# Programs that can do anything, depending on their arguments; the rule covers only the exact
# command.
_ANYTHING = frozenset(
    """ash awk bash bun busybox chmod chown cp curl csh dash dd deno doas ed emacs env eval exec
    expect fd find fish gawk gdb hilum install irb java jshell ksh ln lua mawk mv nano nc ncat
    node npx nsenter parallel perl php pkill kill killall pipx powershell psql pwsh python python2
    python3 rm rmdir rsync ruby scp screen script sed sh shred socat source sqlite3 ssh strace su
    sudo tar tclsh tee tmux truncate unshare uvx vi vim watch wget xargs zsh .""".split()
)
# Sub-commands that can do anything.
_ANY_ACTION = frozenset(
    tuple(pair.split())
    for pair in """docker run, docker exec, docker container, podman run, podman exec, kubectl exec,
    kubectl run, git config, git submodule, git filter-branch, git bisect, git rebase,
    git clean, git reset, npm exec, npm x, pnpm exec, pnpm dlx, yarn dlx, cargo install,
    go run, go generate, conda run, gh api, gh alias, gh extension, poetry config,
    apt install, apt-get install, brew install, hg extdiff, systemctl edit""".split(",")
)


def suggest_rule(tool: str, text: str, read: CommandVerdict) -> str:
    """Return the rule that a lasting approval of a command creates.

    Args:
        tool: Name of the tool.
        text: The command line.
        read: The verdict on the command line.
    """
    rest = [command for command in read.commands if not harmless_wrapper(command)]
    if read.complete and len(rest) == 1:
        command = rest[0]
        changes_more = command.assigned or command.writes
        if command.words and command.literal and not changes_more:
            prefix = _find_prefix(command.words)
            if prefix:
                return f"{tool}({' '.join(prefix)} *)"
    return f"{tool}({exact_pattern(text)})"


def _find_prefix(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a rule for similar commands begins with.

    The result is empty if only a rule for the exact text is narrow enough.
    """
    program, *rest = words
    if not _PLAIN.fullmatch(program):
        return ()
    name = program.rpartition("/")[2]
    head = (name, *rest[:1])
    if head in _PASS_ON and len(rest) > 1:
        inner = _find_prefix(rest[1:])
        return (program, rest[0], *inner) if inner else ()
    if head in _NAMED:
        return _take_names(words, 2, 3)
    if name in _ANYTHING or head in _ANY_ACTION:
        return ()
    if name in _TWO:
        return _take_names(words, 1, 3)
    if name in _SINGLE or not (rest or name in _SUB):
        return (program,)
    # An unknown program may have sub-commands, so the rule includes its first argument. If options
    # precede the first argument, no rule is safe.
    return _take_names(words, 1, 2)


def _take_names(words: Sequence[str], start: int, end: int) -> tuple[str, ...]:
    """Return the words before `end`; empty unless all words from `start` on are plain names."""
    names = words[start:end]
    is_plain = all(_PLAIN.fullmatch(name) and not name.startswith("-") for name in names)
    return tuple(words[:end]) if is_plain and len(names) == end - start else ()
