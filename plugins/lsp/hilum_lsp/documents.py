"""The files that a server has open, in the versions that hilum sent, with their diagnostics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio
from hilum import WarmFinding

from hilum_lsp.errors import ServerRefused
from hilum_lsp.positions import BOM, TextLines
from hilum_lsp.protocol import DiagnosticReport, ServerDiagnostic
from hilum_lsp.uris import make_uri

if TYPE_CHECKING:
    from hilum_lsp.client import LanguageClient

# Maximum number of files that a server has open; the one that was used longest ago is closed.
MAX_OPEN = 30
# Maximum number of diagnostics of a file to keep.
MAX_FINDINGS = 2_000
# Seconds between two requests if a server wants the first one again.
AGAIN_PAUSE = 0.05
_SEVERITIES = {1: "error", 2: "warning", 3: "info"}


@attrs.define(eq=False)
class Document:
    """A file that the server has open.

    Args:
        uri: The file's URI.
        text: The text that the server has, without a byte order mark.
        version: The version of this text.
        findings: The diagnostics of this version; ``None`` if the server was not asked.
    """

    uri: str
    text: str
    version: int = 1
    findings: tuple[WarmFinding, ...] | None = None


@attrs.define(eq=False)
class Documents:
    """The open files of one server.

    Args:
        client: The client of the server.
        languages: The protocol's name of a language, by suffix.
    """

    client: LanguageClient
    languages: dict[str, str]
    _open: dict[Path, Document] = attrs.Factory(dict)

    def synchronize(self, path: Path, text: str) -> Document:
        """Open a file at the server, or send its new text if it has changed.

        Raises:
            ServerFailed: The server has failed.
        """
        text = text.removeprefix(BOM.decode())
        document = self._open.pop(path, None)
        if document is None:
            document = self._open_document(path, text)
        elif document.text != text:
            document.version += 1
            document.text = text
            document.findings = None
            # A change without a range replaces the whole text, whatever kind of change the server
            # prefers.
            self.client.notify(
                "textDocument/didChange",
                {
                    "textDocument": {"uri": document.uri, "version": document.version},
                    "contentChanges": [{"text": text}],
                },
            )
        # The order of the files is that of their use.
        self._open[path] = document
        while len(self._open) > MAX_OPEN:
            self.close(next(iter(self._open)))
        return document

    def _open_document(self, path: Path, text: str) -> Document:
        document = Document(make_uri(path), text)
        self.client.pushed.pop(document.uri, None)
        item: dict[str, Any] = {
            "uri": document.uri,
            "languageId": self.languages.get(path.suffix, "plaintext"),
            "version": document.version,
            "text": text,
        }
        self.client.notify("textDocument/didOpen", {"textDocument": item})
        return document

    def close(self, path: Path) -> None:
        """Close a file, so that the server reads it from the disk again."""
        document = self._open.pop(path, None)
        if document is not None:
            self.client.pushed.pop(document.uri, None)
            self.client.notify("textDocument/didClose", {"textDocument": {"uri": document.uri}})

    def list_paths(self) -> list[Path]:
        """Return the open files."""
        return list(self._open)

    def text_of(self, path: Path) -> str:
        """Return the text of an open file, as the server has it."""
        return self._open[path].text

    def find(self, path: Path) -> Document | None:
        """Return an open file; ``None`` if the server does not have it open."""
        return self._open.get(path)

    async def diagnose(self, path: Path, text: str, seconds: float) -> tuple[WarmFinding, ...]:
        """Return the server's diagnostics of a text.

        The caller must not let other tasks change the file's text at the server meanwhile.

        Args:
            path: The file.
            text: The text to check, whatever the file contains.
            seconds: Time limit.

        Raises:
            ServerFailed: The server has failed.
            ServerRefused: The server answered with an error.
            trio.TooSlowError: There was no answer in time.
        """
        document = self.synchronize(path, text)
        version = document.version
        with trio.fail_after(seconds):
            if "diagnosticProvider" in self.client.capabilities:
                found = await self._pull(document, seconds)
            else:
                push = await self.client.wait_for_push(document.uri, version, seconds)
                found = push.diagnostics
        findings = _convert(found, TextLines(document.text, self.client.encoding))
        if document.version == version:
            document.findings = findings
        return findings

    async def _pull(self, document: Document, seconds: float) -> list[ServerDiagnostic]:
        params = {"textDocument": {"uri": document.uri}}
        while True:
            try:
                report: DiagnosticReport = await self.client.ask(
                    "textDocument/diagnostic", params, DiagnosticReport, seconds
                )
            except ServerRefused as error:
                if not error.again:
                    raise
                await trio.sleep(AGAIN_PAUSE)
                continue
            return report.items


def _convert(diagnostics: list[ServerDiagnostic], lines: TextLines) -> tuple[WarmFinding, ...]:
    """Return diagnostics with lines and columns as people count them.

    Hints are left out: with them, servers mark code to be shown in grey.
    """
    findings = []
    for each in diagnostics[:MAX_FINDINGS]:
        severity = _SEVERITIES.get(each.severity or 1)
        if severity is None:
            continue
        start = each.range.start
        column = 0
        if 0 <= start.line < lines.count:
            line_start = lines.offset(start.line, 0)
            column = lines.offset(start.line, max(start.character, 0)) - line_start
        code = "" if each.code is None else str(each.code)
        findings.append(WarmFinding(start.line + 1, column + 1, severity, code, each.message))
    return tuple(findings)
