"""``hilum acp`` as a process, driven by an editor that validates every message."""

import base64
import json
import sys
from functools import partial

import pytest
import trio
from acp_editor import EVERYTHING, Refused, open_editor

pytestmark = pytest.mark.slow(cases=9, of="file")

WRITE_ONLY = {"fs": {"readTextFile": True, "writeTextFile": True}}


@pytest.fixture
def editor(cli):
    """Return a function that starts ``hilum acp`` and an editor, with a session."""
    return lambda *arguments: open_editor(cli, *arguments)


async def open_session(editor, cli, **more):
    opened = await editor.request("session/new", cwd=str(cli.workspace), mcpServers=[], **more)
    return opened["sessionId"], opened


async def load_session(editor, cli, session):
    params = {"sessionId": session, "cwd": str(cli.workspace), "mcpServers": []}
    return await editor.request("session/load", **params)


async def test_a_prompt_is_answered_while_it_streams(cli, editor):
    async with cli.model("Good day to you."), editor() as e:
        about = await e.initialize(**EVERYTHING)
        assert about["protocolVersion"] == 1
        assert about["agentCapabilities"]["loadSession"] is True
        session, opened = await open_session(e, cli)
        assert opened["modes"]["currentModeId"] == "agent"
        categories = [each["category"] for each in opened["configOptions"]]
        assert categories == ["mode", "model", "_approval"]
        assert (await e.prompt(session, "Hello"))["stopReason"] == "end_turn"
        assert e.text() == "Good day to you."
        assert not e.of("user_message_chunk")
        [title] = e.of("session_info_update")
        assert title["title"] == "Hello"
        commands = e.of("available_commands_update")[0]["availableCommands"]
        assert "continue" in [each["name"] for each in commands]


