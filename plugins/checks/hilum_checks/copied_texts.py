"""Find the texts that a command copies from other files to a file that it writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import attrs
from hilum import walk_folders
from hilum_guard import UNKNOWN, FileAccess, git_words, is_new_file, locate

from hilum_checks.code_texts import read_text
from hilum_checks.model import Paths

if TYPE_CHECKING:
    from hilum_checks.call_facts import CallFacts
    from hilum_checks.command_facts import CommandFacts

MAX_FILES = 500
"""Maximum number of files to read in a folder that is copied."""
MAX_MOVES = 5
"""Maximum number of moves of a folder in one call to follow back."""
# Programs that pass a text on as it is, and those that may leave out or change parts of it.
_PASSING = frozenset("cat dd head nl paste pv sort sponge tac tail tee".split())
_CHANGING = frozenset(
    "awk column cut expand fmt fold gawk grep join mawk perl pr sed unexpand uniq".split()
)
_SHOWING = frozenset(("show", "cat-file"))
_PATCHING = frozenset(("apply", "am"))
# Programs whose output no word of the command shows.
_CARRIERS = frozenset("7z 7za aria2c bsdtar cpio curl gtar pax tar unrar unzip wget".split())


class Copied(NamedTuple):
    """A text that is copied to a file.

    Attributes:
        text: The text.
        certain: Whether the text is certainly copied as it is.
    """

    text: str
    certain: bool = True


def find_copied(facts: CallFacts, paths: Paths, access: FileAccess) -> Iterator[Copied]:
    """Yield the texts that a call copies from other files to a file. Reads the disk.

    Args:
        facts: The call.
        paths: The files that a rule is about.
        access: The write of one of them, or of a folder with some of them.
    """
    if access.source:
        for text in _read_sources(facts, paths, access):
            yield Copied(text)
        return
    for command in facts.commands:
        if access in command.effects.files:
            yield from _read_passed(facts, paths, command)


def find_copied_by_search(facts: CallFacts, paths: Paths) -> Iterator[tuple[str, str]]:
    """Yield the texts of the files that `find` has copied to files of a rule, with their names."""
    for access, findings in facts.found_files:
        if access.kind != "write" or access.source != "{}":
            continue
        if facts.matcher.match_found(paths, access, findings)[0]:
            for entry, _ in islice(findings.entries, MAX_FILES):
                yield read_text(entry.path), entry.printed


def is_moved_within(facts: CallFacts, paths: Paths, access: FileAccess) -> bool:
    """Return whether a file that a rule is about only gets another name by a write."""
    return bool(access.source) and any(
        other.moved
        and other.path == access.source
        and not any(os.path.isdir(place) for place in _places(other))
        and facts.matcher.match(paths, attrs.evolve(other, kind="write", moved=False)) == "yes"
        for other in facts.accesses
    )


def find_carrier(facts: CallFacts, access: FileAccess) -> str:
    """Return the command that writes a text to a file which nobody knows; empty if none does."""
    for command in facts.commands:
        if access in command.effects.files and _carries_unknown(facts, command, access):
            return command.source
    return ""


def _carries_unknown(facts: CallFacts, command: CommandFacts, access: FileAccess) -> bool:
    script = command.effects.script
    if command.effects.program in _CARRIERS:
        return True
    # What a script prints is written to the file; code on the line is searched.
    if script is None or script.shell or access.path not in command.command.writes:
        return False
    path = os.path.join(command.cwd or "/", os.path.expanduser(script.path))
    return not os.path.exists(locate(path)) or is_new_file(path, facts.matcher.real_root)


def _read_sources(facts: CallFacts, paths: Paths, access: FileAccess) -> Iterator[str]:
    """Yield the texts of the files that are copied, moved or linked to a path."""
    if UNKNOWN in access.source:
        return
    folder = os.path.dirname(access.path)
    # The target of a symbolic link is relative to the folder of the link. If `ls` prints the names
    # of files, `/*` stands for what it would print of a folder.
    given = access.source
    for source in (given, given.removesuffix("/*"), os.path.join(folder, given)):
        for cwd in access.cwds:
            for path in facts.matcher.expand(_find_before_call(facts, source, cwd), cwd):
                yield read_text(path)
                path = locate(path)
                if os.path.isdir(path):
                    yield from _read_folder(facts, paths, access, path)


def _find_before_call(facts: CallFacts, source: str, cwd: str | None) -> str:
    """Return where a file is before a call that first moves or copies its folder."""
    path = os.path.normpath(os.path.join(cwd or "/", source))
    if os.path.lexists(path):
        return source
    for _ in range(MAX_MOVES):
        if os.path.lexists(path):
            return path
        earlier = next(_find_origins(facts, path), "")
        if not earlier:
            break
        path = earlier
    return source


def _find_origins(facts: CallFacts, path: str) -> Iterator[str]:
    """Yield where a path was before a move or copy of one of its folders."""
    for access in facts.accesses:
        if access.kind != "write" or not access.source or UNKNOWN in access.source:
            continue
        base = (access.cwds[0] if access.cwds else None) or "/"
        for place in _places(access):
            if path.startswith(f"{place}/"):
                yield os.path.normpath(os.path.join(base, access.source) + path[len(place) :])


def _read_folder(facts: CallFacts, paths: Paths, access: FileAccess, folder: str) -> Iterator[str]:
    """Yield the texts of the files in a folder that are copied to files of the rule."""
    files = (os.path.join(base, name) for base, _, names in walk_folders(folder) for name in names)
    for file in islice(files, MAX_FILES):
        target = os.path.join(access.path, os.path.relpath(file, folder))
        if facts.matcher.match(paths, attrs.evolve(access, path=target, deep="", source="")):
            yield read_text(file)


def _read_passed(facts: CallFacts, paths: Paths, command: CommandFacts) -> Iterator[Copied]:
    """Yield the texts that a command reads from files, itself or through a pipe."""
    step: CommandFacts | None = command
    certain = True
    while step is not None:
        words = git_words(step.words) if step.effects.program == "git" else step.words
        if step.effects.program == "patch" or _is_git(words, _PATCHING):
            yield from _read_patches(step)
            return
        is_plain = step.effects.program in _PASSING or _is_git(words, _SHOWING)
        if not is_plain and step.effects.program not in _CHANGING:
            return
        certain = certain and is_plain
        read = [access for access in step.effects.files if access.kind == "read"]
        joined = []
        for access in read:
            # A changed copy of a file that the rule is about is a new version of it.
            if certain or not facts.matcher.match(paths, attrs.evolve(access, kind="write")):
                for place in _places(access):
                    joined.append(read_text(place))
                    yield Copied(joined[-1], certain)
        if len(joined) > 1:
            # `cat a b` joins the last line of one file with the first line of the next.
            yield Copied("".join(joined), certain)
        if read or step.command.stdin is not None:
            return
        step = step.previous


def read_inputs(command: CommandFacts) -> Iterator[str]:
    """Yield the texts of the files that a command reads, in their order."""
    for access in dict.fromkeys(command.effects.files):
        if access.kind == "read" and access.certain:
            for place in _places(access):
                yield read_text(place)


def _is_git(words: tuple[str, ...], verbs: frozenset[str]) -> bool:
    return words[:1] == ("git",) and not verbs.isdisjoint(words[1:2])


def _read_patches(command: CommandFacts) -> Iterator[Copied]:
    """Yield the lines that patches add."""
    for word in (*command.words[1:], *command.command.reads):
        text = read_text(os.path.join(command.cwd or "/", word.removeprefix("-i")))
        yield Copied("\n".join(re.findall(r"^\+(?!\+\+)(.*)", text, re.MULTILINE)))


def _places(access: FileAccess) -> Iterator[str]:
    """Yield the absolute paths that an access may refer to."""
    if UNKNOWN not in access.path:
        for cwd in access.cwds:
            yield os.path.normpath(os.path.join(cwd or "/", os.path.expanduser(access.path)))
