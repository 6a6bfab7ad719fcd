"""The commands in scripts of the workspace that a command runs: shell scripts, recipes of `make`
and `just`, scripts of npm.

They are read so that a rule that denies a command also finds it there. A script in another
language, one that is too large, or one that cannot be parsed is a program like any other: only the
sandbox holds it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import attrs

from hilum_guard.grammar import Unreadable
from hilum_guard.programs import SHELLS, operands_at, program
from hilum_guard.words import UNKNOWN

if TYPE_CHECKING:
    from hilum_guard.places import Places
    from hilum_guard.simple import Simple

MAX_BYTES = 60_000
MAX_SCRIPTS = 12
MAX_DEPTH = 3
MAX_FOUND = 400
_SHEBANG = re.compile(rf"#!\s*\S*/(?:env\s+(?:-S\s+)?)?(?:{'|'.join(sorted(SHELLS))})\b")
_NPM = frozenset("npm pnpm yarn bun cnpm tnpm".split())
_NPM_RUN = frozenset("run run-script rum urn".split())
_NPM_SHORT = {"t": "test", "tst": "test"}
# Sub-commands of npm that run scripts of the project by their own name.
_NPM_LIFE = {
    "test": ("test",),
    "start": ("start",),
    "stop": ("stop",),
    "restart": ("restart", "stop", "start"),
    "install": ("preinstall", "install", "postinstall", "prepare"),
    "ci": ("preinstall", "install", "postinstall", "prepare"),
    "publish": ("prepublishOnly", "prepack", "prepare", "publish", "postpublish"),
    "pack": ("prepack", "prepare", "postpack"),
    "version": ("preversion", "version", "postversion"),
}
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_JUSTFILES = ("justfile", "Justfile", ".justfile")
_RULE = re.compile(r"([^\t#=:\n][^=:\n]*?)\s*::?(?!=)\s*([^=\n]*)")
_JUST_RULE = re.compile(r"@?([A-Za-z_][\w-]*)((?:\s+[^:\n]*)?):(?!=)\s*(.*)")
_VARIABLE = re.compile(r"(?:export\s+|override\s+)*([\w.-]+)\s*(?::{0,3}|\?|\+)=\s*(.*)")


class Scripts(NamedTuple):
    """What reading scripts gave.

    Attributes:
        found: The commands in them.
        unresolved: Commands of which only the run would tell what they run, each with the reason.
    """

    found: tuple[Simple, ...] = ()
    unresolved: tuple[tuple[Simple, str], ...] = ()


class _Text(NamedTuple):
    """A text for a shell, and the folder it runs in."""

    text: str
    folder: str


def script_commands(commands: Iterable[Simple], places: Places) -> Scripts:
    """Return the commands in the scripts that commands run. Looks at the disk.

    Args:
        commands: The commands of a command line.
        places: The workspace.
    """
    waiting = [(simple, 1) for simple in commands]
    found: list[Simple] = []
    unresolved: list[tuple[Simple, str]] = []
    seen: set[_Text] = set()
    while waiting and len(seen) < MAX_SCRIPTS and len(found) < MAX_FOUND:
        simple, depth = waiting.pop(0)
        for text in _texts(simple, places):
            if text in seen or len(seen) >= MAX_SCRIPTS:
                continue
            seen.add(text)
            inner, doubts = _read(text, places)
            found += inner
            unresolved += doubts
            if depth < MAX_DEPTH:
                waiting += [(each, depth + 1) for each in inner]
    return Scripts(tuple(found[:MAX_FOUND]), tuple(unresolved))


def _read(text: _Text, places: Places) -> tuple[list[Simple], list[tuple[Simple, str]]]:
    from hilum_guard.reading import Reader

    reader = Reader(places, text.folder)
    with suppress(Unreadable, RecursionError, ValueError):
        reader.read(text.text)
    return [attrs.evolve(simple, implied=True) for simple in reader.found], reader.unresolved


def _texts(simple: Simple, places: Places) -> Iterator[_Text]:
    if not simple.words or not simple.words[0].known or simple.places.contained:
        return
    name = program(simple.words[0])
    for cwd in simple.cwds:
        if cwd is None:
            continue
        if name in SHELLS or name in (".", "source"):
            at = operands_at(simple.words, "oO") if name in SHELLS else 1
            if at < len(simple.words) and not any(
                re.fullmatch(r"-\w*c\w*", x.value) for x in simple.words[1:at]
            ):
                yield from _script_file(os.path.join(cwd, simple.words[at].value), cwd)
        elif "/" in simple.words[0].value:
            yield from _script_file(
                os.path.join(cwd, os.path.expanduser(simple.words[0].value)), cwd
            )
        elif name in _NPM:
            yield from _npm(simple, cwd)
        elif name in ("make", "gmake", "just"):
            yield from _recipes(simple, cwd, just=name == "just")


def _load(path: str) -> str | None:
    """Return the text of a small regular file; None for anything else.

    A pipe or a device is never waited for.
    """
    if UNKNOWN in path or "\0" in path:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return None
        return os.read(descriptor, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(descriptor)


def _script_file(path: str, cwd: str) -> Iterator[_Text]:
    if path.startswith(("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/", "/lib/")):
        return
    text = _load(path)
    if text is None:
        return
    # Shells run a text that names no interpreter as a script of their own.
    if _SHEBANG.match(text) or not text.startswith("#!"):
        yield _Text(text, cwd)


def _npm(simple: Simple, cwd: str) -> Iterator[_Text]:
    words = [word.value for word in simple.words[1:]]
    folder = cwd
    plain: list[str] = []
    skip = False
    for number, word in enumerate(words):
        if skip:
            skip = False
        elif word in ("--prefix", "-C", "--dir", "--cwd", "-w", "--workspace", "--filter", "-F"):
            following = words[number + 1] if number + 1 < len(words) else ""
            skip = True
            if word in ("--prefix", "-C", "--dir", "--cwd"):
                folder = os.path.join(folder, following)
            else:
                folder = folder
        elif word.startswith(("--prefix=", "--dir=", "--cwd=")):
            folder = os.path.join(folder, word.partition("=")[2])
        elif not word.startswith("-"):
            plain.append(word)
    if not plain:
        return
    verb, *rest = plain
    if verb in _NPM_RUN:
        names = tuple(rest[:1])
    else:
        verb = _NPM_SHORT.get(verb, verb)
        names = _NPM_LIFE.get(verb, (verb,))
    while True:
        text = _load(os.path.join(folder, "package.json"))
        if text is not None or os.path.dirname(folder) == folder:
            break
        folder = os.path.dirname(folder)
    try:
        data = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return
    scripts = data.get("scripts") if isinstance(data, dict) else None
    if not isinstance(scripts, dict):
        return
    arguments = " ".join(rest[1:])
    for name in names:
        for each in (f"pre{name}", name, f"post{name}"):
            if isinstance(scripts.get(each), str):
                yield _Text(
                    f"{scripts[each]} {arguments}" if each == name and arguments else scripts[each],
                    folder,
                )


def _recipes(simple: Simple, cwd: str, *, just: bool) -> Iterator[_Text]:
    """Yield the recipes of the goals of `make` or `just`, and of what these depend on."""
    folder = cwd
    path = ""
    goals: list[str] = []
    assigned: dict[str, str] = {}
    words = [word.value for word in simple.words[1:]]
    skip = False
    for number, word in enumerate(words):
        following = words[number + 1] if number + 1 < len(words) else ""
        if skip:
            skip = False
        elif word in ("-C", "--directory", "-d", "--working-directory"):
            folder = os.path.join(folder, following)
            skip = not (word == "-d" and not just)
        elif word in ("-f", "--file", "--makefile", "--justfile"):
            path = following
            skip = True
        elif word.startswith("-f") and not just:
            path = word[2:]
        elif word.startswith("-"):
            name, _, value = word.partition("=")
            path = value if name in ("--file", "--makefile", "--justfile") else path
            if name in ("--directory", "--working-directory"):
                folder = os.path.join(folder, value)
            else:
                folder = folder
        elif re.match(r"[\w.]+(:|\?|\+)?=", word):
            assigned[re.split(r"[:?+]?=", word)[0]] = word.partition("=")[2]
        else:
            goals.append(word)
    names = (path,) if path else _JUSTFILES if just else _MAKEFILES
    if path in ("-", "/dev/stdin"):
        text = simple.stdin
    else:
        text = next(
            (found for name in names if (found := _load(os.path.join(folder, name))) is not None),
            None,
        )
    if text is None:
        return
    rules, variables = _parse(text.replace("\\\n", " "), just=just)
    variables |= assigned
    first = next((name for name in rules if just or not name.startswith(".")), "")
    waiting = goals or [first]
    done: set[str] = set()
    while waiting:
        goal = waiting.pop(0)
        if goal in done:
            continue
        done.add(goal)
        for name, (needs, lines) in rules.items():
            if name == goal or (
                "%" in name and re.fullmatch(re.escape(name).replace("%", ".*"), goal)
            ):
                waiting += needs
                recipe = "\n".join(_expanded(line, variables, just=just) for line in lines)
                if recipe:
                    yield _Text(recipe, folder)


def _parse(
    text: str, *, just: bool
) -> tuple[dict[str, tuple[list[str], list[str]]], dict[str, str]]:
    """Return what the goals of a file depend on with their recipes, and its variables."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    variables: dict[str, str] = {}
    current: list[tuple[list[str], list[str]]] = []
    for line in text.split("\n"):
        if line.startswith(("\t", " ")) and current and (just or line.startswith("\t")):
            for _, lines in current:
                lines.append(line.strip().lstrip("@-+"))
            continue
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        variable = _VARIABLE.fullmatch(line.strip())
        if variable:
            variables[variable[1]] = variable[2].strip("\"'") if just else variable[2]
            continue
        current = []
        match = (_JUST_RULE if just else _RULE).match(line)
        if match is None:
            continue
        goals = [match[1]] if just else match[1].split()
        needs, _, same_line = (match[3] if just else line[match.end(1) :].lstrip(" \t:")).partition(
            ";"
        )
        for goal in goals:
            entry = rules.setdefault(goal, ([], []))
            entry[0].extend(re.findall(r"[\w./%-]+", needs))
            if same_line.strip() and not just:
                entry[1].append(same_line.strip().lstrip("@-+"))
            current.append(entry)
    return rules, variables


def _expanded(text: str, variables: dict[str, str], *, just: bool) -> str:
    """Replace the variables of `make` or `just` in a recipe.

    One that is not known becomes a word that is not known.
    """
    if just:
        pattern = r"\{\{\s*([\w-]+)[^}]*\}\}"
    else:
        pattern = r"\$[({]([\w.-]+)[)}]|\$([@<^?*+%|])|\$[({][^(){}]*[)}]"
    for _ in range(5):
        changed = re.sub(
            pattern, lambda match: variables.get(match[1] or "", "${HILUM_UNKNOWN_TEXT}"), text
        )
        if changed == text:
            break
        # What stands for something that is not known must not be replaced again.
        text = changed
        if "${HILUM_UNKNOWN_TEXT}" in text:
            text = text.replace("${HILUM_UNKNOWN_TEXT}", "\0")
    return text.replace("\0", "${HILUM_UNKNOWN_TEXT}").replace("$$", "$")
