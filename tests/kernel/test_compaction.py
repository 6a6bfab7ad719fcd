"""What no compaction can break: the request stays, calls keep their results, everything fits, and a
resume goes on alike.
"""

import json

import msgspec
import pytest
import trio
from hilum import Compaction, tool
from hilum.compaction import (
    apply_compaction,
    cut_point,
    fit_request,
    message_size,
    plain_compaction,
    reserve,
    room,
    shorten_results,
)
from hilum.context import estimate
from hilum.errors import E_WINDOW
from hilum.events import Compacted, ModelFailed, ModelStarted, RoundEnded
from hilum.messages import (
    AssistantMessage,
    Image,
    NoteMessage,
    Text,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from hilum.models import ModelInfo
from hilum.state import Conversation
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench, plugin, say, use
from hypothesis import given, settings
from hypothesis import strategies as st

DENSE = "".join(f"{n}\n" for n in range(1, 6_001))  # what `seq 1 6000` prints


@tool(risk="read")
def numbers(n: int, size: int = 28_893, kind: str = "dense") -> str:
    """Print numbers."""
    text = {"dense": DENSE, "plain": "some words of a file\n" * 2_000, "wide": "测试数据" * 8_000}[
        kind
    ]
    return f"call {n}\n{text[:size]}"


def paired(messages):
    """Whether each call has its result right after it, and no result is alone."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if [result.call_id for result in message.results] != waiting:
                return False
            waiting = []
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [call.id for call in message.calls]
    return not waiting


def requested(messages, text):
    """Whether the user's request is there, as the user's."""
    return any(isinstance(m, UserMessage) and m.parts[0].text == text for m in messages)


# --- pure -----------------------------------------------------------------------------------------

texts = st.sampled_from(
    ["", "x", "word " * 50, DENSE[:3_000], DENSE, "测试" * 900, "plain text of a file\n" * 700]
)


@st.composite
def histories(draw):
    """A conversation as the kernel builds it, and where its request is."""
    messages = [NoteMessage(draw(texts))] if draw(st.booleans()) else []
    number, request = 0, 0
    for _ in range(draw(st.integers(1, 3))):
        context = [Text(draw(texts), "context:open_file")] if draw(st.booleans()) else []
        request = len(messages)
        messages.append(UserMessage((Text(f"request {request} {draw(texts)}"), *context)))
        for _ in range(draw(st.integers(0, 4))):
            calls, results = [], []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                identity = (
                    draw(st.sampled_from(["same", f"call-{number}"]))
                    if not calls
                    else f"call-{number}"
                )
                calls.append(ToolCall(identity, "look", json.dumps({"a": draw(texts)[:200]})))
                parts = [Text(draw(texts), "tool:look")]
                if draw(st.integers(0, 9)) == 0:
                    parts.append(Image("image/png", b"x"))
                results.append(
                    ToolResult(
                        identity, "look", tuple(parts), draw(st.sampled_from(["", "E_FAILED"]))
                    )
                )
            messages += [
                AssistantMessage((Text("So.", "model"), *calls), stop="calls"),
                ToolMessage(tuple(results)),
            ]
            if draw(st.integers(0, 3)) == 0:
                messages.append(NoteMessage("Mind the rules."))
        if draw(st.booleans()):
            messages.append(AssistantMessage((Text(draw(texts), "model"),)))
    return messages, request


def size(message):
    parts = getattr(message, "parts", ())
    found = [part for result in getattr(message, "results", ()) for part in result.parts]
    plain = sum(
        1_200 if isinstance(p, Image) else estimate(getattr(p, "text", "") or "")
        for p in [*parts, *found]
    )
    calls = sum(estimate(call.arguments) + 10 for call in getattr(message, "calls", ()))
    return plain + calls + (estimate(message.text) if isinstance(message, NoteMessage) else 0) + 10


@given(histories(), st.integers(-3, 40), st.booleans(), texts)
def test_whatever_a_plugin_plans_the_request_and_the_last_turn_stay(history, upto, thin, summary):
    messages, request = history
    ids = [result.call_id for m in messages if isinstance(m, ToolMessage) for result in m.results]
    upto = cut_point(messages, upto)
    compaction = Compaction(
        upto, summary if upto else "", dict.fromkeys(ids, "(thinned)") if thin else {}
    )
    after, place = apply_compaction(messages, compaction, request)
    assert after[place] == messages[request]
    assert sum(message == messages[request] for message in after) == 1
    assert paired(after) or not paired(messages)
    last = max(i for i, m in enumerate(messages) if isinstance(m, UserMessage | AssistantMessage))
    assert len(after) >= len(messages) - last
    again, place = apply_compaction(after, Compaction(cut_point(after, upto), "again", {}), place)
    assert again[place] == messages[request]


@given(histories(), st.integers(600, 20_000))
def test_plain_compaction_fits_and_keeps_the_request(history, space):
    messages, request = history
    messages[request] = fit_request(messages[request], space, estimate)
    sizes = [size(message) for message in messages]
    compaction = plain_compaction(messages, sizes, int(space * 0.4), request=request)
    after, place = apply_compaction(messages, compaction, request)
    assert after[place] == messages[request]
    assert paired(after) or not paired(messages)
    assert sum(map(size, after)) <= max(space, 0) or sum(map(size, after)) <= sum(sizes) <= space


@given(
    st.lists(texts, min_size=1, max_size=6),
    st.sampled_from([8_192, 16_384, 32_768, 131_072]),
    st.integers(-500, 90_000),
)
def test_no_result_takes_more_than_a_quarter_of_the_window(found, window, free):
    results = [
        ToolResult(f"c{n}", "look", (Text(text, "tool:look"),)) for n, text in enumerate(found)
    ]
    shortened = shorten_results(
        results, window, min(free, window), estimate, recall="recall_result"
    )
    for result in results:
        text = shortened.get(result.call_id, result.text)
        assert estimate(text) <= window // 4
        if result.call_id in shortened:
            assert f'recall_result(id="{result.call_id}", offset=' in text
            assert f"of {len(result.text):,} characters left out" in text
            head = text.split("\n[…")[0]
            assert result.text.startswith(head)


def test_a_request_that_takes_most_of_the_room_is_quoted_and_says_so():
    request = UserMessage(
        (Text("Fix this: " + "word " * 20_000 + "and keep the API."), Text("<x>", "context:x"))
    )
    quoted = fit_request(request, 8_000, estimate)
    assert message_size(quoted, estimate) <= 4_000
    text = quoted.parts[0].text
    assert text.startswith("Fix this: word")
    assert text.endswith("and keep the API.")
    assert "characters of the user's request left out" in text
    assert all(part.source == "user" for part in quoted.parts)


def test_the_reserve_and_the_room_suit_small_windows():
    """At 8k with a prompt of 3,500 tokens a run has room.

    The reserve never takes over half of the window.
    """
    assert room(ModelInfo("a/b", 8_192, 1_024), 3_500) > 2_500
    assert reserve(ModelInfo("a/b", 8_192, 32_000)) == 4_096
    assert room(ModelInfo("a/b", 200_000, 32_000), 10_000) == int(168_000 * 0.8) - 10_000


# --- through the loop -----------------------------------------------------------------------------


def small(answers, window=32_768):
    return ScriptedModel(answers, window=window, max_output=window // 8)


def fits(kit, window):
    """Whether every request left room for the answer, by the estimate the kernel had."""
    return all(event.estimate <= window - window // 8 for event in kit.of(ModelStarted))


@pytest.mark.parametrize("window", [8_192, 16_384, 32_768])
async def test_dense_results_never_push_out_the_request(bench, window):
    """Thirty turns of 30,000 dense characters: the request is in each request sent, and a
    compaction serves many turns.
    """
    kit = await bench(plugin("tools", numbers), model=small([*[use("numbers", n=n) for n in range(30)], "done"], window),
                      settings={"turns": 50})  # fmt: skip
    ended = await kit.run("Find the seventh number.")
    assert (ended.state, ended.text) == ("completed", "done")
    assert all(requested(request.messages, "Find the seventh number.") for request in kit.requests)
    assert all(paired(request.messages) for request in kit.requests)
    assert fits(kit, window)
    assert len(kit.of(Compacted)) <= 30 / 5


async def test_bad_plans_of_a_plugin_cannot_drop_the_request(bench):
    """It cuts everything, writes a summary larger than the window, or thins nothing: the kernel
    makes it fit.
    """
    plans = [
        Compaction(10_000, ""),
        Compaction(10_000, "x" * 400_000),
        Compaction(thinned={"call-1": ""}),
        Compaction(1, "short"),
    ]
    bad = plugin("memory", numbers, trim_context=lambda agent: plans[agent.run.turn % 4])
    answers = [*[use("numbers", n=n) for n in range(40)], "done"]
    kit = await bench(bad, model=small(answers), settings={"turns": 60})
    ended = await kit.run("Keep me.")
    assert ended.state == "completed"
    assert all(requested(request.messages, "Keep me.") for request in kit.requests)
    assert all(paired(request.messages) for request in kit.requests)
    assert fits(kit, 32_768)


async def test_arguments_larger_than_the_window_are_told_of_and_dropped(bench):
    """A last turn that cannot be made to fit goes, too; the request and what was called stay."""
    answers = [
        use("numbers", n=1, kind="dense", size=1_000),
        [use("numbers", n=2), say("x " * 60_000)],
        "done",
    ]
    kit = await bench(plugin("tools", numbers), model=small(answers), settings={"turns": 9})
    ended = await kit.run("Keep me.")
    assert ended.state == "completed"
    assert requested(kit.requests[-1].messages, "Keep me.")
    assert "You called numbers" in kit.requests[-1].messages[0].text
    assert fits(kit, 32_768)


async def test_earlier_requests_may_go_the_current_one_stays(bench):
    """Of several prompts of one conversation the last counts, also where they waited for each
    other.
    """
    model = small(
        [
            step
            for k in range(4)
            for step in [*[use("numbers", n=n) for n in range(8)], f"answer {k}"]
        ]
    )
    kit = await bench(plugin("tools", numbers), model=model)
    runs = [await kit.session.prompt(f"request {k}") for k in range(4)]
    with kit.guard():
        ends = [await run.wait() for run in runs]
    assert [end.text for end in ends] == [f"answer {k}" for k in range(4)]
    for index, request in enumerate(kit.requests):
        assert requested(request.messages, f"request {index // 9}")
    assert len(kit.of(Compacted)) >= 2
    assert "request 0" in str(kit.requests[-1].messages[0])


async def test_a_model_with_a_smaller_window_takes_over_or_says_why_not(bench):
    tiny, none = small(["ok"], 8_192), small(["never"], 1_024)
    kit = await bench(plugin("tools", numbers), models={"tiny": tiny, "none": none},
                      answers=[*[use("numbers", n=n, size=3_000) for n in range(9)], "big"])  # fmt: skip
    await kit.run("x")
    kit.session.set(model="scripted/tiny")
    assert (await kit.run("Keep me.")).text == "ok"
    assert requested(tiny.requests[0].messages, "Keep me.")
    assert kit.of(Compacted)[-1].cause == "model"
    kit.session.set(model="scripted/none")
    ended = await kit.run("word " * 4_000)
    assert (ended.state, ended.code) == ("failed", E_WINDOW)
    assert none.requests == []


kinds = st.sampled_from(["dense", "plain", "wide"])
steps = st.lists(
    st.lists(st.tuples(kinds, st.sampled_from([10, 900, 6_000, 30_000])), min_size=1, max_size=3),
    min_size=3,
    max_size=9,
)


@settings(max_examples=15, deadline=None)
@given(
    steps,
    st.sampled_from([8_192, 16_384, 32_768]),
    st.sampled_from(["Find it.", "Find it. " + "word " * 1_500]),
)
def test_random_runs_keep_their_promises_and_resume_alike(rounds, window, text):
    """The request and its pairs in every request, the budget, and: any prefix of the log sends the
    same next request.
    """
    answers = []
    for number, calls in enumerate(rounds):
        answers.append(
            [
                use("numbers", n=10 * number + k, kind=kind, size=size)
                for k, (kind, size) in enumerate(calls)
            ]
        )

    async def main():
        store = MemoryStore()
        model = small([*answers, "done"], window)
        async with open_bench(
            plugin("tools", numbers), model=model, store=store, settings={"turns": 30}
        ) as kit:
            ended = await kit.run(text)
            events, requests = kit.events, list(kit.requests)
            if ended.code == E_WINDOW:
                assert requests == []
                return
            assert ended.state == "completed", ended
            own = (
                text
                if message_size(UserMessage((Text(text),)), estimate) < window // 8
                else text[:20]
            )
            for request in requests:
                assert any(
                    isinstance(m, UserMessage) and m.parts[0].text.startswith(own)
                    for m in request.messages
                ), request.messages
                assert paired(request.messages)
            assert fits(kit, window)
            assert not kit.of(ModelFailed)
        # The state before each request, folded from the log alone, is the one that sent it.
        folded, number = Conversation(), 0
        for event in events:
            if event.agent != "main":
                continue
            if isinstance(event, ModelStarted):
                assert tuple(folded.messages) == tuple(requests[number].messages)
                number += 1
            folded.apply(msgspec.json.decode(msgspec.json.encode(event), type=type(event)))
        assert number == len(requests)

    trio.run(main)


async def test_a_resume_in_the_middle_sends_the_same_next_request(tmp_path):
    """The session is cut off before each of its requests in turn, and goes on from its store."""
    answers = [use("numbers", n=n) for n in range(9)]
    model = small([*answers, "done"], 16_384)
    async with open_bench(plugin("tools", numbers), model=model, folder=tmp_path) as kit:
        await kit.run("Find it.")
        whole = [request.body for request in kit.requests]
        events = kit.events
        assert kit.of(Compacted)
        workspace, session = kit.workspace, kit.session.id
        infos = await kit.kernel.store.info(session)
    for number in range(1, len(whole)):
        store = MemoryStore()
        log = await store.create(infos)
        starts = [event.seq for event in events if isinstance(event, ModelStarted)]
        log.append([event for event in events if event.seq < starts[number]])
        await log.close()
        again = small([*answers[number:], "done"], 16_384)
        options = {"store": store, "resume": session, "folder": tmp_path, "workspace": workspace}
        async with open_bench(plugin("tools", numbers), model=again, **options) as kit:
            (run,) = kit.session.resume()
            with kit.guard():
                assert (await run.wait()).text == "done"
            # Later ones differ in the ids that the scripted model gives its calls.
            assert kit.requests[0].body == whole[number]


async def test_a_fork_keeps_the_request_of_its_run(tmp_path):
    """A fork of a run in its middle goes on with the request, compacted or not."""
    model = small([*[use("numbers", n=n) for n in range(12)], "done"], 16_384)
    async with open_bench(plugin("tools", numbers), model=model, folder=tmp_path) as kit:
        await kit.run("Find it.")
        upto = [event.seq for event in kit.events if isinstance(event, RoundEnded)][-2]
        forked = await kit.kernel.fork(kit.session.id, upto)
        kit.model.then(*[use("numbers", n=n) for n in range(12)], "forked")
        async with kit.kernel.open_session(resume=forked, approve="auto") as session:
            seen = len(kit.requests)
            (run,) = session.resume()
            with kit.guard():
                assert (await run.wait()).text == "forked"
        assert all(requested(request.messages, "Find it.") for request in kit.requests[seen:])
