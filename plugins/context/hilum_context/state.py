"""What a face knows of the user's workspace: one typed value, read strictly from JSON or plain
data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

LARGEST = 64_000_000
"""Bytes of a file with a state."""

Line = Annotated[int, msgspec.Meta(ge=1, description="Counts from 1.")]
Name = Annotated[
    str, msgspec.Meta(min_length=1, description="Relative to the workspace, or absolute.")
]


class Part(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base of the parts of a state."""


class OpenFile(Part, frozen=True):
    """A file that is open in the editor.

    Args:
        path: The file, relative to the workspace or absolute.
        text: Its text in the editor, where that is not saved; without it the file is read.
    """

    path: Name
    text: str | None = None


class Cursor(Part, frozen=True):
    """Where the cursor is.

    Args:
        line: Line, from 1.
        column: Column, from 1.
        path: The file; without it the active one.
    """

    line: Line
    column: Line = 1
    path: str = ""


class Selection(Part, frozen=True):
    """What is selected in the file that the cursor is in.

    Args:
        start_line: First line, from 1.
        end_line: Last line.
        start_column: Column of the first line at which it begins.
        end_column: Column of the last line at which it ends; 0 for the line's end.
    """

    start_line: Line
    end_line: Line
    start_column: Line = 1
    end_column: Annotated[int, msgspec.Meta(ge=0)] = 0


class Diagnostic(Part, frozen=True):
    """What a linter, a compiler or a language server says of a line.

    Args:
        path: The file, relative to the workspace or absolute.
        message: What it says.
        line: Line, from 1; 0 for the whole file.
        column: Column, from 1; 0 for none.
        severity: How bad it is; errors and warnings are sent.
        code: The tool's name for this kind of thing.
        source: The tool.
    """

    path: Name
    message: str
    line: Annotated[int, msgspec.Meta(ge=0)] = 0
    column: Annotated[int, msgspec.Meta(ge=0)] = 0
    severity: Literal["error", "warning", "info", "hint"] = "error"
    code: str | int = ""
    source: str = ""


class RecentEdit(Part, frozen=True):
    """A file that was edited.

    Args:
        path: The file, relative to the workspace or absolute.
        at: When, as Unix time in seconds; without it, the order in the list is from new to old.
    """

    path: Name
    at: float = 0.0


class WorkspaceState(Part, frozen=True):
    """What a face knows. ``dict(state)`` gives it as the plain data that ``Session.prompt`` takes.

    Args:
        open_files: Files that are open, the most important ones first; three are sent.
        active_file: The file that the user looks at; it comes first, whether it stands in
            ``open_files`` or not.
        cursor: Where the cursor is.
        selection: What is selected there.
        diagnostics: What linters say; without it hilum asks the project's own.
        terminal_output: What the user's terminal shows, or the end of it; without it what hilum's
            commands have printed.
        recent_edits: Files edited last; without it they are found by hilum's journal, Git and times
            of change.
    """

    open_files: tuple[OpenFile, ...] = ()
    active_file: str = ""
    cursor: Cursor | None = None
    selection: Selection | None = None
    diagnostics: tuple[Diagnostic, ...] | None = None
    terminal_output: str | None = None
    recent_edits: tuple[RecentEdit, ...] | None = None

    def keys(self) -> Iterator[str]:
        """Return the names of what is said."""
        defaults = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        return (name for name, default in defaults if getattr(self, name) != default)

    def __getitem__(self, name: str) -> Any:
        value = msgspec.to_builtins(getattr(self, name))
        return list(value) if isinstance(value, tuple) else value


def read_state(data: bytes, name: str) -> WorkspaceState:
    """Read a state from JSON.

    Args:
        data: The JSON.
        name: Where it is from, to tell.

    Raises:
        UsageError: It is no JSON, or not a state: the message names the place, what stands there
            and what is expected.
    """
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=WorkspaceState)
    except msgspec.ValidationError as error:
        raise _wrong(error, name) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = "Write UTF-8 JSON with one object."
        raise UsageError(
            f"{name} is no JSON: {_place(str(error), data)}.", code=E_BAD_ARGS, hint=hint
        ) from None


def load_state(path: str) -> WorkspaceState:
    """Read a state from a file. Blocks.

    Raises:
        UsageError: The file cannot be read, or is not a state.
    """
    if path == "-":
        hint = (
            "Standard input is the prompt's. Name a file; a shell can make one: --state <(command)."
        )
        raise UsageError(
            "The state cannot be read from standard input.", code=E_BAD_ARGS, hint=hint
        )
    try:
        with Path(path).expanduser().open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"The state {path} cannot be read: {reason}.", code=E_BAD_ARGS, hint="Name a file."
        ) from None
    if len(data) > LARGEST:
        hint = "Leave out the text of files that are saved, and old output of the terminal."
        raise UsageError(
            f"The state {path} has more than {LARGEST:,} bytes.", code=E_BAD_ARGS, hint=hint
        )
    return read_state(data, path)


def to_state(data: object, name: str = "The state") -> WorkspaceState:
    """Create a state of plain data, as strictly as ``read_state`` does.

    Takes and raises what that does.
    """
    try:
        state = msgspec.convert(data, WorkspaceState)
        msgspec.json.encode(state)
        return state
    except UnicodeEncodeError as error:
        what = f"{error.object[error.start : error.end]!a} is no character"
        raise UsageError(f"{name}: {what}.", code=E_BAD_ARGS, hint="Give Unicode text.") from None
    except msgspec.ValidationError as error:
        raise _wrong(error, name) from None


def _wrong(error: msgspec.ValidationError, name: str) -> UsageError:
    """Return where a value is that does not fit, and what is expected there."""
    what, _, place = str(error).partition(" - at ")
    key = place.strip("`").removeprefix("$").lstrip(".")
    unknown = re.search(r"unknown field `([^`]*)`", what)
    if unknown:
        key = f"{key}.{unknown[1]}".lstrip(".")
        what = "There is no such key"
    elif missing := re.search(r"missing required field `([^`]*)`", what):
        key = f"{key}.{missing[1]}".lstrip(".")
        what = "This key is required"
    known = ", ".join(WorkspaceState.__struct_fields__)
    if "." not in key and "[" not in key:
        hint = f"A state has the keys {known}."
    else:
        hint = "hilum's page on context lists the keys."
    return UsageError(f"{name}: {key or 'the whole'}: {what}.", code=E_BAD_ARGS, hint=hint)


def _place(said: str, data: bytes) -> str:
    """Write a decoder's message with line and column in place of a byte."""
    what, _, byte = said.partition(" (byte ")
    what = what.removeprefix("JSON is malformed: ").rstrip(".") or "it is malformed"
    if not byte.rstrip(")").isdigit():
        return what
    at = int(byte.rstrip(")"))
    line = data.count(b"\n", 0, at) + 1
    column = at - (data.rfind(b"\n", 0, at) + 1) + 1
    return f"{what} at line {line}, column {column}"
