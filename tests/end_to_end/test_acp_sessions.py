"""``hilum acp``: how sessions, prompts and questions end, and what an approval shows."""

import json
import signal

import pytest
import trio
from acp_editor import EVERYTHING, Refused, open_editor
from hilum.messages import AssistantMessage, ToolCall

pytestmark = pytest.mark.slow(cases=12, of="file")


@pytest.fixture
def editor(cli):
    """Return a function that starts ``hilum acp`` and an editor."""
    return lambda *arguments: open_editor(cli, *arguments)


async def open_session(editor, cli):
    opened = await editor.request("session/new", cwd=str(cli.workspace), mcpServers=[])
    return opened["sessionId"]


async def begin_prompt(editor, session, text="Go"):
    block = {"type": "text", "text": text}
    return await editor.begin("session/prompt", sessionId=session, prompt=[block])


async def continue_in_another(cli, editor, session):
    """Load a session in another process, and continue its run."""
    async with editor() as e:
        await e.initialize()
        await e.request("session/load", sessionId=session, cwd=str(cli.workspace), mcpServers=[])
        assert e.text("user_message_chunk") == "Go"
        assert not e.requests
        assert (await e.prompt(session, "/continue"))["stopReason"] == "end_turn"
        return e


async def test_the_whole_file_system_is_neither_workspace_nor_additional_folder(cli, editor):
    async with editor() as e:
        await e.initialize()
        for folders in (
            {"cwd": "/"},
            {"cwd": str(cli.workspace), "additionalDirectories": ["/"]},
        ):
            with pytest.raises(Refused, match="is the whole file system"):
                await e.request("session/new", **folders, mcpServers=[])


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_interrupts_runs_so_that_they_can_be_continued(cli, editor, asks, number):
    async with cli.model(asks("write_file", path="new.txt", content="text"), "Done."):
        async with editor() as e:
            await e.initialize()
            e.permit = lambda params: None
            session = await open_session(e, cli)
            await begin_prompt(e, session)
            await e.wait_for(lambda: e.requests)
            e.process.send_signal(number)
            await e.process.wait()
        assert not (cli.workspace / "new.txt").exists()
        # The run was not stopped: the same call is asked about again.
        again = await continue_in_another(cli, editor, session)
        assert [method for method, _ in again.requests] == ["session/request_permission"]
        assert (cli.workspace / "new.txt").read_text() == "text"


async def test_an_editor_that_is_killed_in_a_permission_request_approves_nothing(cli, editor, asks):
    """Both pipes break at once, as at the death of a process."""
    async with cli.model(asks("write_file", path="new.txt", content="text"), "Done."):
        with pytest.RaisesGroup(trio.ClosedResourceError, flatten_subgroups=True):
            async with editor() as e:
                await e.initialize()
                e.permit = lambda params: None
                session = await open_session(e, cli)
                await begin_prompt(e, session)
                await e.wait_for(lambda: e.requests)
                await e.stdin.aclose()
                await e.stdout.aclose()
                assert await e.process.wait() == 0
        assert not (cli.workspace / "new.txt").exists()
        again = await continue_in_another(cli, editor, session)
        assert [method for method, _ in again.requests] == ["session/request_permission"]
        assert (cli.workspace / "new.txt").read_text() == "text"


async def test_closing_a_session_ends_its_prompt(cli, editor, asks):
    async with cli.model(asks("write_file", path="a.txt", content="1")), editor() as e:
        await e.initialize()
        e.permit = lambda params: None
        session = await open_session(e, cli)
        number = await begin_prompt(e, session)
        await e.wait_for(lambda: e.requests)
        await e.request("session/close", sessionId=session)
        assert (await e.end(number))["stopReason"] == "cancelled"
        assert not (cli.workspace / "a.txt").exists()


async def test_closing_a_session_ends_a_prompt_that_waits_behind_another(cli, editor, asks):
    async with cli.model(asks("write_file", path="a.txt", content="1")), editor() as e:
        await e.initialize()
        e.permit = lambda params: None
        session = await open_session(e, cli)
        numbers = [await begin_prompt(e, session), await begin_prompt(e, session)]
        await e.wait_for(lambda: e.requests)
        await e.request("session/close", sessionId=session)
        for number in numbers:
            assert (await e.end(number))["stopReason"] == "cancelled"


