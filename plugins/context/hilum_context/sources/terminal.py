"""The end of what a terminal shows."""

from __future__ import annotations

from collections.abc import Iterator

import trio
from hilum import ToolMessage
from hilum_shell import Shell, clean

from hilum_context.look import Look, Source
from hilum_context.pieces import Piece

LAST = 2_000
"""Characters that are sent."""
BEFORE = 4_000
"""Characters before them that are looked at: a secret that begins there is known as one."""


class Terminal(Source[tuple[str, str]]):
    """The user's terminal, else what hilum's own commands have printed and the agent has not
    read.
    """

    type = "terminal"
    switch = "terminal"

    async def find(self, look: Look) -> tuple[str, str]:
        """Return the text, without secrets, and where it is from."""
        said = look.state.terminal_output
        source = "editor"
        if said is None:
            said = self._printed(look)
            source = "shell"
        if not said.strip():
            return "", source

        def tail() -> str:
            end = (
                said[-8 * LAST - BEFORE :].encode(errors="replace").decode()
            )  # escapes may take most of it
            return look.texts.redact(clean(end)[-LAST - BEFORE :])[-LAST:]

        return await trio.to_thread.run_sync(tail, abandon_on_cancel=True), source

    def _printed(self, look: Look) -> str:
        shell = look.session.half(Shell)
        if shell is None:
            return ""
        messages = look.agent.conversation.messages
        read = {
            result.call_id
            for message in messages
            if isinstance(message, ToolMessage)
            for result in message.results
        }
        found = []
        for each in shell.printed(look.agent.name, LAST + BEFORE):
            if each.call in read:
                look.leave_out(
                    self.type, "", f"the output of {each.title} is in the conversation already"
                )
            else:
                found.append(f"$ {each.title} [{each.state}]\n{each.text}")
        return "\n".join(found)

    def give(self, look: Look, found: tuple[str, str]) -> Iterator[Piece]:
        """Send it."""
        text, source = found
        if text.strip():
            yield Piece(self.type, text, source=source)
