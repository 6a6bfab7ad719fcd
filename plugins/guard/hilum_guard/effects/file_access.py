"""Data classes for the effects of a command: file accesses, hosts, and the code that it runs."""

from __future__ import annotations

from typing import Literal

import attrs

UNKNOWN = "…"
"""Replaces each part of a word that is known only when the command runs."""

CHANGED = f"{UNKNOWN}\U000f1003"
"""Replaces the path of a file that Git lists as changed: `$(git diff --name-only)`."""

AccessKind = Literal["read", "write", "delete", "link", "any"]
Depth = Literal["", "some", "all"]
Unknown = Literal["", "reads", "all"]
CodeOrigin = Literal["", "words", "input"]


@attrs.frozen
class FileAccess:
    """An access to a path by a command.

    Attributes:
        kind: What the command does. `write` creates or changes the file, `link` gives the file
            another name, and `any` means that a program receives the path and may do anything with
            it.
        path: The path as written, relative to the working folder. The path may contain patterns and
            ``UNKNOWN``.
        deep: Whether the access extends to files below the path: to ``some`` or ``all`` of them.
        certain: Whether the access certainly happens.
        stored: Whether the contents come from a Git object database, in which no sandbox can hide a
            path.
        compared: The two revisions between which the accessed files differ, of which an empty one is
            the index; empty if all files are accessed.
        left_out: Absolute patterns of paths below the path that the command leaves out; as in Git's
            pathspecs, `*` also matches slashes.
        endings: The endings of the files below the path that the command accesses; empty if it
            accesses all of them.
        existing: Whether the command changes the file only if it exists.
        generated: Whether a program generates the content, so that the content is not part of the
            call.
        if_folder: Whether the access happens only if an earlier command makes the target a folder.
        moved: Whether the path is deleted because it is moved elsewhere, or leaves only Git's index.
        source: The file or folder whose contents are copied to the path; empty if unknown.
        cwds: The folders that the command may run in; None for an unknown folder.
    """

    kind: AccessKind
    path: str
    deep: Depth = ""
    certain: bool = True
    stored: bool = False
    compared: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    existing: bool = False
    generated: bool = False
    if_folder: bool = False
    moved: bool = False
    source: str = ""
    cwds: tuple[str | None, ...] = (None,)


@attrs.frozen
class FindQuery:
    """A query for the files that a `find` action reaches, which depend on the disk.

    Attributes:
        words: The words of `find`.
        at: The position of the action; 0 for everything that `find` prints, -1 for a part of it.
        cwd: The folder that `find` runs in.
    """

    words: tuple[str, ...]
    at: int
    cwd: str | None


@attrs.frozen
class UntrackedQuery:
    """A query for the untracked files below some paths.

    Attributes:
        paths: Files and folders.
        cwd: The folder that the paths are relative to.
        certain: Whether all untracked files are affected; otherwise, some may be kept, such as
            ignored files.
    """

    paths: tuple[str, ...]
    cwd: str | None
    certain: bool


@attrs.frozen
class FoundFiles:
    """A command's accesses to the files that a search finds.

    Attributes:
        query: The search, which ``file_search.search`` runs.
        files: The accesses; `{}` in a path stands for each file that is found.
        otherwise: Further accesses that are assumed if the search has no result.
    """

    query: FindQuery | UntrackedQuery
    files: tuple[FileAccess, ...]
    otherwise: tuple[FileAccess, ...] = ()


@attrs.frozen
class Script:
    """A file that a program runs.

    Attributes:
        path: The path as written.
        position: The position of the path in the program's words; for standard input, the position
            after the last word.
        shell: Whether a shell runs the file.
    """

    path: str
    position: int
    shell: bool


@attrs.frozen
class CommandEffects:
    """The effects of one simple command, as far as they are apparent from its words.

    Attributes:
        program: The program's name in lower case; empty if there are only redirections.
        files: The command's accesses to files.
        found: The command's accesses to files that a search finds.
        hosts: The hosts that the command contacts by name, in lower case.
        network: Whether the command certainly uses the network.
        code: Text that the command may run as code in a language that the guard does not parse.
        script: The file that the command runs.
        code_origin: If the program is an interpreter that does not run a file, the origin of its
            code: its words or its standard input.
        unknown: What else the command may do: read any file, or do anything at all.
    """

    program: str = ""
    files: tuple[FileAccess, ...] = ()
    found: tuple[FoundFiles, ...] = ()
    hosts: tuple[str, ...] = ()
    network: bool = False
    code: tuple[str, ...] = ()
    script: Script | None = None
    code_origin: CodeOrigin = ""
    unknown: Unknown = ""
