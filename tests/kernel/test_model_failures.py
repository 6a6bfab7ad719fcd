"""Requirement M3: what follows when a model fails, in seconds of trio's clock."""

import pytest
import trio
from hilum import ModelError, UsageError, tool
from hilum.errors import E_LLM_429, E_LLM_AUTH, E_LLM_FAIL, E_LLM_TIMEOUT
from hilum.events import Delta, ModelAnswered, ModelFailed, ModelStarted, UserNeeded
from hilum.messages import Text, Thinking, ToolCall
from hilum.models import KeepAlive, Price, longest_answer
from hilum.testing import ScriptedModel, cut, pause, plugin, say, use


def failing(kind, **options):
    """A model error of a kind."""
    return ModelError(f"It failed: {kind}.", kind=kind, **options)


async def play(kit):
    """Run once; gives the end and the seconds it took."""
    began = trio.current_time()
    ended = await kit.run("x")
    return ended, trio.current_time() - began


RETRIED = [
    # what the model does, the wait before each further attempt
    ([failing("server", status=500)], [0.5]),
    ([failing("server")] * 3, [0.5, 1.0, 2.0]),
    ([say("half an ans") + cut()], [0.5]),
    ([failing("broken")] * 3, [0.5, 1.0, 2.0]),
    ([failing("connect")] * 2, [0.5, 1.0]),
    ([failing("timeout")], [2.0]),
    ([failing("rate_limit", retry_after=12.0)], [12.0]),
    ([failing("rate_limit")], [30.0]),
    ([failing("rate_limit")] * 5, [30.0, 60.0, 120.0, 120.0, 120.0]),
    ([failing("rate_limit", retry_after=1.0)] * 5, [1.0, 4.0, 8.0, 16.0, 32.0]),
    ([failing("rate_limit", retry_after=20.0)] * 3, [20.0, 20.0, 20.0]),
    ([failing("server"), failing("timeout"), failing("server")], [0.5, 2.0, 1.0]),
]


@pytest.mark.parametrize(("failures", "waits"), RETRIED)
async def test_failure_that_passes_is_retried_after_its_wait(
    bench, autojump_clock, failures, waits
):
    """Each retry is an event with its wait, and the run is answered in exactly that time."""
    kit = await bench(answers=[*failures, "answer"])
    ended, seconds = await play(kit)
    assert (ended.state, ended.text) == ("completed", "answer")
    assert seconds == pytest.approx(sum(waits))
    assert [(event.action, event.wait) for event in kit.of(ModelFailed)] == [
        ("retry", wait) for wait in waits
    ]
    assert [event.attempt for event in kit.of(ModelStarted)] == [*range(1, len(waits) + 2)]
    assert len({request.body for request in kit.requests}) == 1


GIVEN_UP = [
    # what the model does, requests made, code, whether only the user can help
    ([failing("auth", status=401)], 1, E_LLM_AUTH, True),
    ([failing("request", status=400)], 1, E_LLM_FAIL, False),
    ([failing("timeout")] * 2, 2, E_LLM_TIMEOUT, True),
    ([failing("rate_limit", retry_after=1.0)] * 6, 6, E_LLM_429, True),
    (
        [failing("rate_limit", retry_after=1.0), failing("rate_limit", retry_after=121.0)],
        2,
        E_LLM_429,
        True,
    ),
    ([failing("rate_limit", retry_after=3600.0)], 1, E_LLM_429, True),
    ([failing("server")] * 4, 4, E_LLM_FAIL, False),
    ([cut()] * 4, 4, E_LLM_FAIL, False),
    ([RuntimeError("a bug in the gateway")], 1, E_LLM_FAIL, False),
]


@pytest.mark.parametrize(("failures", "requests", "code", "needed"), GIVEN_UP)
async def test_failure_that_stays_ends_the_run(
    bench, autojump_clock, failures, requests, code, needed
):
    """After its retries a run fails with the reason, and a later prompt goes on."""
    kit = await bench(answers=failures)
    ended, _ = await play(kit)
    assert (ended.state, ended.code) == ("failed", code)
    assert len(kit.requests) == requests
    assert kit.of(ModelFailed)[-1].action == "give_up"
    assert bool(kit.of(UserNeeded)) == needed
    kit.model.then("better")
    assert (await kit.run("y")).text == "better"


async def test_missing_key_is_said(bench):
    """The message and the hint of the gateway reach the user as they are."""
    kit = await bench(
        answers=[ModelError("The key was refused.", kind="auth", hint="Set OPENAI_API_KEY.")]
    )
    ended = await kit.run("x")
    assert (ended.error, ended.hint) == ("The key was refused.", "Set OPENAI_API_KEY.")
    assert kit.of(UserNeeded)[0].message == "The key was refused. Set OPENAI_API_KEY."


