"""Tools of a session, called by other clients: through every gate, logged, undone, cancelled."""

import mcp_types as t
import pytest
import trio
from hilum import Call, Output, deny, hookimpl, tool
from hilum.events import (
    ApprovalAnswered,
    CallDone,
    CallStarted,
    ModelAnswered,
    RunEnded,
    RunStarted,
)
from hilum.messages import Image
from hilum_mcp.serving import work
from mcp import MCPError

FILES = {"a.txt": "one\n"}


class Bell:
    """A plugin whose tools wait, tell, and count."""

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
        """Change something."""
        self.changed += 1
        return f"Changed {what}."

    @tool(risk="read", effect="pure")
    async def picture(self) -> Output:
        """Give a picture."""
        return Output("A dot.", (Image("image/png", b"\x89PNG"),))

    @tool(risk="read", effect="pure")
    async def tell(self, call: Call) -> str:
        """Tell of what goes on."""
        call.emit("half a li")
        call.emit("ne\nkey sk-abcdefghijklmnop1234567890\n")
        await self.rung.wait()
        return "Told."

    @hookimpl
    def provide_tools(self):
        return [self.wait, self.meet, self.change, self.picture, self.tell]


async def test_tools_are_listed_with_what_they_touch(serve):
    """A client sees the tools of the session, their parameters, and hints of what they do."""
    async with serve("files", "plan") as served, served.client() as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
    assert {"read_file", "edit_file"} <= set(tools)
    assert "ask_question" not in tools
    assert tools["read_file"].annotations.read_only_hint
    assert not tools["edit_file"].annotations.read_only_hint
    assert "path" in tools["read_file"].input_schema["properties"]


async def test_only_the_tools_that_were_chosen_are_offered(serve):
    """What matches no pattern is not listed, and cannot be called by who knows its name."""
    async with serve("files", tools=["read_*"], files=FILES) as served, served.client() as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["read_file"]
        with pytest.raises(MCPError, match="Unknown tool: write_file") as caught:
            await client.call_tool("write_file", {"path": "b", "content": "x"})
        assert caught.value.code == t.INVALID_PARAMS
        assert not served.of(CallStarted)


async def test_a_read_only_server_offers_what_reads(serve):
    """With ``readonly`` nothing that changes anything is offered at all."""
    async with serve("files", approve="readonly") as served, served.client() as client:
        assert {each.annotations.read_only_hint for each in (await client.list_tools()).tools} == {
            True
        }


async def test_a_call_is_logged_as_any_other(serve, text):
    """It is written before it runs and after it ended, and the log says that a client asked for it,
    and which.
    """
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


async def test_what_one_call_has_read_the_next_one_changes_and_undo_takes_back(serve, text):
    """To the client its calls are one conversation.

    A change is undone as if an agent had made it.
    """
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
        changes = served.bench.session.half(Changes)
        (record,) = changes.records("run", served.of(CallStarted)[-1].run)
        assert [each.path for each in record.changes] == ["a.txt"]


async def test_no_agent_is_kept_for_a_call_that_is_over(serve):
    """Many calls do not fill the memory."""
    async with serve("files", files=FILES) as served, served.client() as client:
        for _ in range(3):
            await client.call_tool("read_file", {"path": "a.txt"})
        await served.bench.wait_for(RunEnded, lambda event: event.agent == "client-3")
        await trio.testing.wait_all_tasks_blocked()
        assert set(served.bench.session.agents) == {"main"}


async def test_bad_arguments_come_back_as_the_tool_tells_them(serve, text):
    """A mistake in the arguments is a result that the client's model can read."""
    async with serve("files") as served, served.client() as client:
        result = await client.call_tool("read_file", {"file": "a"})
    assert result.is_error
    assert "E_BAD_ARGS" in text(result)
    assert "path" in text(result)


async def test_images_come_as_images(serve):
    """A tool's image gets to the client with its type."""
    async with serve(Bell()) as served, served.client() as client:
        said, picture = (await client.call_tool("picture")).content
    assert said.text == "A dot."
    assert (picture.mime_type, picture.data) == ("image/png", "iVBORw==")


async def test_calls_run_side_by_side(serve, text):
    """Two calls that wait for one another both end."""
    results = []
    async with serve(Bell()) as served, served.client() as client, trio.open_nursery() as nursery:

        async def meet():
            results.append(text(await client.call_tool("meet")))

        nursery.start_soon(meet)
        nursery.start_soon(meet)
    assert results == ["We met.", "We met."]


async def test_output_on_its_way_is_told_in_whole_lines_without_secrets(serve):
    """Progress carries what the tool shows; a key in it does not get out."""
    bell, told = Bell(), []
    async with serve(bell, "guard") as served, served.client() as client:

        async def progress(done, total, message):
            told.append(message)
            bell.rung.set()

        await client.call_tool("tell", progress_callback=progress)
    assert told == ["half a line\nkey [REDACTED:OPENAI_KEY]"]


