"""check_answer: an objection goes back to the model, at most three times."""

from hilum.events import RoundEnded
from hilum.testing import plugin, say


def objecting(*texts):
    """A plugin that objects with these texts, one per answer."""
    left = iter(texts)
    return plugin("critic", check_answer=lambda: next(left, None))


async def test_objection_goes_back_to_the_model(bench):
    """The model reads the reason and answers again; only the last answer is the run's."""
    kit = await bench(objecting("Run the tests first."), answers=["Done.", "Tests pass. Done."])
    ended = await kit.run("x")
    assert (ended.state, ended.text, ended.turns) == ("completed", "Tests pass. Done.", 2)
    assert kit.requests[1].messages[-1].text == "Run the tests first."
    assert [event.objected for event in kit.of(RoundEnded)] == [True]


async def test_objections_are_bounded(bench):
    """After three the answer is given, marked as partial, with what is left."""
    kit = await bench(objecting("one", "two", "three", "four"), answers=["a", "b", "c", "d"])
    ended = await kit.run("x")
    assert (ended.state, ended.text, ended.left) == ("partial_success", "d", "four")
    assert len(kit.requests) == 4


async def test_answer_cut_off_at_the_output_limit_is_continued(bench):
    """A truncated answer is no answer."""
    kit = await bench(answers=[say("The first half", stop="length"), "and the second."])
    assert (await kit.run("x")).state == "completed"
    assert "cut off" in kit.requests[1].messages[-1].text


async def test_refusal_of_the_model_is_a_failure(bench):
    """A model that refuses is not made to try again."""
    kit = await bench(answers=[say("I cannot help.", stop="refusal")])
    ended = await kit.run("x")
    assert (ended.state, ended.text) == ("failed", "I cannot help.")
    assert ended.hint


async def test_answer_is_partial_once_a_checking_plugin_is_off(bench):
    """A check that is gone is no check passed: the answer is given, and marked."""

    async def broken(message):
        raise RuntimeError("broken")

    kit = await bench(plugin("checker", check_answer=broken), answers=["a", "b", "c", "d", "e"], faults=True)
    first = await kit.run("x")
    again = await kit.run("y")
    assert first.state == "partial_success"
    assert (again.state, again.code) == ("partial_success", "E_PLUGIN")
    assert "checker" in again.error


async def test_empty_answer_is_asked_for_again(bench):
    """Silence is no answer: the model is told, and after three times the run is partial."""
    kit = await bench(answers=["", "Found it."])
    assert (await kit.run("x")).text == "Found it."
    assert "empty" in kit.requests[1].messages[-1].text
    kit.model.next("", "", "", "")
    assert (await kit.run("y")).state == "partial_success"