async def test_an_edit_with_permission_and_its_undo_through_the_journal(cli, editor, asks):
    (cli.workspace / "a.txt").write_text("one\ntwo\n")
    read = asks("read_file", path="a.txt")
    edit = asks("edit_file", path="a.txt", old_string="two", new_string="2")
    async with cli.model(read, edit, "Done."), editor() as e:
        await e.initialize(**EVERYTHING)
        session, _ = await open_session(e, cli)
        assert (await e.prompt(session, "Go"))["stopReason"] == "end_turn"
        assert (cli.workspace / "a.txt").read_text() == "one\n2\n"
        [asked] = [params for method, params in e.requests if method.endswith("permission")]
        assert asked["toolCall"]["content"][-1] == {
            "type": "diff",
            "path": str(cli.workspace / "a.txt"),
            "oldText": "two",
            "newText": "2",
        }
        kinds = [each["kind"] for each in asked["options"]]
        assert kinds == ["allow_once", "allow_always", "allow_always", "reject_once", "reject_once"]
        reading, editing = e.calls()
        assert (reading["kind"], reading["status"]) == ("read", "completed")
        assert (editing["kind"], editing["status"]) == ("edit", "completed")
        assert editing["toolCallId"] == asked["toolCall"]["toolCallId"]
        assert editing["content"][0]["newText"] == "one\n2\n"
        # The write went through the editor.
        assert "fs/write_text_file" in [method for method, _ in e.requests]
    undone = await cli("undo")
    assert undone.code == 0, undone.err
    assert (cli.workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_the_agent_reads_the_unsaved_buffer_and_its_edit_keeps_it(cli, editor, asks):
    path = cli.workspace / "a.txt"
    path.write_text("saved\n")
    read = asks("read_file", path="a.txt")
    edit = asks("edit_file", path="a.txt", old_string="typed", new_string="edited")
    async with cli.model(read, edit, "Done.") as model, editor("--approve", "auto") as e:
        await e.initialize(**EVERYTHING)
        e.buffers[str(path)] = "saved\ntyped\n"
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        assert path.read_text() == "saved\nedited\n"
        assert "2 | typed" in str(model.requests[1].body)
    # The undo restores what the user had typed, and not the older saved text.
    undone = await cli("undo")
    assert undone.code == 0, undone.err
    assert path.read_text() == "saved\ntyped\n"


async def test_a_write_does_not_overwrite_unsaved_text_that_the_agent_has_not_seen(
    cli, editor, asks
):
    path = cli.workspace / "a.txt"
    path.write_text("saved\n")
    read = asks("read_file", path="a.txt")
    write = asks("write_file", path="a.txt", content="new\n")

    async with cli.model(read, write, "Done."), editor("--approve", "auto") as e:
        await e.initialize(**EVERYTHING)
        session, _ = await open_session(e, cli)
        await e.wait_for(lambda: e.of("available_commands_update"))
        number = await e.begin(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Go"}]
        )
        # The user types after the agent has read the file.
        await e.wait_for(lambda: any(call["status"] == "completed" for call in e.calls()))
        e.buffers[str(path)] = "saved\ntyped\n"
        await e.end(number)
        writing = e.calls()[-1]
        assert writing["status"] == "failed"
        assert "E_STALE" in json.dumps(writing["content"])
        assert path.read_text() == "saved\n"
        assert e.buffers[str(path)] == "saved\ntyped\n"


async def test_a_session_with_unsaved_buffers_becomes_a_test(cli, editor, asks):
    path = cli.workspace / "a.txt"
    path.write_text("saved\n")
    read = asks("read_file", path="a.txt")
    stale = asks("edit_file", path="a.txt", old_string="saved", new_string="x")
    again = asks("read_file", path="a.txt", id="c2")
    edit = asks("edit_file", path="a.txt", old_string="typed", new_string="edited", id="c3")
    async with cli.model(read, stale, again, edit, "Done."), editor("--approve", "auto") as e:
        await e.initialize(**EVERYTHING)
        session, _ = await open_session(e, cli)
        number = await e.begin(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Go"}]
        )
        await e.wait_for(lambda: any(call["status"] == "completed" for call in e.calls()))
        e.buffers[str(path)] = "saved\ntyped\n"
        await e.end(number)
        assert path.read_text() == "saved\nedited\n"
    # Continued in the terminal, and undone there.
    async with cli.model("Nothing else."):
        continued = await cli("run", "-c", "What else?")
        assert continued.code == 0, continued.err
    undone = await cli("undo")
    assert undone.code == 0, undone.err
    assert path.read_text() == "saved\ntyped\n"
    exported = await cli("sessions", "export", session, "--test", "unsaved", "-o", "tests")
    assert exported.code == 0, exported.err
    folder = cli.workspace / "tests" / "unsaved"
    assert (folder / "before" / "a.txt").read_text() == "saved\n"
    replayed = await cli("replay", str(folder))
    assert replayed.code == 0, replayed.out
    # The list of tools differs, because the recorded session had two processes.
    assert replayed.out.startswith("Same behaviour: ")
    denied = await cli("replay", session, "--rule", "deny edit_file(a.txt)")
    assert denied.code == 1
    assert "E_DENIED" in denied.out


@pytest.mark.parametrize("chosen", ["reject_once", "allow_session", "allow_always"])
async def test_the_choices_of_an_approval(cli, editor, asks, chosen):
    first = asks("write_file", path="a.txt", content="1")
    second = asks("write_file", path="a.txt", content="2", id="c2")
    async with cli.model(first, second, "Done."), editor() as e:
        await e.initialize()
        e.permit = lambda params: chosen
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        asked = [method for method, _ in e.requests]
        if chosen == "reject_once":
            assert not (cli.workspace / "a.txt").exists()
            assert [call["status"] for call in e.calls()] == ["failed", "failed"]
        else:
            assert (cli.workspace / "a.txt").read_text() == "2"
            assert asked == ["session/request_permission"]


async def test_a_rejection_with_a_reason_reaches_the_agent(cli, editor, asks):
    async with cli.model(asks("write_file", path="a.txt", content="1"), "I see."), editor() as e:
        await e.initialize(elicitation={"form": {}})
        e.permit = lambda params: "reject_reason"
        e.fill = lambda params: {"action": "accept", "content": {"reason": "Use b.txt."}}
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        [call] = e.calls()
        assert "Use b.txt." in json.dumps(call["content"])


async def test_a_cancelled_prompt_ends_with_its_questions(cli, editor, asks):
    async with cli.model(asks("write_file", path="a.txt", content="1"), "Never."), editor() as e:
        await e.initialize()
        e.permit = lambda params: None
        session, _ = await open_session(e, cli)
        number = await e.begin(
            "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Go"}]
        )
        await e.wait_for(lambda: e.requests)
        await e.notify("session/cancel", sessionId=session)
        assert (await e.end(number))["stopReason"] == "cancelled"
        await e.wait_for(lambda: e.cancelled)
        assert not (cli.workspace / "a.txt").exists()


