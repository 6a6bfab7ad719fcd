"""Hosted sessions: opened on demand, closed when idle, and independent of each other."""

import shutil
from contextlib import suppress

import pytest
import trio
import trio.testing
from hilum import HilumError, hookimpl
from hilum.testing import plugin, say
from hilum_serve.feed import Feed
from hilum_serve.hub import HostedSession
from hilum_serve.problems import Problem
from hilum_serve.settings import ServeSettings
from hilum_view import SessionView
from served import serving


async def test_idle_sessions_close_and_open_on_demand(project):
    settings = ServeSettings(idle_minutes=0.005)
    async with serving(project, answers=[say("one")], settings=settings) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as socket:
            await socket.receive()
            await hosted.session.run("Go")
            # Somebody reads, so it stays open for longer than the limit.
            await trio.sleep(0.5)
            assert served.hub.find_hosted(hosted.id) is hosted
        with trio.fail_after(10):
            while served.hub.find_hosted(hosted.id):  # noqa: ASYNC110
                await trio.sleep(0.02)
        async with served.hub.use(hosted.id, served.owner) as again:
            assert again is not hosted
            assert again.last >= hosted.last
            assert again.view.outcome.end.text == "one"


async def test_without_idle_time_sessions_close_soon_and_the_server_rests(project, monkeypatch):
    checks = 0
    is_busy = HostedSession.is_busy.fget

    def count(hosted):
        nonlocal checks
        checks += 1
        return is_busy(hosted)

    monkeypatch.setattr(HostedSession, "is_busy", property(count))
    settings = ServeSettings(idle_minutes=0)
    async with serving(project, settings=settings) as served, served.client() as client:
        made = await client.post("/api/sessions", json={"workspace": str(project)})
        assert made.status_code == 201, made.text
        async with served.hub.use(made.json()["id"], served.owner) as hosted:
            checks = 0
            await trio.sleep(0.5)
            assert checks < 20
        with trio.fail_after(10):
            while served.hub.find_hosted(hosted.id):  # noqa: ASYNC110
                await trio.sleep(0.02)


async def test_the_number_of_open_sessions_is_limited(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.hub.MAX_OPEN", 2)
    async with serving(project) as served, served.client() as client:
        bodies = [{"workspace": str(project)}] * 3
        made = [await client.post("/api/sessions", json=body) for body in bodies]
        assert [each.status_code for each in made] == [201, 201, 429]
        assert made[2].json()["code"] == "E_RATE"
        await served.hub.close(made[0].json()["id"])
        assert (await client.post("/api/sessions", json=bodies[0])).status_code == 201


async def test_many_requests_open_a_session_once(project):
    async with serving(project) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await served.hub.close(hosted.id)
        found = set()

        async def use():
            async with served.hub.use(hosted.id, served.owner) as used:
                found.add(used)
                await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(use)
        assert len(found) == 1


async def test_a_session_that_crashes_takes_no_other_down(project, capsys):
    crash = trio.Event()

    @hookimpl
    async def open_session(session):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail, session)
            yield None
            nursery.cancel_scope.cancel()

    async def fail(session):
        await crash.wait()
        session._nursery.start_soon(raise_error)

    async def raise_error():
        raise ZeroDivisionError

    bad = plugin("bad", open_session=open_session)
    async with serving(project, answers=[say("one")] * 2) as served:
        good = await served.hub.create(served.hub.workspaces[0], served.owner)
        served.hub._options["extra_plugins"] = [bad]
        broken = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(broken.id) as socket, served.socket(good.id) as kept:
            await socket.receive()
            crash.set()
            elements = [each async for each in socket]
            assert elements[-1]["type"] == "bye"
            assert (await good.session.run("Go")).text == "one"
            await kept.read_until(type="run_ended")
        assert served.hub.find_hosted(broken.id) is None
    assert "ZeroDivisionError" in capsys.readouterr().err


async def test_a_session_with_readers_is_deleted_and_not_opened_again(project, monkeypatch):
    async with serving(project, answers=[say("one")]) as served, served.client() as client:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        reading = trio.Event()
        returned = trio.Event()
        statuses = []
        delete = served.hub.store.delete

        async def delete_after_return(session):
            # The deletion is slow, and the reader has asked for the session again meanwhile.
            await returned.wait()
            await trio.testing.wait_all_tasks_blocked(0.05)
            await delete(session)

        monkeypatch.setattr(served.hub.store, "delete", delete_after_return)

        async def read():
            async with served.socket(hosted.id, vocabulary="view") as socket:
                await socket.read_until(type="snapshot")
                reading.set()
                assert [each async for each in socket][-1]["type"] == "bye"
            returned.set()
            answer = await client.get(f"/api/sessions/{hosted.id}")
            statuses.append(answer.status_code)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await reading.wait()
            answer = await client.delete(
                f"/api/sessions/{hosted.id}", headers={"hilum-seen": str(hosted.last)}
            )
        assert answer.status_code == 200, answer.text
        assert statuses == [404]
        assert served.hub.find_hosted(hosted.id) is None


async def test_a_long_log_is_not_read_in_the_loop(project, monkeypatch):
    async with serving(project, answers=[say("one")] * 3) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        for number in range(3):
            await hosted.session.run(f"Go {number}")
        await served.hub.close(hosted.id)
        pages = []
        read = served.hub.store.read

        async def note(session, after=0, limit=1_000):
            pages.append(after)
            return await read(session, after, limit)

        monkeypatch.setattr("hilum_serve.feed.MAX_RECENT", 1)
        async with served.hub.use(hosted.id, served.owner) as again:
            monkeypatch.setattr(again.session.kernel.store, "read", note)
            feed = Feed(again.session, SessionView(), again.make_state)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(feed.run)
                await feed.reached(again.last)
                nursery.cancel_scope.cancel()
        assert pages
        assert feed.seq == again.last


