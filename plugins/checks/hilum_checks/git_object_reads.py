"""Find commands that may read the files of Git's object database themselves."""

from __future__ import annotations

import re

from hilum_guard import FileAccess, search

from hilum_checks.call_facts import CallFacts
from hilum_checks.command_facts import CommandFacts
from hilum_checks.model import Paths

_OBJECTS = re.compile(r"(?:.*/)?\.git(?:/+objects(?:/.*)?|/*)", re.DOTALL)
# Code that opens Git's objects itself, or by a library.
_OF_OBJECTS = re.compile(
    r"\.git[/\\]+(?:objects|[a-z]*[*?\[])|['\"]\.git['\"]\s*[,/]\s*['\"]objects|\b(?:dulwich|pygit2)\b"
    r"|\bgit\.Repo\b|isomorphic-git|nodegit"
)
# Code that unpacks what it reads; Git stores its objects in this form.
_UNPACKS = re.compile(r"\b(?:zlib|Zlib|inflate\w*|decompress\w*|unpigz|pigz)\b")
_SEARCHES = re.compile(
    r"\b(?:walk|i?glob|rglob|iterdir|scandir|listdir|readdir\w*|find|stdin|argv|environ|open|Dir)\b"
)
_UNPACKERS = frozenset(
    "pigz unpigz zlib-flate openssl gzip gunzip zcat python python3 perl ruby node cp tar rsync".split()
)


def find_object_reader(constraint: Paths, facts: CallFacts) -> str:
    """Return the command that may read the files of Git's object database itself."""
    if "read" not in constraint.actions:
        return ""
    for command in facts.commands:
        accesses = [
            access
            for access in command.effects.files
            if access.kind == "read" and not access.stored and _OBJECTS.fullmatch(access.path)
        ]
        if not accesses and not _reads_objects(command, facts):
            continue
        everything = FileAccess("read", ".", deep="some", stored=True, cwds=command.cwds)
        if facts.matcher.match_stored(constraint, everything):
            return f"`{command.source[:80]}` may read what Git has stored of such a file"
    return ""


def _reads_objects(command: CommandFacts, facts: CallFacts) -> bool:
    """Return whether code, or a program that a `find` runs, may read Git's objects."""
    if any(_OF_OBJECTS.search(text) for text in (*command.texts, *command.loaded_texts)):
        return True
    texts = [*command.effects.code, *command.loaded_texts]
    if facts.runs_new_script(command):
        texts += command.texts
    # What the program reads, it may also receive from its input.
    if any(_UNPACKS.search(text) and _SEARCHES.search(text) for text in texts):
        return True
    if command.effects.program not in _UNPACKERS:
        return False
    for found in command.effects.found:
        findings = search(found.query)
        entries = () if findings is None else findings.entries
        if any("/.git/objects/" in entry.path for entry, _ in entries):
            return True
    return False
