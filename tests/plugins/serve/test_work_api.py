"""Operations that make agents work: prompts, messages, stops, retries and runs."""

import base64

import pytest
import trio
from api_calls import Api, check, open_api, refusal
from hilum import Interpretation, ModelError, PromptCommand
from hilum.events import RunStarted
from hilum.messages import Image, ToolCall
from hilum.testing import ScriptedModel, pause, plugin, say, use
from hilum.testing.script import Answer
from hilum_serve.tokens import add_token
from served import serving

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_prompt_runs_and_its_result_can_be_waited_for(project):
    async with serving(project, answers=["Hello."]) as served, open_api(served, project) as api:
        started = await api.post("/prompts", {"text": "Say hello."})
        assert started["agent"] == "main"
        run = await api.get(f"/runs/{started['run']}", wait=20)
        assert (run["state"], run["running"], run["text"]) == ("completed", False, "Hello.")
        assert run["prompt"] == "Say hello."
        assert run["turns"] == 1
        assert (await api.get("/runs"))["runs"] == [run]
        assert refusal(await api.call("GET", "/runs/missing")) == (404, "E_UNKNOWN")
        assert refusal(await api.call("GET", "/runs/x", wait=1e9)) == (400, "E_BAD_ARGS")


async def test_images_and_attached_data_reach_the_model(project):
    async with serving(project, answers=["A dot."]) as served, open_api(served, project) as api:
        image = {"media_type": "image/png", "data": base64.b64encode(PNG).decode()}
        await api.run("What is it?", images=[image], attached="a log")
        sent = served.model.requests[0].messages[0]
        assert [part.data for part in sent.parts if isinstance(part, Image)] == [PNG]
        assert "a log" in sent.request
        bad = {**image, "data": "no base64!"}
        response = await api.call("POST", "/prompts", {"text": "x", "images": [bad]})
        assert refusal(response) == (400, "E_BAD_ARGS")
        other = {**image, "media_type": "image/tiff"}
        response = await api.call("POST", "/prompts", {"text": "x", "images": [other]})
        assert refusal(response) == (400, "E_BAD_ARGS")


