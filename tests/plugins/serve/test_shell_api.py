"""Shell lines of users, and background commands of agents."""

import pytest
import trio
from api_calls import open_api, refusal
from hilum import Interpretation, Profile
from hilum.testing import plugin, use
from hilum_serve import client as remote
from hilum_serve.problems import Problem
from hilum_serve.settings import ServeSettings
from hilum_serve.shell_lines import MAX_RUNNING
from hilum_serve.tokens import add_token
from served import serving

PLUGINS = ("agents", "files", "guard", "plan", "shell", "store")


def ended(page):
    """Return whether all commands have ended."""
    return all(not line["running"] for line in page["lines"])


async def test_the_agent_reads_a_shell_line_with_the_next_prompt(project):
    async with (
        serving(project, answers=["Read.", "Nothing new."]) as served,
        open_api(served, project) as api,
    ):
        response = await api.call("POST", "/shell", {"command": "echo one; echo two >&2; exit 3"})
        assert response.status_code == 202
        assert response.json()["running"]
        (line,) = (await api.wait_until("/shell", ended))["lines"]
        assert line["id"] == response.json()["id"]
        assert sorted(line["output"].split()) == ["one", "two"]
        assert (line["status"], line["error"], line["user"]) == (3, "", "owner")
        assert line["seconds"] > 0
        # Readers of the state see the same.
        assert (await api.get())["shell"] == [line]
        await api.run("What happened?")
        sent = served.model.requests[-1].messages[-1]
        assert "The user ran: echo one; echo two >&2; exit 3\nexit status 3\n" in sent.request
        # What a command wrote is not what the user said.
        assert sent.typed == "What happened?"
        assert (await api.get("/shell"))["lines"] == []
        await api.run("And now?")
        assert "The user ran" not in served.model.requests[-1].messages[-1].request


async def test_output_is_shown_while_a_command_runs_and_stopping_ends_it(project):
    async with (
        serving(project, answers=["Read."]) as served,
        open_api(served, project) as api,
        served.socket(api.session, vocabulary="view") as socket,
    ):
        await socket.read_until(type="snapshot")
        made = await api.post("/shell", {"command": "echo begun; sleep 1000"})
        with trio.fail_after(20):
            async for element in socket:
                lines = element.get("shell", [])
                if lines and lines[0]["output"] == "begun\n":
                    break
        assert lines[0]["running"]
        await api.post(f"/shell/{made['id']}/stop")
        (line,) = (await api.wait_until("/shell", ended))["lines"]
        assert (line["stopped"], line["status"]) == (True, None), line
        late = await api.call("POST", f"/shell/{made['id']}/stop")
        assert refusal(late) == (409, "E_BUSY")
        missing = await api.call("POST", "/shell/missing/stop")
        assert refusal(missing) == (404, "E_UNKNOWN")
        await api.run("What happened?")
        assert "was stopped by the user" in served.model.requests[-1].messages[-1].request


async def test_the_guard_judges_a_shell_line(project):
    async with serving(project) as served, open_api(served, project) as api:
        await api.post("/shell", {"command": "rm -rf /"})
        (line,) = (await api.wait_until("/shell", ended))["lines"]
        assert line["error"]
        assert line["status"] is None
        await api.call("PATCH", "", {"approve": "readonly"})
        await api.post("/shell", {"command": "touch made.txt"})
        lines = (await api.wait_until("/shell", ended))["lines"]
        assert "read-only" in lines[1]["error"]
        assert not (project / "made.txt").exists()


async def test_without_rules_for_commands_nothing_runs(project):
    plugins = ("files", "guard", "store")
    async with serving(project, plugins=plugins) as served, open_api(served, project) as api:
        await api.post("/shell", {"command": "touch made.txt"})
        (line,) = (await api.wait_until("/shell", ended))["lines"]
        assert "cannot be checked" in line["error"]
        assert not (project / "made.txt").exists()


