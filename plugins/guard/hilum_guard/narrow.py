"""The rule that a lasting yes to a command means: its program and sub-command, never wider.

Or the very text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum_guard.rules import exact, harmless_wrapper

if TYPE_CHECKING:
    from hilum_guard.commands import CommandVerdict

_PLAIN = re.compile(r"[\w./:@+-]+")
# Programs whose first word says what they do.
_SUB = frozenset(
    """apt apt-get brew bundle cargo conda docker dotnet git go helm hg jj just kubectl make npm nox pip pip3 pnpm podman
    poetry rustup svn systemctl terraform tox uv yarn""".split()
)
# Programs whose first two words say what they do.
_TWO = frozenset(
    "aws gcloud az doctl hcloud linode-cli oci heroku fly flyctl gh glab vault consul nomad op".split()
)
# Programs without sub-commands: their options say how, and not what, they do.
_SINGLE = frozenset(
    """pytest py.test mypy pyright black isort flake8 pylint tsc eslint prettier jest vitest mocha phpunit rspec gcc g++ cc c++
    clang clang++ rustc javac ctest cppcheck shellcheck yamllint ls cat grep rg wc head tail sort uniq diff tree mkdir touch
    stat file du df which date basename dirname realpath readlink cmp comm cut tr fold nl seq sleep pwd printf echo""".split()
)
# Sub-commands that run what comes next: the rule goes on with that.
_PASS_ON = frozenset(
    {("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("pipenv", "run"), ("hatch", "run")}
)
# Sub-commands whose next word is a name of the project's: the rule has that, too.
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
# What can do anything, depending on its words: only the very text.
_ANYTHING = frozenset(
    """ash awk bash bun busybox chmod chown cp curl csh dash dd deno doas ed emacs env eval exec expect fd find fish gawk
    gdb hilum install irb java jshell ksh ln lua mawk mv nano nc ncat node npx nsenter parallel perl php pkill kill killall
    pipx powershell psql pwsh python python2 python3 rm rmdir rsync ruby scp screen script sed sh shred socat source sqlite3
    ssh strace su sudo tar tclsh tee tmux truncate unshare uvx vi vim watch wget xargs zsh .""".split()
)
_ANYTHING_SUB = frozenset(
    """docker run|docker exec|docker container|podman run|podman exec|kubectl exec|kubectl run|git config|git submodule
    |git filter-branch|git bisect|git rebase|git clean|git reset|npm exec|npm x|pnpm exec|pnpm dlx|yarn dlx|cargo install
    |go run|go generate|conda run|gh api|gh alias|gh extension|poetry config|apt install|apt-get install|brew install
    |hg extdiff|systemctl edit""".replace("\n    ", "").split("|")
)


def scope(tool: str, text: str, read: CommandVerdict) -> str:
    """Return the rule that a lasting yes to a command means.

    Args:
        tool: Name of the tool.
        text: The command line.
        read: What reading it gave.
    """
    rest = [command for command in read.commands if not harmless_wrapper(command)]
    if read.complete and len(rest) == 1:
        command = rest[0]
        plain = command.literal and not command.assigned and not command.writes and command.words
        if plain and (words := narrowed(command.words)):
            return f"{tool}({' '.join(words)} *)"
    return f"{tool}({exact(text)})"


def narrowed(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that a rule for such a command begins with.

    None where only the whole text will do.
    """
    program, *rest = words
    if not _PLAIN.fullmatch(program):
        return ()
    name = program.rpartition("/")[2]
    sub = rest[0] if rest else ""
    if (name, sub) in _PASS_ON and len(rest) > 1:
        inner = narrowed(rest[1:])
        return (program, sub, *inner) if inner else ()
    if (name, sub) in _NAMED:
        if len(rest) > 1 and _name(rest[1]):
            return (program, sub, rest[1])
        return ()
    if name in _ANYTHING:
        return ()
    if name in _TWO:
        two = tuple(rest[:2])
        plain = (
            len(two) == 2
            and all(_name(word) for word in two)
            and f"{name} {sub}" not in _ANYTHING_SUB
        )
        return (program, *two) if plain else ()
    if name in _SUB:
        if _name(sub) and f"{name} {sub}" not in _ANYTHING_SUB:
            return (program, sub)
        return ()
    if name in _SINGLE or not rest:
        return (program,)
    # What is not known may have sub-commands: the first word belongs to the rule, and before
    # options there is none.
    if _name(sub):
        return (program, sub)
    return ()


def _name(word: str) -> bool:
    return bool(_PLAIN.fullmatch(word)) and not word.startswith("-")
