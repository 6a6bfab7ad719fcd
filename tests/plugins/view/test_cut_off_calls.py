"""What people read about a call that was cut off: a sentence without what is for the model."""

import pytest
import trio
from hilum import Call, tool
from hilum.errors import CALL_LOST, CALL_UNCERTAIN, E_INTERRUPTED, E_STOPPED, E_TIMEOUT
from hilum.events import ApprovalAsked
from hilum.messages import Text, ToolCall, ToolResult
from hilum.testing import plugin, use
from hilum_view import Card, SessionView


@pytest.fixture
def began():
    return trio.Event()


@pytest.fixture
def work(began):
    """A tool that never ends."""

    @tool(risk="execute")
    async def work(call: Call, name: str = "") -> str:
        """Work forever."""
        call.output_so_far = lambda: "half done"
        began.set()
        await trio.sleep_forever()
        return name

    return work


@pytest.mark.parametrize(
    ("approve", "expected"),
    [
        (
            "auto",
            "This was stopped before it was complete, because the run was stopped. Its output so"
            " far:\nhalf done",
        ),
        ("ask_first", "This was not run, because the run was stopped."),
    ],
)
async def test_a_stopped_call_is_described_for_people(bench, work, began, approve, expected):
    """The kernel writes the text for the model, so both are tested together."""
    answers = [use("work", name="was not run, because` of x"), "ok"]
    kit = await bench(plugin("tools", work), answers=answers, approve=approve)
    run = await kit.start("x")
    with kit.guard():
        if approve == "auto":
            await began.wait()
        else:
            await kit.wait_for(ApprovalAsked)
        run.stop()
        await run.wait()
    view = SessionView()
    for event in kit.events:
        view.apply(event)
    [card] = view.cards
    assert card.code == E_STOPPED
    assert card.user_text == expected
    assert card.summary in expected


def read(text, code):
    """Return what people read of a result."""
    result = ToolResult("c", "work", (Text(f"{code}: {text}", "kernel"),), code)
    card = Card(id=1, call=ToolCall("c", "work", "{}"), agent="main", state="failed", result=result)
    return card.user_text


@pytest.mark.parametrize("end", [CALL_UNCERTAIN, CALL_LOST])
def test_what_the_model_should_do_is_left_out(end):
    text = f"`work x` {end} Check the current state before you repeat it."
    assert read(text, E_INTERRUPTED) == f"This {end}"


def test_other_texts_stay():
    """A tool's own sentence has no code; any other failure is shown as the model reads it."""
    assert read("The editor is gone.", E_INTERRUPTED) == "The editor is gone."
    assert read("It took too long.", E_TIMEOUT) == "E_TIMEOUT: It took too long."
    assert (
        read("`work` was not run, because the run exceeded its time limit.", E_TIMEOUT)
        == "This was not run, because the run exceeded its time limit."
    )