async def test_only_users_who_may_approve_run_commands(project, tmp_path):
    tokens = tmp_path / "tokens.json"
    prompter = add_token(tokens, "bob", "prompt")
    async with (
        serving(project, tokens_file=tokens) as served,
        open_api(served, project) as api,
        served.client(prompter) as client,
    ):
        api.client = client
        refused = await api.call("POST", "/shell", {"command": "touch made.txt"})
        assert refusal(refused) == (403, "E_RIGHTS")
        # As a prompt, it is a text for the agent.
        assert not (project / "made.txt").exists()
        assert (await api.get("/shell"))["lines"] == []


@pytest.mark.parametrize("command", ["", "   ", "a\0b", "x" * 20_001])
async def test_commands_that_cannot_run(project, command):
    async with serving(project) as served, open_api(served, project) as api:
        refused = await api.call("POST", "/shell", {"command": command})
        assert refusal(refused) == (400, "E_BAD_ARGS")


async def test_the_number_of_running_commands_is_limited(project):
    async with serving(project) as served, open_api(served, project) as api:
        for _ in range(MAX_RUNNING):
            await api.post("/shell", {"command": "sleep 1000"})
        refused = await api.call("POST", "/shell", {"command": "true"})
        assert refusal(refused) == (409, "E_BUSY")
        hosted = served.hub.find_hosted(api.session)
        assert hosted.is_busy
        # Closing the session ends them.
        with trio.fail_after(20):
            await served.hub.close(api.session)
        assert not hosted.shell_lines.is_running


async def test_a_command_of_a_plugin_does_not_swallow_what_the_agent_should_read(project):
    async with (
        serving(project, answers=["Read."], plugins=PLUGINS) as served,
        open_api(served, project) as api,
    ):
        await api.post("/shell", {"command": "echo kept"})
        await api.wait_until("/shell", ended)
        reply = await api.post("/prompts", {"text": "/agents list"})
        assert reply["reply"]
        assert len((await api.get("/shell"))["lines"]) == 1
        unknown = await api.call("POST", "/prompts", {"text": "x", "agent": "nobody"})
        assert refusal(unknown) == (404, "E_UNKNOWN")
        assert len((await api.get("/shell"))["lines"]) == 1
        await api.run("Go.")
        assert "kept" in served.model.requests[-1].messages[-1].request


async def test_background_commands_are_listed_and_stopped(project):
    start = use("run_terminal_cmd", command="echo up; sleep 1000", background=True)
    async with (
        serving(project, answers=[start, "Started."]) as served,
        open_api(served, project, approve="auto") as api,
        served.socket(api.session, vocabulary="view") as socket,
    ):
        assert (await api.get("/background"))["commands"] == []
        await api.run("Serve.")
        (command,) = (await api.get("/background"))["commands"]
        assert command["command"] == "echo up; sleep 1000"
        assert (await api.get())["background"] == [command]
        missing = await api.call("POST", "/background/missing/stop")
        assert refusal(missing) == (404, "E_UNKNOWN")
        output = f"/background/{command['id']}/output"
        found = await api.wait_until(output, lambda found: found["output"])
        assert found == {"command": "echo up; sleep 1000", "output": "up\n"}
        missing = await api.call("GET", "/background/missing/output")
        assert refusal(missing) == (404, "E_UNKNOWN")
        await api.post(f"/background/{command['id']}/stop")
        assert (await api.get("/background"))["commands"] == []
        # Readers of the page see that it has ended, although that is no event.
        with trio.fail_after(20):
            shown = False
            async for element in socket:
                shown = shown or bool(element.get("background"))
                if shown and element.get("background") == []:
                    break


async def test_a_program_runs_commands_through_the_client(project):
    start = use("run_terminal_cmd", command="sleep 1000", background=True)
    async with (
        serving(project, answers=[start, "Started."]) as served,
        remote.connect(served.url, served.token) as server,
        server.open_session(str(project), approve="auto") as session,
    ):
        await session.run("Serve.")
        line = await session.run_shell_line("sleep 1000")
        assert [each.id for each in await session.list_shell_lines()] == [line.id]
        await session.stop_shell_line(line.id)
        (command,) = await session.list_background()
        assert (await session.read_background_output(command.id)).command == "sleep 1000"
        await session.stop_background(command.id)
        assert await session.list_background() == []


