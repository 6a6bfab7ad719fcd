"""Thinned results: what stays of them, which are left whole, and how they come back from the
log.
"""

import hilum_memory
from hilum import (
    AssistantMessage,
    Image,
    Output,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    tool,
)
from hilum.events import Compacted
from hilum.testing import ScriptedModel, open_bench, plugin, use
from hilum_memory.compaction_plan import CompactionPlanner

BIG = "".join(f"row {n}: some value or other\n" for n in range(700))


@tool(risk="read")
def dump(path: str = "") -> str:
    """Dump."""
    return BIG


async def thinned(bench, *answers):
    model = ScriptedModel(
        [*[use("dump", path=f"{n}.txt") for n in range(18)], *answers],
        window=100_000,
        max_output=1_000,
    )
    kit = await bench(
        hilum_memory, plugin("tools", dump), model=model, settings={"memory.recent_turns": 1}
    )
    ended = await kit.run("Look.")
    assert ended.state == "completed"
    return kit


async def test_a_thinned_result_keeps_its_ends_and_names_the_way_back(bench):
    kit = await thinned(bench, "done")
    (compacted,) = kit.of(Compacted)
    assert compacted.upto == 0
    text = compacted.thinned["call-1"]
    assert text.startswith("row 0: some value or other\n")
    assert text.endswith("row 699: some value or other")
    assert 'recall_result(id="call-1")' in text
    assert len(text) < 2_500
    last = [m for m in kit.requests[-1].messages if isinstance(m, ToolMessage)]
    assert last[-1].results[0].text == BIG


async def test_a_result_comes_back_in_pages_and_by_pattern(bench):
    second = use("recall_result", id="call-1", offset=10_000)
    kit = await thinned(
        bench, use("recall_result", id="call-1"), second, use("recall_result", id="call-1", pattern=r"row 5[01]\d:"),
        use("recall_result", id="call-1", pattern="("), use("recall_result", id="nothing"), "done",
    )  # fmt: skip
    first, second, found, wrong, missing = (r for r in kit.results if r.name == "recall_result")
    pages = [r.text.rpartition("\n[characters")[0] for r in (first, second)]
    assert "continue with offset=10000]" in first.text
    assert pages[0] + pages[1] == BIG[: len(pages[0] + pages[1])]
    assert len(pages[0] + pages[1]) > 17_000
    assert "row 505: some value" in found.text
    assert found.text.count("\n") == 19
    assert wrong.code == "E_BAD_ARGS"
    assert missing.code == "E_NOT_FOUND"


async def test_a_result_comes_back_with_its_images(bench):
    @tool(risk="read")
    def shot() -> Output:
        """Shoot."""
        return Output("seen", images=(Image("image/png", b"png"),))

    kit = await bench(
        hilum_memory,
        plugin("tools", shot),
        answers=[use("shot"), use("recall_result", id="call-1"), "done"],
    )
    await kit.run("x")
    back = kit.result("recall_result")
    assert back.parts[1] == Image("image/png", b"png")


def conversation(*rounds):
    messages = [UserMessage((Text("Go."),))]
    for number, (path, size) in enumerate(rounds):
        call = ToolCall(f"c{number}", "read_file", f'{{"path": "{path}"}}')
        messages += [
            AssistantMessage((call,)),
            ToolMessage((ToolResult(call.id, "read_file", (Text("x" * size),)),)),
        ]
    return messages


def plan(messages, budget, **options):
    sizes = [len(m.results[0].text) // 4 if isinstance(m, ToolMessage) else 20 for m in messages]
    return CompactionPlanner(messages, sizes, **options).plan(budget, 500)


def test_what_the_last_turns_work_with_is_not_thinned():
    """A file that is being edited stays as it was read last; an older reading of it goes."""
    rounds = [
        ("src/app.py", 8_000),
        ("src/other.py", 8_000),
        ("src/app.py", 8_000),
        ("a", 10),
        ("src/app.py", 10),
    ]
    found = plan(conversation(*rounds), 4_000, recent=1)
    assert found.upto == 0
    assert set(found.thinned) == {"c0", "c1"}


def test_ids_that_come_twice_are_never_thinned():
    messages = conversation(("a.py", 9_000), ("b.py", 9_000), ("c.py", 9_000), ("d.py", 10))
    again = conversation(("e.py", 9_000))[1:]
    found = plan([*messages, *again], 5_000, recent=1)
    assert "c0" not in found.thinned


def test_results_of_tools_named_in_the_settings_are_not_thinned():
    messages = conversation(*[(f"{n}.py", 9_000) for n in range(4)], ("e.py", 10))
    assert plan(messages, 9_000, recent=1, never=("read_file",)).thinned == {}


def test_a_last_turn_that_is_too_big_by_itself_is_thinned_too():
    found = plan(conversation(("a.py", 10), ("b.py", 400_000)), 5_000)
    assert found.upto == 3
    assert len(found.thinned["c1"]) < 40_000
    assert found.size <= 10_000


def test_old_images_are_thinned():
    image = ToolResult("c9", "shot", (Text("seen"), Image("image/png", b"x")))
    messages = [
        UserMessage((Text("Go."),)),
        AssistantMessage((ToolCall("c9", "shot", "{}"),)),
        ToolMessage((image,)),
    ]
    messages += conversation(("a.py", 4_000), ("b.py", 10))[1:]
    found = CompactionPlanner(messages, [20, 20, 1_300, 20, 1_000, 20, 20], recent=1).plan(
        1_900, 300
    )
    assert found.thinned["c9"].startswith("seen\n[… 1 image left out")


async def test_without_the_tool_no_handle_is_named(bench):
    async with open_bench(hilum_memory, plugin("tools", dump), answers=["x"]) as kit:
        request = await one(kit)
        found = next(spec for spec in request.tools if spec.name == "find_tools")
        assert "recall_result" in found.description, "deferred: nothing was shortened yet"
    result = ToolResult("c1", "dump", (Text(BIG),))
    from hilum_memory.compaction_plan import thin_result

    assert "recall_result" not in thin_result(result, 100, 100, handle=False)


async def one(kit):
    await kit.run("x")
    return kit.requests[0]
