"""Calls of a session's tools by other clients: gates, log, undo, cancellation."""

import hilum_files
import mcp_types as t
import pytest
import trio
from hilum import Call, Output, Verdict, deny, hookimpl, tool
from hilum.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CallDone,
    CallStarted,
    ModelAnswered,
    RunEnded,
    RunStarted,
)
from hilum.messages import Image
from hilum.testing import plugin
from hilum_mcp.serving import request_runner
from mcp import MCPError

FILES = {"a.txt": "one\n"}


class Bell:
    """A plugin whose tools wait, print and count."""

    def __init__(self):
        self.rung, self.waiting, self.cancelled = trio.Event(), trio.Event(), trio.Event()
        self.met: list[trio.Event] = []
        self.changed = 0

    @tool(risk="read", effect="pure")
    async def wait(self) -> str:
        """Wait for the bell."""
        self.waiting.set()
        try:
            await self.rung.wait()
        except trio.Cancelled:
            self.cancelled.set()
            raise
        return "It rang."

    @tool(risk="read", effect="pure")
    async def meet(self) -> str:
        """Wait until two are here."""
        mine = trio.Event()
        self.met.append(mine)
        if len(self.met) == 2:
            for event in self.met:
                event.set()
        await mine.wait()
        return "We met."

    @tool(risk="write", effect="once")
    async def change(self, what: str) -> str:
        """Change a file."""
        self.changed += 1
        return f"Changed {what}."

    @tool(risk="read", effect="pure")
    async def picture(self) -> Output:
        """Return a picture."""
        return Output("A dot.", (Image("image/png", b"\x89PNG"),))

    @tool(risk="read", effect="pure")
    async def tell(self, call: Call) -> str:
        """Print some lines."""
        call.emit("half a li")
        call.emit("ne\nkey sk-abcdefghijklmnop1234567890\n")
        await self.rung.wait()
        return "Told."

    @hookimpl
    def provide_tools(self):
        return [self.wait, self.meet, self.change, self.picture, self.tell]


async def test_tools_are_listed_with_hints(serve):
    """A client sees the tools of the session, their parameters and hints about their effects."""
    async with serve("files", "plan") as served, served.client() as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
    assert {"read_file", "edit_file"} <= set(tools)
    assert "ask_question" not in tools
    assert tools["read_file"].annotations.read_only_hint
    assert not tools["edit_file"].annotations.read_only_hint
    assert "path" in tools["read_file"].input_schema["properties"]


async def test_only_the_tools_that_were_chosen_are_offered(serve):
    """A tool that matches no pattern is not listed, and cannot be called either."""
    async with serve("files", tools=["read_*"], files=FILES) as served, served.client() as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["read_file"]
        with pytest.raises(MCPError, match="Unknown tool: write_file") as caught:
            await client.call_tool("write_file", {"path": "b", "content": "x"})
        assert caught.value.code == t.INVALID_PARAMS
        assert not served.of(CallStarted)


async def test_a_read_only_server_offers_only_reading_tools(serve):
    """With ``readonly`` no tool is offered that changes something."""
    async with serve("files", approve="readonly") as served, served.client() as client:
        assert {each.annotations.read_only_hint for each in (await client.list_tools()).tools} == {
            True
        }


async def test_a_call_is_logged_as_any_other(serve, text):
    """It is logged before it starts and after it ends, and the log names the client."""
    info = t.Implementation(name="An <editor>\n", version="1.2")
    async with serve("files", files=FILES) as served, served.client(client_info=info) as client:
        result = await client.call_tool("read_file", {"path": "a.txt"})
        assert not result.is_error
        assert "one" in text(result)
        await served.bench.wait_for(RunEnded)
        (started,), (done,), (run,) = (
            served.of(CallStarted),
            served.of(CallDone),
            served.of(RunStarted),
        )
        answered = served.of(ModelAnswered)[0]
    assert started.seq < done.seq
    assert started.call.name == "read_file"
    assert answered.message.model == "client/mcp"
    assert answered.message.calls == (started.call,)
    assert run.text == "Called by the MCP client An editor 1.2."
    assert run.agent == started.agent == "client-1"