async def test_a_prompt_and_its_cancellation_in_one_packet(cli, editor):
    async with cli.model("Never."), editor() as e:
        await e.initialize()
        session, _ = await open_session(e, cli)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Go"}]}
        lines = [
            {"jsonrpc": "2.0", "id": 99, "method": "session/prompt", "params": prompt},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}},
        ]
        e._methods[99] = "session/prompt"
        await e.send_raw(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert (await e.end(99))["stopReason"] == "cancelled"


async def test_an_editor_that_dies_in_a_permission_request_approves_nothing(cli, editor, asks):
    write = asks("write_file", path="new.txt", content="text")
    async with cli.model(write, "Done."):
        async with editor() as e:
            await e.initialize()
            e.permit = lambda params: None
            session, _ = await open_session(e, cli)
            await e.begin(
                "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Go"}]
            )
            await e.wait_for(lambda: e.requests)
            await e.stdin.aclose()
            assert await e.process.wait() == 0
        assert not (cli.workspace / "new.txt").exists()
        # The next editor sees the history, and is asked again once the user continues.
        async with editor() as e:
            await e.initialize()
            await e.request(
                "session/load", sessionId=session, cwd=str(cli.workspace), mcpServers=[]
            )
            assert e.text("user_message_chunk") == "Go"
            assert not e.requests
            e.updates.clear()
            assert (await e.prompt(session, "/continue"))["stopReason"] == "end_turn"
            assert [method for method, _ in e.requests] == ["session/request_permission"]
            assert (cli.workspace / "new.txt").read_text() == "text"
            assert e.text() == "Done."


async def test_a_session_after_a_kill_shows_the_same_history(cli, editor, asks):
    write = asks("write_file", path="a.txt", content="1", text="I write.")
    async with cli.model(write, "Done.", "Again."):
        async with editor("--approve", "auto") as e:
            await e.initialize(**WRITE_ONLY)
            session, _ = await open_session(e, cli)
            await e.prompt(session, "Go")
            text, calls = e.text(), e.calls()
            e.process.kill()
            await e.process.wait()
        async with editor("--approve", "auto") as e:
            await e.initialize(**WRITE_ONLY)
            listed = await e.request("session/list", cwd=str(cli.workspace))
            assert [each["sessionId"] for each in listed["sessions"]] == [session]
            await e.request(
                "session/load", sessionId=session, cwd=str(cli.workspace), mcpServers=[]
            )
            assert (e.text(), e.text("user_message_chunk")) == (text, "Go")
            shown = ("toolCallId", "title", "status", "content", "rawInput")
            assert [[call[key] for key in shown] for call in e.calls()] == [
                [call[key] for key in shown] for call in calls
            ]
            assert (await e.prompt(session, "More"))["stopReason"] == "end_turn"
            await e.request("session/close", sessionId=session)
            with pytest.raises(Refused) as refused:
                await e.prompt(session, "Closed")
            assert refused.value.code == -32002
            resumed_from = len(e.updates)
            await e.request(
                "session/resume", sessionId=session, cwd=str(cli.workspace), mcpServers=[]
            )
            kinds = {each["sessionUpdate"] for each in e.updates[resumed_from:]}
            assert "user_message_chunk" not in kinds
            await e.request("session/delete", sessionId=session)
            assert (await e.request("session/list"))["sessions"] == []


