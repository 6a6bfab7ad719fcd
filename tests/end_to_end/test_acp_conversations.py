"""``hilum acp``: what the user reads in the conversation, and what refused requests change."""

import base64
import json

import pytest
from acp_editor import EVERYTHING, Refused, open_editor

pytestmark = pytest.mark.slow(cases=7, of="file")

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture
def editor(cli):
    """Return a function that starts ``hilum acp`` and an editor."""
    return lambda *arguments: open_editor(cli, *arguments)


def place(cli, session=None):
    """Return the parameters that open a session."""
    named = {"sessionId": session} if session else {}
    return {**named, "cwd": str(cli.workspace), "mcpServers": []}


async def open_session(editor, cli):
    return (await editor.request("session/new", **place(cli)))["sessionId"]


async def begin_prompt(editor, session, text="Go"):
    block = {"type": "text", "text": text}
    return await editor.begin("session/prompt", sessionId=session, prompt=[block])


def write_agent(cli):
    folder = cli.folder / "config" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "echo.md").write_text(
        "---\nkind: agent\nname: echo\ndescription: Repeats.\nturns: 1\n---\nRepeat the text.\n"
    )


# --- agents ---------------------------------------------------------------------------------------


async def test_the_answer_of_an_agent_that_the_user_calls_is_shown(cli, editor):
    write_agent(cli)
    async with cli.model("Hello from echo.", "I am main."):
        async with editor() as e:
            await e.initialize()
            session = await open_session(e, cli)
            assert (await e.prompt(session, "@echo hi"))["stopReason"] == "end_turn"
            assert e.text() == "Hello from echo."
            assert not e.of("user_message_chunk")
            assert e.of("session_info_update")[0]["title"] == "@echo hi"
            await e.prompt(session, "And you?")
        async with editor() as e:
            await e.initialize()
            await e.request("session/load", **place(cli, session))
            assert e.text("user_message_chunk") == "@echo hiAnd you?"
            assert e.text() == "Hello from echo.I am main."


async def test_an_agent_that_the_user_calls_may_reach_its_limit(cli, editor, asks):
    write_agent(cli)
    look = asks("list_directory", path=".", text="I look.")
    async with cli.model(look, "I saw nothing."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        assert (await e.prompt(session, "@echo hi"))["stopReason"] == "max_turn_requests"
        assert "I look." in e.text()


async def show_live_and_loaded(cli, editor, text, **abilities):
    """Return an agent's failure as the running and as the loaded session show it."""
    async with editor() as e:
        await e.initialize(**abilities)
        session = await open_session(e, cli)
        with pytest.raises(Refused) as live:
            await e.prompt(session, text)
    async with editor() as e:
        await e.initialize(**abilities)
        await e.request("session/load", **place(cli, session))
        return live.value, e.text()


async def test_a_guest_that_cannot_start_says_the_same_after_a_load(cli, editor):
    """Message and hint are on a line each, and the code is only in the error's data."""
    folder = cli.folder / "config" / "agents"
    folder.mkdir(parents=True)
    (folder / "guest.md").write_text(
        "---\nkind: agent\nname: guest\ndescription: G.\nrunner:\n  command: nosuchprogram\n---\n"
    )
    async with cli.model():
        live, loaded = await show_live_and_loaded(cli, editor, "@guest hi")
    assert str(live) == (
        "The program of the agent guest cannot start. There is no program 'nosuchprogram'.\n"
        "Install it, or correct the file."
    )
    assert live.data == {"code": "E_LLM_FAIL", "hint": "Install it, or correct the file."}
    assert loaded.strip() == f"[{live}]".replace("\n", "  \n")


@pytest.mark.parametrize("abilities", [{}, {"session": {"notices": {}}}])
async def test_what_was_quoted_about_an_agent_is_quoted_after_a_load(cli, editor, abilities):
    """Notices are live, and only their stand-in is a part of the conversation."""
    folder = cli.folder / "config" / "agents"
    folder.mkdir(parents=True)
    (folder / "echo.md").write_text(
        "---\nkind: agent\nname: echo\ndescription: E.\nmodel: nowhere/x\n---\nRepeat.\n"
    )
    said = "The agent echo uses the session's model. There is no provider of models 'nowhere'."
    async with cli.model("Hello."):
        async with editor() as e:
            await e.initialize(**abilities)
            session = await open_session(e, cli)
            await e.prompt(session, "@echo hi")
            live = e.text()
            assert said in (live if not abilities else e.of("notice")[0]["title"])
        async with editor() as e:
            await e.initialize(**abilities)
            await e.request("session/load", **place(cli, session))
            assert e.text() == live
            assert not e.of("notice")


# --- prompts that do not reach the model ----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/undo", "Run `hilum undo` in a terminal."),
        ("/agent list", "Did you mean `/agents`?"),
        ("/nothing", "`/continue`"),
    ],
)
async def test_an_unknown_command_is_not_sent_to_the_model(cli, editor, text, said):
    async with cli.model("A path.") as model, editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        assert (await e.prompt(session, text))["stopReason"] == "end_turn"
        assert said in e.text()
        assert not model.requests
        await e.prompt(session, "/etc/hosts is a path")
        assert e.text().endswith("A path.")


