"""Programs that drive hilum: the same ones with an embedded kernel and over the wire."""

import asyncio
import threading
from contextlib import asynccontextmanager

import hilum
import pytest
import trio
from api_calls import open_api
from cut_connections import open_cut_proxy
from hilum import HilumError, ToolError, UsageError, ask, tool
from hilum.events import (
    ApprovalAsked,
    CallStarted,
    Compacted,
    Delta,
    ModelAnswered,
    ModelStarted,
    PromptQueued,
    RunEnded,
    SessionChanged,
    SteeringQueued,
    SteeringWithdrawn,
)
from hilum.hosts import blocking
from hilum.messages import UserMessage
from hilum.testing import ModelProvider, ScriptedModel, pause, plugin, say, use
from hilum_serve import client, outbox, server_connection
from hilum_serve.settings import ServeSettings
from hilum_serve.tokens import add_token
from served import serving


@asynccontextmanager
async def embedded(project, model, *plugins):
    """Open a session in this process."""
    provider = plugin("models", provide_models=lambda: [ModelProvider({"model": model})])
    async with (
        hilum.open_kernel([provider, "prompt", *plugins], model="scripted/model") as kernel,
        kernel.open_session(project) as session,
    ):
        yield session


@asynccontextmanager
async def remote(project, model, *plugins):
    """Open a session on a server, with a client."""
    async with (
        serving(project, model=model, plugins=("prompt", "store", *plugins)) as served,
        client.connect(served.url, served.token) as server,
        server.open_session(project) as session,
    ):
        yield session


@pytest.fixture(params=[embedded, remote], ids=["embedded", "remote"])
def opened(request, project):
    """Return a function that opens a session with a scripted model."""

    def opened(*plugins, answers=()):
        return request.param(project, ScriptedModel(answers), *plugins)

    return opened


@pytest.fixture
def shop():
    """A tool that needs approval, and one that takes long."""
    go_on = trio.Event()

    @tool(risk="write")
    async def write() -> str:
        """Write."""
        return "written"

    @tool(risk="read")
    async def wait() -> str:
        """Wait."""
        await go_on.wait()
        return "waited"

    made = plugin("tools", write, wait)
    made.go_on = go_on
    return made


# --- the same program in both places --------------------------------------------------------------


async def test_a_program_runs_and_reads_events_in_order(opened):
    async with opened(answers=["12 nuts."]) as session:
        ended = await session.run("How many?")
        assert (ended.state, ended.text) == ("completed", "12 nuts.")
        seen = []
        async for event in session.events():
            seen.append(event.seq)
            if isinstance(event, RunEnded):
                break
        assert seen == list(range(1, len(seen) + 1))
        assert session.journal.last >= seen[-1]
        later = [event.seq async for event in take(session.events(after=3), seen[-1])]
        assert later == list(range(4, seen[-1] + 1))


async def take(reader, last):
    """Yield events up to a number."""
    async for event in reader:
        yield event
        if event.seq >= last:
            return


async def test_the_events_of_a_run_end_with_it(opened):
    async with opened(answers=["one", "two"]) as session:
        for text in ("one", "two"):
            run = await session.prompt("Go.")
            events = [event async for event in run.events()]
            assert isinstance(events[-1], RunEnded)
            assert {event.run for event in events if event.agent == "main"} == {run.id}
            assert (await run.wait()).text == text


async def test_output_comes_while_it_arrives(opened):
    more = trio.Event()
    async with opened(answers=[say("Hello ") + pause(more) + say("world.")]) as session:
        run = await session.prompt("Go.")
        text = ""
        async for item in session.events(run.after, deltas=True):
            if isinstance(item, Delta) and item.kind == "text":
                text += item.text
                if text == "Hello ":
                    more.set()
            if isinstance(item, ModelAnswered):
                break
        assert text in ("Hello ", "Hello world.")
        assert (await run.wait()).text == "Hello world."