async def test_mode_model_and_policy_are_options(cli, editor):
    async with cli.model("Hello."), editor() as e:
        await e.initialize()
        session, _ = await open_session(e, cli)
        await e.request("session/set_mode", sessionId=session, modeId="ask")
        await e.wait_for(lambda: e.of("current_mode_update"))
        result = await e.request(
            "session/set_config_option", sessionId=session, configId="approve", value="readonly"
        )
        values = {each["id"]: each["currentValue"] for each in result["configOptions"]}
        assert (values["mode"], values["approve"]) == ("ask", "readonly")
        assert values["model"] == "openai/scripted"
        for bad in (("approve", "everything"), ("nothing", "x"), ("model", "openai/")):
            with pytest.raises(Refused) as refused:
                await e.request(
                    "session/set_config_option", sessionId=session, configId=bad[0], value=bad[1]
                )
            assert refused.value.code == -32602
        with pytest.raises(Refused):
            await e.request("session/set_mode", sessionId=session, modeId="nothing")


async def test_content_of_all_kinds_reaches_the_model(cli, editor):
    (cli.workspace / "a.py").write_text("saved = 1\n")
    png = base64.b64encode(
        base64.b64decode(
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        )
    ).decode()
    uri = (cli.workspace / "a.py").as_uri()
    async with cli.model("Seen.") as model, editor() as e:
        await e.initialize()
        session, _ = await open_session(e, cli)
        blocks = [
            {"type": "text", "text": "Explain "},
            {"type": "resource", "resource": {"uri": uri, "text": "unsaved = 2\n"}},
            {"type": "resource", "resource": {"uri": f"{uri}#L1:1", "text": "selected = 3"}},
            {"type": "resource_link", "uri": "https://example.com/x", "name": "x"},
            {"type": "image", "mimeType": "image/png", "data": png},
        ]
        await e.prompt(session, "", *blocks)
        sent = str(model.requests[0].body)
        for text in ("Explain `a.py`", "unsaved = 2", "selected = 3", "https://example.com/x"):
            assert text in sent
        with pytest.raises(Refused) as refused:
            await e.prompt(session, "", {"type": "audio", "data": "", "mimeType": "audio/wav"})
        assert refused.value.code == -32602


async def test_a_question_of_the_agent(cli, editor, asks):
    question = asks("ask_question", question="Which?", options=["A", "B"])
    again = asks("ask_question", question="Which now?", options=["A", "B"], id="c2")
    async with cli.model(question, again, "Thanks.") as model, editor() as e:
        await e.initialize(elicitation={"form": {}})
        e.fill = lambda params: {"action": "accept", "content": {"answer": "B"}}
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        assert [method for method, _ in e.requests] == ["elicitation/create"] * 2
        assert "B" in str(model.requests[1].body)


async def test_a_question_in_an_editor_without_forms(cli, editor, asks):
    question = asks("ask_question", question="Which?", options=["A", "B"])
    async with cli.model(question, "Thanks."), editor() as e:
        await e.initialize()
        e.permit = lambda params: "B"
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        [(method, params)] = e.requests
        assert method == "session/request_permission"
        assert params["toolCall"]["title"] == "Which?"
        [call] = e.calls()
        assert "B" in json.dumps(call["content"])


async def test_a_todo_list_is_a_plan(cli, editor, asks):
    items = [
        {"id": "1", "content": "Read", "status": "in_progress"},
        {"id": "2", "content": "Write", "status": "pending"},
    ]
    async with cli.model(asks("todo_write", todos=items), "Done."), editor() as e:
        await e.initialize()
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        plan = e.of("plan")[0]["entries"]
        assert [(each["content"], each["status"]) for each in plan] == [
            ("Read", "in_progress"),
            ("Write", "pending"),
        ]
        assert not e.calls()