@pytest.mark.parametrize("silent", [pause(1e6), say("Once upon a ") + pause(1e6)])
async def test_silent_model_is_given_up_after_thirty_seconds_and_tried_once_more(
    bench, autojump_clock, silent
):
    """30 s without a byte, a wait of 2 s, 30 s more, then the user is told to check the network."""
    kit = await bench(answers=[silent, silent])
    ended, seconds = await play(kit)
    assert (ended.state, ended.code) == ("failed", E_LLM_TIMEOUT)
    assert seconds == pytest.approx(62)
    assert "network" in kit.of(UserNeeded)[0].message


async def test_signs_of_life_keep_a_slow_model(bench, autojump_clock):
    """A model that is queued for a hundred seconds and says so is waited for.

    What it then says counts anew.
    """
    queued = [part for _ in range(5) for part in (pause(20.0), KeepAlive())]
    kit = await bench(answers=[[*queued, "at ", *queued, "last"]])
    ended, seconds = await play(kit)
    assert ended.text == "at last"
    assert seconds == pytest.approx(200)


@pytest.mark.parametrize("sign", [KeepAlive(), " ", "\n"], ids=["alive", "blank", "newline"])
async def test_signs_of_life_alone_do_not_outlive_the_limit_for_silence(
    bench, autojump_clock, sign
):
    """Keep-alives stretch it to four times; blanks do not stretch it at all."""
    endless = [part for _ in range(1_000) for part in (pause(0.7), sign)]
    kit = await bench(answers=[endless, endless])
    ended, seconds = await play(kit)
    assert (ended.state, ended.code) == ("failed", E_LLM_TIMEOUT)
    limit = 120 if isinstance(sign, KeepAlive) else 30
    assert seconds == pytest.approx(2 * limit + 2)


async def test_an_answer_has_a_time_limit(bench, autojump_clock):
    """A word every twenty seconds is progress, and still not for ever.

    Only another model is tried.
    """
    endless = [part for _ in range(1_000) for part in (pause(20.0), "word ")]
    kit = await bench(answers=[endless], settings={"answer_timeout": 600})
    ended, seconds = await play(kit)
    assert (ended.state, ended.code) == ("failed", E_LLM_TIMEOUT)
    assert seconds == pytest.approx(600)
    assert "answer_timeout" in ended.hint


async def test_an_endless_answer_is_cut_off(bench):
    """The bound follows the model's longest answer; text, reasoning and arguments count."""
    limit = longest_answer(ScriptedModel(max_output=1_000).info)
    assert limit == 524_288
    for part in (Text("x" * 1_000), Thinking("x" * 1_000), ToolCall("", "look", "x" * 1_000)):
        kit = await bench(model=ScriptedModel([[part] * 600], max_output=1_000))
        ended = await kit.run("x")
        assert (ended.state, ended.code) == ("failed", E_LLM_FAIL)
        assert "524,288 characters" in ended.error
        assert len(kit.requests) == 1


async def test_a_fallback_that_does_not_exist_is_named_and_the_rest_of_the_list_tried(
    bench, autojump_clock
):
    second = ScriptedModel(["from the second"], name="scripted/second")
    kit = await bench(
        answers=[failing("timeout")] * 2,
        models={"second": second},
        settings={"fallback": ["nobody/there", "scripted/gone", "scripted/second"]},
    )
    ended, _ = await play(kit)
    assert ended.text == "from the second"
    failed = kit.of(ModelFailed)[-1]
    assert (failed.action, failed.next) == ("fallback", "scripted/second")
    assert "The fallback nobody/there cannot be used" in failed.hint
    assert "The fallback scripted/gone cannot be used" in failed.hint


async def test_a_fallback_that_does_not_exist_does_not_hide_the_true_error(bench, autojump_clock):
    kit = await bench(answers=[failing("timeout")] * 2, settings={"fallback": ["nobody/there"]})
    ended, _ = await play(kit)
    assert (ended.code, ended.error) == (E_LLM_TIMEOUT, "It failed: timeout.")
    assert "The fallback nobody/there cannot be used" in ended.hint


async def test_when_the_fallback_fails_too_both_errors_are_told(bench, autojump_clock):
    second = ScriptedModel([failing("auth")], name="scripted/second")
    kit = await bench(
        answers=[failing("timeout")] * 2,
        models={"second": second},
        settings={"fallback": ["scripted/second"]},
    )
    ended, _ = await play(kit)
    assert (
        ended.error
        == "It failed: timeout. The fallback scripted/second failed, too: It failed: auth."
    )


