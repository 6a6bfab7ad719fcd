"""Operations that show facts: what happened, what it cost, and what can be chosen."""

import json
import tomllib

import trio
from api_calls import check, open_api, refusal
from hilum import tool
from hilum.settings import FILE, config_folder
from hilum.testing import pause, plugin, say, use
from hilum_serve.api import conversation
from served import serving

TODOS = [
    {"id": "1", "content": "Look.", "status": "in_progress"},
    {"id": "2", "content": "Repair.", "status": "pending"},
]


async def test_a_working_agent_is_described(project):
    more = trio.Event()
    answers = [use("todo_write", todos=TODOS), say("Working.") + pause(more), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        started = await api.post("/prompts", {"text": "Go."})
        (todo,) = (await api.wait_until("/todo", lambda each: each["todo"]))["todo"]
        assert todo["agent"] == "main"
        assert [item["content"] for item in todo["items"]] == ["Look.", "Repair."]
        assert (todo["completed"], todo["total"]) == (0, 2)
        state = await api.get()
        assert state["todo"] == [todo]
        (agent,) = (await api.get("/agents"))["agents"]
        assert (agent["name"], agent["run"], agent["running"]) == ("main", started["run"], True)
        more.set()
        await api.get(f"/runs/{started['run']}", wait=20)
        (agent,) = (await api.get("/agents"))["agents"]
        assert agent["running"] is False


async def test_usage_and_window(project):
    (project / "a.txt").write_text("text\n")
    answers = [use("read_file", path="a.txt"), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.run("Read it.")
        usage = await api.get("/usage")
        assert usage["runs"] == 1
        assert usage["models"]["scripted/model"]["calls"] == 2
        assert usage["tools"]["read_file"]["calls"] == 1
        window = usage["window"]
        assert window["model"] == "scripted/model"
        assert 0 < window["total"] < window["compact_at"] <= window["window"]
        kinds = {part["kind"] for part in window["parts"]}
        assert {"tools", "prompts", "results"} <= kinds


async def test_the_timeline_has_requests_and_calls(project):
    (project / "a.txt").write_text("text\n")
    answers = [use("read_file", path="a.txt"), "Done.", "Again."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        run = await api.run("Read it.")
        await api.run("More.")
        spans = (await api.get("/timeline"))["spans"]
        assert [span["kind"] for span in spans] == ["model", "call", "model", "model"]
        own = (await api.get("/timeline", run=run["id"]))["spans"]
        assert own == spans[:3]
        assert own[1]["name"] == "read_file"
        assert own[0]["asked"] <= own[1]["asked"] <= own[2]["asked"]
        missing = await api.call("GET", "/timeline", run="missing")
        assert refusal(missing) == (404, "E_UNKNOWN")


async def test_a_started_agent_names_its_call_and_is_in_the_timeline_of_the_run(project):
    ready = trio.Event()
    task = use("task", description="Look around", prompt="Look.", readonly=True)
    answers = [task, say("Looking.") + pause(ready), "Done."]
    async with (
        serving(project, answers=answers, plugins=None) as served,
        open_api(served, project) as api,
    ):
        run = (await api.post("/prompts", {"text": "Go."}))["run"]
        (agent,) = (await api.wait_until("/agents", lambda each: each["started"]))["started"]
        entries = (await api.get("/entries"))["entries"]
        (card,) = [each for each in entries if each["kind"] == "card"]
        assert (agent["owner"], agent["owner_run"], agent["call"]) == (
            "main",
            run,
            card["call"]["id"],
        )

        def has_agent(found):
            return any(span["agent"] == agent["actor"] for span in found["spans"])

        # The main agent waits meanwhile, and has nothing newer.
        with trio.fail_after(20):
            while not has_agent(await api.get("/timeline", run=run)):
                await trio.lowlevel.checkpoint()
        ready.set()
        await api.get(f"/runs/{run}", wait=20)
        assert has_agent(await api.get("/timeline", run=run))


async def test_older_entries_and_events_come_in_pages(project):
    answers = [f"Answer {number}." for number in range(6)]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        for number in range(6):
            await api.run(f"Prompt {number}.")
        whole = (await api.get("/entries"))["entries"]
        assert [entry["id"] for entry in whole] == list(range(len(whole)))
        pages = []
        before = 0
        while True:
            page = await api.get("/entries", before=before, limit=5)
            pages = page["entries"] + pages
            before = page["first"]
            if not before:
                break
        assert pages == whole
        events = []
        while page := (await api.get("/events", after=len(events), limit=7))["events"]:
            events += page
        assert [event["seq"] for event in events] == list(range(1, api.seen + 1))


async def test_a_page_of_large_events_has_a_limited_size(project, monkeypatch):
    monkeypatch.setattr(conversation, "MAX_EVENT_BYTES", 30_000)
    texts = ["x" * 9_000, "y" * 50_000, "z"]
    async with (
        serving(project, answers=["Read."] * len(texts)) as served,
        open_api(served, project) as api,
    ):
        for text in texts:
            await api.run(text)
        events = []
        sizes = []
        while page := (await api.get("/events", after=len(events), limit=1_000))["events"]:
            events += page
            if len(page) > 1:
                sizes.append(len(json.dumps(page)))
        assert [event["seq"] for event in events] == list(range(1, api.seen + 1))
        assert len(sizes) > 2
        assert max(sizes) < 40_000


async def test_a_long_result_is_read_in_parts(project):
    text = "".join(f"line {number} ünï 😀\n" for number in range(4_000))

    @tool(risk="read", effect="pure")
    def recite() -> str:
        """Recite a long text."""
        return text

    plugins = ("guard", "store", plugin("poems", recite))
    async with (
        serving(project, answers=[use("recite"), "Done."], plugins=plugins) as served,
        open_api(served, project) as api,
    ):
        await api.run("Recite.")
        entries = (await api.get("/entries"))["entries"]
        (card,) = [entry for entry in entries if entry["kind"] == "card"]
        path = f"/calls/{card['call']['id']}/result"
        whole = await api.get(path)
        assert len(whole["text"]) == whole["total"] > 20_000
        assert card["cut"]["result"] > 20_000
        parts = ""
        while len(parts) < whole["total"]:
            parts += (await api.get(path, offset=len(parts), limit=7_000))["text"]
        assert parts == whole["text"]
        assert (await api.get(path, offset=10**9))["text"] == ""
        missing = await api.call("GET", "/calls/missing/result")
        assert refusal(missing) == (404, "E_UNKNOWN")


async def test_what_can_be_chosen(project):
    plugins = ("agents", "files", "guard", "models", "plan", "prompt", "shell", "store")
    async with serving(project, plugins=plugins) as served, open_api(served, project) as api:
        modes = (await api.get("/modes"))["modes"]
        assert {mode["name"] for mode in modes} == {"agent", "ask", "plan", "debug"}
        assert [mode["name"] for mode in modes if mode["current"]] == ["agent"]
        models = (await api.get("/models"))["models"]
        current = [model for model in models if model["current"]]
        assert [model["name"] for model in current] == ["scripted/model"]
        assert len({model["name"] for model in models}) == len(models) > 5
        commands = (await api.get("/commands"))["commands"]
        assert "agents" in {command["name"] for command in commands}


async def test_mentions_are_completed(project):
    (project / "src").mkdir()
    (project / "src" / "settings.py").write_text("")
    (project / "README.md").write_text("")
    async with serving(project) as served, open_api(served, project) as api:
        found = (await api.get("/complete", text="sett"))["completions"]
        assert found[0] == {"text": "src/settings.py", "kind": "file", "description": ""}
        texts = {each["text"]: each["kind"] for each in (await api.get("/complete"))["completions"]}
        assert texts == {"README.md": "file", "src/settings.py": "file", "src/": "folder"}
        assert len((await api.get("/complete", limit=1))["completions"]) == 1


async def test_settings_of_a_face(project):
    plugins = ("files", "guard", "models", "plan", "store", "web")
    async with (
        serving(project, plugins=plugins) as served,
        open_api(served, project) as api,
    ):
        before = {each["name"]: each["value"] for each in (await api.get("/settings"))["settings"]}
        assert before == {
            "approve": "ask_first",
            "web_search": True,
            "images": None,
            "tool_protocol": "auto",
        }
        change = {"approve": "readonly", "web_search": False, "tool_protocol": "text"}
        check(await api.call("PATCH", "/settings", change))
        assert (await api.get())["approve"] == "readonly"
        stored = tomllib.loads((config_folder() / FILE).read_text())
        assert stored["web"] == {"enabled": False}
        assert stored["models"]["models"]["scripted/model"] == {"tool_protocol": "text"}
        # The session has the new values when it is opened next.
        check(await api.call("POST", "/close"))
        after = {each["name"]: each["value"] for each in (await api.get("/settings"))["settings"]}
        assert (after["web_search"], after["tool_protocol"]) == (False, "text")
        wrong = await api.call("PATCH", "/settings", {"tool_protocol": "xml"})
        assert refusal(wrong) == (400, "E_BAD_ARGS")
