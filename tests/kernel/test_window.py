"""What fills an agent's context window, as faces show it."""

from hilum import Layer, tool
from hilum.compaction import reserve, room
from hilum.testing import open_bench, plugin, say, use
from hilum.window import measure_window


@tool
def list_numbers(count: int) -> str:
    """List numbers.

    Args:
        count: How many.
    """
    return " ".join(str(number) for number in range(count))


def make_plugin():
    return plugin(
        "numbers",
        provide_tools=lambda: [list_numbers],
        build_prompt_layer=lambda: Layer(40, "rules", "Count slowly. " * 50),
    )


async def test_the_parts_add_up_to_the_request_that_the_kernel_measures():
    answers = [use("list_numbers", count=300), "That was it."]
    async with open_bench(make_plugin(), answers=answers) as bench:
        await bench.run("Count to 300, please.")
        agent = bench.session.agents["main"]
        use_of_window = await measure_window(agent)
        tokens = {(part.kind, part.name): part.tokens for part in use_of_window.parts}
        assert list(tokens) == [
            ("instructions", "rules"),
            ("tools", "list_numbers"),
            ("prompts", ""),
            ("calls", "list_numbers"),
            ("results", "list_numbers"),
            ("answers", ""),
        ]
        assert all(count > 0 for count in tokens.values())
        encoded = agent.encoded[bench.model.wire.key]
        calibrator = agent.conversation.calibrator("scripted/model")
        assert abs(use_of_window.total - calibrator.total(encoded.total)) <= len(encoded.sizes)
        info = bench.model.info
        fixed = tokens["instructions", "rules"] + tokens["tools", "list_numbers"]
        assert use_of_window.compact_at == fixed + room(info, fixed)
        assert use_of_window.reserved == reserve(info)
        assert use_of_window.free == use_of_window.compact_at - use_of_window.total


async def test_before_the_first_request_the_prompt_is_the_one_that_would_be_sent():
    async with open_bench(make_plugin(), answers=[say("Yes.")]) as bench:
        agent = bench.session.agents["main"]
        before = await measure_window(agent)
        assert [part.kind for part in before.parts] == ["instructions", "tools"]
        assert not agent.conversation.frozen.layers
        await bench.run("Ready?")
        after = await measure_window(agent)
        assert after.parts[:2] == before.parts
        assert [part.kind for part in after.parts[2:]] == ["prompts", "answers"]