async def test_an_image_that_the_model_does_not_accept_is_reported(cli, editor):
    image = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    async with cli.model("I see nothing."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        await e.prompt(session, "Look", image)
        assert "> openai/scripted does not accept images" in e.text()


async def test_errors_of_a_prompt_are_errors_of_the_request(cli, editor):
    bad = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    async with cli.model("Hello."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        for blocks in ([bad], []):
            with pytest.raises(Refused) as refused:
                await e.prompt(session, "", *blocks)
            assert refused.value.code == -32602
            assert refused.value.data["code"] == "E_BAD_ARGS"


async def test_a_model_that_does_not_exist_asks_for_a_login(cli, editor):
    async with cli.model("Hello."):
        async with editor() as e:
            await e.initialize()
            session = await open_session(e, cli)
            await e.prompt(session, "Go")
        cli.env["HILUM_MODEL"] = "nobody/model"
        async with editor() as e:
            await e.initialize()
            with pytest.raises(Refused) as new:
                await open_session(e, cli)
            # An old conversation can still be read.
            await e.request("session/load", **place(cli, session))
            with pytest.raises(Refused) as prompted:
                await e.prompt(session, "Go on")
            for refused in (new, prompted):
                assert refused.value.code == -32000
                assert refused.value.data["code"] == "E_UNKNOWN"
                assert refused.value.data["hint"]


# --- questions without forms ----------------------------------------------------------------------


async def test_an_open_question_is_shown_and_the_agent_reads_that_nobody_was_asked(
    cli, editor, asks
):
    question = asks("ask_question", question="What *name*?")
    async with cli.model(question, "I chose one.") as model, editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        await e.prompt(session, "Go")
        assert "**Question:** What \\*name\\*?" in e.text()
        assert not e.requests
        told = model.requests[1].body.decode()
        assert "can answer only in the next prompt" in told
        assert "leaves it to you" not in told
        live = e.text()
        [call] = e.calls()
        assert call["content"][0]["content"]["text"] == (
            "```text\nThe question is in the conversation; your next message can answer it.\n```"
        )
    async with editor() as e:
        await e.initialize()
        await e.request("session/load", **place(cli, session))
        assert e.text() == live
        assert e.calls() == [call]


async def test_a_question_with_several_answers_is_a_choice_of_one(cli, editor, asks):
    question = asks("ask_question", question="Which?", options=["A", "B"], multiple=True)
    async with cli.model(question, "Thanks.") as model, editor() as e:
        await e.initialize()
        e.permit = lambda params: "B"
        session = await open_session(e, cli)
        await e.prompt(session, "Go")
        [(method, params)] = e.requests
        assert method == "session/request_permission"
        assert params["toolCall"]["title"].startswith("Which? (")
        assert "The user chose:\\n- B" in model.requests[1].body.decode()


# --- sessions -------------------------------------------------------------------------------------


async def test_a_refused_load_leaves_the_open_session_as_it_is(cli, editor):
    async with cli.model("Hello.", "Still here."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        await e.prompt(session, "Go")
        number = await e.begin("session/load", **{**place(cli, session), "cwd": "/"})
        with pytest.raises(Refused) as refused:
            await e.end(number)
        assert refused.value.code == -32602
        assert (await e.prompt(session, "Go on"))["stopReason"] == "end_turn"
        assert e.text() == "Hello.Still here."


async def test_an_unused_session_that_is_open_can_be_deleted(cli, editor):
    async with cli.model("Hello."), editor() as e:
        await e.initialize()
        session = await open_session(e, cli)
        await e.request("session/delete", sessionId=session)
        with pytest.raises(Refused) as refused:
            await e.prompt(session, "Go")
        assert refused.value.code == -32002


async def test_a_session_in_use_has_a_hint_that_an_editor_can_follow(cli, editor):
    async with cli.model("Hello."), editor() as e, editor() as other:
        await e.initialize()
        await other.initialize()
        session = await open_session(e, cli)
        await e.prompt(session, "Go")
        with pytest.raises(Refused) as refused:
            await other.request("session/load", **place(cli, session))
        assert refused.value.data["code"] == "E_BUSY"
        assert "fork" not in str(refused.value)


async def test_the_models_are_those_that_the_server_lists(cli, editor):
    async with cli.model("Hello."), editor() as e:
        await e.initialize()
        opened = await e.request("session/new", **place(cli))
        [models] = [each for each in opened["configOptions"] if each["id"] == "model"]
        names = {each["value"] for each in models["options"]}
        assert names == {"openai/scripted", "openai/model"}
        change = {"sessionId": opened["sessionId"], "configId": "model"}
        with pytest.raises(Refused) as refused:
            await e.request("session/set_config_option", **change, value="openai/nonsense")
        assert refused.value.code == -32602
        result = await e.request("session/set_config_option", **change, value="openai/model")
        assert "openai/model" in [each["currentValue"] for each in result["configOptions"]]


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_a_run_that_was_killed_is_shown_as_interrupted(cli, editor, asks, method):
    command = asks("run_terminal_cmd", command="echo begun; sleep 100")
    async with cli.model(command, "Go on."):
        async with editor("--approve", "auto") as e:
            await e.initialize(**EVERYTHING)
            session = await open_session(e, cli)
            await begin_prompt(e, session)
            # If the viewer connects in time, the output is only in the terminal.
            await e.wait_for(
                lambda: (
                    "begun" in json.dumps([c.get("content") for c in e.calls()])
                    or any(b"begun" in each.output for each in e.terminals.values())
                )
            )
            e.process.kill()
            await e.process.wait()
        async with editor("--approve", "auto") as e:
            await e.initialize(**EVERYTHING)
            await e.request(method, **place(cli, session))
            if method == "session/load":
                [call] = e.calls()
                assert call["status"] == "failed"
                assert "This was cut off when hilum ended" in json.dumps(call["content"])
                assert "The run was interrupted. `/continue` continues it" in e.text()
            else:
                assert not e.calls()
                assert not e.text()
            assert (await e.prompt(session, "What now?"))["stopReason"] == "end_turn"
            [call] = e.calls()
            assert (call["title"], call["status"]) == ("echo begun; sleep 100", "failed")
            assert "because hilum ended during the run" in json.dumps(call["content"])
