"""Operations on sessions: list, create, open, rename, copy, close, delete and export."""

import json

import pytest
import trio
from api_calls import Api, check, open_api, refusal
from hilum.testing import say, use
from hilum_serve.exports import MAX_EXPORTS
from hilum_serve.tokens import add_token
from served import serving


async def test_who_and_where(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    async with serving(project, more=[other]) as served, served.client() as client:
        me = check(await client.get("/api/me"))
        assert (me["name"], me["rights"]) == ("owner", "administer")
        assert me == check(await client.get("/api/me"))
        folders = check(await client.get("/api/workspaces"))["workspaces"]
        assert [each["path"] for each in folders] == [str(project), str(other)]


async def test_a_new_session_has_a_state_and_is_listed(project):
    options = {"title": "  My   work ", "approve": "readonly"}
    async with (
        serving(project, answers=["Hello."]) as served,
        open_api(served, project, **options) as api,
    ):
        state = await api.get()
        assert state["title"] == "My work"
        assert state["workspace"] == str(project)
        assert state["approve"] == "readonly"
        assert state["model"] == "scripted/model"
        assert state["last"] == api.seen > 0
        assert (state["running"], state["waiting"], state["left"]) == (False, [], 0)
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        assert [(each["id"], each["open"]) for each in listed] == [(api.session, True)]
        assert listed[0]["last"] == state["last"]
        found = check(await api.client.get("/api/sessions", params={"query": "WORK my"}))
        assert len(found["sessions"]) == 1
        none = check(await api.client.get("/api/sessions", params={"query": "nothing"}))
        assert none["sessions"] == []


async def test_a_session_is_called_after_its_first_prompt(project):
    async with serving(project, answers=["Hello."]) as served, open_api(served, project) as api:
        await api.run("Fix   the\ntests")
        assert (await api.get())["title"] == "Fix the tests"
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        assert listed[0]["title"] == "Fix the tests"


async def test_title_mode_and_policy_change(project):
    async with serving(project) as served, open_api(served, project) as api:
        change = {"title": "New  title", "approve": "auto"}
        state = check(await api.call("PATCH", "", change))
        assert (state["title"], state["approve"]) == ("New title", "auto")
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        assert listed[0]["title"] == "New title"
        response = await api.call("PATCH", "", {"mode": "missing"})
        assert refusal(response) == (404, "E_UNKNOWN")
        response = await api.call("PATCH", "", {"approve": "never"})
        assert refusal(response) == (400, "E_BAD_ARGS")


async def test_a_copy_ends_where_it_should(project):
    async with (
        serving(project, answers=["One.", "Two."]) as served,
        open_api(served, project) as api,
    ):
        await api.run("First")
        end = api.seen
        await api.run("Second")
        whole = await api.post("/fork", {})
        part = await api.post("/fork", {"at": end})
        texts = {}
        for name, copy in (("whole", whole["id"]), ("part", part["id"])):
            other = Api(api.client, copy)
            texts[name] = [run["text"] for run in (await other.get("/runs"))["runs"]]
            assert (await other.get())["forked"] == api.session
        assert texts == {"whole": ["One.", "Two."], "part": ["One."]}
        response = await api.call("POST", "/fork", {"at": 10_000})
        assert refusal(response) == (404, "E_UNKNOWN")


async def test_only_users_who_may_approve_copy_lasting_approvals(project, tmp_path):
    """A user without that right must not keep approvals that were revoked in the original."""
    answers = [use("write_file", path="a.txt", content="a"), "Done."]
    tokens = tmp_path / "tokens.json"
    by_right = {right: add_token(tokens, right, right) for right in ("prompt", "approve")}
    async with (
        serving(project, answers=answers, tokens_file=tokens) as served,
        open_api(served, project) as api,
    ):
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        await api.post(f"/approvals/{item['id']}", {"accepted": True, "remember": "session"})
        await api.get(f"/runs/{started['run']}", wait=20)
        found = {}
        for right, token in by_right.items():
            async with served.client(token) as client:
                copy = await Api(client, api.session).post("/fork", {})
            found[right] = (await Api(api.client, copy["id"]).get("/grants"))["grants"]
        assert found["prompt"] == []
        assert found["approve"] == (await api.get("/grants"))["grants"] != []


async def test_a_closed_session_is_opened_again_on_demand(project):
    async with (
        serving(project, answers=["One.", "Two."]) as served,
        open_api(served, project) as api,
    ):
        await api.run("First")
        check(await api.call("POST", "/close"))
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        assert listed[0]["open"] is False
        state = check(await api.call("POST", "/open", seen=0))
        assert state["runs"] == 1
        assert (await api.run("Second"))["text"] == "Two."


async def test_deletion_needs_a_fresh_look_and_no_work(project):
    async with serving(project, answers=["One."]) as served, open_api(served, project) as api:
        before = api.seen
        await api.run("First")
        assert refusal(await api.call("DELETE", "", seen=before)) == (409, "E_STALE")
        check(await api.call("POST", "/close"))
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        seen = listed[0]["last"]
        assert refusal(await api.call("DELETE", "", seen=seen - 1)) == (409, "E_STALE")
        assert refusal(await api.call("DELETE", "", seen=seen + 1)) == (400, "E_SEEN")
        check(await api.call("DELETE", "", seen=seen))
        assert refusal(await api.call("GET", "")) == (404, "E_UNKNOWN")
        assert check(await api.client.get("/api/sessions"))["sessions"] == []


async def test_an_open_session_is_deleted_too(project):
    async with serving(project, answers=["One."]) as served, open_api(served, project) as api:
        await api.run("First")
        check(await api.call("DELETE", ""))
        assert refusal(await api.call("GET", "")) == (404, "E_UNKNOWN")


@pytest.mark.parametrize("format", ["markdown", "html", "json"])
async def test_exports_contain_the_conversation(project, format):
    answers = [say("<script>alert(1)</script> done")]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.run("Do it.")
        response = await api.call("GET", "/export", format=format)
        assert response.status_code == 200
        disposition = response.headers["content-disposition"]
        assert disposition.startswith("attachment; filename=")
        if format == "json":
            kinds = [event["type"] for event in json.loads(response.text)]
            assert kinds[0] == "session_opened"
            assert "model_answered" in kinds
        elif format == "html":
            assert response.headers["content-type"].startswith("text/html")
            assert "&lt;script&gt;" in response.text
            assert "<script>" not in response.text
        else:
            assert "<script>alert(1)</script> done" in response.text
        refused = await api.call("GET", "/export", format="pdf")
        assert refusal(refused) == (400, "E_BAD_ARGS")


async def test_a_folder_that_is_not_served_is_refused(project, tmp_path):
    async with serving(project) as served, served.client() as client:
        for folder in (str(tmp_path), str(project / ".."), "relative", "/etc"):
            response = await client.post("/api/sessions", json={"workspace": folder})
            assert refusal(response) == (404, "E_UNKNOWN"), folder


async def test_a_folder_that_was_deleted(project, tmp_path):
    """The session stays in the list and can be exported and deleted."""
    async with serving(project, answers=["One."]) as served, open_api(served, project) as api:
        await api.run("First")
        check(await api.call("POST", "/close"))
        project.rename(tmp_path / "elsewhere")
        response = await api.call("GET", "")
        assert refusal(response) == (404, "E_NOT_FOUND")
        assert "no longer exists" in response.text
        exported = await api.call("GET", "/export")
        assert "One." in exported.text
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        check(await api.call("DELETE", "", seen=listed[0]["last"]))


async def test_exports_wait_for_a_slot_and_give_it_back(project):
    """Only the work on an export takes a slot: neither a slow reader nor one who left keeps it."""
    async with serving(project, answers=["One."]) as served, open_api(served, project) as api:
        await api.run("First")
        exports = served.hub.exports
        assert exports.total_tokens == MAX_EXPORTS
        for number in range(MAX_EXPORTS):
            await exports.acquire_on_behalf_of(number)
        texts = []

        async def export():
            response = await api.call("GET", "/export", format="markdown")
            texts.append(response.text)

        async def wait_for_waiting(number):
            with trio.fail_after(20):
                while exports.statistics().tasks_waiting != number:  # noqa: ASYNC110
                    await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(export)
            async with trio.open_nursery() as leaving:
                leaving.start_soon(export)
                await wait_for_waiting(2)
                # Other requests are answered meanwhile.
                await api.get()
                leaving.cancel_scope.cancel()
            await wait_for_waiting(1)
            assert texts == []
            exports.release_on_behalf_of(0)
        assert len(texts) == 1
        assert "One." in texts[0]
        exports.release_on_behalf_of(1)
        assert exports.borrowed_tokens == 0


async def test_a_slow_reader_of_an_export_keeps_no_slot(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.exports.CHUNK_CHARACTERS", 1)
    async with (
        serving(project, answers=["One."]) as served,
        open_api(served, project) as api,
    ):
        await api.run("First")
        path = f"/api/sessions/{api.session}/export"
        async with api.client.stream("GET", path, params={"format": "markdown"}) as response:
            assert response.status_code == 200
            with trio.fail_after(20):
                while served.hub.exports.borrowed_tokens:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            second = await api.call("GET", "/export", format="markdown")
            assert await response.aread() == second.content


@pytest.mark.parametrize("format", ["markdown", "html", "json"])
async def test_exports_contain_no_secrets(project, format):
    """Not even of a log that was written without the guard."""
    key = "sk-ant-" + "api03-" + "a1B2c3D4" * 11
    plugins = ("files", "store")
    async with (
        serving(project, answers=[f"It is {key}."], plugins=plugins) as served,
        open_api(served, project) as api,
    ):
        await api.run("Which key?")
        assert key in (await api.call("GET", "/entries")).text
        exported = await api.call("GET", "/export", format=format)
        assert "It is " in exported.text
        assert key not in exported.text
