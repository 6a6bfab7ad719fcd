"""Compacts one conversation: plans the cut, requests the summary, and writes the note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hilum import Compaction, Message, estimate
from hilum.hooks import PluginFailure

from hilum_memory.compaction_plan import CompactionPlanner
from hilum_memory.note import read_removed, write_note
from hilum_memory.recall import RECALL
from hilum_memory.settings import MemorySettings
from hilum_memory.shortening import shorten
from hilum_memory.summary import summarize

if TYPE_CHECKING:
    from hilum import Agent

# Number of tokens in the note apart from the summary: the user's requests and the list of results.
NOTE_TOKENS = 1_500
# Minimum number of tokens for a plugin's text; a shorter excerpt would be meaningless and is left
# out.
MIN_KEPT_TOKENS = 50


async def compact(
    agent: Agent,
    messages: Sequence[Message],
    sizes: Sequence[int],
    budget: int,
    settings: MemorySettings,
) -> Compaction | None:
    """Shorten large old results; if that is not enough, replace old messages with a summary.

    Args:
        agent: The agent whose conversation is compacted.
        messages: The conversation.
        sizes: The number of tokens in each message.
        budget: Target size in tokens.
        settings: The settings.
    """
    conversation = agent.conversation
    # Calibrate for the model that will read the result, because tokenizers differ.
    calibrator = conversation.calibrator(agent.session.kernel.router.current(agent))
    can_recall = any(tool.name == RECALL for tool in agent.tools())
    # The kernel keeps the current run's request wherever the cut is.
    request = conversation.kept_request
    if request is not None:
        sizes = [*sizes]
        # Keep at least half of the budget: a request that fills the window would leave nothing for
        # the other messages.
        budget = max(budget - sizes[request], budget // 2)
        sizes[request] = 0
    # The summary must not take up the space that the compaction frees; with fewer than 150 tokens,
    # its five sections would be meaningless.
    summary_tokens = max(min(settings.summary_tokens, budget // 6), 150)
    # Collect the texts before planning, because the plan must reserve space for them.
    kept = await _collect_kept_texts(agent, int(budget / 4 / calibrator.factor))
    # A model may write up to twice as many tokens as requested.
    note_tokens = 2 * summary_tokens + min(NOTE_TOKENS, budget // 6)
    note_tokens += sum(map(estimate, kept))
    planner = CompactionPlanner(
        messages,
        sizes,
        calibrator.text,
        calibrator.factor,
        settings.thin_over,
        settings.recent_turns,
        can_recall,
        settings.never_thin,
        request,
    )
    requested = conversation.compaction_requested
    reserve = int(note_tokens * calibrator.factor)
    plan = planner.plan(budget, reserve, cut=requested is not None)
    if not plan.upto:
        return Compaction(thinned=dict(plan.thinned)) if plan.thinned else None
    current = None if request is None else messages[request]
    # The original messages are summarized, not the shortened ones, so that no detail is lost.
    past = read_removed(messages[: plan.upto], current)
    say = f"compacting: summarizing {plan.upto} messages"
    agent.session.note("memory.summarizing", say=say, agent=agent.name)
    focus = requested.focus if requested else ""
    summary, why = await summarize(agent, past, summary_tokens, settings.summary_timeout, focus)
    if why:
        say = f"the summary is an extract, because {why}"
        agent.session.note("memory.extracted", say=say, agent=agent.name)
    is_running = conversation.run is not None
    note = write_note(past, summary, kept, working=is_running, handle=can_recall)
    return Compaction(plan.upto, note, dict(plan.thinned))


async def _collect_kept_texts(agent: Agent, budget: int) -> list[str]:
    """Return the plugin texts that must survive a compaction, within a token budget."""
    kept = []
    for _, text in await agent.session.hooks.gather("keep_on_compaction", agent=agent):
        if isinstance(text, PluginFailure) or not text or budget < MIN_KEPT_TOKENS:
            continue
        fitting = shorten(text, budget * 2) if estimate(text) > budget else text
        budget -= estimate(fitting)
        kept.append(fitting)
    return kept
