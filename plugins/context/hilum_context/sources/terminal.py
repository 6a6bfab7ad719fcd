"""The end of a terminal's output."""

from __future__ import annotations

from collections.abc import Iterator

import trio
from hilum import ToolMessage
from hilum_shell import Shell, strip_escapes

from hilum_context.gathered_context import ContextSource, GatheredContext
from hilum_context.pieces import ContextPiece

# Maximum number of characters to send.
MAX_CHARACTERS = 2_000
# Number of preceding characters to read, in order to recognize a secret that begins in them.
OVERLAP = 4_000


class Terminal(ContextSource[tuple[str, str]]):
    """The output in the user's terminal, or else unread output of hilum's own commands."""

    type = "terminal"
    switch = "terminal"

    async def find(self, context: GatheredContext) -> tuple[str, str]:
        """Return the text without secrets, and its source."""
        reported = context.state.terminal_output
        source = "editor"
        if reported is None:
            reported = self._read_shell(context)
            source = "shell"
        if not reported.strip():
            return "", source

        def tail() -> str:
            # Escape sequences may make up most of the output, so more is read than is sent.
            end = reported[-8 * MAX_CHARACTERS - OVERLAP :]
            plain = strip_escapes(end.encode(errors="replace").decode())
            clean = context.texts.redact(plain[-MAX_CHARACTERS - OVERLAP :])
            return clean[-MAX_CHARACTERS:]

        return await trio.to_thread.run_sync(tail, abandon_on_cancel=True), source

    def _read_shell(self, context: GatheredContext) -> str:
        shell = context.session.plugin(Shell)
        if shell is None:
            return ""
        read: set[str] = set()
        for message in context.agent.conversation.messages:
            if isinstance(message, ToolMessage):
                read.update(result.call_id for result in message.results)
        found = []
        for each in shell.printed(context.agent.name, MAX_CHARACTERS + OVERLAP):
            if each.call in read:
                context.omit(
                    self.type,
                    "",
                    f"the output of {each.title} is already in the conversation",
                )
            else:
                found.append(f"$ {each.title} [{each.state}]\n{each.text}")
        return "\n".join(found)

    def make_pieces(
        self,
        context: GatheredContext,
        found: tuple[str, str],
    ) -> Iterator[ContextPiece]:
        """Yield the text."""
        text, source = found
        if text.strip():
            yield ContextPiece(self.type, text, source=source)
