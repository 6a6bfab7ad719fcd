"""The session's part of memory: it compacts conversations, thinning results first, then
summarizing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import attrs
from hilum import Call, Message, Output, Trim, estimate, hookimpl, tool
from hilum_hooks import Fault
from msgspec import Meta

from hilum_memory.recall import PAGE, Results, images_of, page, search
from hilum_memory.settings import MemorySettings
from hilum_memory.texts import shortened

if TYPE_CHECKING:
    from hilum import Agent, Session

RECALL = "recall_result"
# Tokens of the note around the summary: what the user asked, the list of results.
AROUND = 1_500


class Trimming:
    """The half of a session that makes its conversations fit.

    Args:
        session: The session.
        settings: What the user set.
    """

    def __init__(self, session: Session, settings: MemorySettings) -> None:
        self.settings = settings
        self._results = Results(session)

    @hookimpl
    async def trim_context(
        self, agent: Agent, messages: Sequence[Message], sizes: Sequence[int], budget: int
    ) -> Trim | None:
        """Thin big old results; where that is not enough, replace what is old by a summary."""
        # Most runs need none of these.
        from hilum_memory.note import read_past, write_note
        from hilum_memory.plan import Planner
        from hilum_memory.summary import summarize

        settings = self.settings
        conversation = agent.conversation
        gauge = conversation.gauge(agent.session.kernel.router.current(agent))
        handle = any(tool.name == RECALL for tool in agent.tools())
        working = conversation.run is not None
        # The kernel keeps the request that the run works on, wherever the cut is.
        request = conversation.kept_request
        if request is not None:
            sizes = [*sizes]
            budget = max(budget - sizes[request], budget // 2)
            sizes[request] = 0
        most = max(min(settings.summary_tokens, budget // 6), 150)
        kept = await self._kept(agent, int(budget / 4 / gauge.factor))
        around = min(AROUND, budget // 6)
        reserve = int((most * 2 + around + sum(map(estimate, kept))) * gauge.factor)
        planner = Planner(
            messages,
            sizes,
            gauge.text,
            gauge.factor,
            settings.thin_over,
            settings.recent_turns,
            handle,
            settings.never_thin,
            request,
        )
        asked = conversation.trim_asked
        plan = planner.plan(budget, reserve, cut=asked is not None)
        if not plan.upto:
            if plan.thinned:
                return Trim(thinned=dict(plan.thinned))
            return None
        past = read_past(messages[: plan.upto], messages[request] if request is not None else None)
        agent.session.note(
            "memory.summarizing",
            say=f"compacting: summarizing {plan.upto} messages",
            agent=agent.name,
        )
        focus = asked.focus if asked else ""
        summary, why = await summarize(agent, past, most, settings.summary_timeout, focus)
        if why:
            say = f"the summary is an extract, because {why}"
            agent.session.note("memory.extracted", say=say, agent=agent.name)
        note = write_note(past, summary, kept, working=working, handle=handle)
        return Trim(plan.upto, note, dict(plan.thinned))

    async def _kept(self, agent: Agent, budget: int) -> list[str]:
        """Ask plugins for what must stand, within a budget in tokens."""
        kept = []
        for _, text in await agent.session.hooks.gather("keep_on_trim", agent=agent):
            if isinstance(text, Fault) or not text or budget < 50:
                continue
            fitting = shortened(text, budget * 2) if estimate(text) > budget else text
            budget -= estimate(fitting)
            kept.append(fitting)
        return kept

    @hookimpl
    def provide_tools(self) -> list[object]:
        """Return the tool that fetches results back.

        It has no use before a conversation was shortened.
        """

        def has_no_use(agent: Agent) -> bool:
            return agent.conversation.epoch == 0 and not agent.conversation.shortened

        return [attrs.evolve(self.recall_result, deferred=has_no_use)]

    @tool(risk="read", effect="pure", timeout=30.0, name=RECALL)
    async def recall_result(
        self, call: Call, id: str, pattern: str = "", offset: Annotated[int, Meta(ge=0)] = 0
    ) -> Output:
        """Read the whole result of an earlier tool call that was shortened to save space.

        Args:
            id: The call's id, as the shortened result names it.
            pattern: Regular expression; only matching lines are returned, each with its offset.
            offset: Character to start at; a long result comes in pages.
        """
        result = await self._results.find(call.agent.name, id)
        if pattern:
            return Output(await search(result.text, pattern))
        text = page(result.text, offset, self._page_size(call.agent, result.text))
        return Output(text, images=images_of(result) if not offset else ())

    def _page_size(self, agent: Agent, text: str) -> int:
        """Return how many characters of a text are a page: what fits the agent's window without
        being shortened.
        """
        router = agent.session.kernel.router
        name = router.current(agent)
        tokens = agent.conversation.gauge(name).text(text)
        fitting = router.model(name).info.window // 24
        return max(min(PAGE, len(text) * fitting // max(tokens, 1)), 500)