async def test_a_late_reader_gets_the_text_so_far(opened):
    more = trio.Event()
    async with opened(answers=[say("Hello ") + pause(more) + say("world.")]) as session:
        run = await session.prompt("Go.")
        async for item in session.events(deltas=True):
            if isinstance(item, Delta):
                break
        async for item in session.events(deltas=True):
            if isinstance(item, Delta):
                assert item.text == "Hello "
                break
        more.set()
        await run.wait()


async def test_calls_are_approved_and_rejected(opened, shop):
    async with opened(shop, answers=[use("write"), use("write"), "Done."]) as session:
        run = await session.prompt("Write.")
        answers = [(True, ""), (False, "Enough.")]
        async for event in run.events():
            if isinstance(event, ApprovalAsked):
                accepted, reason = answers.pop(0)
                session.answer(event.id, accepted, reason=reason)
                with pytest.raises(UsageError, match="There is no open approval"):
                    session.answer("missing", True)
        assert (await run.wait()).text == "Done."
        results = [
            event.result.code
            async for event in take(session.events(), session.journal.last)
            if event.__class__.__name__ == "CallDone"
        ]
        assert results == ["", "E_REJECTED"]


async def test_a_lasting_approval_is_revoked(opened, shop):
    answers = [use("write"), use("write"), "Done.", use("write"), "Again."]
    async with opened(shop, answers=answers) as session:
        run = await session.prompt("Write.")
        asked = 0
        async for event in run.events():
            if isinstance(event, ApprovalAsked):
                asked += 1
                session.approval_shown(event.id)
                session.answer(event.id, True, remember="session")
        assert asked == 1
        assert session.grants == frozenset(["write"])
        assert session.revoke("write")
        assert not session.revoke("nothing")
        run = await session.prompt("Again.")
        async for event in run.events():
            if isinstance(event, ApprovalAsked):
                asked += 1
                session.answer(event.id, True)
        assert asked == 2
        assert session.grants == frozenset()


async def test_a_run_is_stopped_and_retried(opened, shop):
    async with opened(shop, answers=[use("wait"), "Done."]) as session:
        run = await session.prompt("Wait.")
        async for event in run.events():
            if isinstance(event, CallStarted):
                run.stop()
        assert (await run.wait()).state == "stopped"
        again = await session.retry()
        assert (await again.wait()).text == "Done."
        with pytest.raises(UsageError):
            await session.retry()


async def test_a_cancelled_caller_waits_for_the_end_of_its_run(opened, shop):
    async with opened(shop, answers=[use("wait")]) as session:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.run, "Wait.")
                async for event in session.events():
                    if isinstance(event, CallStarted):
                        scope.cancel()
        ends = [e async for e in take(session.events(), session.journal.last)]
        assert [e.state for e in ends if isinstance(e, RunEnded)] == ["stopped"]


async def test_a_message_is_read_and_another_one_is_withdrawn(opened, shop):
    async with opened(shop, answers=[use("wait"), "Done."]) as session:
        with pytest.raises(UsageError):
            await session.steer("Too early.")
        run = await session.prompt("Wait.")
        kept = await session.steer("Use tabs.")
        dropped = await session.steer("No globals.")
        assert session.withdraw(dropped)
        async for event in session.events(run.after):
            if isinstance(event, SteeringWithdrawn):
                break
        shop.go_on.set()
        await run.wait()
        assert not session.withdraw(kept)
        events = [e async for e in take(session.events(), session.journal.last)]
        assert [e.text for e in events if isinstance(e, SteeringQueued)] == [
            "Use tabs.",
            "No globals.",
        ]
        read = [e.steering for e in events if e.__class__.__name__ == "RoundEnded" and e.steering]
        assert read == [(kept,)]


async def test_mode_and_policy_change_from_the_next_turn_on(opened):
    async with opened(answers=["One."]) as session:
        session.set(mode="plan", approve="readonly")
        assert (session.mode.name, session.approve) == ("plan", "readonly")
        await session.run("Plan.")
        events = [e async for e in take(session.events(), session.journal.last)]
        (changed,) = [e for e in events if isinstance(e, SessionChanged)]
        assert (changed.mode, changed.approve) == ("plan", "readonly")
        for wrong in ({"mode": "missing"}, {"approve": "never"}):
            with pytest.raises(UsageError):
                session.set(**wrong)


