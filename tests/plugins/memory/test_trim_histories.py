"""A thousand conversations that do not fit: each is made to fit, and stays one that every gateway
takes.
"""

import importlib.util
from pathlib import Path

import hilum_memory
import pytest
from hilum import AssistantMessage, NoteMessage, ToolMessage, UserMessage
from hilum.events import Compacted
from hilum.models import ModelInfo
from hilum.state import Conversation
from hilum.testing import ScriptedModel, say

spec = importlib.util.spec_from_file_location("histories", Path(__file__).with_name("histories.py"))
histories = importlib.util.module_from_spec(spec)
spec.loader.exec_module(histories)
WINDOW, OUTPUT = 14_000, 1_000


class Writer(ScriptedModel):
    """Writes summaries, good ones and bad ones, and says yes to everything else."""

    kinds = (histories.SUMMARY, "", "I cannot do that.", "x" * 50_000, histories.SUMMARY)

    def __init__(self, api):
        super().__init__()
        self._wire, self._info = (
            histories.wire(api),
            ModelInfo("scripted/model", WINDOW, OUTPUT, images=True),
        )
        self.asked = 0

    async def answer(self, request):
        if request.agent.endswith("/summary"):
            self.asked += 1
            return say(self.kinds[self.asked % len(self.kinds)] or " ")
        return say("Yes.")


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("api", histories.WIRES)
async def test_what_is_made_of_any_history_fits_and_is_valid(bench, trials, api):
    """250 for each wire format with --all, through the real loop: it fits, no call or result is alone, the last
    turn is as it was.
    """
    model = Writer(api)
    kit = await bench(hilum_memory, model=model, patience=300)
    agent, compacted, whole, small = kit.session.agents["main"], 0, 0, 0
    for seed in range(trials(25, 250)):
        agent.conversation, messages = (
            Conversation(),
            histories.history(seed, repeated=seed % 10 == 0),
        )
        agent.conversation.messages, seen = list(messages), len(kit.of(Compacted))
        agent.encoded.clear()
        model.requests.clear()
        ended = await kit.run(f"Go on, {seed}.")
        assert ended.state == "completed", (seed, ended)
        sent = [r for r in model.requests if not r.agent.endswith("/summary")][-1]
        histories.check_body(api, sent.body)
        compactions = kit.of(Compacted)[seen:]
        compacted += len(compactions)
        known = next(iter(agent.encoded.values()))
        before = sum(map(sum, known.sizes[: len(sent.messages)])) + sum(known.head_size)
        assert before <= (WINDOW - OUTPUT) * 0.8 + 60, seed
        assert sent.messages[-1].parts[0].text == f"Go on, {seed}."
        if compactions:
            last = max(
                i
                for i, message in enumerate(messages)
                if isinstance(message, AssistantMessage | UserMessage)
            )
            if sum(map(_length, messages[last:])) < 2_000:
                whole += list(sent.messages[last - len(messages) - 1 : -1]) == messages[last:]
                small += 1
            assert all(compaction.upto or compaction.thinned for compaction in compactions)
            if compactions[-1].upto:
                assert isinstance(sent.messages[0], NoteMessage)
    assert compacted > trials(12, 100)
    assert whole == small > trials(4, 50)
    assert not kit.faults


def _length(message):
    results = message.results if isinstance(message, ToolMessage) else ()
    return sum(len(result.text) for result in results) + sum(
        len(part.data) for r in results for part in r.parts[1:]
    )