async def test_messages_reach_a_running_agent_or_come_back(project):
    more = trio.Event()
    answers = [say("Working.") + pause(more) + use("todo_write", todos=[]), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        early = await api.call("POST", "/steering", {"text": "Too early."})
        assert refusal(early) == (409, "E_BUSY")
        started = await api.post("/prompts", {"text": "Go."})
        kept = await api.post("/steering", {"text": "Also the tests."})
        dropped = await api.post("/steering", {"text": "And the docs."})
        waiting = {each["id"] for each in (await api.get())["steering"]}
        assert waiting == {kept["id"], dropped["id"]}
        check(await api.call("DELETE", f"/steering/{dropped['id']}"))
        more.set()
        await api.get(f"/runs/{started['run']}", wait=20)
        late = await api.call("DELETE", f"/steering/{kept['id']}")
        assert refusal(late) == (409, "E_BUSY")
        read = [str(message) for message in served.model.requests[-1].messages]
        assert any("Also the tests." in text for text in read)
        assert not any("And the docs." in text for text in read)


async def test_a_run_is_stopped_and_continued(project):
    answers = [say("Working.") + pause(trio.Event()), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        early = await api.call("POST", "/retry", {})
        assert refusal(early) == (409, "E_BUSY")
        started = await api.post("/prompts", {"text": "Go."})
        queued = await api.post("/prompts", {"text": "Later."})
        state = await api.get()
        assert state["running"]
        assert [each["id"] for each in state["queued"]] == [queued["run"]]
        await api.post("/stop", {"run": queued["run"]})
        assert (await api.get())["queued"] == []
        await api.post("/stop", {})
        run = await api.get(f"/runs/{started['run']}", wait=20)
        assert run["state"] == "stopped"
        agent = (await api.get("/agents"))["agents"][0]
        assert agent["retryable"]
        again = await api.post("/retry", {})
        run = await api.get(f"/runs/{again['run']}", wait=20)
        assert (run["state"], run["text"]) == ("completed", "Done.")


async def test_a_failed_call_is_repeated(project):
    answers = [use("read_file", path="late.txt"), "It is missing.", "Now I see it."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.run("Read it.")
        entries = (await api.get("/entries"))["entries"]
        (card,) = [entry for entry in entries if entry["kind"] == "card"]
        assert card["state"] == "failed"
        (project / "late.txt").write_text("It has arrived.\n")
        started = await api.post(f"/calls/{card['call']['id']}/repeat")
        run = await api.get(f"/runs/{started['run']}", wait=20)
        assert run["text"] == "Now I see it."
        entries = (await api.get("/entries"))["entries"]
        cards = [entry for entry in entries if entry["kind"] == "card"]
        assert [each["state"] for each in cards] == ["failed", "completed"]
        assert cards[1]["repeats"] == card["call"]["id"]
        good = await api.call("POST", f"/calls/{cards[1]['call']['id']}/repeat")
        assert refusal(good) == (400, "E_BAD_ARGS")
        missing = await api.call("POST", "/calls/missing/repeat")
        assert refusal(missing) == (404, "E_UNKNOWN")


async def test_of_calls_with_the_same_id_the_one_that_was_looked_at_counts(project):
    """Models use ids again, so that the last call with an id may be another one."""
    (project / "a.txt").write_text("The first.\n")
    answers = [
        Answer((ToolCall("c1", "read_file", '{"path": "missing.txt"}'),)),
        "It is missing.",
        Answer((ToolCall("c1", "read_file", '{"path": "a.txt"}'),)),
        "Read.",
    ]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.run("Read it.")
        await api.run("Read the other.")
        entries = (await api.get("/entries"))["entries"]
        first, second = [entry for entry in entries if entry["kind"] == "card"]
        assert first["call"]["id"] == second["call"]["id"]
        result = await api.get("/calls/c1/result", entry=first["id"])
        assert "missing.txt" in result["arguments"]
        result = await api.get("/calls/c1/result")
        assert "a.txt" in result["arguments"]
        refused = await api.call("POST", "/calls/c1/repeat", entry=first["id"])
        assert refusal(refused) == (409, "E_STALE")
        unknown = await api.call("GET", "/calls/c1/result", entry=9999)
        assert refusal(unknown) == (404, "E_UNKNOWN")


async def test_a_conversation_is_compacted(project):
    async with serving(project, answers=["One."]) as served, open_api(served, project) as api:
        await api.run("First")
        response = await api.call("POST", "/compact", {"focus": "the tests"})
        assert response.status_code == 202
        await api.wait_until(
            "/events",
            lambda page: any(event["type"] == "compacted" for event in page["events"]),
        )


async def test_what_a_killed_server_left_is_resumed(project):
    """A new server on the same store shows what is left, and continues it when asked."""
    answers = [use("read_file", path="a.txt"), "Done."]
    (project / "a.txt").write_text("text\n")
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.run("Read.")
        session = api.session
        # The log of a server that was killed after the run had begun.
        events = (await api.get("/events"))["events"]
        begun = next(e["seq"] for e in events if e["type"] == "run_started")
        copy = (await api.post("/fork", {"at": begun}))["id"]
        assert copy != session
        served.model.next(say("Resumed."))
        api.session = copy
        api.seen = 0
        state = await api.get()
        assert (state["left"], state["running"]) == (1, False)
        runs = (await api.post("/resume"))["runs"]
        assert len(runs) == 1
        run = await api.get(f"/runs/{runs[0]['run']}", wait=20)
        assert run["state"] == "completed"
        assert (await api.post("/resume"))["runs"] == []


async def test_unknown_agents_and_models_without_access(project):
    error = ModelError("No key.", kind="auth", hint="Set a key.")
    async with serving(project, answers=[error]) as served, open_api(served, project) as api:
        for path, body in (
            ("/prompts", {"text": "x", "agent": "nobody"}),
            ("/steering", {"text": "x", "agent": "nobody"}),
            ("/stop", {"agent": "nobody"}),
            ("/retry", {"agent": "nobody"}),
            ("/compact", {"agent": "nobody"}),
        ):
            response = await api.call("POST", path, body)
            assert refusal(response) == (404, "E_UNKNOWN"), path
        run = await api.run("Go.")
        assert (run["state"], run["code"]) == ("failed", "E_LLM_AUTH")
        assert len([e for e in served.hub.find_hosted(api.session).session.journal.since(0)
                    if isinstance(e, RunStarted)]) == 1  # fmt: skip


async def test_commands_of_plugins_need_the_right_to_administer(project, tmp_path):
    tokens = tmp_path / "tokens.json"
    token = add_token(tokens, "ada", "approve")
    plugins = ("agents", "files", "guard", "plan", "store")
    async with (
        serving(project, answers=["x"], plugins=plugins, tokens_file=tokens) as served,
        open_api(served, project) as api,
    ):
        commands = (await api.get("/commands"))["commands"]
        rights = {each["name"]: each["rights"] for each in commands}
        assert rights["agents"] == "administer"
        async with served.client(token) as client:
            api.client, owner = client, api.client
            for text in ("/agents list", "  /AGENTS", "/agents\tstop x"):
                response = await api.call("POST", "/prompts", {"text": text})
                assert refusal(response) == (403, "E_RIGHTS"), text
            api.client = owner
            started = await api.post("/prompts", {"text": "/agents list"})
            assert (started["run"], bool(started["reply"])) == ("", True)


@pytest.mark.parametrize("text", ["", " \n\t ", "\u3000\u00a0"])
async def test_an_empty_prompt_is_refused(project, text):
    async with serving(project, answers=[say("Seen.")]) as served, open_api(served, project) as api:
        for body in (
            {"text": text},
            {"text": text, "piped": True},
            {"text": text, "attached": " "},
        ):
            response = await api.call("POST", "/prompts", body)
            assert refusal(response) == (400, "E_BAD_ARGS")
            assert response.json()["message"] == "The prompt is empty."
        message = await api.call("POST", "/steering", {"text": text})
        assert refusal(message) == (400, "E_BAD_ARGS")
        assert (await api.get())["running"] is False
        run = await api.run(text, attached="a report")
        assert run["text"] == "Seen."


async def test_commands_that_are_not_words_need_the_right_to_administer(project, tmp_path):
    """Names with colons, dots and spaces, as those of MCP prompts, and names that are not listed."""
    given = []

    async def interpret(session, text):
        if text.lstrip().startswith(("/srv:do", "/v1.go", "/two words", "/prefix:do")):
            given.append(text)
            return Interpretation(text, reply="done")
        return None

    names = ("srv:do", "v1.go", "two words")
    commands = plugin(
        "srv",
        list_commands=lambda session: [PromptCommand(name) for name in names],
        interpret_prompt=interpret,
    )
    tokens = tmp_path / "t.json"
    token = add_token(tokens, "eva", "prompt")
    plugins = ("init", "store", commands)
    async with (
        serving(project, answers=["Read.", "Read."], plugins=plugins, tokens_file=tokens) as served,
        open_api(served, project) as api,
        served.client(token) as client,
    ):
        eva = Api(client, api.session)
        for text in (
            "/srv:do it",
            " /SRV:do",
            "/v1.go",
            "/two words",
            "/two words\nx",
            "/srv:do.x",
        ):
            refused = await eva.call("POST", "/prompts", {"text": text})
            assert refusal(refused) == (403, "E_RIGHTS"), text
        # A command that is not listed is only text.
        await eva.run("/prefix:do it")
        assert given == []
        assert served.model.requests[-1].messages[-1].request.endswith("/prefix:do it")
        # This command only writes a prompt.
        listed = {each["name"]: each["rights"] for each in (await eva.get("/commands"))["commands"]}
        assert listed["init"] == "prompt"
        await eva.run("/init")
        assert "AGENTS.md" in served.model.requests[-1].messages[-1].request
        await api.post("/prompts", {"text": "/srv:do it"})
        assert given == ["/srv:do it"]


async def test_custom_commands_only_write_prompts(project, tmp_path):
    """Their shell inserts pass the same checks and approvals as the agent's own calls."""
    file = project / ".claude/commands/hello.md"
    file.parent.mkdir(parents=True)
    file.write_text("Say hello to $1.")
    tokens = tmp_path / "t.json"
    token = add_token(tokens, "eva", "prompt")
    plugins = ("commands", "store")
    async with (
        serving(project, answers=["Hello."], plugins=plugins, tokens_file=tokens) as served,
        open_api(served, project) as api,
        served.client(token) as client,
    ):
        eva = Api(client, api.session)
        (listed,) = (await eva.get("/commands"))["commands"]
        assert (listed["name"], listed["rights"]) == ("hello", "prompt")
        await eva.run("/hello Ada")
        assert served.model.requests[-1].messages[-1].request.endswith("Say hello to Ada.")
        file.write_text("Run: !`echo $1`")
        refused = await eva.call("POST", "/prompts", {"text": "/hello Ada"})
        assert refusal(refused)[1] == "E_DENIED"


async def test_the_text_of_a_stopped_answer_stays_after_the_session_was_closed(project):
    answers = [say("Half of an answer") + pause(1000)]
    async with (
        serving(project, answers=answers) as served,
        open_api(served, project) as api,
    ):
        await api.post("/prompts", {"text": "Go."})
        await api.wait_until("/entries", lambda page: "Half" in str(page["entries"]))
        await api.post("/stop", {})
        await api.wait_until("", lambda state: not state["running"])
        await api.post("/close")
        entries = (await api.get("/entries"))["entries"]
        kinds = [each["kind"] for each in entries]
        assert kinds == ["prompt", "answer", "outcome"]
        assert (entries[1]["state"], entries[1]["text"]) == ("cut_off", "Half of an answer")
        export = await api.call("GET", "/export", format="markdown")
        assert "Half of an answer\n(cut off here)" in export.text


@pytest.mark.parametrize("accepts", [False, True])
async def test_the_user_reads_that_the_model_accepts_no_images(project, accepts):
    model = ScriptedModel(["A dot."], images=accepts)
    async with serving(project, model=model) as served, open_api(served, project) as api:
        image = {"media_type": "image/png", "data": base64.b64encode(PNG).decode()}
        await api.run("What is it?", images=[image])
        notices = [
            e["text"] for e in (await api.get("/entries"))["entries"] if e["kind"] == "notice"
        ]
        told = "scripted/model does not accept images; it reads only that an image was sent."
        assert notices == ([] if accepts else [told])