async def test_a_failed_call_is_repeated(opened):
    broken = True

    @tool(risk="read")
    def build() -> str:
        """Build."""
        if broken:
            raise ToolError("The compiler is missing.", code="E_CMD_FAIL")
        return "built"

    answers = [use("build"), "It failed.", "Now it works."]
    async with opened(plugin("tools", build), answers=answers) as session:
        run = await session.prompt("Build.")
        (call,) = [e.call.id async for e in run.events() if isinstance(e, CallStarted)]
        broken = False
        again = await session.repeat_call(call)
        assert (await again.wait()).text == "Now it works."
        with pytest.raises(UsageError, match="There is no call"):
            await session.repeat_call("missing")


async def test_a_conversation_is_compacted(opened):
    shorten = plugin(
        "shorten", trim_context=lambda messages: hilum.Compaction(len(messages) - 1, "Before.")
    )
    async with opened(shorten, answers=["One.", "Two."]) as session:
        await session.run("First.")
        await session.run("Second.")
        session.compact(focus="tests")
        async for event in session.events():
            if isinstance(event, Compacted):
                assert event.cause == "asked"
                break


async def test_images_attached_data_and_piped_texts(opened):
    image = hilum.Image("image/png", b"\x89PNG\r\n\x1a\n" + bytes(20))
    async with opened(answers=["A dot."]) as session:
        await session.run("What?", images=[image], attached="a log", piped=True)
        events = [e async for e in take(session.events(), session.journal.last)]
        (queued,) = [e for e in events if isinstance(e, PromptQueued)]
        assert (queued.images, queued.attached, queued.piped) == ((image,), "a log", True)


async def test_errors_are_the_same(opened):
    async with opened(answers=["x"]) as session:
        for operation in (
            lambda: session.prompt("x", agent="nobody"),
            lambda: session.retry("nobody"),
            lambda: session.repeat_call("missing"),
        ):
            with pytest.raises(UsageError) as caught:
                await operation()
            assert caught.value.code == "E_UNKNOWN"
            assert caught.value.message


# --- asyncio and synchronous programs -------------------------------------------------------------


@pytest.fixture
def server_thread(project):
    """Return a function that runs a server on a thread of its own."""

    def opened(*plugins, answers=()):
        start = blocking.hosted(serving, name="server")
        return start(project, answers=answers, plugins=("prompt", "store", *plugins))

    return opened


def test_plain_code_runs_reads_answers_and_stops(server_thread, project, shop):
    """The test of the same name of the embedded kernel, over the wire."""
    answers = [use("write"), "Done.", use("wait")]
    with (
        server_thread(shop, answers=answers) as served,
        client.connect_blocking(served.url, served.token) as server,
        server.open_session(str(project)) as session,
    ):
        run = session.prompt("Write.")
        for event in session.events():
            if type(event).__name__ == "ApprovalAsked":
                session.answer(event.id, True)
            if isinstance(event, RunEnded):
                break
        assert run.wait().text == "Done."
        before = session.journal.last
        run = session.prompt("Wait.")
        for event in session.events(before):
            if isinstance(event, CallStarted):
                break
        run.stop()
        assert run.wait().state == "stopped"
    assert not [thread for thread in threading.enumerate() if "hilum client" in thread.name]


def test_an_asyncio_program_runs_and_is_cancelled(server_thread, project, shop):
    async def main(served):
        async with (
            client.connect_asyncio(served.url, served.token) as server,
            server.open_session(str(project)) as session,
        ):
            first = await session.run("How many?")
            task = asyncio.create_task(session.run("Wait."))
            async for event in session.events():
                if isinstance(event, CallStarted):
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            state = session.view.actors["main"].state
            return first.text, state

    with server_thread(shop, answers=["12 nuts.", use("wait")]) as served:
        found = asyncio.run(asyncio.wait_for(main(served), 60))
    assert found == ("12 nuts.", "stopped")