async def test_calls_of_a_client_share_the_files_they_read(serve, text):
    """A file that one call has read can be edited by the next one, and undo reverts the edit."""
    from hilum_files import Changes

    async with serve("files", files=FILES, approve="auto") as served, served.client() as client:
        change = {"path": "a.txt", "old_string": "one", "new_string": "two"}
        unread = await client.call_tool("edit_file", change)
        assert unread.is_error
        assert "E_STALE" in text(unread)
        await client.call_tool("read_file", {"path": "a.txt"})
        assert not (await client.call_tool("edit_file", change)).is_error
        path = served.bench.workspace / "a.txt"
        assert path.read_text() == "two\n"
        changes = served.bench.session.plugin(Changes)
        (record,) = changes.records("run", served.of(CallStarted)[-1].run)
        assert [each.path for each in record.changes] == ["a.txt"]


async def test_the_agent_of_a_finished_call_is_removed(serve):
    """Many calls do not fill the memory."""
    async with serve("files", files=FILES) as served, served.client() as client:
        for _ in range(3):
            await client.call_tool("read_file", {"path": "a.txt"})
        await served.bench.wait_for(RunEnded, lambda event: event.agent == "client-3")
        await trio.testing.wait_all_tasks_blocked()
        assert set(served.bench.session.agents) == {"main"}


async def test_invalid_arguments_return_the_tools_message(serve, text):
    """The result is one that the client's model can read."""
    async with serve("files") as served, served.client() as client:
        result = await client.call_tool("read_file", {"file": "a"})
    assert result.is_error
    assert "E_BAD_ARGS" in text(result)
    assert "path" in text(result)


async def test_images_come_as_images(serve):
    """The client gets a tool's image with its type."""
    async with serve(Bell()) as served, served.client() as client:
        said, picture = (await client.call_tool("picture")).content
    assert said.text == "A dot."
    assert (picture.mime_type, picture.data) == ("image/png", "iVBORw==")


async def test_calls_run_in_parallel(serve, text):
    """Two calls that wait for each other both end."""
    results = []
    async with serve(Bell()) as served, served.client() as client, trio.open_nursery() as nursery:

        async def meet():
            results.append(text(await client.call_tool("meet")))

        nursery.start_soon(meet)
        nursery.start_soon(meet)
    assert results == ["We met.", "We met."]


async def test_progress_has_whole_lines_without_secrets(serve):
    """A key in the output of a tool does not reach the client."""
    bell, told = Bell(), []
    async with serve(bell, "guard") as served, served.client() as client:

        async def progress(done, total, message):
            told.append(message)
            bell.rung.set()

        await client.call_tool("tell", progress_callback=progress)
    assert told == ["half a line\nkey [REDACTED:OPENAI_KEY]"]


async def test_a_cancelled_call_ends_its_tool(serve):
    """The log records the call as stopped."""
    bell = Bell()
    async with serve(bell) as served, served.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await bell.waiting.wait()
            nursery.cancel_scope.cancel()
        await bell.cancelled.wait()
        ended = await served.bench.wait_for(RunEnded)
        assert ended.state == "stopped"


async def test_calls_end_when_their_client_disconnects(serve):
    """Nothing of them continues."""
    bell = Bell()
    async with serve(bell) as served:
        async with trio.open_nursery() as nursery:

            async def leave():
                async with served.client() as client, trio.open_nursery() as inner:
                    inner.start_soon(client.call_tool, "wait")
                    await bell.waiting.wait()
                    inner.cancel_scope.cancel()

            nursery.start_soon(leave)
        await bell.cancelled.wait()
        ended = await served.bench.wait_for(RunEnded)
        assert ended.state == "stopped"


async def test_a_gate_denies_a_call_of_a_client(serve, text):
    """The client gets the reason of the plugin."""

    class Gate:
        @hookimpl
        def on_tool_call(self, call):
            return deny("Not on a Sunday.") if call.name == "change" else None

    bell = Bell()
    async with serve(bell, Gate(), approve="auto") as served, served.client() as client:
        result = await client.call_tool("change", {"what": "it"})
    assert result.is_error
    assert "Not on a Sunday." in text(result)
    assert not bell.changed