async def test_additional_directories_can_be_used(cli, editor, asks):
    other = cli.folder / "other"
    other.mkdir()
    (other / "b.txt").write_text("elsewhere\n")
    read = asks("read_file", path=str(other / "b.txt"))
    write = asks("run_terminal_cmd", command=f"echo written > {other}/c.txt")
    async with cli.model(read, write, "Done.", read, "Done."), editor() as e:
        await e.initialize()
        session, _ = await open_session(e, cli, additionalDirectories=[str(other)])
        await e.prompt(session, "Go")
        assert [call["status"] for call in e.calls()] == ["completed", "completed"]
        assert (other / "c.txt").read_text() == "written\n"
        e.updates.clear()
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        assert e.calls()[-1]["status"] == "failed"
        for bad in ("relative", str(cli.folder / "missing")):
            with pytest.raises(Refused) as refused:
                await open_session(e, cli, additionalDirectories=[bad])
            assert refused.value.code == -32602


@pytest.mark.parametrize("version", [0, 2, 65535])
async def test_other_versions_of_the_protocol_get_ours(cli, editor, version):
    async with cli.model("Hello."), editor() as e:
        assert (await e.initialize(version))["protocolVersion"] == 1


async def test_requests_out_of_order_are_refused(cli, editor):
    async with cli.model("Hello."), editor() as e:
        with pytest.raises(Refused) as refused:
            await open_session(e, cli)
        assert refused.value.code == -32600
        await e.notify("session/cancel", sessionId="none")
        await e.initialize()
        for method in ("session/prompt", "session/load", "session/close", "session/delete"):
            params = {"sessionId": "none"}
            if method == "session/prompt":
                params["prompt"] = []
            if method == "session/load":
                params |= {"cwd": str(cli.workspace), "mcpServers": []}
            with pytest.raises(Refused) as refused:
                await e.request(method, **params)
            assert refused.value.code == -32002
        with pytest.raises(Refused) as refused:
            await e.request("session/fork", sessionId="none")
        assert refused.value.code == -32601
        session, _ = await open_session(e, cli)
        assert (await e.prompt(session, "Hello"))["stopReason"] == "end_turn"


async def test_garbage_between_messages(cli, editor):
    async with cli.model("Hello."), editor() as e:
        await e.send_raw(b"garbage\n\xff\xfe\n[]\n{}\n\n")
        e._methods[None] = "garbage"
        await e.initialize()
        errors = [each["error"]["code"] for each in e.raw if each.get("id") is None]
        assert errors == [-32700, -32700, -32600, -32600]
        session, _ = await open_session(e, cli)
        assert (await e.prompt(session, "Hello"))["stopReason"] == "end_turn"


async def test_without_a_model_the_editor_asks_for_a_login(cli, editor):
    cli.env |= {"HILUM_MODEL": ""}
    async with editor() as e:
        about = await e.initialize(auth={"terminal": True})
        assert [each["id"] for each in about["authMethods"]] == ["hilum-setup", "hilum-key"]
        for request in (
            open_session(e, cli),
            e.request("authenticate", methodId="hilum-key"),
        ):
            with pytest.raises(Refused) as refused:
                await request
            assert refused.value.code == -32000
        await e.request("logout")
        # The session that could not be used is gone.
        assert (await e.request("session/list"))["sessions"] == []


async def test_a_command_runs_in_the_sandbox_and_its_output_is_shown(cli, editor, asks):
    command = asks("run_terminal_cmd", command="echo one; echo two")
    async with cli.model(command, "Done."), editor() as e:
        await e.initialize(**EVERYTHING)
        session, _ = await open_session(e, cli)
        await e.prompt(session, "Go")
        [call] = e.calls()
        assert (call["kind"], call["title"]) == ("execute", "echo one; echo two")
        # On a busy machine, it takes long enough for a terminal.
        assert "one\\ntwo" in json.dumps([call["content"], call.get("rawOutput")])


async def test_a_plan_is_carried_out_after_the_users_decision(cli, editor):
    async with cli.model("1. Do it.", "Carried out."), editor("--mode", "plan") as e:
        await e.initialize()
        session, _ = await open_session(e, cli)
        assert (await e.prompt(session, "Plan it"))["stopReason"] == "end_turn"
        [(_, params)] = e.requests
        assert params["toolCall"]["title"] == "Carry out this plan?"
        assert "Do it" in json.dumps(params["toolCall"]["content"])
        assert e.text().endswith("Carried out.")
        assert e.of("current_mode_update")[-1]["currentModeId"] == "agent"
        assert list(find_decisions(e)) == ["You accepted the plan."]
        [decision] = e.calls()
        assert decision["toolCallId"] == params["toolCall"]["toolCallId"]
    async with editor() as e:
        await e.initialize()
        await load_session(e, cli, session)
        assert e.calls() == [decision]


