"""The state of the user's workspace, sent by a face as one strictly validated value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

# Maximum size, in bytes, of a state file; a larger one is rejected.
MAX_BYTES = 64_000_000

Line = Annotated[int, msgspec.Meta(ge=1, description="Counts from 1.")]
Name = Annotated[
    str, msgspec.Meta(min_length=1, description="Relative to the workspace, or absolute.")
]


class StatePart(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Base class for the parts of a state."""


class OpenFile(StatePart, frozen=True):
    """A file that is open in the editor.

    Args:
        path: The file, relative to the workspace or absolute.
        text: The text in the editor if it is unsaved; if omitted, the file is read.
    """

    path: Name
    text: str | None = None


class Cursor(StatePart, frozen=True):
    """The position of the cursor.

    Args:
        line: Line, from 1.
        column: Column, from 1.
        path: The file that contains the cursor; the active file by default.
    """

    line: Line
    column: Line = 1
    path: str = ""


class Selection(StatePart, frozen=True):
    """The selection in the file that contains the cursor.

    Args:
        start_line: First line, from 1.
        end_line: Last line.
        start_column: The column where the selection begins in the first line.
        end_column: The column where the selection ends in the last line; 0 for the end of the line.
    """

    start_line: Line
    end_line: Line
    start_column: Line = 1
    end_column: Annotated[int, msgspec.Meta(ge=0)] = 0


class EditorDiagnostic(StatePart, frozen=True):
    """A diagnostic from a linter, a compiler or a language server.

    Args:
        path: The file, relative to the workspace or absolute.
        message: The message.
        line: Line, from 1; 0 for the whole file.
        column: Column, from 1; 0 for none.
        severity: The severity; only errors and warnings are sent.
        code: The tool's code for this kind of diagnostic.
        source: Name of the tool.
    """

    path: Name
    message: str
    line: Annotated[int, msgspec.Meta(ge=0)] = 0
    column: Annotated[int, msgspec.Meta(ge=0)] = 0
    severity: Literal["error", "warning", "info", "hint"] = "error"
    code: str | int = ""
    source: str = ""


class RecentEdit(StatePart, frozen=True):
    """A file that was edited.

    Args:
        path: The file, relative to the workspace or absolute.
        at: Time of the edit, as Unix time in seconds; if omitted, the list must be sorted newest
            first.
    """

    path: Name
    at: float = 0.0


class WorkspaceState(StatePart, frozen=True):
    """The state of the user's workspace, as reported by a face.

    ``dict(state)`` returns the plain data that ``Session.prompt`` accepts.

    Args:
        open_files: The open files, most important first; three are sent.
        active_file: The file that the user sees; it comes first, even if ``open_files`` lacks it.
        cursor: The position of the cursor.
        selection: The selection.
        diagnostics: The editor's diagnostics; if omitted, hilum runs the project's linters.
        terminal_output: The output in the user's terminal, or its end; if omitted, the output of
            hilum's own commands is sent.
        recent_edits: Recently edited files; if omitted, hilum uses its journal, Git and
            modification times.
    """

    open_files: tuple[OpenFile, ...] = ()
    active_file: str = ""
    cursor: Cursor | None = None
    selection: Selection | None = None
    diagnostics: tuple[EditorDiagnostic, ...] | None = None
    terminal_output: str | None = None
    recent_edits: tuple[RecentEdit, ...] | None = None

    def keys(self) -> Iterator[str]:
        """Return the names of the fields that are set."""
        defaults = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        return (name for name, default in defaults if getattr(self, name) != default)

    def __getitem__(self, name: str) -> Any:
        value = msgspec.to_builtins(getattr(self, name))
        return list(value) if isinstance(value, tuple) else value


def read_state(data: bytes, name: str) -> WorkspaceState:
    """Read a state from JSON.

    Args:
        data: The JSON.
        name: Origin of the JSON, for messages.

    Raises:
        UsageError: The data is not JSON or not a state. The message contains the position, the
            value found and the expected value.
    """
    try:
        # Editors and shells on Windows write a byte order mark, which RFC 8259 lets a parser
        # ignore.
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=WorkspaceState)
    except msgspec.ValidationError as error:
        raise _wrong(error, name) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{name} is not JSON: {_describe_place(str(error), data)}.",
            code=E_BAD_ARGS,
            hint="Write UTF-8 JSON with one object.",
        ) from None


def load_state(path: str) -> WorkspaceState:
    """Read a state from a file. Blocks.

    Raises:
        UsageError: The file cannot be read, or is not a state.
    """
    if path == "-":
        raise UsageError(
            "The state cannot be read from standard input.",
            code=E_BAD_ARGS,
            hint=(
                "Standard input is for the prompt. Pass a file; a shell can create one: --state"
                " <(command)."
            ),
        )
    try:
        with Path(os.path.expanduser(path)).open("rb") as file:
            # The read is bounded, because the path may name an endless pipe or device.
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"The state {path} cannot be read: {reason}.",
            code=E_BAD_ARGS,
            hint="Name a file.",
        ) from None
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"The state {path} has more than {MAX_BYTES:,} bytes.",
            code=E_BAD_ARGS,
            hint="Leave out the text of saved files, and old terminal output.",
        )
    return read_state(data, path)


def to_state(data: object, name: str = "The state") -> WorkspaceState:
    """Create a state from plain data, as strictly as ``read_state``.

    Args:
        data: The data.
        name: Origin of the data, for messages.

    Raises:
        UsageError: The data is not a state.
    """
    try:
        state = msgspec.convert(data, WorkspaceState)
        msgspec.json.encode(state)  # raises an error for a lone surrogate, which convert accepts
        return state
    except UnicodeEncodeError as error:
        what = f"{error.object[error.start : error.end]!a} is not a valid character"
        raise UsageError(f"{name}: {what}.", code=E_BAD_ARGS, hint="Pass Unicode text.") from None
    except msgspec.ValidationError as error:
        raise _wrong(error, name) from None


def _wrong(error: msgspec.ValidationError, name: str) -> UsageError:
    """Return the error for a value of the wrong type, with its position and the expected type."""
    what, _, place = str(error).partition(" - at ")
    key = place.strip("`").removeprefix("$").lstrip(".")
    # msgspec reports the path of the object; the key itself is only in the message.
    unknown = re.search(r"unknown field `([^`]*)`", what)
    missing = re.search(r"missing required field `([^`]*)`", what)
    if unknown:
        key = f"{key}.{unknown[1]}".lstrip(".")
        what = "there is no such key"
    elif missing:
        key = f"{key}.{missing[1]}".lstrip(".")
        what = "This key is required"
    known = ", ".join(WorkspaceState.__struct_fields__)
    if "." not in key and "[" not in key:
        hint = f"The keys of a state are {known}."
    else:
        hint = "The page on context in hilum's documentation lists the keys."
    return UsageError(f"{name}: {key or 'the whole'}: {what}.", code=E_BAD_ARGS, hint=hint)


def _describe_place(message: str, data: bytes) -> str:
    """Return a decoder's message, with line and column instead of the byte offset."""
    what, _, byte = message.partition(" (byte ")
    what = what.removeprefix("JSON is malformed: ").rstrip(".") or "it is malformed"
    if not byte.rstrip(")").isdigit():
        return what
    at = int(byte.rstrip(")"))
    line = data.count(b"\n", 0, at) + 1
    line_start = data.rfind(b"\n", 0, at) + 1
    column = at - line_start + 1
    return f"{what} at line {line}, column {column}"