class Reach:
    """A plugin with a tool that uses the network."""

    @tool(risk="network", effect="once")
    async def reach(self, url: str) -> str:
        """Contact an address."""
        return url

    @hookimpl
    def provide_tools(self):
        return [self.reach]


# --- approvals ------------------------------------------------------------------------------------


def user(*answers, seen=None):
    """Return a user who answers forms in this order."""
    given = list(answers)

    async def elicit(context, params):
        if seen is not None:
            seen.append(params)
        answer = given.pop(0)
        return (
            answer
            if isinstance(answer, t.ElicitResult)
            else t.ElicitResult(action="accept", content={"run": answer})
        )

    return elicit


async def test_the_clients_user_approves_a_call(serve, text):
    """The form has the whole call; after the approval it runs."""
    bell, seen = Bell(), []
    async with (
        serve(bell) as served,
        served.client(elicitation_callback=user("yes", seen=seen)) as client,
    ):
        result = await client.call_tool("change", {"what": "line one\nline \x1b[31mtwo"})
        assert "Changed" in text(result)
        assert bell.changed == 1
        (answered,) = served.of(ApprovalAnswered)
    assert (answered.accepted, answered.by, answered.remember) == (True, "user", "once")
    assert "change (write)" in seen[0].message
    assert "     line one\n     line \\x1b[31mtwo" in seen[0].message


async def test_a_form_shows_diffs_and_hosts_like_the_terminal(serve):
    """Changes of files are diffs, and hosts are shown as they are contacted."""
    seen = []
    answers = user("no", "no", seen=seen)
    async with (
        serve(hilum_files, Reach(), files=FILES) as served,
        served.client(elicitation_callback=answers) as client,
    ):
        # A write of a file that was not read would be refused without a question.
        await client.call_tool("read_file", {"path": "a.txt"})
        await client.call_tool("write_file", {"path": "a.txt", "content": "two\n"})
        await client.call_tool("reach", {"url": "https://gооgle.example/"})
    diff, host = (params.message for params in seen)
    assert "overwrites 1 line of a.txt with 1 line" in diff
    assert "   -one\n   +two" in diff
    assert "host: xn--ggle-55da.example (written g" in host
    assert "with Cyrillic letters that can look like others" in host


async def test_a_long_call_is_folded_until_the_user_views_it(serve):
    """Its end stays visible, and `view` decides nothing."""
    bell, seen = Bell(), []
    lines = [f"line {number}" for number in range(200)]
    async with (
        serve(bell) as served,
        served.client(elicitation_callback=user("view", "yes", seen=seen)) as client,
    ):
        assert not (await client.call_tool("change", {"what": "\n".join(lines)})).is_error
        (asked,) = served.of(ApprovalAsked)
    short, whole = seen
    assert "line 100" not in short.message
    assert "lines are not shown here; the answer view shows the whole call" in short.message
    assert short.message.endswith("line 199")
    assert all(line in whole.message for line in lines)
    choices = [form.requested_schema["properties"]["run"]["enum"] for form in seen]
    assert choices == [["yes", "no", "session", "view"], ["yes", "no", "session"]]
    assert bell.changed == 1
    assert asked.call.name == "change"


@pytest.mark.parametrize(
    "answer",
    [
        "no",
        "maybe",
        t.ElicitResult(action="accept"),
        t.ElicitResult(action="decline"),
        t.ElicitResult(action="cancel", content={"run": "yes"}),
    ],
)
async def test_any_answer_but_yes_refuses_the_call(serve, text, answer):
    """This includes a refusal, a closed form and an unknown answer."""
    bell = Bell()
    async with serve(bell) as served, served.client(elicitation_callback=user(answer)) as client:
        result = await client.call_tool("change", {"what": "it"})
    assert result.is_error
    assert "E_REJECTED: The user rejected the call" in text(result)
    assert not bell.changed