# --- lost connections -----------------------------------------------------------------------------


@asynccontextmanager
async def behind_proxy(project, model, *plugins, **options):
    """Open a session whose client reaches the server through a proxy that cuts connections."""
    async with open_cut_proxy() as proxy:
        hosts = [f"127.0.0.1:{proxy.port}"]
        plugins = ("prompt", "store", *plugins)
        async with serving(project, model=model, plugins=plugins, hosts=hosts, **options) as served:
            proxy.target = served.port
            url = f"http://127.0.0.1:{proxy.port}"
            async with (
                client.connect(url, served.token) as server,
                server.open_session(project) as session,
            ):
                yield proxy, served, session


async def test_nothing_is_missed_or_doubled_when_connections_are_cut(project, monkeypatch):
    """Ten cuts in the middle of streaming text."""
    # The pauses become longer with each cut, because nothing but output arrives between two.
    monkeypatch.setattr(server_connection, "LONGEST_PAUSE", 0.2)
    steps = [trio.Event() for _ in range(10)]
    end = trio.Event()
    answer = say("0 ")
    for number, step in enumerate(steps, start=1):
        answer = answer + pause(step) + say(f"{number} ")
    model = ScriptedModel([answer + say("end") + pause(end), "More."])
    whole = "".join(f"{number} " for number in range(11)) + "end"
    async with behind_proxy(project, model) as (proxy, _, session):
        run = await session.prompt("Count.")
        text = ""
        seen = []
        left = list(steps)
        async for item in session.events(deltas=True):
            if not isinstance(item, Delta):
                seen.append(item.seq)
            if isinstance(item, RunEnded):
                break
            if isinstance(item, Delta) and item.kind == "text":
                text += item.text
                if left:
                    # The next piece is written while the client has no connection.
                    proxy.cut()
                    left.pop(0).set()
                assert whole.startswith(text)
                if text == whole:
                    # The answer ends only now, so the whole of it had to arrive as output.
                    end.set()
        assert seen == list(range(1, seen[-1] + 1))
        assert text == whole
        assert (await run.wait()).text == whole
        assert proxy.connections > 10
        # The connection works as before.
        assert (await session.run("More?")).text == "More."


async def test_a_change_whose_response_was_lost_is_made_once(project):
    model = ScriptedModel(["One.", "Two."])
    async with behind_proxy(project, model) as (proxy, served, session):
        lost = []

        def swallow(data: bytes) -> bool:
            if b"POST " in data and b"/prompts" in data and not lost:
                lost.append(data)
                return True
            return False

        proxy.swallows = swallow
        ended = await session.run("Only once.")
        assert ended.text == "One."
        assert lost
        hosted = served.hub.find_hosted(session.id)
        queued = [e for e in hosted.session.journal.since(0) if isinstance(e, PromptQueued)]
        assert [event.text for event in queued] == ["Only once."]


async def test_another_server_does_not_repeat_what_may_have_happened(project):
    """The client says so, because only the user can know whether it happened."""
    async with open_cut_proxy() as proxy:
        options = {"plugins": ("prompt", "store"), "hosts": [f"127.0.0.1:{proxy.port}"]}
        url = f"http://127.0.0.1:{proxy.port}"
        tokens = project.parent / "tokens.json"
        token = add_token(tokens, "ada", "administer")
        options["tokens_file"] = tokens
        async with (
            serving(project, answers=["One."], **options) as first,
            serving(project, answers=["Two."], **options) as second,
        ):
            proxy.target = first.port
            async with client.connect(url, token) as server:

                def swallow(data: bytes) -> bool:
                    if b"POST " in data:
                        proxy.target = second.port
                        return True
                    return False

                proxy.swallows = swallow
                with pytest.raises(hilum.HilumError) as caught:
                    await server.call("POST", "/api/sessions", {"workspace": str(project)})
                assert caught.value.code == "E_INTERRUPTED"
                assert "may or may not" in caught.value.message


