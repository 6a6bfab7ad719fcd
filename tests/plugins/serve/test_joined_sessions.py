"""Sessions that another process has open: the server joins them, and the owner does the work."""

from contextlib import asynccontextmanager

import pytest
import trio
from api_calls import Api, check, open_api, refusal
from hilum import Session, UsageError
from hilum.sharing import JoinedSession, joined_history
from hilum.sharing.messages import AcceptPlan
from hilum.testing import pause, say, use
from served import serving


def write(name, text):
    return use("write_file", path=name, content=text)


@asynccontextmanager
async def two_servers(project, answers, *, mode=None, **options):
    """Yield a client of the server that has a session open, one of a server that joined it, and
    the joined session."""
    async with (
        serving(project, answers=answers, **options) as owner,
        serving(project, **options) as joined,
        open_api(owner, project, approve="auto", mode=mode) as api,
        joined.client() as client,
    ):
        # A session in which nothing happened is not in the store.
        await api.run("Go.")
        async with joined.hub.use(api.session, joined.owner) as hosted:
            assert isinstance(hosted.session, JoinedSession)
            other = Api(client, api.session)
            await catch_up(other, hosted, api.seen)
            yield api, other, hosted


async def catch_up(other, hosted, seq):
    """Wait until the joined server has shown an event, and let the client have seen it."""
    with trio.fail_after(20):
        await hosted.feed.reached(seq)
    other.seen = hosted.last


async def test_undo_and_redo_happen_in_the_process_that_has_the_session_open(project):
    async with two_servers(project, [write("a.txt", "one\n"), "Done."]) as (api, other, hosted):
        assert await other.get("/files") == await api.get("/files")
        diffs = (await other.get("/files/diff", path="a.txt"))["diffs"]
        assert "+one" in diffs[0]["diff"]
        preview = await other.post("/undo/preview", {})
        assert preview["diffs"][0]["what"] == "deleted"
        assert (project / "a.txt").exists()
        await other.post("/undo", {})
        assert not (project / "a.txt").exists()
        last = (await api.get())["last"]
        # The undo is a change that must have been seen, here as there.
        stale = await api.call("POST", "/redo", seen=0)
        assert refusal(stale) == (409, "E_STALE")
        await catch_up(other, hosted, last)
        assert (await other.get("/files"))["redoable"]
        assert (await other.post("/redo/preview"))["diffs"][0]["what"] == "created"
        await other.post("/redo")
        assert (project / "a.txt").read_text() == "one\n"


async def test_errors_of_the_history_arrive_with_their_code(project):
    async with two_servers(project, [write("a.txt", "one\n"), "Done."]) as (_, other, _hosted):
        missing = {"scope": "run", "name": "missing"}
        for path in ("/undo/preview", "/undo"):
            refused = await other.call("POST", path, missing)
            assert refusal(refused) == (404, "E_NOT_FOUND")
        (project / "a.txt").write_text("changed by somebody else\n")
        preview = await other.post("/undo/preview", {"merge": False})
        assert list(preview["skipped"]) == ["a.txt"]


async def test_going_back_restores_files_through_the_owner(project):
    answers = [write("a.txt", "one\n"), "First.", write("b.txt", "two\n"), "Second."]
    async with two_servers(project, answers) as (api, other, hosted):
        await api.run("Write b.")
        await catch_up(other, hosted, (await api.get())["last"])
        points = (await other.get("/rewind"))["points"]
        assert [point["files"] for point in points] == [["a.txt"], ["b.txt"]]
        to = points[1]["to"]
        preview = await other.post("/rewind/preview", {"to": to})
        assert [diff["path"] for diff in preview["diffs"]] == ["b.txt"]
        both = {"to": to, "conversation": True, "files": True}
        done = await other.post("/rewind", both)
        assert (done["text"], done["session"] == api.session) == ("Write b.", False)
        assert (project / "a.txt").exists()
        assert not (project / "b.txt").exists()


async def test_changes_that_are_too_large_for_a_message_are_refused(project, monkeypatch):
    monkeypatch.setattr(joined_history, "MAX_OUTCOME", 50)
    async with two_servers(project, [write("a.txt", "one\n"), "Done."]) as (_, other, hosted):
        refused = await other.call("GET", "/files/diff")
        assert refusal(refused) == (413, "E_TOO_LARGE")
        # The connection is as good as before.
        assert not hosted.session.lost.is_set()
        await other.get("/rewind")