@pytest.mark.parametrize("end", ["session/close", "session/cancel", "$/cancel_request"])
async def test_a_question_about_a_plan_ends_with_its_prompt(cli, editor, end):
    async with cli.model("1. Do it.", "Never."), editor("--mode", "plan") as e:
        await e.initialize()
        e.permit = lambda params: None
        session = await open_session(e, cli)
        number = await begin_prompt(e, session)
        await e.wait_for(lambda: e.requests)
        if end == "session/close":
            await e.request("session/close", sessionId=session)
        elif end == "session/cancel":
            await e.notify("session/cancel", sessionId=session)
        else:
            await e.notify("$/cancel_request", requestId=number)
        if end == "$/cancel_request":
            with pytest.raises(Refused) as refused:
                await e.end(number)
            assert refused.value.code == -32800
        else:
            assert (await e.end(number))["stopReason"] == "cancelled"
        await e.wait_for(lambda: e.cancelled)
        assert "Never." not in e.text()


SLOW_PLUGIN = """
from pathlib import Path

import trio
from hilum import hookimpl

FOLDER = Path({folder!r})


@hookimpl
async def open_session(session):
    (FOLDER / "opening").touch()
    try:
        await trio.sleep_forever()
    finally:
        (FOLDER / "closed").touch()
    yield object()
"""


async def test_a_cancelled_request_leaves_no_session_open(cli, editor):
    plugin = cli.folder / "slow.py"
    plugin.write_text(SLOW_PLUGIN.format(folder=str(cli.folder)))
    async with cli.model("Never."), editor("--plugin", str(plugin)) as e:
        await e.initialize()
        number = await e.begin("session/new", cwd=str(cli.workspace), mcpServers=[])
        while not (cli.folder / "opening").exists():  # noqa: ASYNC110  (another process writes it)
            await trio.sleep(0.01)
        await e.notify("$/cancel_request", requestId=number)
        with pytest.raises(Refused) as refused:
            await e.end(number)
        assert refused.value.code == -32800
        assert (cli.folder / "closed").exists()
    listed = await cli("sessions", "list", "--json")
    assert json.loads(listed.out) in ([], {"sessions": []}), listed.out


# --- out of order ---------------------------------------------------------------------------------


async def test_an_approval_after_the_cancellation_allows_nothing(cli, editor, asks):
    async with cli.model(asks("write_file", path="a.txt", content="1"), "Well."), editor() as e:
        await e.initialize()
        answered = trio.Event()

        async def permit(params):
            await e.wait_for(lambda: e.cancelled)
            answered.set()
            return "allow_once"

        e.permit = permit
        session = await open_session(e, cli)
        number = await begin_prompt(e, session)
        await e.wait_for(lambda: e.requests)
        await e.notify("session/cancel", sessionId=session)
        assert (await e.end(number))["stopReason"] == "cancelled"
        await answered.wait()
        # The connection works, and the answer to the question that has ended changed nothing.
        assert (await e.prompt(session, "More"))["stopReason"] == "end_turn"
        assert e.text() == "Well."
        assert not (cli.workspace / "a.txt").exists()