async def test_unread_output_keeps_an_idle_session_open(project):
    settings = ServeSettings(idle_minutes=0.005)
    async with (
        serving(project, answers=["Read."], settings=settings) as served,
        open_api(served, project) as api,
    ):
        await api.post("/shell", {"command": "echo kept"})
        await api.wait_until("/shell", ended)
        hosted = served.hub.find_hosted(api.session)
        assert hosted.is_busy
        await api.run("What happened?")
        assert "kept" in served.model.requests[-1].messages[-1].request
        with trio.fail_after(20):
            await hosted.feed.ended.wait()


async def test_the_agent_reads_an_output_after_the_session_was_closed(project):
    async with (
        serving(project, answers=["Read."]) as served,
        open_api(served, project) as api,
    ):
        await api.post("/shell", {"command": "echo kept"})
        await api.wait_until("/shell", ended)
        await served.hub.close(api.session)
        await api.run("What happened?")
        assert "kept" in served.model.requests[-1].messages[-1].request


async def test_an_agent_that_the_text_addresses_does_not_read_them(project):
    async def interpret(session, text):
        return Interpretation(text[8:], "helper") if text.startswith("@helper ") else None

    helper = plugin("h", interpret_prompt=interpret)
    plugins = ("files", "guard", "plan", "shell", "store", helper)
    answers = ["I am the helper.", "I am the main agent."]
    async with (
        serving(project, answers=answers, plugins=plugins) as served,
        open_api(served, project) as api,
    ):
        served.hub.find_hosted(api.session).session.add_agent(Profile("helper"))
        await api.post("/shell", {"command": "echo kept"})
        await api.wait_until("/shell", ended)
        await api.run("@helper Look.")
        assert "kept" not in served.model.requests[-1].messages[-1].request
        assert len((await api.get("/shell"))["lines"]) == 1
        await api.run("Look.")
        assert "kept" in served.model.requests[-1].messages[-1].request
        assert (await api.get("/shell"))["lines"] == []


async def test_every_face_shows_who_ran_what(project):
    async with (
        serving(project, answers=["Read."]) as served,
        open_api(served, project) as api,
        served.socket(api.session, vocabulary="view") as socket,
    ):
        await socket.read_until(type="snapshot")
        session = served.hub.find_hosted(api.session).session
        for command in ("exit 3", "rm -rf /", "true\n" + "x" * 300):
            await api.post("/shell", {"command": command})
            await api.wait_until("/shell", ended)
        line = await api.post("/shell", {"command": "sleep 1000"})
        await api.post(f"/shell/{line['id']}/stop")
        await api.wait_until("/shell", ended)
        entries = (await api.get("/entries"))["entries"]
        assert [each["text"] for each in entries if each["kind"] == "notice"] == [
            "owner ran `exit 3` on the page; it ended with status 3.",
            "owner ran `rm -rf /` on the page; it did not start.",
            "owner ran `true …` on the page; it ended with status 127.",
            "owner ran `sleep 1000` on the page; it was stopped.",
        ]
        # A prompt from another face reads them, too, and the page then shows none.
        await (await session.prompt("Go.")).wait()
        assert "The user ran: exit 3" in served.model.requests[-1].messages[-1].request
        with trio.fail_after(20):
            async for element in socket:
                if element.get("shell") == []:
                    break
        assert (await api.get("/shell"))["lines"] == []


async def test_the_page_reads_which_outputs_the_agent_will_not_read(project):
    async with serving(project) as served, open_api(served, project) as api:
        for letter in "abcde":
            await api.post("/shell", {"command": f"head -c 40000 /dev/zero | tr '\\0' {letter}"})
            await api.wait_until("/shell", ended)
        assert len((await api.get("/shell"))["lines"]) == 3
        entries = (await api.get("/entries"))["entries"]
        told = [each for each in entries if each["kind"] == "notice" and "oldest" in each["text"]]
        assert len(told) == 2
        (part,) = told[0]["parts"]["text"]
        assert part["code"] == "the_agent_will_not_read_the_oldest"


async def test_no_command_begins_while_the_session_closes(project):
    async with serving(project) as served, open_api(served, project) as api:
        hosted = served.hub.find_hosted(api.session)
        await served.hub.close(api.session)
        with pytest.raises(Problem, match="is being closed"):
            hosted.shell_lines.start("true", "owner")
