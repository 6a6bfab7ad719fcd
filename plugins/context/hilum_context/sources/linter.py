"""Diagnostics for the files that the user is working on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio
from hilum_lint import Diagnostic, Lint, format_diagnostics

from hilum_context.gathered_context import ContextSource, GatheredContext
from hilum_context.mentions import find_path_names
from hilum_context.pieces import ContextPiece
from hilum_context.sources.open_files import MAX_TRIED
from hilum_context.texts import OmittedError

if TYPE_CHECKING:
    from hilum_context.state import EditorDiagnostic

MAX_DIAGNOSTICS = 20
# Maximum number of diagnostics from a face to examine.
MAX_EXAMINED = 200
# Maximum length of a message in characters.
MAX_MESSAGE = 300


class LinterErrors(ContextSource["list[Diagnostic]"]):
    """Diagnostics from the editor, and errors that the project's linters find in other files."""

    type = "linter"
    switch = "linter_errors"

    async def find(self, context: GatheredContext) -> list[Diagnostic]:
        """Return the editor's diagnostics, and run linters on files that have none."""
        reported = context.state.diagnostics
        found = [] if reported is None else await self._convert_all(context, reported)
        lint = context.session.plugin(Lint)
        targets = self._choose_targets(context, {each.path for each in found})
        if lint is not None and targets:
            # The time limit is shorter than the source's own limit, so that the editor's
            # diagnostics are not lost.
            found += await lint.errors(targets, 0.9 * context.settings.timeout)
        return found

    def _choose_targets(self, context: GatheredContext, reported: set[str]) -> list[str]:
        """Return the files that the linters should check.

        Args:
            context: The context.
            reported: Files for which the editor has diagnostics.
        """
        named = find_path_names(context.request.subject)
        if context.state.diagnostics is None:
            # Linters read the file on disk, whose line numbers may not match unsaved text in the
            # editor.
            saved = [file.path for file in context.open_files[:MAX_TRIED] if file.text is None]
            return list(dict.fromkeys([*saved, *named]))
        # The editor has already checked the files that are open in it.
        known = reported | {file.path for file in context.open_files}
        return [path for path in dict.fromkeys(named) if path not in known]

    async def _convert_all(
        self,
        context: GatheredContext,
        reported: tuple[EditorDiagnostic, ...],
    ) -> list[Diagnostic]:
        shown: dict[str, str] = {}
        found = []
        # Filter before applying the limit, because language servers send thousands of hints.
        relevant = [each for each in reported if each.severity in ("error", "warning")]
        for each in relevant[:MAX_EXAMINED]:
            if each.path not in shown:
                shown[each.path] = await self._find_shown_path(context, each.path)
            if shown[each.path]:
                found.append(await self._convert(context, each, shown[each.path]))
        return found

    async def _find_shown_path(self, context: GatheredContext, path: str) -> str:
        try:
            _, shown = await context.texts.find(path)
        except OmittedError as why:
            context.omit(self.type, path, why, named=True)
            return ""
        return shown

    async def _convert(
        self,
        context: GatheredContext,
        each: EditorDiagnostic,
        path: str,
    ) -> Diagnostic:
        # Search for secrets before cutting the text, which could split a secret.
        message = to_one_line(each.message, 4 * MAX_MESSAGE)
        clean = await trio.to_thread.run_sync(context.texts.redact, message)
        checker = to_one_line(each.source, 40) or "editor"
        code = to_one_line(str(each.code), 40)
        return Diagnostic(
            path,
            each.line,
            each.column,
            each.severity,
            code,
            clean[:MAX_MESSAGE],
            checker,
        )

    def make_pieces(
        self,
        context: GatheredContext,
        found: list[Diagnostic],
    ) -> Iterator[ContextPiece]:
        """Yield the list of diagnostics, errors first."""
        if found:
            # Drop duplicates: the editor and a linter may report the same error.
            text = format_diagnostics(list(dict.fromkeys(found)), MAX_DIAGNOSTICS)
            source = "lint" if context.state.diagnostics is None else "editor"
            yield ContextPiece(self.type, text, source=source)


def to_one_line(text: str, most: int) -> str:
    """Return the beginning of a text as one line."""
    return " ".join(text.split())[:most]
