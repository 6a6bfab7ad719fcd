"""What a compaction costs besides the model call: ``python tests/benchmarks/trimming.py``.

Conversations of 100,000 and 400,000 tokens are put into a session, and its next run has to make
them fit: planning, the text for the summarizing model (which answers at once here), the note, the
event. Measured from the first look at the size to the event, by the wire format of Anthropic.
"""

import statistics
import time

import hilum_memory
import trio
from hilum import AssistantMessage, Text, ToolCall, ToolMessage, ToolResult, UserMessage, loop
from hilum.events import Compacted
from hilum.models import ModelInfo
from hilum.state import Conversation
from hilum.testing import ScriptedModel, open_bench, say
from hilum_models.anthropic import AnthropicWire
from hilum_models.encode import Target

SUMMARY = "\n".join(
    f"## {name}\nSomething about src/app.py.\n"
    for name in ("Goal", "Decisions", "Files", "Facts", "Open work")
)
TIMES = 15


def conversation(tokens: int, size: int) -> list[object]:
    """Messages of about so many tokens, with results of ``size`` characters."""
    messages: list[object] = [UserMessage((Text("Find out why the total is wrong."),))]
    text = "    total = sum(entry.value for entry in entries)  # of all of them\n" * (
        size // 67 + 1
    )
    for number in range(tokens * 4 // size):
        call = ToolCall(f"call_{number:06}", "read_file", f'{{"path": "src/part_{number}.py"}}')
        result = ToolResult(call.id, "read_file", (Text(text[:size], "tool:read_file"),))
        messages += [
            AssistantMessage((Text("Looking.", "model"), call), "lab/m", "calls"),
            ToolMessage((result,)),
        ]
    return messages


async def main() -> None:
    """Print the table."""
    print(
        "tokens     results of   messages   a compaction, median    processor, median   worst   bar"
    )
    for tokens, size in ((100_000, 800), (100_000, 6_000), (400_000, 800), (400_000, 6_000)):
        model = ScriptedModel([lambda r: say(SUMMARY)] * 1_000)
        model._wire = AnthropicWire(Target("lab/m"))
        times, real = [], loop._compact

        async def timed(agent: object, name: str) -> bool:
            began = time.perf_counter(), time.process_time()
            done = await real(agent, name)  # noqa: B023
            if done:
                times.append((time.perf_counter() - began[0], time.process_time() - began[1]))  # noqa: B023
            return done

        async with open_bench(hilum_memory, model=model) as kit:
            messages, agent = conversation(tokens, size), kit.session.agents["main"]
            for _ in range(TIMES):
                agent.conversation = Conversation()
                agent.conversation.messages = list(messages)
                agent.encoded.clear()
                model._info = ModelInfo("scripted/model", 10 * tokens, 1_000)
                await kit.session.run("Go on.")  # encodes it, as the turns before did
                model._info = ModelInfo("scripted/model", tokens, 1_000)
                seen = len(kit.of(Compacted))
                loop._compact = timed
                await kit.session.run("Go on.")
                loop._compact = real
                assert len(kit.of(Compacted)) > seen
        bar = "50 ms" if tokens == 100_000 else "–"
        row = f"{tokens:8,} {size:10,} c {len(messages):9}"
        wall, cpu = ([value * 1e3 for value in values] for values in zip(*times, strict=True))
        shown = f"{statistics.median(wall):12.1f} ms {statistics.median(cpu):17.1f} ms {max(cpu):7.1f} ms   {bar}"
        print(row + shown, flush=True)


if __name__ == "__main__":
    trio.run(main)