async def test_a_cancelled_call_ends_its_tool(serve):
    """What the client gives up ends here, and the log says that it was stopped."""
    bell = Bell()
    async with serve(bell) as served, served.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            await bell.waiting.wait()
            nursery.cancel_scope.cancel()
        await bell.cancelled.wait()
        ended = await served.bench.wait_for(RunEnded)
        assert ended.state == "stopped"


async def test_a_client_that_leaves_ends_its_calls(serve):
    """When the connection closes, nothing of it goes on."""
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


async def test_a_gate_that_denies_denies_the_client(serve, text):
    """A plugin's no holds for calls from outside, and its reason comes back."""

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


# --- approvals ------------------------------------------------------------------------------------


def user(*answers, seen=None):
    """A user who answers forms in this order."""
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
    """What would be asked is asked through the client, with the whole call; then it runs."""
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
    assert "line one\n  line \\x1b[31mtwo" in seen[0].message


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
async def test_all_but_a_clear_yes_is_a_no(serve, text, answer):
    """A refusal, a closed form and an answer that is none refuse the call."""
    bell = Bell()
    async with serve(bell) as served, served.client(elicitation_callback=user(answer)) as client:
        result = await client.call_tool("change", {"what": "it"})
    assert result.is_error
    assert "E_REJECTED: The user rejected the call" in text(result)
    assert not bell.changed


async def test_a_yes_for_the_session_is_not_asked_again(serve):
    """The user may let all such calls run until the server ends."""
    bell = Bell()
    async with serve(bell) as served, served.client(elicitation_callback=user("session")) as client:
        for _ in range(3):
            assert not (await client.call_tool("change", {"what": "it"})).is_error
        assert bell.changed == 3
        assert len(served.of(ApprovalAnswered)) == 1


async def test_a_client_that_cannot_ask_is_refused_with_the_reason(serve, text):
    """Nobody is taken for the user: the log says that there was none, and the result what would
    help.
    """
    bell = Bell()
    async with serve(bell) as served, served.client() as client:
        result = await client.call_tool("change", {"what": "it"})
        (answered,) = served.of(ApprovalAnswered)
    assert result.is_error
    assert "Nobody could approve the call: the client shows no forms (elicitation)." in text(result)
    assert "--approve auto" in text(result)
    assert (answered.accepted, answered.by) == (False, "headless")
    assert not bell.changed


async def test_what_is_asked_even_so_is_refused_with_another_way(serve, text):
    """Where calls run unasked, no option lets more of them run."""
    async with serve("files", "guard", approve="auto") as served, served.client() as client:
        result = await client.call_tool(
            "write_file", {"path": ".git/hooks/pre-commit", "content": "x"}
        )
    assert result.is_error
    assert "by a rule" in text(result)
    assert "--approve" not in text(result)


async def test_the_tools_of_other_servers_are_theirs_to_offer(serve):
    """What stands for another MCP server here is not passed on, whatever it is called."""
    bell = Bell()
    async with serve(bell) as served, served.client() as client:
        served.bench.session.tools["change"].plugin = "mcp"
        assert "change" not in {each.name for each in (await client.list_tools()).tools}
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("change", {"what": "it"})


async def test_an_answer_that_comes_too_late_is_a_no(serve, text):
    """After the time for approvals the call is refused, whatever the form says later."""
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
    """In the newer era a client comes back with what the server gave it; it can send anything."""

    async def ask(self, client, arguments, **more):
        """Call without answering what is asked."""
        return await client.session.call_tool(
            "change", arguments, allow_input_required=True, **more
        )

    async def test_a_state_holds_for_its_own_call_only(self, serve_modern):
        """An approval of one call is none of another, nor can it be used twice, nor be made up."""
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

    async def test_who_comes_back_without_an_answer_is_asked_again(self, serve_modern):
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

    async def test_a_call_that_nobody_comes_back_for_is_given_up(self, serve_modern):
        """Its approval runs out, and its run ends."""
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
    """A user who looks at forms and answers none before the release."""

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


async def test_open_questions_hold_up_no_other_call(serve, text, monkeypatch):
    """Users who take their time cost nobody a place.

    What they agree to then runs, and the places are there again.
    """
    monkeypatch.setattr(work, "AT_ONCE", 3)
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
        assert served.desk._limit.total_tokens == 3
        assert served.desk._limit.borrowed_tokens == 0


async def test_there_is_an_end_to_open_questions(serve, text, monkeypatch):
    """Beyond it a call is refused with the reason; who leaves makes room."""
    monkeypatch.setattr(work, "MOST_ASKED", 2)
    bell, slow = Bell(), Slow()
    async with serve(bell) as served, served.client(elicitation_callback=slow) as client:
        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(client.call_tool, "change", {"what": str(number)})
            await slow.has_seen(2)
            refused = text(await client.call_tool("change", {"what": "more"}))
            assert (
                "2 calls wait for an answer already. Try again when some are answered." in refused
            )
            nursery.cancel_scope.cancel()
        left = list(served.desk._under_way.values())
        served.desk.stop()
        for each in left:
            await each.over.wait()
        assert served.desk._limit.total_tokens == work.AT_ONCE
        slow.released.set()
        assert text(await client.call_tool("change", {"what": "it"})) == "Changed it."
