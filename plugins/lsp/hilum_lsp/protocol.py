"""The parts of the Language Server Protocol that hilum uses, as data types.

Written by hand after the specification of version 3.17. Answers are decoded strictly into these
types; whatever else a server sends is skipped.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Position(msgspec.Struct, frozen=True):
    """A position: the line and the column in code units, both from 0."""

    line: int
    character: int


class Range(msgspec.Struct, frozen=True):
    """A range of text; the end is exclusive."""

    start: Position
    end: Position


class Location(msgspec.Struct, frozen=True):
    """A range in a file."""

    uri: str
    range: Range


class LocationLink(msgspec.Struct, frozen=True, rename="camel"):
    """A range in a file, as some servers answer instead of a ``Location``."""

    target_uri: str
    target_selection_range: Range


class DocumentSymbol(msgspec.Struct, frozen=True, rename="camel"):
    """A symbol in a file, with the symbols inside it."""

    name: str
    kind: int
    range: Range
    selection_range: Range
    children: list[DocumentSymbol] = []


class SymbolPlace(msgspec.Struct, frozen=True):
    """The place of a symbol; a server may leave out the range."""

    uri: str
    range: Range | None = None


class SymbolInformation(msgspec.Struct, frozen=True):
    """A symbol with its place."""

    name: str
    kind: int
    location: SymbolPlace


class ServerDiagnostic(msgspec.Struct, frozen=True):
    """A diagnostic of a server."""

    range: Range
    message: str
    severity: int | None = None
    code: int | str | None = None


class DiagnosticReport(msgspec.Struct, frozen=True):
    """The answer to a request for diagnostics.

    A server may answer that they are unchanged only if the request has an id of earlier ones, which
    hilum never sends; such an answer is invalid.
    """

    kind: Literal["full"]
    items: list[ServerDiagnostic] = []


class PublishedDiagnostics(msgspec.Struct, frozen=True):
    """Diagnostics that a server sends on its own."""

    uri: str
    diagnostics: list[ServerDiagnostic]
    version: int | None = None


class TextEdit(msgspec.Struct, frozen=True, rename="camel"):
    """The replacement of a range."""

    range: Range
    new_text: str


class EditedDocument(msgspec.Struct, frozen=True):
    """The file and the version for which edits were made; no version for a file on the disk."""

    uri: str
    version: int | None = None


class DocumentChange(msgspec.Struct, frozen=True, rename="camel"):
    """The edits of one file, or the creation, renaming or deletion of a file (``kind``)."""

    kind: str = ""
    text_document: EditedDocument | None = None
    edits: list[TextEdit] = []


class WorkspaceEdit(msgspec.Struct, frozen=True, rename="camel"):
    """The edits of a rename."""

    changes: dict[str, list[TextEdit]] | None = None
    document_changes: list[DocumentChange] | None = None


class ResponseError(msgspec.Struct, frozen=True):
    """The error in a response."""

    code: int
    message: str


class Message(msgspec.Struct):
    """Any message of a server: a request, a response or a notification."""

    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: ResponseError | None = None


class Initialized(msgspec.Struct, frozen=True):
    """The answer to ``initialize``."""

    capabilities: dict[str, Any]


class ProgressValue(msgspec.Struct, frozen=True):
    """A report about long work of a server: ``begin``, ``report`` or ``end``."""

    kind: str = ""


class ProgressParams(msgspec.Struct, frozen=True):
    """The parameters of a server's notification about long work."""

    token: int | str
    value: ProgressValue


class ConfigurationParams(msgspec.Struct, frozen=True):
    """The parameters of a server's request for settings."""

    items: list[Any] = []


# Names of the kinds of symbols, by number.
SYMBOL_KINDS = (
    "symbol file module namespace package class method property field constructor enum interface"
    " function variable constant string number boolean array object key null member struct event"
    " operator parameter"
).split()

# What hilum can do. Dynamic registration is claimed nowhere, because some servers wait for all that
# follows from it; settings are not claimed for the same reason.
CAPABILITIES: dict[str, Any] = {
    "general": {"positionEncodings": ["utf-8", "utf-16", "utf-32"]},
    "textDocument": {
        "synchronization": {},
        "diagnostic": {"relatedDocumentSupport": False},
        "publishDiagnostics": {"versionSupport": True},
        "definition": {"linkSupport": True},
        "references": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "rename": {"prepareSupport": True},
    },
    # A server that reads the project in the background then says when it is done.
    "window": {"workDoneProgress": True},
    "workspace": {
        "workspaceFolders": True,
        "workspaceEdit": {"documentChanges": True},
        "symbol": {},
        "didChangeWatchedFiles": {"dynamicRegistration": False},
    },
}