async def test_a_dangerous_call_is_offered_no_approval_for_the_session(serve, text):
    """An answer that the form does not offer refuses the call; the question does not stay open."""
    bell, seen = Bell(), []
    strict = plugin("strict", on_tool_call=lambda: Verdict("ask", "It destroys.", once_only=True))
    answers = user("session", "yes", seen=seen)
    async with (
        serve(bell, strict) as served,
        served.client(elicitation_callback=answers) as client,
    ):
        refused = await client.call_tool("change", {"what": "it"})
        assert not (await client.call_tool("change", {"what": "it"})).is_error
    assert "E_REJECTED" in text(refused)
    assert bell.changed == 1
    for form in seen:
        choice = form.requested_schema["properties"]["run"]
        assert choice["enum"] == ["yes", "no"]
        assert choice["description"] == "This call is dangerous, so only this call can be allowed"


async def test_an_approval_for_the_session_is_not_asked_again(serve):
    """It covers all such calls until the server ends."""
    bell = Bell()
    async with serve(bell) as served, served.client(elicitation_callback=user("session")) as client:
        for _ in range(3):
            assert not (await client.call_tool("change", {"what": "it"})).is_error
        assert bell.changed == 3
        assert len(served.of(ApprovalAnswered)) == 1


async def test_a_call_is_refused_if_the_client_cannot_ask(serve, text):
    """The log records that nobody was asked, and the result names an option that helps."""
    bell = Bell()
    async with serve(bell) as served, served.client() as client:
        result = await client.call_tool("change", {"what": "it"})
        (answered,) = served.of(ApprovalAnswered)
    assert result.is_error
    assert (
        "Nobody could approve the call: the client does not support forms (elicitation)."
        in text(result)
    )
    assert "--approve auto" in text(result)
    assert (answered.accepted, answered.by) == (False, "headless")
    assert not bell.changed


async def test_a_refusal_with_auto_names_no_option(serve, text):
    """No option allows more, so the result names other ways."""
    async with serve("files", "guard", approve="auto") as served, served.client() as client:
        result = await client.call_tool(
            "write_file", {"path": ".git/hooks/pre-commit", "content": "x"}
        )
    assert result.is_error
    assert "with a rule" in text(result)
    assert "--approve" not in text(result)


async def test_tools_of_other_servers_are_not_passed_on(serve):
    """The plugin decides, whatever the name of the tool is."""
    bell = Bell()
    async with serve(bell) as served, served.client() as client:
        served.bench.session.tools["change"].plugin = "mcp"
        assert "change" not in {each.name for each in (await client.list_tools()).tools}
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("change", {"what": "it"})


async def test_a_late_answer_refuses_the_call(serve, text):
    """After the time limit of the approval the answer of the form has no effect."""
    bell, late = Bell(), trio.Event()

    async def elicit(context, params):
        await late.wait()
        return t.ElicitResult(action="accept", content={"run": "yes"})

    async with (
        serve(bell, settings={"approval_timeout": 0.2}) as served,
        served.client(elicitation_callback=elicit) as client,
        trio.open_nursery() as nursery,
    ):

        async def release():
            await served.bench.wait_for(ApprovalAnswered)
            late.set()

        nursery.start_soon(release)
        result = await client.call_tool("change", {"what": "it"})
    assert result.is_error
    assert "E_APPROVAL_TIMEOUT" in text(result)
    assert not bell.changed


