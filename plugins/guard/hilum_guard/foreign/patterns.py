"""Convert the patterns of other agents to the patterns of hilum's rules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from hilum_guard.programs.npm_commands import complete_npm_command
from hilum_guard.rules.patterns import escape_path

MAX_VARIANTS = 16
"""Maximum number of patterns that one pattern of another agent becomes."""
_SEPARATORS = re.compile(r"\s*(?:&&|\|\||\||;|&|\n)\s*")
_WILDCARD = re.compile(r"[*?\[]")
# Beginnings of commands that mean the same.
_SAME_COMMANDS = (
    ("npx", "npm exec"),
    ("bunx", "bun x"),
    ("uvx", "uv tool run"),
    ("pnpx", "pnpm dlx"),
    ("pip install", "pip3 install", "uv pip install"),
    ("pip uninstall", "pip3 uninstall", "uv pip uninstall"),
    ("pnpm install", "pnpm i"),
    ("pnpm remove", "pnpm rm", "pnpm uninstall", "pnpm un"),
    ("bun install", "bun i"),
    ("bun add", "bun a"),
    ("bun remove", "bun rm"),
    ("docker-compose", "docker compose"),
    ("docker rmi", "docker image rm"),
    *((f"docker {verb}", f"docker container {verb}") for verb in "rm run exec stop kill".split()),
    ("apt", "apt-get"),
    ("node", "nodejs"),
    ("kubectl delete namespace", "kubectl delete namespaces", "kubectl delete ns"),
    *((f"cargo {verb}", f"cargo {verb[0]}") for verb in "build check doc run test".split()),
)
_SAME_PROGRAMS = frozenset(each.split()[0] for same in _SAME_COMMANDS for each in same)
# No build or test run works without these files and folders, so the sandbox does not hide or protect
# them. Rules about them still hold for tools, and for commands that name them.
_USED_BY_PROGRAMS = frozenset(
    """node_modules bower_components .git .svn .hg
    package-lock.json npm-shrinkwrap.json pnpm-lock.yaml yarn.lock bun.lock bun.lockb cargo.lock
    poetry.lock pdm.lock pipfile.lock uv.lock go.sum composer.lock gemfile.lock *.lock""".split()
)


def is_used_by_programs(pattern: str) -> bool:
    """Return whether programs need the files that a pattern for paths matches."""
    parts = [part.casefold() for part in pattern.strip("/").split("/")]
    named = [part for part in parts if part not in ("**", "*", "", ".")]
    return not named or any(part in _USED_BY_PROGRAMS for part in named)


# --- commands -------------------------------------------------------------------------------------


def split_command(text: str) -> list[str]:
    """Return the simple commands of a pattern such as ``curl * | sh``."""
    return [part for part in _SEPARATORS.split(text.strip()) if part]


def convert_command(text: str) -> Iterator[str]:
    """Yield the patterns of hilum that match the commands of a pattern with ``*`` and ``:*``.

    In other agents, ``*`` also matches the spaces between words. In hilum, it matches any text
    within a word, or any number of words if it is alone.

    Args:
        text: A pattern for one simple command.
    """
    text = re.sub(r":\*$", " *", text.strip())
    # Brackets are wildcards in hilum only.
    text = text.replace("[", "[[]")
    variants: list[list[str]] = [[]]
    words = text.split()
    for number, word in enumerate(words):
        choices = _expand_word(word, is_last=number == len(words) - 1)
        variants = [[*known, *choice] for known in variants for choice in choices][:MAX_VARIANTS]
    for variant in variants:
        # Two stars in a row match no more than one.
        pairs = zip(variant, ["", *variant], strict=False)
        yield " ".join(word for word, before in pairs if (word, before) != ("*", "*"))


def widen_command(text: str, home: Path) -> Iterator[str]:
    """Yield the texts that a pattern that denies can also mean.

    Args:
        text: A pattern for one simple command, in the notation of another agent.
        home: The user's home folder, to which hilum expands ``~``.
    """
    yield text
    yield from _list_same(text)
    if re.fullmatch(r"(npm|pnpm|yarn|bun) (run )?\S+:\*", text.strip()):
        # `npm run deploy:*` may mean the script `deploy:production`.
        yield text.strip() + " *"
    words = text.split()
    expanded = [re.sub(r"^(~|\$HOME|\$\{HOME\})(?=/|\*|$)", str(home), word) for word in words]
    if expanded != words:
        yield " ".join(expanded)
    # A long option may also follow other words: `git push origin --force`.
    for number, word in enumerate(words[1:], 1):
        if word.startswith("--") and len(word) > 2 and words[number - 1] != "*":
            yield " ".join([*words[:number], "*", *words[number:]])
            return


def _list_same(text: str) -> Iterator[str]:
    """Yield the patterns for commands that mean the same as those of a pattern."""
    words = text.split()
    verb = re.sub(r":?\*$", "", words[1]) if len(words) > 1 else ""
    if words and words[0] == "npm" and verb and complete_npm_command(verb) != verb:
        # The guard reads `npm i` as `npm install`.
        rest = " ".join(words[1:]).removeprefix(verb)
        yield f"npm {complete_npm_command(verb)}{rest}"
    # Most rules are about other programs.
    program = re.match(r"[\w-]*", text.strip())
    if program is None or program[0] not in _SAME_PROGRAMS:
        return
    for same in _SAME_COMMANDS:
        for beginning in same:
            if re.match(rf"{re.escape(beginning)}(?=[\s:*]|$)", text.strip()):
                rest = text.strip().removeprefix(beginning)
                yield from (each + rest for each in same if each != beginning)


def _expand_word(word: str, *, is_last: bool) -> list[list[str]]:
    """Return the sequences of words that a word with stars can stand for."""
    if "*" not in word or not word.strip("*"):
        return [["*"]] if "*" in word else [[word]]
    before = ["*"] if word.startswith("*") else []
    after = ["*"] if word.endswith("*") and not is_last else []
    choices = [[*before, word, *after]]
    first, star, last = word.strip("*").partition("*")
    if star:  # the star in the middle may also match several words
        head = f"*{first}*" if before else f"{first}*"
        tail = f"*{last}*" if word.endswith("*") else f"*{last}"
        choices.append([*before, head, "*", tail, *after])
    return choices


# --- paths ----------------------------------------------------------------------------------------


def is_ambiguous_path(pattern: str) -> bool:
    """Return whether agents disagree about what a pattern for paths means.

    Such a pattern contains a backslash, which may escape a character or separate folders, or
    brackets or braces, which may be wildcards or a part of a name.
    """
    if re.search(r"\\(?![*?\[\]{}!# \\])", pattern) or len(_read_backslashes(pattern)) > 1:
        return True
    return re.search(r"[\[\]{}]", _drop_escaped(pattern)) is not None


def convert_path(text: str, base: Path, workspace: Path, home: Path) -> Iterator[str]:
    """Yield the patterns of hilum that match the paths of a pattern of another agent.

    A pattern that begins with one slash is relative to the project in some agents and absolute in
    others, so both are matched.

    Args:
        text: The pattern, as in ``.gitignore``, with ``//``, ``~/`` and ``./``.
        base: The folder that the pattern is relative to.
        workspace: Root of the workspace.
        home: The user's home folder.
    """
    stripped = re.sub(r":\*$", "", text.strip())
    # A space at the end counts after a backslash.
    if text.rstrip() != text and _ends_with_backslash(stripped):
        stripped += " "
    for reading in _read_backslashes(stripped):
        yield from _convert_reading(reading, base, workspace, home)


def _read_backslashes(pattern: str) -> list[str]:
    """Return what a pattern with backslashes can mean, without those that separate folders."""
    # As in `.gitignore`, a backslash escapes a character that has another meaning.
    escaping = re.sub(r"\\(?![*?\[\]{}!# \\])", "/", re.sub(r"\\\\", "/", pattern))
    separating = pattern.replace("\\", "/")
    if separating == escaping:
        return [escaping]
    # In a path of Windows such as `src\[id]\x.ts`, it may precede such a character, too.
    has_both = "/" in pattern and not re.search(r"\\[*?]", pattern)
    is_odd = re.search(r"/ |\[[^\]]*/|^/|//", separating) is not None
    return [escaping] if has_both or is_odd else [escaping, separating]


def _drop_escaped(pattern: str) -> str:
    """Return a pattern without its escaped characters."""
    return re.sub(r"\\.", "", pattern)


def _ends_with_backslash(pattern: str) -> bool:
    """Return whether a pattern ends with a backslash that escapes what follows it."""
    return (len(pattern) - len(pattern.rstrip("\\"))) % 2 == 1


def _convert_reading(text: str, base: Path, workspace: Path, home: Path) -> Iterator[str]:
    # Some people write `** / secrets / **`, which can only mean the path without the spaces.
    text = re.sub(r"(?<=[*/]) +(?=[*/])", "", text)
    text = re.sub(r"^\$(HOME|\{HOME\})(?=/)", "~", text)
    if text.startswith("~/"):
        yield from _relocate(str(home), text[2:], workspace)
    elif text.startswith("//"):
        yield from _relocate("/", text.lstrip("/"), workspace)
    elif text.startswith("/"):
        yield from _relocate(str(base), text[1:], workspace)
        if not text.startswith("/**"):
            yield from _relocate("/", text[1:], workspace)
    elif text.startswith(("./", "../")) or ("/" in text.rstrip("/") and not text.startswith("**/")):
        yield from _relocate(str(base), text, workspace)
    else:
        # The leading `**/` means any depth, as a name without a slash does.
        rest = re.sub(r"^(\*\*/)+", "", text)
        yield rest if "/" not in rest.rstrip("/") else f"**/{rest}"


def _relocate(folder: str, pattern: str, workspace: Path) -> Iterator[str]:
    """Yield the patterns for paths in a folder, as hilum sees paths.

    Args:
        folder: The folder, absolute.
        pattern: A pattern for paths in it, which may begin with `..`.
        workspace: Root of the workspace.
    """
    # Wildcards follow the literal part, which may contain `..`.
    parts = pattern.split("/")
    literal = list(takewhile(lambda part: not _WILDCARD.search(_drop_escaped(part)), parts))
    rest = "/".join(parts[len(literal) :])
    plain = re.sub(r"\\(.)", r"\1", "/".join(literal))
    known = os.path.normpath(f"{folder}/{plain}").replace("//", "/")
    root = str(workspace)
    ending = "/" if pattern.endswith("/") and not rest else ""
    if known == root or known.startswith(f"{root}/"):
        inner = escape_path(known.removeprefix(root).lstrip("/"))
        relative = f"{inner}/{rest}".lstrip("/") if rest else inner + ending
        yield f"/{relative}" if relative.strip("/") else "/**"
        return
    outer = escape_path(known)
    yield f"/{outer.rstrip('/')}/{rest}" if rest else f"/{outer}{ending}"
    # A pattern for a folder above the workspace may match paths in it.
    is_above = root.startswith(f"{known.rstrip('/')}/")
    if is_above and rest.startswith("**/"):
        yield rest
    elif is_above and rest in ("", "*", "**"):
        yield "/**"
