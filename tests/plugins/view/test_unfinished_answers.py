"""Answers that were stopped: what arrived of them stays."""

import pytest
import trio
from hilum.events import Delta
from hilum.testing import pause, say
from hilum_view import Answer, Outcome, SessionView


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Half of an answer", "Half of an answer"),
        # The rest of the word may show that it is a secret.
        ("The key is sk-ant-api03", "The key is"),
        ("一二三四五六七八九十", "一二三四五六七八九十"),
        ("word " * 2_000, ("word " * 1_600).rstrip() + " …"),
    ],
    ids=["short", "secret", "chinese", "long"],
)
async def test_the_text_of_an_answer_that_was_stopped_stays(bench, text, kept):
    """In the log, and in every view of it; the model does not read it again."""
    kit = await bench(answers=[say(text) + pause(trio.Event()), "Done."])
    run = await kit.session.prompt("Go")
    async for item in kit.session.events(deltas=True):
        if isinstance(item, Delta):
            break
    kit.session.stop()
    ended = await run.wait()
    assert (ended.state, ended.unfinished) == ("stopped", kept)
    view = SessionView()
    for event in kit.session.journal.read_all():
        view.apply(event)
    (answer,) = [entry for entry in view.entries if isinstance(entry, Answer)]
    assert (answer.state, str(answer.text)) == ("cut_off", kept)
    (outcome,) = [entry for entry in view.entries if isinstance(entry, Outcome)]
    assert answer.id < outcome.id
    ended = await kit.run("And now?")
    assert ended.unfinished == ""
    assert text not in str(kit.model.requests[-1].messages)
