"""Compacts the conversations of a session: shortens old results first, then summarizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import attrs
from hilum import Call, Compaction, Message, Output, hookimpl, tool
from msgspec import Meta

from hilum_memory.recall import (
    PAGE_CHARACTERS,
    RECALL,
    ResultFinder,
    format_page,
    get_images,
    search_lines,
)
from hilum_memory.settings import MemorySettings

if TYPE_CHECKING:
    from hilum import Agent, Session


class Compactor:
    """The session plugin, which compacts conversations.

    Args:
        session: The session.
        settings: The settings.
    """

    def __init__(self, session: Session, settings: MemorySettings) -> None:
        self.settings = settings
        self._results = ResultFinder(session)

    @hookimpl
    async def trim_context(
        self,
        agent: Agent,
        messages: Sequence[Message],
        sizes: Sequence[int],
        budget: int,
    ) -> Compaction | None:
        """Shorten large old results; if that is not enough, replace old messages with a summary."""
        # The imports are here, because most runs never compact, and importing these modules and the
        # gateways takes about 10 ms.
        from hilum_memory.compaction import compact

        return await compact(agent, messages, sizes, budget, self.settings)

    @hookimpl
    def provide_tools(self) -> list[object]:
        """Return the tool that reads shortened results; it is deferred until there are some."""

        # The tool's description would cost tokens in every request of a short conversation.
        def has_no_use(agent: Agent) -> bool:
            return agent.conversation.epoch == 0 and not agent.conversation.shortened

        return [attrs.evolve(self.recall_result, deferred=has_no_use)]

    @tool(risk="read", effect="pure", timeout=30.0, name=RECALL)
    async def recall_result(
        self,
        call: Call,
        id: str,
        pattern: str = "",
        offset: Annotated[int, Meta(ge=0)] = 0,
    ) -> Output:
        """Read the whole result of an earlier tool call that was shortened to save space.

        Args:
            id: The call's id, as shown in the shortened result.
            pattern: Regular expression; only matching lines are returned, each with its offset.
            offset: Character at which to start; a long result is returned in pages.
        """
        result = await self._results.find(call.agent.name, id)
        if pattern:
            return Output(await search_lines(result.text, pattern))
        text = format_page(result.text, offset, _page_size(call.agent, result.text))
        # Return images only with the first page, because they do not belong to any part of the
        # text.
        images = () if offset else get_images(result)
        return Output(text, images=images)


def _page_size(agent: Agent, text: str) -> int:
    """Return the number of characters per page."""
    router = agent.session.kernel.router
    name = router.current(agent)
    tokens = agent.conversation.calibrator(name).text(text)
    # A larger page would itself be shortened at the next compaction.
    page_tokens = router.model(name).info.window // 24
    fitting = len(text) * page_tokens // max(tokens, 1)
    return max(min(PAGE_CHARACTERS, fitting), 500)