async def test_a_removed_token_ends_the_stream_with_its_reason(project):
    tokens = project.parent / "tokens.json"
    token = add_token(tokens, "ada", "administer")
    options = {"plugins": ("prompt", "store"), "tokens_file": tokens}
    async with (
        serving(project, answers=["One."], **options) as served,
        client.connect(served.url, token) as server,
        server.open_session(project) as session,
    ):
        await session.run("Go.")
        tokens.unlink()
        with pytest.raises(hilum.HilumError) as caught, trio.fail_after(20):
            async for _ in session.events():
                pass
        assert caught.value.code == "E_TOKEN"


async def test_what_cannot_be_reached_or_is_refused(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.server_connection.RETRY_SECONDS", 0.2)
    with pytest.raises(hilum.HilumError) as caught:
        async with client.connect("http://127.0.0.1:1", "token"):
            pass
    assert caught.value.code == "E_UNREACHABLE"
    async with serving(project, plugins=("store",)) as served:
        with pytest.raises(hilum.HilumError) as caught:
            async with client.connect(served.url, "wrong"):
                pass
        assert caught.value.code == "E_TOKEN"
        async with client.connect(served.url, served.token) as server:
            for wrong in ({"resume": "missing"}, {"workspace": "/nowhere"}):
                with pytest.raises(UsageError) as caught:
                    async with server.open_session(**wrong):
                        pass
                assert caught.value.code == "E_UNKNOWN"
            for wrong in ({"attended": False}, {"kind": "headless"}):
                with pytest.raises(UsageError):
                    async with server.open_session(project, **wrong):
                        pass


async def test_a_client_lists_resumes_and_copies_sessions(project):
    async with (
        serving(project, answers=["One.", "Two."], plugins=("prompt", "store")) as served,
        client.connect(served.url, served.token) as server,
    ):
        assert (server.user, server.rights) == ("owner", "administer")
        assert await server.list_workspaces() == [str(project)]
        async with server.open_session() as session:
            await session.run("First.")
            identity = session.id
        (info,) = await server.list_sessions("first")
        assert (info.id, info.title) == (identity, "First.")
        async with server.open_session(resume=identity) as session:
            assert (await session.run("Second.")).text == "Two."
            assert (await session.state()).runs == 2
            copy = await server.fork(identity)
        async with server.open_session(resume=copy) as session:
            prompts = [e.text for e in session.view.entries if hasattr(e, "steers")]
            assert prompts == ["First.", "Second."]


async def test_what_a_stopped_server_left_is_resumed(project, shop):
    plugins = ("prompt", "store", shop)
    async with serving(project, answers=[use("wait")], plugins=plugins) as served:
        async with (
            open_api(served, project) as api,
            client.connect(served.url, served.token) as server,
            server.open_session(resume=api.session) as session,
        ):
            await session.prompt("Wait.")
            async for event in session.events():
                if isinstance(event, ModelStarted):
                    copy = await server.fork(session.id, event.seq)
                    break
        served.model.next(say("Resumed."))
        async with (
            client.connect(served.url, served.token) as server,
            server.open_session(resume=copy) as session,
        ):
            (run,) = await session.resume()
            assert (await run.wait()).state == "completed"


async def test_a_refused_wish_is_reported_later(project, shop):
    gate = plugin("gate", on_tool_call=lambda call: ask("It writes."))
    model = ScriptedModel([use("write"), "Done."])
    async with remote(project, model, shop, gate) as session:
        run = await session.prompt("Write.")
        async for event in run.events():
            if isinstance(event, ApprovalAsked):
                session.answer(event.id, True, arguments='{"wrong": 1}')
                session.answer(event.id, True)
        await run.wait()
        (problem,) = session.problems
        assert problem.code == "E_BAD_ARGS"


async def test_a_refused_policy_is_taken_back(project, tmp_path):
    tokens = tmp_path / "tokens.json"
    token = add_token(tokens, "eva", "prompt")
    async with (
        serving(project, plugins=("prompt", "store"), tokens_file=tokens) as served,
        client.connect(served.url, token) as server,
        server.open_session(project) as session,
    ):
        refused = trio.Event()
        problems = []

        def note(problem):
            problems.append(problem)
            refused.set()

        session.on_problem = note
        session.set(approve="auto")
        assert session.approve == "auto"
        await refused.wait()
        assert [problem.code for problem in problems] == ["E_RIGHTS"]
        assert session.approve == "ask_first"


@pytest.mark.parametrize("text", ["one\u2028two", "one\u2029two", "one\x85two", "one\r\ntwo"])
async def test_separators_of_unicode_do_not_split_an_event(project, text):
    async with (
        serving(project, answers=[f"I read {text}."], plugins=("prompt", "store")) as served,
        client.connect(served.url, served.token) as server,
        server.open_session(project) as session,
    ):
        ended = await session.run(text)
        assert ended.text == f"I read {text}."


async def test_a_stream_that_is_refused_again_and_again_is_given_up(project, monkeypatch):
    monkeypatch.setattr(server_connection, "REFUSED_SECONDS", 0.2)
    settings = ServeSettings(connections_per_user=1)
    async with (
        serving(project, plugins=("prompt", "store"), settings=settings) as served,
        client.connect(served.url, served.token) as server,
        server.open_session(project),
    ):
        with pytest.raises(HilumError) as caught:
            async with server.open_session(project) as second:
                await second.run("Go")
        assert caught.value.code == "E_RATE"


async def test_too_many_waiting_operations_are_refused_with_a_code(project, monkeypatch):
    # All of them are carried out at the end.
    monkeypatch.setattr(outbox, "MAX_WAITING", 20)
    async with (
        serving(project, plugins=("prompt", "store")) as served,
        client.connect(served.url, served.token) as server,
        server.open_session(project) as session,
    ):
        for _ in range(20):
            session.stop()
        with pytest.raises(HilumError) as caught:
            session.stop()
        assert caught.value.code == "E_BUSY"


async def test_a_change_names_what_its_caller_had_seen(project, shop, monkeypatch):
    """What arrives while it waits for its turn does not count as seen."""
    numbers = []
    async with remote(project, ScriptedModel([use("buy", n=1), "Done."]), shop) as session:
        call = session.kernel.call

        async def note(method, url, body=None, query=None, *, seen=None):
            if method != "GET":
                numbers.append((url.rpartition("/")[2], seen))
            return await call(method, url, body, query, seen=seen)

        monkeypatch.setattr(session.kernel, "call", note)
        before = session.journal.last
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "Buy.")
            nursery.start_soon(session.request, "POST", "/stop", {})
        seen = dict(numbers)
        assert seen["prompts"] == before
        assert seen["stop"] == before


