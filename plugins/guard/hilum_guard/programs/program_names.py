"""Find a command's program and operands, using a table of programs that run other programs."""

from __future__ import annotations

import glob
import os
import shlex
import sys
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from hilum_guard.commands.shell_words import Word
from hilum_guard.programs.tables import read_table

SHELLS = frozenset("sh bash dash zsh ksh mksh ash fish rbash busybox-sh".split())

# GNU make under the names that systems give to it, and programs that read the same files.
MAKES = frozenset("make gmake gnumake mingw32-make bmake pmake remake colormake".split())
# The scripts of package managers that Node.js runs, with the names of their commands.
NODE_SCRIPTS = {
    "npm-cli.js": "npm",
    "npx-cli.js": "npx",
    "yarn.js": "yarn",
    "yarn.cjs": "yarn",
    "pnpm.cjs": "pnpm",
    "pnpm.mjs": "pnpm",
    "pnpx.cjs": "pnpx",
}


class Row(NamedTuple):
    """The columns for a program: how it runs another program.

    Attributes:
        valued: The program's short options that take a value.
        skipped: How many operands precede the command; `all` if the command is not the rest of the
            line.
        runs: The program's sub-commands that run the rest of the line.
        launches: Sub-commands that run the rest of the line after downloading a program or setting
            up an environment; `*` stands for the program without a sub-command.
    """

    valued: str = ""
    skipped: str = "0"
    runs: str = ""
    launches: str = ""


_ROWS = {name: Row(**columns) for name, columns in read_table("runners").items()}


def _parse_skipped(text: str) -> int:
    return sys.maxsize if text == "all" else int(text)


# Programs that run the rest of their line: their options with values, and the operands to skip.
PREFIXES = {
    name: (row.valued, _parse_skipped(row.skipped))
    for name, row in _ROWS.items()
    if not row.runs and not row.launches
}
RUNNERS = {name: tuple(row.runs.split()) for name, row in _ROWS.items() if row.runs}
# An empty sub-command stands for the program without a sub-command.
LAUNCHERS = {
    name: tuple(row.launches.replace("*", "").split(" "))
    for name, row in _ROWS.items()
    if row.launches
}
# The long options of these programs that take the next word as their value.
LONG_VALUES = frozenset(
    """--user --group --signal --kill-after --adjustment --unset --chdir --split-string --prompt
    --host --root --interval --setuid --setgid --target --unit --property --class --classdata
    --argv0 --with-requirements --with-editable --with --directory --project --package --extra
    --only-group --no-group --no-extra --python --env-file --index --default-index --index-url
    --extra-index-url --find-links --cache-dir --config-file --refresh-package --upgrade-package
    --reinstall-package --no-build-package --no-binary-package --exclude-newer --python-platform
    --prerelease --resolution --index-strategy --link-mode""".split()
)

# Options of programs such as `npx` that take no value.
_LAUNCHER_FLAGS = frozenset(
    "--yes --no --no-install --ignore-existing --prefer-offline --offline --frozen --locked --isolated".split()
)


def get_program_name(word: Word) -> str:
    """Return the name of the program that a word runs, in lower case."""
    value = word.value
    if word.glob and "/" in value:
        # `/bin/r?` runs the first file that matches.
        value = next(glob.iglob(value), value)
    # On a file system that ignores case, `RM` runs `rm`.
    name = os.path.basename(value.rstrip("/")).casefold()
    return name.removesuffix(".exe")


def find_word(words: Sequence[Word], values: Container[str], start: int = 0) -> int:
    """Return the position of the first word with one of the given values, or `len(words)`."""
    for at in range(start, len(words)):
        if words[at].value in values:
            return at
    return len(words)


def find_first_operand(words: tuple[Word, ...], valued: str, start: int = 1) -> int:
    """Return the position of the first word after the options.

    Args:
        words: The words of a command.
        valued: The short options that take a value.
        start: The position at which the options begin.
    """
    at = start
    while at < len(words):
        text = words[at].value
        if not text.startswith("-") or text == "-":
            break
        at += 1
        if text == "--":
            break
        if text.startswith("--"):
            at += text in LONG_VALUES
        else:
            at += _takes_next_word(text, valued)
    return at


def _takes_next_word(cluster: str, valued: str) -> bool:
    """Return whether the last option in a cluster takes the next word as its value."""
    for position, letter in enumerate(cluster[1:], 2):
        if letter in valued:
            return position == len(cluster)
    return False


def find_later_starts(words: tuple[Word, ...], valued: str, start: int) -> Iterator[int]:
    """Yield the other positions at which a command may begin, after unknown options with a value.

    Args:
        words: The words of the command that runs another command.
        valued: The short options of the command that take a value.
        start: The position at which the other command begins if no unknown option takes a value.
    """
    at = start
    while 1 < at < len(words):
        option = words[at - 1].value
        if option == "--" or not option.startswith("-") or "=" in option or option in LONG_VALUES:
            return
        if option in _LAUNCHER_FLAGS:
            return
        at = find_first_operand(words, valued, at + 1)
        if at < len(words):
            yield at


def quote_words(words: tuple[Word, ...]) -> str:
    """Return shell text that a shell splits into the given words; glob patterns stay active."""
    return " ".join(word.value if word.glob else shlex.quote(word.value) for word in words)