async def test_a_wait_that_is_too_long_is_told(bench, autojump_clock):
    kit = await bench(answers=[failing("rate_limit", retry_after=4_000.0)])
    ended, seconds = await play(kit)
    assert seconds == 0
    assert "The provider asks to wait 1 h 6 min" in ended.hint


async def test_no_credit_is_told_at_once(bench, autojump_clock):
    """Waiting brings no credit; another model may have some."""
    second = ScriptedModel(["from the second"], name="scripted/second")
    kit = await bench(
        answers=[failing("quota")],
        models={"second": second},
        settings={"fallback": ["scripted/second"]},
    )
    ended, seconds = await play(kit)
    assert (ended.text, seconds) == ("from the second", 0)


async def test_fallback_goes_on_with_the_next_model(bench, autojump_clock):
    """When the retries of one model are used up, the next of the list answers, with retries of its
    own.
    """
    second = ScriptedModel([failing("server"), "from the second"], name="scripted/second")
    kit = await bench(
        answers=[failing("rate_limit", retry_after=1.0)] * 2,
        models={"second": second},
        settings={"fallback": ["scripted/second"]},
    )
    ended, seconds = await play(kit)
    assert ended.text == "from the second"
    assert seconds == pytest.approx(1.5)
    assert [(event.action, event.next) for event in kit.of(ModelFailed)] == [
        ("retry", ""),
        ("fallback", "scripted/second"),
        ("retry", ""),
    ]
    assert kit.of(ModelAnswered)[0].message.model == "scripted/second"


async def test_last_model_of_the_list_ends_it(bench, autojump_clock):
    """When nobody answers, the run fails."""
    second = ScriptedModel([failing("timeout")] * 2, name="scripted/second")
    kit = await bench(
        answers=[failing("timeout")] * 2,
        models={"second": second},
        settings={"fallback": ["scripted/second"]},
    )
    ended, _ = await play(kit)
    assert ended.state == "failed"
    assert [event.action for event in kit.of(ModelFailed)] == [
        "retry",
        "fallback",
        "retry",
        "give_up",
    ]


async def test_wrong_key_is_not_covered_up_by_a_fallback(bench):
    """A refused key is told at once."""
    second = ScriptedModel(["never"], name="scripted/second")
    kit = await bench(
        answers=[failing("auth")],
        models={"second": second},
        settings={"fallback": ["scripted/second"]},
    )
    assert (await kit.run("x")).code == E_LLM_AUTH
    assert second.requests == []


async def test_new_attempt_tells_readers_to_drop_what_they_showed(bench, autojump_clock):
    """Pieces of a broken answer belong to their attempt; only the whole answer is logged."""
    kit = await bench(
        model=ScriptedModel([say("one two three") + cut(), "four five six"], pace=0.1)
    )
    seen = []

    async def read(task_status):
        task_status.started()
        stream = kit.session.events(deltas=True)
        async for event in stream:
            if isinstance(event, Delta | ModelStarted | ModelAnswered):
                seen.append(event)
            if isinstance(event, ModelAnswered):
                break
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        await nursery.start(read)
        await kit.run("x")
    attempts = {event.seq: event.attempt for event in seen if isinstance(event, ModelStarted)}
    by_attempt = {1: "", 2: ""}
    for event in seen:
        if isinstance(event, Delta):
            by_attempt[attempts[event.seq]] += event.text
    assert by_attempt[1].startswith("one two")
    assert "four five six".startswith(by_attempt[2])
    assert by_attempt[2]
    assert seen[-1].message.text == "four five six"


async def test_finished_calls_are_not_run_again_by_a_retry(bench, autojump_clock):
    """A failure in the third turn repeats that request and nothing else."""
    ran = []

    @tool
    def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return "acted"

    kit = await bench(
        plugin("tools", act), answers=[use("act", n=1), use("act", n=2), failing("server"), "done"]
    )
    assert (await kit.run("x")).state == "completed"
    assert ran == [1, 2]


async def test_unknown_model_is_refused_before_a_run_starts(bench):
    """The error names near models."""
    kit = await bench(answers=["ok"])
    with pytest.raises(UsageError, match="Did you mean scripted/model"):
        kit.session.set(model="scripted/modle")
    with pytest.raises(UsageError, match="provider"):
        kit.session.set(model="nobody/model")
    assert (await kit.run("x")).text == "ok"


async def test_cost_is_computed_from_the_price(bench):
    """Tokens, cost and their sum per run."""
    model = ScriptedModel(["a", "b"], price=Price(input=10.0, output=20.0))
    kit = await bench(model=model)
    ended = await kit.run("x")
    usage = ended.usage
    assert usage.cost == pytest.approx((usage.input * 10 + usage.output * 20) / 1e6)
    await kit.run("y")
    total = kit.session.agents["main"].conversation.usage
    assert total.cost > usage.cost
