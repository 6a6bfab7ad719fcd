"""The test kit itself: benches, scripted models, and what makes a test fail."""

import os
import subprocess
from contextlib import aclosing
from types import SimpleNamespace

import pytest
import trio
from hilum import Call, ModelError, Text, hookimpl, tool
from hilum.events import CallDone, CallStarted, Delta
from hilum.testing import ChaosModel, EchoModel, ScriptedModel, cut, open_bench, pause, say, use

pytest_plugins = ["pytester"]


@tool(risk="read", effect="pure")
async def count_words(call: Call, path: str) -> str:
    """Count words.

    Args:
        path: The file.
    """
    return f"{len((await call.workspace.read_text(path)).split())} words"


@tool(risk="read", effect="pure")
def add(a: int, b: int = 0) -> int:
    """Add."""
    return a + b


@tool
def crash() -> str:
    """Crash."""
    raise RuntimeError("broken")


@tool(risk="read")
async def forget(call: Call) -> str:
    """Forget to await."""
    call.workspace.read_text("a.txt")
    return "done"


def giving(*tools, **hooks):
    """A plugin object with these tools and hooks."""

    class Plugin(SimpleNamespace):
        @hookimpl
        def provide_tools(self):
            return tools

    for name, function in hooks.items():
        setattr(Plugin, name, hookimpl(staticmethod(function)))
    return Plugin()


async def test_prompt_runs_through_tools_to_the_scripted_answer(bench):
    """A script of a call and a text is one run with two requests."""
    b = await bench(
        giving(count_words),
        answers=[use("count_words", path="a.txt"), "Three."],
        files={"a.txt": "a b c"},
    )
    ended = await b.run("How many words?")
    assert (ended.state, ended.text, ended.turns) == ("completed", "Three.", 2)
    assert b.assert_tool_called("count_words", path="a.txt").text == "3 words"
    assert b.result("count_words") is b.results[0]
    assert [len(request.messages) for request in b.requests] == [1, 3]
    assert [o.plugin for o in b.calls("count_words")] == ["Plugin"]
    assert b.requests[1].body.startswith(b.requests[0].body[:-2])


async def test_one_call_goes_through_the_real_loop(bench):
    """bench.call gives what the model would see, errors included."""
    b = await bench(giving(add), answers=["later"])
    assert (await b.call("add", a=1, b=2)).text == "3"
    wrong = await b.call("add", a="x")
    assert wrong.code == "E_BAD_ARGS"
    assert "$.a" in wrong.text
    assert (await b.call("ad")).code == "E_UNKNOWN_TOOL"
    assert (await b.run("go")).text == "later"


async def test_assert_tool_called_tells_what_ran(bench):
    """The message of a failed check lists the calls there were."""
    b = await bench(giving(add), answers=[use("add", a=1) + use("add", a=2), "ok"])
    await b.run("add")
    with pytest.raises(AssertionError, match=r"add\(a=3\) did not run(.|\n)*\"a\":1"):
        b.assert_tool_called("add", a=3)
    assert [r.call_id for r in b.results] == ["call-1", "call-2"]


async def test_fault_of_a_plugin_fails_the_test():
    """A crash inside a tool is not lost, unless it is allowed."""
    with pytest.raises(AssertionError, match=r"Plugin, tool crash: RuntimeError: broken"):
        async with open_bench(giving(crash)) as b:
            await b.call("crash")
    async with open_bench(giving(crash)) as b:
        b.allow_faults()
        assert (await b.call("crash")).code == "E_PLUGIN"
        assert len(b.faults) == 1
    async with open_bench(giving(crash), faults=True) as b:
        await b.call("crash")


async def test_failing_test_is_told_of_faults():
    """When a test fails by itself, the faults come as a note."""
    with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012
        async with open_bench(giving(crash)) as b:
            await b.call("crash")
            1 / 0  # noqa: B018
    assert "tool crash" in caught.value.__notes__[0]


