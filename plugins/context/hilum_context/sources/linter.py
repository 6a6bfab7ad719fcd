"""What linters say of the files at hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio
from hilum_lint import Lint

from hilum_context.look import Look, Source
from hilum_context.pieces import Piece
from hilum_context.sources.open_files import TRIED
from hilum_context.texts import LeftOut
from hilum_context.words import paths

if TYPE_CHECKING:
    from hilum_lint import Diagnostic

    from hilum_context.state import Diagnostic as Said

MOST = 20
LOOKED_AT = 200
"""Diagnostics of a face that are looked at."""
LONGEST = 300
"""Characters of a message."""


class LinterErrors(Source["list[Diagnostic]"]):
    """Errors and warnings that the editor shows, and errors that the project's linters find in
    files it does not speak of.
    """

    type = "linter"
    switch = "linter_errors"

    async def find(self, look: Look) -> list[Diagnostic]:
        """Take what is said, and have the rest looked for."""
        said = look.state.diagnostics
        found = [] if said is None else await self._said(look, said)
        named = paths(look.request.text)
        if said is None:  # text that is not saved has other lines than the file that a linter reads
            named = [*(file.path for file in look.open_files[:TRIED] if file.text is None), *named]
        known = {each.path for each in found} if said is not None else set()
        known |= {file.path for file in look.open_files} if said is not None else set()
        targets = [path for path in dict.fromkeys(named) if path not in known]
        lint = look.session.half(Lint)
        if lint is not None and targets:
            found += await lint.errors(targets, 0.9 * look.settings.timeout)
        return found

    async def _said(self, look: Look, said: tuple[Said, ...]) -> list[Diagnostic]:
        from hilum_lint import Diagnostic  # loaded with the first one

        shown: dict[str, str] = {}
        found = []
        for each in [each for each in said if each.severity in ("error", "warning")][:LOOKED_AT]:
            if each.path not in shown:
                try:
                    _, shown[each.path] = await look.texts.find(each.path)
                except LeftOut as why:
                    shown[each.path] = ""
                    look.leave_out(self.type, each.path, why, said=True)
            path = shown[each.path]
            if path:
                message = await trio.to_thread.run_sync(
                    look.texts.redact, " ".join(each.message.split())[: 4 * LONGEST]
                )
                checker = " ".join(each.source.split())[:40] or "editor"
                code = " ".join(str(each.code).split())[:40]
                found.append(
                    Diagnostic(
                        path,
                        each.line,
                        each.column,
                        each.severity,
                        code,
                        message[:LONGEST],
                        checker,
                    )
                )
        return found

    def give(self, look: Look, found: list[Diagnostic]) -> Iterator[Piece]:
        """List them, errors first."""
        if found:
            from hilum_lint import listed

            source = "editor" if look.state.diagnostics is not None else "lint"
            yield Piece(self.type, listed(list(dict.fromkeys(found)), MOST), source=source)