async def test_a_decision_that_is_refused_as_stale_is_not_sent_again(project, shop, monkeypatch):
    answers = [use("buy", n=1), "Done."]
    async with remote(project, ScriptedModel(answers), shop) as session:
        seens = []

        async def refuse(method, path, body=None, query=None, *, seen=None):
            seens.append(seen)
            raise UsageError("This was asked later.", code="E_STALE")

        monkeypatch.setattr(session.kernel, "call", refuse)
        last = session.journal.last
        with pytest.raises(UsageError) as caught:
            await session.request("POST", "/plans/x", {"accepted": True})
        assert caught.value.code == "E_STALE"
        assert seens == [last]


async def test_a_client_that_is_ahead_of_the_log_ends(project, monkeypatch):
    async with remote(project, ScriptedModel(["One."])) as session:
        await session.run("Go.")
        # The server was restored from an older copy, so that it has fewer events.
        monkeypatch.setattr(type(session._mirror), "last", property(lambda mirror: 10_000))
        with trio.fail_after(10):
            await session.kernel.stream(session._path, session._mirror, lambda element: True)
        assert session._mirror.error.code == "E_BAD_ARGS"
        assert session._mirror.closed


async def test_user_messages_reach_the_model_over_the_wire(project):
    model = ScriptedModel(["x"])
    async with remote(project, model) as session:
        await session.run("Ünï 😀 text")
        (message,) = [m for m in model.requests[0].messages if isinstance(m, UserMessage)]
        assert message.typed == "Ünï 😀 text"