async def test_a_folder_that_is_deleted_gives_a_clear_error(project):
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        await served.hub.close(hosted.id)
        shutil.rmtree(project)
        with pytest.raises(HilumError, match="no longer exists"):
            async with served.hub.use(hosted.id, served.owner):
                pass
        async with served.client() as client:
            answer = await client.get(f"/api/sessions/{hosted.id}")
            assert answer.status_code == 404
            assert "Restore the folder" in answer.json()["hint"]
            listed = await client.get("/api/sessions")
            assert [each["id"] for each in listed.json()["sessions"]] == [hosted.id]


async def test_a_folder_that_was_replaced_by_a_link_opens_no_other_folder(project, tmp_path):
    """A token that is limited to the folder must not reach the folder that the link names."""
    other = tmp_path / "private"
    other.mkdir()
    (other / "secret.txt").write_text("nothing for you")
    async with serving(project) as served, served.client() as client:
        closed = await served.hub.create(project, served.owner)
        await served.hub.close(closed.id)
        hosted = await served.hub.create(project, served.owner)
        async with hosted.use():
            project.rename(tmp_path / "moved")
            project.symlink_to(other)
            answers = [
                await client.post("/api/sessions", json={"workspace": str(project)}),
                await client.get(f"/api/sessions/{closed.id}/entries"),
                await client.get(f"/api/sessions/{hosted.id}/complete?text=s"),
            ]
        for answer in answers:
            assert answer.status_code == 404
            assert "replaced by a link" in answer.text
            assert "private" not in answer.text
            assert "secret" not in answer.text


async def test_sessions_of_other_folders_and_strange_ids_do_not_exist(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    async with serving(other) as served:
        foreign = await served.hub.create(served.hub.workspaces[0], served.owner)
        # Only sessions in which something happened are kept and found later.
        await served.hub.close(foreign.id)
    async with serving(project) as served, served.client() as client:
        for name in (foreign.id, foreign.id[:8], "..", "%2e%2e", "a b", "%00", "x" * 300):
            answer = await client.get(f"/api/sessions/{name}")
            assert answer.status_code in (400, 404), (name, answer.text)


async def test_readers_see_another_branch_without_an_event(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.hub.BRANCH_SECONDS", 0.02)
    head = project / ".git" / "HEAD"
    head.parent.mkdir()
    head.write_text("ref: refs/heads/main\n")
    async with serving(project) as served, served.client() as client:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id, vocabulary="view") as socket:
            (snapshot,) = (await socket.read_until(type="snapshot"))[-1:]
            if snapshot["state"]["branch"] != "main":
                await socket.read_until(type="state", branch="main")
            before = hosted.last
            head.write_text("ref: refs/heads/topic\n")
            await socket.read_until(type="state", branch="topic")
            assert hosted.last == before
            answer = await client.get(f"/api/sessions/{hosted.id}")
            assert answer.json()["branch"] == "topic"
            head.write_text("0123456789abcdef0123456789abcdef01234567\n")
            elements = await socket.read_until(type="state", branch="01234567")
            # Nothing else of the state has changed.
            assert set(elements[-1]) == {"type", "seq", "branch"}


async def test_sessions_that_are_being_created_count_as_open(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.hub.MAX_OPEN", 2)
    async with serving(project) as served, served.client() as client:
        statuses = []

        async def create():
            made = await client.post("/api/sessions", json={"workspace": str(project)})
            statuses.append(made.status_code)

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(create)
        assert sorted(statuses) == [201, 201, 429, 429, 429]


async def test_a_session_that_is_opening_is_closed(project):
    async with (
        serving(project) as served,
        served.client() as client,
        trio.open_nursery() as nursery,
    ):
        hub = served.hub
        made = await hub.create(hub.workspaces[0], served.owner)
        await hub.close(made.id)
        ended = []

        async def use():
            async with hub.use(made.id, served.owner) as hosted:
                await hosted.feed.ended.wait()
                ended.append(hosted)

        nursery.start_soon(use)
        while made.id not in hub._open:
            await trio.lowlevel.checkpoint()
        opening = hub._open[made.id]
        assert opening.hosted is None
        closed = await client.post(f"/api/sessions/{made.id}/close", headers={"hilum-seen": "0"})
        assert closed.status_code == 200
        assert opening.closed.is_set()
        nursery.cancel_scope.cancel()


async def test_a_stopping_server_closes_new_sessions_and_opens_no_more(project):
    async with serving(project) as served, trio.open_nursery() as nursery:
        hub = served.hub
        made = await hub.create(hub.workspaces[0], served.owner)
        nursery.start_soon(contain_errors, hub.create, hub.workspaces[0], served.owner)
        while not hub._new:
            await trio.lowlevel.checkpoint()
        (opening,) = hub._new
        await hub.close_all()
        assert opening.closed.is_set()
        assert hub._new == set()
        assert hub._open == {}
        with pytest.raises(Problem, match="The server is stopping") as refused:
            async with hub.use(made.id, served.owner):
                pass
        assert refused.value.status == 503
        with pytest.raises(Problem, match="The server is stopping"):
            await hub.create(hub.workspaces[0], served.owner)


async def contain_errors(function, *arguments):
    """Call a function whose errors do not matter."""
    with suppress(HilumError):
        await function(*arguments)
