"""Convert the patterns of other agents to the patterns of hilum's rules."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

MAX_VARIANTS = 16
"""Maximum number of patterns that one pattern of another agent becomes."""
_SEPARATORS = re.compile(r"\s*(?:&&|\|\||\||;|&|\n)\s*")
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
    text = re.sub(r":\*$", "", text.strip()).replace("\\", "/")
    # Some people write `** / secrets / **`, which can only mean the path without the spaces.
    text = re.sub(r"(?<=[*/]) +(?=[*/])", "", text)
    text = re.sub(r"^\$(HOME|\{HOME\})(?=/)", "~", text)
    if text.startswith("~/"):
        yield from _relocate(f"{home}/{text[2:]}", workspace)
    elif text.startswith("//"):
        yield from _relocate("/" + text.lstrip("/"), workspace)
    elif text.startswith("/"):
        yield from _relocate(f"{base}{text}", workspace)
        if not text.startswith("/**"):
            yield from _relocate(text, workspace)
    elif text.startswith(("./", "../")) or ("/" in text.rstrip("/") and not text.startswith("**/")):
        yield from _relocate(f"{base}/{text}", workspace)
    else:
        # The leading `**/` means any depth, as a name without a slash does.
        rest = re.sub(r"^(\*\*/)+", "", text)
        yield rest if "/" not in rest.rstrip("/") else f"**/{rest}"


def _relocate(path: str, workspace: Path) -> Iterator[str]:
    """Yield the patterns for an absolute path with wildcards, as hilum sees paths."""
    # Wildcards follow the literal part, which may contain `..`.
    literal = re.split(r"(?=[^/]*[*?\[])", path, maxsplit=1)
    known = os.path.normpath(literal[0])
    rest = literal[1] if len(literal) > 1 else ""
    ending = "/" if path.endswith("/") and not rest else ""
    whole = f"{known.rstrip('/')}/{rest}" if rest else known + ending
    root = str(workspace)
    if known == root or known.startswith(f"{root}/"):
        relative = whole.removeprefix(root).lstrip("/")
        yield f"/{relative}" if relative else "/**"
        return
    yield f"/{whole}"
    # A pattern for a folder above the workspace may match paths in it.
    is_above = root.startswith(f"{known.rstrip('/')}/")
    if is_above and rest.startswith("**/"):
        yield rest
    elif is_above and rest in ("", "*", "**"):
        yield "/**"