class TestRequestState:
    """Request states of the newer protocol, which a client sends back and could forge."""

    async def ask(self, client, arguments, **more):
        """Call without answering the question."""
        return await client.session.call_tool(
            "change", arguments, allow_input_required=True, **more
        )

    async def test_a_state_is_valid_for_one_call_only(self, serve_modern):
        """It is not valid for another call, a second time, or if it was made up."""
        bell = Bell()
        async with (
            serve_modern(bell) as served,
            served.client(elicitation_callback=user()) as client,
        ):
            needed = await self.ask(client, {"what": "this"})
            assert isinstance(needed, t.InputRequiredResult)
            yes = {
                key: t.ElicitResult(action="accept", content={"run": "yes"})
                for key in needed.input_requests
            }
            for arguments, state in (
                ({"what": "that"}, needed.request_state),
                ({"what": "this"}, "made-up"),
            ):
                with pytest.raises(MCPError, match="request state"):
                    await self.ask(client, arguments, input_responses=yes, request_state=state)
            assert not bell.changed
            done = await self.ask(
                client, {"what": "this"}, input_responses=yes, request_state=needed.request_state
            )
            assert not done.is_error
            assert bell.changed == 1
            with pytest.raises(MCPError, match="request state"):
                await self.ask(
                    client,
                    {"what": "this"},
                    input_responses=yes,
                    request_state=needed.request_state,
                )
        assert bell.changed == 1

    async def test_a_missing_answer_is_asked_for_again(self, serve_modern):
        """An empty answer, or one to another question, decides nothing."""
        bell = Bell()
        async with (
            serve_modern(bell) as served,
            served.client(elicitation_callback=user()) as client,
        ):
            needed = await self.ask(client, {"what": "this"})
            other = {"else": t.ElicitResult(action="accept", content={"run": "yes"})}
            again = await self.ask(
                client, {"what": "this"}, input_responses=other, request_state=needed.request_state
            )
            assert isinstance(again, t.InputRequiredResult)
            assert again.request_state != needed.request_state
            assert again.input_requests.keys() == needed.input_requests.keys()
        assert not bell.changed

    async def test_an_abandoned_call_ends(self, serve_modern):
        """Its approval expires, and its run ends."""
        bell = Bell()
        options = {"settings": {"approval_timeout": 0.1}}
        async with (
            serve_modern(bell, **options) as served,
            served.client(elicitation_callback=user()) as client,
        ):
            await self.ask(client, {"what": "this"})
            await served.bench.wait_for(RunEnded)
        assert not bell.changed


class Slow:
    """A user who opens forms and answers none before the release."""

    def __init__(self):
        self._shown, self._seen = trio.open_memory_channel(100)
        self.released = trio.Event()

    async def __call__(self, context, params):
        await self._shown.send(params)
        await self.released.wait()
        return t.ElicitResult(action="accept", content={"run": "yes"})

    async def has_seen(self, forms):
        for _ in range(forms):
            await self._seen.receive()


async def test_open_questions_block_no_other_call(serve, text, monkeypatch):
    """A call that waits for its user needs no place.

    After the answer it runs, and the places are back.
    """
    monkeypatch.setattr(request_runner, "MAX_RUNNING", 3)
    bell, slow, results = Bell(), Slow(), []
    bell.rung.set()
    async with serve(bell) as served, served.client(elicitation_callback=slow) as client:

        async def change(what):
            results.append(await client.call_tool("change", {"what": what}))

        async with trio.open_nursery() as nursery:
            for number in range(7):
                nursery.start_soon(change, f"it{number}")
            await slow.has_seen(7)
            assert text(await client.call_tool("wait")) == "It rang."
            assert not bell.changed
            slow.released.set()
        assert sorted(map(text, results)) == [f"Changed it{number}." for number in range(7)]
        assert served.runner._limiter.total_tokens == 3
        assert served.runner._limiter.borrowed_tokens == 0


async def test_the_number_of_open_questions_is_limited(serve, text, monkeypatch):
    """A further call is refused with the reason; a cancelled one makes room."""
    monkeypatch.setattr(request_runner, "MAX_WAITING", 2)
    bell, slow = Bell(), Slow()
    async with serve(bell) as served, served.client(elicitation_callback=slow) as client:
        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(client.call_tool, "change", {"what": str(number)})
            await slow.has_seen(2)
            refused = text(await client.call_tool("change", {"what": "more"}))
            assert (
                "2 calls already wait for an answer. Try again when some are answered." in refused
            )
            nursery.cancel_scope.cancel()
        left = list(served.runner._active.values())
        served.runner.stop()
        for each in left:
            await each.stopped.wait()
        assert served.runner._limiter.total_tokens == request_runner.MAX_RUNNING
        slow.released.set()
        assert text(await client.call_tool("change", {"what": "it"})) == "Changed it."