async def test_the_rules_of_the_owner_decide_which_files_are_shown(project, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rules = tmp_path / "config" / "hilum" / "permissions.toml"
    rules.parent.mkdir(parents=True)
    rules.write_text('deny = ["read_file(closed.txt)"]\n')
    (project / "open.txt").write_text("open\n")
    (project / "closed.txt").write_text("closed\n")
    async with two_servers(project, ["Hello."]) as (api, other, _):
        for each in (api, other):
            shown = await each.get("/files/content", path="open.txt")
            assert shown["text"] == "open\n"
            refused = await each.call("GET", "/files/content", path="closed.txt")
            assert refusal(refused) == (403, "E_DENIED")


async def test_without_a_history_only_the_conversation_goes_back(project):
    options = {"plugins": ("guard", "plan", "store")}
    async with two_servers(project, ["Hello."], **options) as (_, other, _hosted):
        refused = await other.call("POST", "/undo", {})
        assert refusal(refused) == (503, "E_NOT_INSTALLED")
        (point,) = (await other.get("/rewind"))["points"]
        assert point["files"] == []
        wanted = {"to": point["to"], "conversation": True, "files": False}
        assert (await other.post("/rewind", wanted))["session"] != other.session


@pytest.mark.parametrize(
    ("refused", "method", "path", "body"),
    [
        ("stop", "POST", "/stop", {}),
        ("set", "PATCH", "", {"approve": "readonly"}),
        ("set", "PATCH", "/settings", {"approve": "readonly"}),
        ("compact", "POST", "/compact", {}),
        ("withdraw", "DELETE", "/steering/missing", None),
    ],
)
async def test_a_wish_that_the_owner_refuses_is_refused_here(
    project, monkeypatch, refused, method, path, body
):
    def refuse(*_arguments, **_options):
        raise UsageError("Not now.", code="E_BUSY")

    async with two_servers(project, ["Hello."]) as (api, other, hosted):
        before = hosted.session.approve
        monkeypatch.setattr(Session, refused, refuse)
        response = await other.call(method, path, body)
        assert refusal(response) == (409, "E_BUSY")
        assert response.json()["message"] == "Not now."
        # What was refused is not shown as if it had happened.
        assert hosted.session.approve == before == (await api.get())["approve"]


async def test_wishes_reach_the_owner(project):
    answers = ["Hello.", say("Working.") + pause(trio.Event())]
    async with two_servers(project, answers) as (api, other, hosted):
        changed = check(await other.call("PATCH", "", {"approve": "readonly"}))
        assert changed["approve"] == "readonly"
        assert (await api.get())["approve"] == "readonly"
        started = await api.post("/prompts", {"text": "Go on."})
        await catch_up(other, hosted, (await api.get())["last"])
        message = await other.post("/steering", {"text": "Faster."})
        check(await other.call("DELETE", f"/steering/{message['id']}"))
        late = await other.call("DELETE", f"/steering/{message['id']}")
        assert refusal(late) == (409, "E_BUSY")
        await other.post("/stop", {})
        run = await api.get(f"/runs/{started['run']}", wait=20)
        assert run["state"] == "stopped"


async def test_a_plan_of_a_joined_session_is_decided_by_its_id(project):
    options = {"plugins": ("files", "guard", "plan", "prompt", "store")}
    answers = ["The plan.", "Carried out."]
    async with two_servers(project, answers, mode="plan", **options) as (api, other, hosted):
        plan = await api.wait_for("plan")
        with pytest.raises(UsageError, match="no longer waits") as refused:
            await hosted.session.request(AcceptPlan(None, "main", "another"))
        assert refused.value.code == "E_BUSY"
        assert (await api.get("/plans"))["plans"] == [plan]
        unknown = await other.call("POST", "/plans/missing", {"accepted": True})
        assert refusal(unknown) == (404, "E_UNKNOWN")
        started = (await other.post(f"/plans/{plan['id']}", {"accepted": True}))["run"]
        run = await api.get(f"/runs/{started['run']}", wait=20)
        assert run["text"] == "Carried out."
