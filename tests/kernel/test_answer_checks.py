"""check_answer: an objection goes back to the model, at most three times."""

import trio
from hilum.errors import E_OUTPUT_LIMIT
from hilum.events import RoundEnded
from hilum.store import MemoryStore
from hilum.testing import open_bench, pause, plugin, say


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


async def test_a_stop_during_the_check_of_an_answer_stops_the_run(bench):
    """Although nothing after the check waits for anything."""

    def check_answer(agent):
        agent.session.stop()

    kit = await bench(plugin("critic", check_answer=check_answer), answers=["Done."])
    assert (await kit.run("x")).state == "stopped"


async def test_objections_are_bounded(bench):
    """After three the answer is given, marked as partial, with what is left."""
    kit = await bench(objecting("one", "two", "three", "four"), answers=["a", "b", "c", "d"])
    ended = await kit.run("x")
    assert (ended.state, ended.text, ended.left) == ("partial_success", "d", "four")
    assert len(kit.requests) == 4


async def test_answer_cut_off_at_the_output_limit_is_continued(bench):
    """The pieces are one answer: in the result, and for plugins that check it."""
    seen = []
    critic = plugin("critic", check_answer=lambda message: seen.append(message.text))
    kit = await bench(critic, answers=[say("The first half ", stop="length"), "and the second."])
    ended = await kit.run("x")
    assert (ended.state, ended.text) == ("completed", "The first half and the second.")
    assert "cut off" in kit.requests[1].messages[-1].text
    assert seen == ["The first half and the second."]


async def test_words_that_a_continuation_repeats_are_there_once(bench):
    """Many models begin again with the last words."""
    answers = [
        say("It fails because the total is None ", stop="length"),
        "because the total is None when it is empty.",
    ]
    kit = await bench(answers=answers)
    assert (await kit.run("x")).text == "It fails because the total is None when it is empty."


async def test_an_answer_that_is_still_cut_is_partial(bench):
    """Three continuations are asked for; what there is then is given and marked."""
    kit = await bench(answers=[say(f"piece {n} ", stop="length") for n in range(4)])
    ended = await kit.run("x")
    assert (ended.state, ended.code) == ("partial_success", E_OUTPUT_LIMIT)
    assert ended.text == "piece 0 piece 1 piece 2 piece 3 "
    assert "cut off" in ended.error
    assert [event.continued for event in kit.of(RoundEnded)] == [True] * 3
    assert [event.objected for event in kit.of(RoundEnded)] == [False] * 3


async def test_a_continued_answer_can_be_objected_to(bench):
    """The objection is to the whole, and the answer after it is a new one."""
    kit = await bench(
        objecting("Say it in French."), answers=[say("Good ", stop="length"), "day.", "Bonjour."]
    )
    ended = await kit.run("x")
    assert (ended.state, ended.text) == ("completed", "Bonjour.")


async def test_a_cut_answer_is_the_same_when_the_run_is_resumed(tmp_path):
    store = MemoryStore()
    answers = [say("The first half ", stop="length"), pause(trio.Event())]
    async with open_bench(answers=answers, store=store, folder=tmp_path) as kit:
        await kit.start("x")
        await kit.model.asked(2)
        session = kit.session.id
    async with open_bench(
        answers=["and the second."], store=store, resume=session, folder=tmp_path
    ) as kit:
        (run,) = kit.session.resume()
        assert (await run.wait()).text == "The first half and the second."


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

    kit = await bench(
        plugin("checker", check_answer=broken), answers=["a", "b", "c", "d", "e"], faults=True
    )
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


async def test_the_user_reads_what_an_empty_answer_is(bench):
    """The text for the model is none for the user."""
    kit = await bench(answers=["", "", "", ""])
    ended = await kit.run("x")
    assert ended.state == "partial_success"
    assert (
        ended.error
        == "The model's answer was empty, even after it had been asked for another one 3 times."
    )
    assert kit.requests[1].messages[-1].text.startswith("Your answer was empty.")