def find_decisions(editor):
    """Yield what the calls that stand for decisions about plans say."""
    for call in editor.calls():
        if call["title"] == "Carry out this plan?":
            assert call["status"] == "completed"
            yield call["content"][0]["content"]["text"]


@pytest.mark.parametrize("can_fill_forms", [True, False])
@pytest.mark.parametrize("choice", ["reject", "revise", "later"])
async def test_a_plan_that_is_not_carried_out(cli, editor, choice, can_fill_forms):
    async with cli.model("1. Do it.", "1. Do less."), editor("--mode", "plan") as e:
        await e.initialize(**({"elicitation": {"form": {}}} if can_fill_forms else {}))
        left = iter([choice, "later"])
        e.permit = lambda params: next(left)
        e.fill = lambda params: {"action": "accept", "content": {"reason": "Less."}}
        session, _ = await open_session(e, cli)
        assert (await e.prompt(session, "Plan it"))["stopReason"] == "end_turn"
        asked = [params for method, params in e.requests if method.endswith("permission")]
        names = [each["name"] for each in asked[0]["options"]]
        revise = "Revise it…" if can_fill_forms else "Revise it: I write what should change"
        assert names == ["Carry out the plan", revise, "Reject it", "Decide later"]
        assert e.text().endswith("Do less.") == (choice == "revise" and can_fill_forms)
        assert all(each["currentModeId"] == "plan" for each in e.of("current_mode_update"))
        decided = {
            "reject": ["You rejected the plan. Its open items are cancelled."],
            "revise": ["You rejected the plan: Less."] if can_fill_forms else [],
            "later": [],
        }
        # The update may arrive after the response to the prompt.
        await e.wait_for(lambda: list(find_decisions(e)) == decided[choice])
    async with editor() as e:
        await e.initialize()
        await load_session(e, cli, session)
        assert list(find_decisions(e)) == decided[choice]
    log = find_texts(cli.folder)
    assert ('"plan.rejected"' in log) == (
        choice == "reject" or (choice == "revise" and can_fill_forms)
    )


SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif message.get("method") == "tools/list":
        tool = {"name": "work", "description": "Work.", "inputSchema": {"type": "object"}}
        result = {"tools": [tool]}
    elif message.get("method") == "tools/call":
        result = {"content": [{"type": "text", "text": "worked for the editor"}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_servers_of_the_editor_start_like_those_of_the_project(cli, editor, asks, is_trusted):
    """Only in a trusted folder, and only once the user has approved them."""
    (cli.workspace / "server.py").write_text(SERVER)
    if is_trusted:
        await cli("trust")
    variables = [{"name": "TOK", "value": "secret123"}, {"name": "PYTHONPATH", "value": "lib"}]
    server = {"name": "s", "command": sys.executable, "args": ["server.py"], "env": variables}
    find = asks("find_tools", query="work")
    work = asks("call_tool", name="s__work", arguments={}, id="c2")
    async with cli.model(find, work, "Done."), editor("--approve", "auto") as e:
        await e.initialize(elicitation={"form": {}})
        answered = []

        def fill(params):
            answered.append(params["message"])
            return {"action": "accept", "content": {"answer": "Yes, start it"}}

        e.fill = fill
        opened = await e.request("session/new", cwd=str(cli.workspace), mcpServers=[server])
        session = opened["sessionId"]
        # The tools can be found in the run in which the user is asked.
        await e.prompt(session, "Work")
        assert ("worked for the editor" in json.dumps(e.calls())) == is_trusted
        if is_trusted:
            [question] = answered
            assert question.startswith("Your editor wants to start a program")
            assert "secret123" not in question
            assert "PYTHONPATH=lib" in question
        else:
            assert not answered
        # Nothing says that a server is not used about which the user is asked.
        assert ("MCP server s not started" in e.text()) == (not is_trusted)
        await e.prompt(session, "/mcp list")
        state = "up" if is_trusted else "NOT APPROVED"
        [row] = [line for line in e.text().splitlines() if "server.py" in line]
        assert row.split("stdio")[0].split(maxsplit=1)[1].strip() == state
        assert "(Your editor" in row
        bad = {"name": "s", "command": "x", "args": [], "env": [{"name": "A", "value": 1}]}
        await e.send_raw(
            json.dumps(
                {
                    "jsonrpc": "2.0",
                    "id": 77,
                    "method": "session/new",
                    "params": {"cwd": str(cli.workspace), "mcpServers": [bad]},
                }
            ).encode()
            + b"\n"
        )
        e._methods[77] = "session/new"
        with pytest.raises(Refused) as refused:
            await e.end(77)
        assert refused.value.code == -32602


async def test_logout_removes_the_stored_keys(cli, editor):
    key = "sk-test-0123456789abcdef0123456789"
    assert (await cli("models", "key", "groq", stdin=key.encode() + b"\n")).code == 0
    assert key in find_texts(cli.folder)
    async with editor() as e:
        await e.initialize()
        await e.request("logout")
    assert key not in find_texts(cli.folder)


def find_texts(folder):
    """The content of all files in a folder."""
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


async def test_the_set_up_of_an_editor_is_that_of_the_terminal(cli):
    async with cli.on_screen("acp", "--setup") as screen:
        await screen.wait_for("model")


async def test_a_key_that_the_provider_refuses_asks_for_a_login(cli, editor):
    async def refuse(stream):
        await stream.receive_some(65536)
        body = b'{"error": {"message": "bad key"}}'
        head = f"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        await stream.send_all(head.encode() + b"\r\nconnection: close\r\n\r\n" + body)

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, refuse, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        cli.env |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "HILUM_MODEL": "openai/x"}
        async with editor() as e:
            await e.initialize()
            session, _ = await open_session(e, cli)
            with pytest.raises(Refused) as refused:
                await e.prompt(session, "Hello")
            assert refused.value.code == -32000
            assert refused.value.data["code"] == "E_LLM_AUTH"
        nursery.cancel_scope.cancel()


async def test_a_run_that_reaches_the_turn_limit_says_so(cli, editor, asks):
    listing = asks("list_directory")
    async with cli.model(listing, "Never."), editor("--set", "turns=1") as e:
        await e.initialize()
        session, _ = await open_session(e, cli)
        assert (await e.prompt(session, "Go"))["stopReason"] == "max_turn_requests"


async def test_empty_sessions_are_kept_for_a_while(cli, editor):
    """A client may create a session in one process, and load it in another."""
    async with cli.model("Hello."):
        async with editor() as e:
            await e.initialize()
            session, _ = await open_session(e, cli)
        async with editor() as e:
            await e.initialize()
            assert (await e.request("session/list"))["sessions"] == []
            await e.request(
                "session/load", sessionId=session, cwd=str(cli.workspace), mcpServers=[]
            )
            assert (await e.prompt(session, "Hello"))["stopReason"] == "end_turn"
            with pytest.raises(Refused):
                await e.request(
                    "session/load", sessionId=session[:12], cwd=str(cli.workspace), mcpServers=[]
                )
            with pytest.raises(Refused):
                await e.request(
                    "session/load", sessionId=session, cwd=str(cli.folder), mcpServers=[]
                )


async def test_an_editor_that_no_longer_reads_ends_hilum(cli, editor, asks):
    write = asks("write_file", path="new.txt", content="text")
    async with cli.model(write, "Done."):
        with pytest.RaisesGroup(trio.ClosedResourceError, flatten_subgroups=True):
            async with editor() as e:
                await e.initialize()
                session, _ = await open_session(e, cli)
                await e.stdout.aclose()
                await e.begin(
                    "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Go"}]
                )
                assert await e.process.wait() == 0
    assert not (cli.workspace / "new.txt").exists()
