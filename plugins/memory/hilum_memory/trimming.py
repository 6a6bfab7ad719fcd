"""The half that makes conversations fit the model's window: thinning first, then a summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from hilum import Call, Message, Output, Trim, UserMessage, estimate, hookimpl, tool
from hilum_hooks import Fault
from msgspec import Meta

from hilum_memory.recall import Results, images_of, page, search
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
        """Thin big old results; where that is not enough, put a summary in the place of what is old."""
        # Most runs need none of these.
        from hilum_memory.note import read_past, write_note
        from hilum_memory.plan import Planner
        from hilum_memory.summary import summarize

        settings, conversation = self.settings, agent.conversation
        gauge = conversation.gauge(agent.session.kernel.router.current(agent))
        handle = any(tool.name == RECALL for tool in agent.tools())
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
        )
        asked = conversation.trim_asked
        plan = planner.plan(budget, reserve, cut=asked is not None)
        if not plan.upto:
            return Trim(thinned=dict(plan.thinned)) if plan.thinned else None
        past = read_past(messages[: plan.upto])
        agent.session.note("memory.summarizing", say=f"making room: summarizing {plan.upto} messages", agent=agent.name)
        focus = asked.focus if asked else ""
        summary, why = await summarize(agent, past, most, settings.summary_timeout, focus)
        if why:
            say = f"the summary is an extract, because {why}"
            agent.session.note("memory.extracted", say=say, agent=agent.name)
        working = conversation.run is not None
        current = working and not any(isinstance(message, UserMessage) for message in messages[plan.upto :])
        note = write_note(past, summary, kept, current=current, handle=handle)
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
        """Give the tool that fetches results back."""
        return [self.recall_result]

    @tool(risk="read", effect="pure", timeout=30.0, name=RECALL)
    async def recall_result(
        self, call: Call, id: str, pattern: str = "", offset: Annotated[int, Meta(ge=0)] = 0
    ) -> Output:
        """Give the whole result of an earlier tool call that was shortened or left out to make room.

        Args:
            id: The id of the call, as the shortened result or the note names it.
            pattern: A regular expression; only the lines that match come back, with the offset at which each stands.
            offset: The character to begin at; a long result comes in pages.
        """
        result = await self._results.find(call.agent.name, id)
        if pattern:
            return Output(await search(result.text, pattern))
        return Output(page(result.text, offset), images=images_of(result) if not offset else ())