async def test_responses_that_nobody_waits_for_are_ignored(cli, editor):
    async with cli.model("Hello."), editor() as e:
        response = {"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "cancelled"}}}
        await e.send_raw(json.dumps(response).encode() + b"\n")
        await e.initialize()
        session = await open_session(e, cli)
        await e.send_raw(json.dumps(response).encode() + b"\n")
        # The same session is closed, and then used and closed again.
        await e.request("session/close", sessionId=session)
        with pytest.raises(Refused) as refused:
            await e.request("session/close", sessionId=session)
        assert refused.value.code == -32002
        await e.notify("session/cancel", sessionId=session)
        session = await open_session(e, cli)
        assert (await e.prompt(session, "Hello"))["stopReason"] == "end_turn"


async def test_a_session_that_is_loaded_while_it_is_open_begins_again(cli, editor):
    """Also with a prompt in the same packet, which belongs to the session that ends."""
    async with cli.model("Hello.", "Hello.", "Hello."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        block = {"type": "text", "text": "Go"}
        requests = [
            ("session/prompt", {"prompt": [block]}),
            ("session/load", {"cwd": str(cli.workspace), "mcpServers": []}),
            ("session/prompt", {"prompt": [block]}),
        ]
        data = b""
        for number, (method, params) in enumerate(requests, start=90):
            e._methods[number] = method
            params |= {"sessionId": session}
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            data += json.dumps(message).encode() + b"\n"
        await e.send_raw(data)
        # The model may have answered before the session began again.
        assert (await e.end(90))["stopReason"] in ("cancelled", "end_turn")
        assert await e.end(91)
        assert (await e.end(92))["stopReason"] == "cancelled"
        assert (await e.prompt(session, "More"))["stopReason"] == "end_turn"


async def test_an_unused_session_that_is_open_can_be_loaded(cli, editor):
    async with cli.model("Hello."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        await e.request("session/load", sessionId=session, cwd=str(cli.workspace), mcpServers=[])
        assert (await e.prompt(session, "More"))["stopReason"] == "end_turn"


async def test_one_odd_call_does_not_end_the_session(cli, editor):
    """Neither the running session, nor the one that shows its history after a reload."""
    parts = [
        ToolCall("c1", "read_file", '{"path": "~nosuchuser/x"}'),
        ToolCall("c2", "write_file", '{"path": "~root/x", "content": ""}'),
    ]
    calls = AssistantMessage(tuple(parts), stop="calls")
    async with cli.model(calls, "Done.", "More."):
        async with editor() as e:
            await e.initialize()
            session = await open_session(e, cli)
            assert (await e.prompt(session, "Go"))["stopReason"] == "end_turn"
            assert e.text() == "Done."
            [asked] = [params for method, params in e.requests if method.endswith("permission")]
            shown = cli.workspace / "~root/x"
            assert asked["toolCall"]["locations"] == [{"path": str(shown)}]
            assert shown.read_text() == ""
        async with editor() as e:
            await e.initialize()
            folder = str(cli.workspace)
            await e.request("session/load", sessionId=session, cwd=folder, mcpServers=[])
            assert e.text() == "Done."
            assert (await e.prompt(session, "More"))["stopReason"] == "end_turn"


async def test_requests_are_answered_after_the_end_of_standard_input(cli, editor):
    async with cli.model("Hello."):
        async with editor() as e:
            await e.initialize()
            session = await open_session(e, cli)
            await e.prompt(session, "Hello")
        async with editor() as e:
            folder = str(cli.workspace)
            numbers = [
                await e.begin("initialize", protocolVersion=1, clientCapabilities={}),
                await e.begin("session/list"),
                await e.begin("authenticate", methodId="hilum-key"),
                await e.begin("session/load", sessionId=session, cwd=folder, mcpServers=[]),
            ]
            await e.stdin.aclose()
            answers = [await e.end(number) for number in numbers]
            assert [each["sessionId"] for each in answers[1]["sessions"]] == [session]
            assert e.text() == "Hello."
            assert await e.process.wait() == 0


# --- what an approval shows -----------------------------------------------------------------------


def texts_of(asked):
    """The texts of a request for permission."""
    content = asked["toolCall"]["content"]
    return [each["content"]["text"] for each in content if each["type"] == "content"]


async def ask_about(cli, editor, call):
    """Return the request for permission of a call, which is rejected."""
    async with cli.model(call, "I see."), editor() as e:
        await e.initialize(**EVERYTHING)
        e.permit = lambda params: "reject_once"
        session = await open_session(e, cli)
        await e.prompt(session, "Go")
        [asked] = [params for method, params in e.requests if method.endswith("permission")]
        return asked


async def test_more_edits_than_diffs_are_shown_in_full(cli, editor, asks):
    lines = [f"line {number}\n" for number in range(230)]
    (cli.workspace / "a.txt").write_text("".join(lines))
    edits = [{"old_string": line, "new_string": f"new {line}"} for line in lines]
    read = asks("read_file", path="a.txt")
    asked = await ask_about(cli, editor, [read, asks("multi_edit", path="a.txt", edits=edits)])
    diffs = [each for each in asked["toolCall"]["content"] if each["type"] == "diff"]
    assert len(diffs) == 200
    said, whole = texts_of(asked)[-2:]
    assert "The diffs do not show: 30 more edits." in said
    assert "+new line 229" in whole


async def test_a_long_scope_is_shown_in_full(cli, editor, asks):
    command = "frobnicate " + " ".join(f"word{number}" for number in range(40)) + " > out"
    asked = await ask_about(cli, editor, asks("run_terminal_cmd", command=command))
    cut = [option["name"] for option in asked["options"] if option["name"].endswith("…")]
    assert cut, asked["options"]
    assert all(len(name) <= 120 for name in cut)
    full = texts_of(asked)[-1]
    assert full.startswith("**The choices in full:**")
    assert "word39" in full


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("touch x", [r"\`touch\` is not on the list of harmless commands."]),
        # In Markdown, the title could look different.
        (
            "touch _x_",
            [
                r"\`touch\` is not on the list of harmless commands.",
                "```text\ncommand: touch _x_\n```",
            ],
        ),
        # What is dangerous is the reason.
        ("git push --force", ["**⚠ rewrites the history of a remote branch**"]),
    ],
)
async def test_a_question_says_a_command_once(cli, editor, asks, command, texts):
    asked = await ask_about(cli, editor, asks("run_terminal_cmd", command=command))
    assert asked["toolCall"]["title"] == command
    assert texts_of(asked) == texts


async def test_a_question_shows_the_further_arguments_of_a_command(cli, editor, asks):
    call = asks("run_terminal_cmd", command="touch x\ntouch y", timeout=5)
    asked = await ask_about(cli, editor, call)
    assert asked["toolCall"]["title"] == "touch x (+1 line)"
    assert texts_of(asked)[1] == ("```text\ncommand:\n  touch x\n  touch y\ntimeout: 5\n```")


async def test_a_dangerous_call_can_only_be_allowed_once(cli, editor, asks):
    kinds = {}
    for command in ("touch x", "git push --force"):
        asked = await ask_about(cli, editor, asks("run_terminal_cmd", command=command))
        kinds[command] = [option["kind"] for option in asked["options"]]
    assert kinds["git push --force"] == ["allow_once", "reject_once", "reject_once"]
    assert "allow_always" in kinds["touch x"]


@pytest.mark.parametrize(
    "outcome",
    [
        {"outcome": "selected", "optionId": "allow"},
        # It was not offered.
        {"outcome": "selected", "optionId": "reject_reason"},
        {"outcome": "selected"},
        {"outcome": "accepted", "optionId": "allow_once"},
        {"optionId": "allow_once"},
        None,
    ],
)
async def test_an_answer_outside_of_the_choices_rejects_the_call(cli, editor, asks, outcome):
    async with cli.model(asks("write_file", path="new.txt", content="x"), "I see."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        e.permit = lambda params: None
        number = await begin_prompt(e, session)
        await e.wait_for(lambda: e.requests)
        [asked] = [message for message in e.raw if message.get("method", "").endswith("permission")]
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}}
        await e.send_raw(json.dumps(answer).encode() + b"\n")
        assert (await e.end(number))["stopReason"] == "end_turn"
        assert not (cli.workspace / "new.txt").exists()
        [call] = e.calls()
        assert call["status"] == "failed"
        assert "not among the choices" in json.dumps(call["content"])


async def test_dangers_are_no_markup(cli, editor, asks):
    command = "rm -rf '![x](http://127.0.0.1/q)' '<b>*'"
    asked = await ask_about(cli, editor, asks("run_terminal_cmd", command=command))
    notes, call, *_ = texts_of(asked)
    assert "⚠" in notes
    assert "![x](" not in notes
    assert "<b>" not in notes.replace("\\<b", "")
    assert call.startswith("```text\n")
    assert command in call
