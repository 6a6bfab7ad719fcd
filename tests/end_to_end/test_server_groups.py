"""Servers behind a balancer: whatever server a request reaches, the one with the session serves it."""

import json
from contextlib import asynccontextmanager

import pytest
import trio
from postgres_server import postgres
from server_groups import run_group

__all__ = ["postgres"]


@pytest.fixture
def groups(cli, postgres):
    """Return a function that starts a group of two servers."""

    @asynccontextmanager
    async def groups():
        async with run_group(cli, postgres) as group, group.start(), group.start():
            yield group

    return groups


def is_idle(state):
    """Return whether no run is left."""
    return not state["running"]


async def test_each_request_may_reach_another_server(cli, groups, asks):
    """A session is opened, prompted, answered and followed, all through the balancer."""
    write = asks("write_file", path="new.txt", content="text")
    async with cli.model(write, "Done."), groups() as group:
        session = await group.create(approve="ask_first")
        [other] = group.find_others(session)
        followed = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.follow, session, followed, "run_ended")
            async with group.socket(session, url=other.url) as socket:
                prompted = await group.change(session, "/prompts", {"text": "Go"}, url=other.url)
                assert prompted.status_code == 202, prompted.text
                assert int(prompted.headers["hilum-last"]) > 0
                await socket.read_until(type="approval_asked")
                state = await group.wait_for(session, lambda state: state["waiting"])
                path = f"/approvals/{state['waiting'][0]['id']}"
                answered = await group.change(session, path, {"accepted": True}, url=other.url)
                assert answered.status_code == 200, answered.text
                await socket.read_until(type="run_ended")
        assert (cli.workspace / "new.txt").read_text() == "text"
        log = await group.read_log(session)
        assert [each["seq"] for each in log] == list(range(1, len(log) + 1))
        assert [each["seq"] for each in followed] == [each["seq"] for each in log][: len(followed)]
        states = [
            await group.get(f"/api/sessions/{session}", member.url) for member in group.members
        ]
        assert states[0] == states[1]
        for member in group.members:
            [listed] = (await group.get("/api/sessions", member.url))["sessions"]
            assert listed["open"]
            assert not listed["running"]


async def test_a_run_goes_on_after_its_server_was_killed(cli, groups, asks):
    """No event is lost or doubled, and no command runs twice."""
    commands = 6
    answers = [
        asks("run_terminal_cmd", id=f"c{n}", command=f"echo {n} >> ran.txt")
        for n in range(commands)
    ]

    async def script(request):
        done = sum(message["role"] == "tool" for message in json.loads(request.body)["messages"])
        await trio.sleep(0.05)
        return answers[done] if done < commands else "All done."

    async with cli.model(script), groups() as group:
        session = await group.create(approve="auto")
        followed = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.follow, session, followed, "run_ended")
            prompted = await group.change(session, "/prompts", {"text": "Go"})
            assert prompted.status_code == 202, prompted.text
            with trio.fail_after(20):
                while sum(each["type"] == "call_done" for each in followed) < 2:
                    await trio.sleep(0.01)
            await group.find_holder(session).kill()
        await group.wait_for(session, is_idle)
        log = await group.read_log(session)
        assert [each["seq"] for each in log] == list(range(1, len(log) + 1))
        assert [each["seq"] for each in followed] == [each["seq"] for each in log][: len(followed)]
        assert [each["state"] for each in log if each["type"] == "run_ended"] == ["completed"]
        ran = (cli.workspace / "ran.txt").read_text().split()
        assert len(ran) == len(set(ran)), ran