async def test_process_left_behind_fails_the_test():
    """A plugin that starts processes by itself is found out."""
    left = []

    @tool
    def spawn() -> str:
        """Start a process."""
        # It starts no other program: while a program replaces another, it has no command line.
        process = subprocess.Popen(
            ["sh", "-c", "echo up; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        left.append(process)
        return process.stdout.readline().decode()

    try:
        with pytest.raises(AssertionError, match=r"left running(.|\n)*read line"):
            async with open_bench(giving(spawn)) as b:
                await b.call("spawn")
    finally:
        left[0].kill()
        left[0].communicate()


async def test_process_of_the_warden_is_ended_with_the_bench():
    """Processes started the right way are no leak."""

    @tool(timeout=20)
    async def spawn(call: Call) -> str:
        """Start a process."""
        done = await call.processes.run(["sh", "-c", "sleep 60 & echo hi"])
        return done.stdout.decode()

    async with open_bench(giving(spawn)) as b:
        assert (await b.call("spawn")).text == "hi\n"


async def test_bench_hides_the_machine(monkeypatch):
    """Keys, settings and home are out of reach, and back afterwards."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("HILUM_MODEL", "openai/x")
    home = os.environ["HOME"]
    async with open_bench(environ={"EXTRA": "1"}, answers=["hi"]) as b:
        assert "OPENAI_API_KEY" not in os.environ
        assert os.environ["EXTRA"] == "1"
        assert os.environ["HOME"] == str(b.folder / "home") != home
        assert b.kernel.host.plugins == {}
        assert (await b.run("hello")).text == "hi"
    assert os.environ["HOME"] == home
    assert os.environ["OPENAI_API_KEY"] == "secret"
    assert not b.folder.exists()


def test_unawaited_coroutine_fails_the_test(pytester):
    """A tool that forgets an await fails the test that called it."""
    pytester.makepyprojecttoml(
        '[tool.pytest.ini_options]\ntrio_mode = true\naddopts = ["-p", "hilum.testing"]\n'
    )
    pytester.makepyfile("""
        from hilum import Call, hookimpl, tool
        import sys

        @tool(risk="read")
        async def forget(call: Call) -> str:
            call.workspace.read_text("a.txt")
            return "done"

        @hookimpl
        def provide_tools():
            return [forget]

        async def test_forgetful(bench):
            b = await bench(sys.modules[__name__])
            assert (await b.call("forget")).text == "done"

        async def test_fine(bench):
            b = await bench(answers=["hi"])
            assert (await b.run("x")).text == "hi"
    """)
    result = pytester.runpytest_inprocess("-q")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*was never awaited*"])


def test_fixture_fails_the_test_for_faults_and_keeps_benches_apart(pytester):
    """The fixture checks what open_bench checks; two benches live in one test."""
    pytester.makeconftest('pytest_plugins = ["hilum.testing"]')
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\ntrio_mode = true\n")
    pytester.makepyfile("""
        from types import SimpleNamespace
        from hilum import hookimpl
        from hilum.testing import say

        class Broken:
            @hookimpl
            def remind(self, agent, results): raise RuntimeError("no")
            @hookimpl
            def build_prompt_layer(self): raise RuntimeError("no layer")

        async def test_broken(bench):
            b = await bench(Broken(), answers=["hi"])
            await b.run("x")

        async def test_two(bench, autojump_clock):
            one, two = await bench(answers=["1"]), await bench(answers=["2"])
            assert (await one.run("x")).text + (await two.run("x")).text == "12"
            assert one.workspace != two.workspace
    """)
    result = pytester.runpytest_inprocess("-q", "-W", "error")
    result.assert_outcomes(passed=2, errors=1) if result.parseoutcomes().get(
        "errors"
    ) else result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*build_prompt_layer: RuntimeError: no layer*"])


async def test_script_takes_every_form_of_answer(bench, autojump_clock):
    """Texts, parts, lists, messages, functions and coroutine functions all stand for answers."""

    async def later(request):
        await trio.sleep(5)
        return f"heard {len(request.messages)}"

    b = await bench(
        giving(add),
        answers=[
            "a",
            Text("b"),
            [say("c"), "d"],
            say("e") + "f",
            lambda request: lambda _: "g",
            later,
        ],
    )
    said = [(await b.run("x")).text for _ in range(6)]
    assert said == ["a", "b", "cd", "ef", "g", "heard 11"]
    ended = await b.run("x")
    assert ended.state == "failed"
    assert "request 7 has no answer" in ended.error
    with pytest.raises(TypeError, match="cannot be part of an answer"):
        say("x") + 5


async def test_script_cuts_raises_and_pauses_in_mid_answer(bench, autojump_clock):
    """A broken stream and an error in the middle are retried.

    A pause takes its time on the clock.
    """
    error = ModelError("overloaded", kind="server")
    b = await bench(
        answers=[say("I was") + cut(), [say("And"), error], say("one ") + pause(20) + say("two")]
    )
    began = trio.current_time()
    ended = await b.run("x")
    assert ended.text == "one two"
    assert trio.current_time() - began >= 20
    assert len(b.requests) == 3


async def test_pace_streams_word_by_word(bench, autojump_clock):
    """With a pace, a reader sees the words come one after another.

    The last one may come with the whole answer.
    """
    b = await bench(model=ScriptedModel(["one two three"], pace=1.0))
    seen: list[tuple[float, str]] = []

    async def read(task_status):
        task_status.started()
        async with aclosing(b.session.events(deltas=True)) as events:
            async for event in events:
                if isinstance(event, Delta):
                    seen.append((trio.current_time(), event.text))

    async with trio.open_nursery() as nursery:
        await nursery.start(read)
        began = trio.current_time()
        await b.run("x")
        nursery.cancel_scope.cancel()
    assert [(round(at - began), text) for at, text in seen][:2] == [(0, "one "), (1, "two ")]


async def test_hold_on_an_event_lets_a_test_act_in_mid_answer(bench):
    """A test can stop a run at a known place."""
    gate = trio.Event()
    b = await bench(answers=[say("one ") + pause(gate) + say("two")])
    run = await b.start("x")
    with b.guard():
        await b.model.asked(1)
    run.stop()
    assert (await run.wait()).state == "stopped"


async def test_wait_for_finds_events_of_the_past_and_the_future(bench):
    """Waiting for an event has no race."""
    b = await bench(giving(add), answers=[use("add", a=4), "ok"])
    await b.start("x")
    started = await b.wait_for(CallStarted)
    done = await b.wait_for(CallDone, lambda event: event.result.text == "4", after=started.seq)
    assert done.seq > started.seq


async def test_nothing_to_wait_for_ends_a_test_on_the_mock_clock(bench, autojump_clock):
    """A wait that nothing can end is an error at once, not a hanging test."""
    b = await bench()
    with pytest.raises(trio.TooSlowError):
        await b.wait_for(CallDone)


async def test_echo_model_says_and_calls_what_it_is_told(bench):
    """The echo model answers with the prompt, or with the result of the call that the prompt
    spells.
    """
    b = await bench(giving(add), model=EchoModel())
    assert (await b.run("hello there")).text == "hello there"
    assert (await b.run('add {"a": 2, "b": 3}')).text == "5"


async def test_chaos_model_spoils_the_same_requests_for_the_same_seed(bench, autojump_clock):
    """Whatever chaos does, runs end, and they end alike for one seed."""

    async def tried(seed):
        answers = [use("add", a=1), "ok"] * 30
        chaos = ChaosModel(
            ScriptedModel(answers), seed, error=0.2, cut=0.2, bad_json=0.2, silence=0.3
        )
        b = await bench(giving(add), model=chaos)
        return [(await b.run("x")).state for _ in range(8)], chaos.log

    first, second, other = await tried(1), await tried(1), await tried(2)
    assert first == second != other
    assert {"error", "cut", "bad_json", "silence"} <= {*first[1], *other[1]}
