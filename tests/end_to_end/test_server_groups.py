"""Servers behind a balancer: whatever server a request reaches, the one with the session serves it."""

import json
import os
import signal
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
from hilum.events import CallDone, PluginEvent, encode
from hilum_serve import client
from hilum_serve.http_server import SEND_SECONDS
from hilum_serve.peer_group import PeerGroup
from postgres_server import postgres
from server_groups import KEY, run_group

pytestmark = pytest.mark.slow(cases=5, of="file")

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


async def test_a_run_goes_on_after_its_server_was_killed(cli, groups, asks, wait_until):
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
            await wait_until(lambda: sum(each["type"] == "call_done" for each in followed) == 2)
            await group.find_holder(session).kill()
        await group.wait_for(session, is_idle)
        log = await group.read_log(session)
        assert [each["seq"] for each in log] == list(range(1, len(log) + 1))
        assert [each["seq"] for each in followed] == [each["seq"] for each in log][: len(followed)]
        assert [each["state"] for each in log if each["type"] == "run_ended"] == ["completed"]
        ran = (cli.workspace / "ran.txt").read_text().split()
        assert len(ran) == len(set(ran)), ran


async def test_a_request_is_not_repeated_after_its_server_was_killed(cli, groups):
    """The next server does not know whether it was carried out, and says so."""
    async with cli.model("Done.", "Again."), groups() as group:
        session = await group.create(approve="auto")
        path = f"/api/sessions/{session}/prompts"
        last = (await group.get(f"/api/sessions/{session}"))["last"]
        headers = {"hilum-seen": str(last), "hilum-request": "0123456789abcdef"}
        prompt = {"text": "Go"}
        async with group.client() as http:
            for _ in range(3):
                sent = await http.post(path, json=prompt, headers=headers)
                assert sent.status_code == 202, sent.text
            await group.wait_for(session, is_idle)
            await group.find_holder(session).kill()
            repeated = await http.post(path, json=prompt, headers=headers)
            assert repeated.status_code == 409, repeated.text
            assert repeated.json()["code"] == "E_INTERRUPTED"
        log = await group.read_log(session)
        assert [each["type"] for each in log].count("run_started") == 1
        again = await group.change(session, "/prompts", {"text": "Once more"})
        assert again.status_code == 202, again.text
        await group.wait_for(session, is_idle)


async def test_a_login_is_good_at_every_server(cli, groups):
    async with cli.model("Done."), groups() as group:
        session = await group.create()
        holder = group.find_holder(session)
        [other] = group.find_others(session)
        async with group.client(holder.url, token="") as http:
            login = await http.get("/login", params={"token": group.token})
        name, _, secret = login.headers["set-cookie"].partition(";")[0].partition("=")
        cookie = {"cookie": f"other=1; {name}={secret}"}
        state = await group.get(f"/api/sessions/{session}")
        seen = {"hilum-seen": str(state["last"])}
        async with group.client(other.url, token="", headers=cookie) as http:
            assert (await http.get("/api/me")).json()["name"] == "eva"
            path = f"/api/sessions/{session}"
            assert (await http.get(path)).json() == state
            # A foreign page cannot use the cookie, and neither can one that hides who it is.
            for origin, status in (
                ({"origin": "http://evil.example"}, 403),
                ({}, 403),
                ({"origin": other.url}, 202),
            ):
                headers = {**seen, **origin}
                sent = await http.post(f"{path}/prompts", json={"text": "Go"}, headers=headers)
                assert sent.status_code == status, sent.text
        await group.wait_for(session, is_idle)
        headers = [*cookie.items(), ("origin", other.url)]
        async with group.socket(session, url=other.url, headers=headers) as socket:
            await socket.read_until(type="run_ended")
        async with group.client(other.url) as http:
            export = await http.get(f"/api/sessions/{session}/export", params={"format": "json"})
            assert "attachment" in export.headers["content-disposition"]
            assert export.headers.get_list("content-security-policy") == [
                login.headers["content-security-policy"]
            ]
            assert export.text.count('"run_ended"') == 1
            head = await http.head(f"/api/sessions/{session}")
            assert head.status_code == 200
            assert head.content == b""
        # A copy of the cookie ends everywhere with the logout, also at a server that starts later.
        own = {**cookie, "origin": other.url}
        async with group.client(other.url, token="", headers=own) as http:
            assert (await http.post("/logout")).status_code == 303
        async with (
            group.start() as third,
            group.client(third.url, token="", headers=cookie) as http,
        ):
            assert (await http.get("/api/me")).status_code == 401
        async with group.client(holder.url, token="", headers=cookie) as http:
            with trio.fail_after(5):
                # The servers look for logouts every second.
                while (await http.get("/api/me")).status_code != 401:  # noqa: ASYNC110
                    await trio.sleep(0.1)
        assert await group.get("/api/me", holder.url)


async def collect_ends(group, session, url, credential, ended, opened):
    """Open both streams of a session, and collect how each one ends."""
    headers = [credential, ("origin", url)]
    async with trio.open_nursery() as nursery:

        async def read_events():
            async with (
                group.client(url, token="", headers=dict([credential])) as client,
                client.stream("GET", f"/api/sessions/{session}/stream") as answer,
            ):
                text = ""
                async for piece in answer.aiter_text():
                    text += piece
                    opened.add((url, "stream"))
            assert text.endswith('data: {"type":"bye","why":"token"}\n\n'), text[-200:]
            ended.add((url, "stream"))

        nursery.start_soon(read_events)
        async with group.socket(session, url=url, headers=headers) as socket:
            opened.add((url, "socket"))
            elements = [element async for element in socket]
        assert (elements[-1], socket.closed) == ({"type": "bye", "why": "token"}, 4401)
        ended.add((url, "socket"))


@pytest.mark.parametrize("at_holder", [True, False])
async def test_a_logout_ends_the_streams_of_all_servers(cli, groups, wait_until, at_holder):
    """Also those that a server passes on to another one."""
    async with cli.model(), groups() as group:
        session = await group.create()
        [other] = group.find_others(session)
        where = group.find_holder(session) if at_holder else other
        async with group.client(other.url, token="") as http:
            login = await http.get("/login", params={"token": group.token})
        credential = ("cookie", login.headers["set-cookie"].partition(";")[0])
        ended, opened = set(), set()
        async with trio.open_nursery() as nursery:
            for member in group.members:
                nursery.start_soon(
                    collect_ends, group, session, member.url, credential, ended, opened
                )
            await wait_until(lambda: len(opened) == 4)
            headers = {"origin": where.url, "cookie": credential[1]}
            async with group.client(where.url, token="", headers=headers) as http:
                assert (await http.post("/logout")).status_code == 303
            with trio.fail_after(3):
                await wait_until(lambda: len(ended) == 4)


async def test_a_token_that_is_removed_at_one_server_ends_what_it_passes_on(
    cli, postgres, wait_until
):
    """The other server has a copy of the file in which the token still exists."""
    async with cli.model(), run_group(cli, postgres) as group, group.start() as holder:
        session = await group.create(holder.url)
        tokens = cli.folder / "config" / "serve-tokens.json"
        copy = cli.folder / "copy"
        copy.mkdir(mode=0o700)
        async with group.start(config=copy) as other:
            ended, opened = set(), set()
            credential = ("authorization", f"Bearer {group.token}")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    collect_ends, group, session, other.url, credential, ended, opened
                )
                await wait_until(lambda: len(opened) == 2)
                (copy / tokens.name).unlink()
                with trio.fail_after(3):
                    await wait_until(lambda: len(ended) == 2)
            assert await group.get("/api/me", holder.url)


async def test_a_logout_without_the_database_reaches_all_servers_later(cli, groups, wait_until):
    """Until then, the server that took it repeats it; it says that the others do not know yet."""
    async with cli.model(), groups() as group:
        one, two = group.members
        async with group.client(one.url, token="") as http:
            login = await http.get("/login", params={"token": group.token})
        cookie = login.headers["set-cookie"].partition(";")[0]
        headers = {"origin": one.url, "cookie": cookie}
        group.query("ALTER TABLE hilum.notices RENAME TO away")
        async with group.client(one.url, token="", headers=headers) as http:
            refused = await http.post("/logout")
            assert refused.status_code == 503, refused.text
            assert (await http.get("/api/me")).status_code == 401
            assert (await http.post("/logout")).status_code == 503
        async with group.client(two.url, token="", headers={"cookie": cookie}) as http:
            assert (await http.get("/api/me")).status_code == 200
            group.query("ALTER TABLE hilum.away RENAME TO notices")
            with trio.fail_after(10):
                # What is waited for happens in other processes.
                while (await http.get("/api/me")).status_code != 401:  # noqa: ASYNC110
                    await trio.sleep(0.1)
        async with group.client(one.url, token="", headers=headers) as http:
            assert (await http.post("/logout")).status_code == 303


async def read_notes(member, wanted):
    """Return what a server writes to its terminal, up to a text."""
    text = ""
    with trio.fail_after(30):
        while wanted not in text:
            text += (await member.process.stderr.receive_some(10_000)).decode()
    return text


async def test_wrong_keys_and_addresses_are_reported(cli, postgres):
    async with (
        cli.model(),
        run_group(cli, postgres) as group,
        group.start() as first,
        group.start(key="a key of another group of servers") as second,
        group.start(url=first.url) as third,
    ):
        assert "serve.peer_key" in await read_notes(second, f"at {first.url} uses the same")
        assert "serve.peer_key" in await read_notes(first, f"at {second.url} uses the same")
        await read_notes(third, f"another server answers at {first.url}")
        session = await group.create(first.url)
        async with group.client(second.url) as http:
            with trio.fail_after(3):
                refused = await http.get(f"/api/sessions/{session}")
        assert refused.status_code == 409
        assert "serve.peer_key" in refused.json()["hint"]


async def test_rights_are_checked_where_the_session_is(cli, postgres):
    """A server gives a request no rights that its client does not have."""
    watcher = (await cli("serve", "token", "add", "ida")).out.strip()
    async with (
        cli.model("Done."),
        run_group(cli, postgres) as group,
        group.start() as other,
        group.start("--proxy-user-header", "X-Test-User") as holder,
    ):
        session = await group.create(holder.url)
        path = f"/api/sessions/{session}"
        async with group.client(other.url, token="") as http:
            login = await http.get("/login", params={"token": watcher})
        # The holder believes the header before the cookie, because its own proxy sets it.
        headers = {
            "cookie": login.headers["set-cookie"].partition(";")[0],
            "hilum-seen": "1",
            "origin": other.url,
            "x-test-user": "eva",
        }
        async with group.client(other.url, token="", headers=headers) as http:
            assert (await http.get(path)).status_code == 200
            refused = await http.post(f"{path}/prompts", json={"text": "Go"})
            assert refused.status_code == 403
            assert refused.json()["code"] == "E_RIGHTS"
        own = json.loads((cli.folder / f"data-{other.port}/serve/{other.port}.json").read_text())[
            "token"
        ]
        async with group.client(other.url, token=own) as http:
            refused = await http.get(path)
            assert refused.status_code == 409
            assert "named token" in refused.json()["hint"]
        # A request that was passed on is not passed on again; only the key proves that it was.
        mark = PeerGroup("http://127.0.0.1:1", KEY).make_mark(PeerGroup(other.url, KEY).own)
        async with group.client(other.url, headers={"hilum-forwarded": mark.decode()}) as http:
            refused = await http.get(path)
            assert refused.status_code == 409
            assert refused.headers["hilum-elsewhere"] == "1"
        async with group.client(other.url, headers={"hilum-forwarded": "1"}) as http:
            assert (await http.get(path)).status_code == 200
        missing = f"{path}x"
        async with group.client(other.url) as http:
            assert (await http.get(missing)).json()["code"] == "E_UNKNOWN"
        async with group.socket(f"{session}x", url=other.url) as socket:
            assert (await socket.receive())[0]["status"] == 404
            await socket.receive()
            assert socket.closed == 4404


async def test_a_python_client_notices_nothing_of_a_killed_server(cli, groups, asks):
    """Its connections lead through the balancer, and its run ends at another server."""
    answers = [asks("run_terminal_cmd", id=f"c{n}", command=f"echo {n}") for n in range(4)]

    async def script(request):
        done = sum(message["role"] == "tool" for message in json.loads(request.body)["messages"])
        await trio.sleep(0.05)
        return answers[done] if done < len(answers) else "All done."

    async with (
        cli.model(script),
        groups() as group,
        client.connect(group.balancer.url, group.token) as server,
        server.open_session(str(cli.workspace), approve="auto") as session,
    ):
        run = await session.prompt("Go")
        events = []
        async for event in run.events():
            events.append(event)
            if sum(isinstance(each, CallDone) for each in events) == 2 and len(group.members) == 2:
                holder = group.find_holder(session.id)
                group.members.remove(holder)
                await holder.kill()
        assert (await run.wait()).text == "All done."
        assert [event.seq for event in events] == sorted({event.seq for event in events})
        assert session.problems == []


class Stranger:
    """A server that does not belong to the group, and passes the proof of one that does on.

    Attributes:
        url: Its address.
        received: What it received.
    """

    def __init__(self, real):
        self.received = []
        self._real = real

    async def run(self, task_status):
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self._own = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        self.url = f"http://{self._own}"
        await trio.serve_listeners(self._answer, [listener], task_status=task_status)

    async def _answer(self, stream):
        async with stream, await trio.open_tcp_stream("127.0.0.1", self._real.port) as real:
            request = bytes(await stream.receive_some(10_000))
            self.received.append(request)
            # The real server only answers to its own name.
            name = self._real.url.removeprefix("http://")
            await real.send_all(request.replace(self._own.encode(), name.encode()))
            await stream.send_all(await real.receive_some(10_000))
            self.received.append(bytes(await stream.receive_some(10_000)))


KEEP_ADDRESSES = """
CREATE FUNCTION hilum.keep() RETURNS trigger LANGUAGE plpgsql AS
'BEGIN NEW.address := OLD.address; RETURN NEW; END'
"""
"""Keeps servers from publishing their own addresses again with each sign of life."""


@pytest.mark.slow(cases=0)
async def test_tokens_go_to_no_address_that_the_database_names(cli, groups):
    """A server at an unsigned address is not even asked, and one at a signed address must prove that
    it is a member. Who passes the proof of a member on has proved nothing.
    """
    async with cli.model("Done."), groups() as group, trio.open_nursery() as nursery:
        holder, other = group.members
        unsigned, signed = Stranger(holder), Stranger(holder)
        await nursery.start(unsigned.run)
        await nursery.start(signed.run)
        addresses = {
            f"{unsigned.url} {'0' * 64}": 409,
            PeerGroup(unsigned.url, "a key of another group of servers").announcement: 409,
            PeerGroup(signed.url, KEY).announcement: 503,
        }
        sessions = [await group.create(holder.url) for _ in addresses]
        for session, address in zip(sessions, addresses, strict=True):
            group.query(
                "UPDATE hilum.holders SET address = %s WHERE id ="
                " (SELECT holder FROM hilum.sessions WHERE id = %s)",
                address,
                session,
            )
        group.query(KEEP_ADDRESSES)
        group.query(
            "CREATE TRIGGER keep BEFORE UPDATE ON hilum.holders"
            " FOR EACH ROW EXECUTE FUNCTION hilum.keep()"
        )
        async with group.client(other.url) as http, trio.open_nursery() as requests:

            async def ask(session, status):
                answer = await http.get(f"/api/sessions/{session}")
                assert answer.status_code == status, answer.text

            for session, status in zip(sessions, addresses.values(), strict=True):
                requests.start_soon(ask, session, status)
        nursery.cancel_scope.cancel()
    assert unsigned.received == []
    asked = {data.partition(b" HTTP")[0] for data in signed.received}
    assert asked == {b"GET /peer", b""}


@pytest.mark.slow(cases=0)
async def test_a_server_that_hangs_is_given_up(cli, groups):
    """A change is refused in time, and then the session goes on elsewhere."""
    async with cli.model("Done."), groups() as group:
        session = await group.create()
        [other] = group.find_others(session)
        path = f"/api/sessions/{session}"
        async with group.socket(session, url=other.url) as socket:
            await socket.receive()
            os.kill(group.find_holder(session).process.pid, signal.SIGSTOP)
            async with group.client(other.url) as http:
                began = trio.current_time()
                refused = await http.post(
                    f"{path}/prompts", json={"text": "Go"}, headers={"hilum-seen": "1"}
                )
                assert trio.current_time() - began < 12
                assert refused.status_code == 503
                assert refused.json()["code"] == "E_UNREACHABLE"
                with trio.fail_after(55):
                    # What is waited for happens in other processes.
                    while (await http.get(path)).status_code != 200:  # noqa: ASYNC110
                        await trio.sleep(0.5)
                assert group.find_holder(session) is other


async def test_the_address_and_the_key_are_checked_at_the_start(cli, postgres):
    database = {"HILUM_POSTGRES_URL": postgres.make_database(), "HILUM_SERVE_PEER_KEY": KEY}
    for url, environment, wanted in (
        ("http://10.0.0.1:8722", {**database, "HILUM_SERVE_PEER_KEY": "short"}, "serve.peer_key"),
        ("http://db.example:8722", database, "not encrypted"),
        ("ftp://10.0.0.1", database, "not an address"),
        ("http://eva:secret@10.0.0.1", database, "not an address"),
        ("http://10.0.0.1:8722", {"HILUM_SERVE_PEER_KEY": KEY}, "postgres.url"),
    ):
        refused = await cli("serve", "--port", "0", "--peer-url", url, **environment)
        assert refused.code == 2, (url, refused)
        assert wanted in refused.err, (url, refused.err)


def read_memory(member):
    """Return the memory of a server's process in MB."""
    status = Path(f"/proc/{member.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.slow(cases=0)
async def test_a_client_that_does_not_read_slows_both_servers(cli, groups):
    """Nothing piles up in the server that passes the response on, and both are rid of it soon."""
    async with cli.model("Done."), groups() as group:
        session = await group.create()
        [other] = group.find_others(session)
        await group.get(f"/api/sessions/{session}/export?format=json")
        ((number, last),) = group.query(
            "SELECT number, events FROM hilum.sessions WHERE id = %s", session
        )
        for seq in range(last + 1, last + 601):
            event = PluginEvent(seq=seq, name="test.filler", data={"text": "x" * 100_000})
            group.query(
                "INSERT INTO hilum.events (session, seq, data) VALUES (%s, %s, %s)",
                number,
                seq,
                encode(event),
            )
        before = read_memory(other)
        head = (
            f"GET /api/sessions/{session}/export?format=json HTTP/1.1\r\n"
            f"host: 127.0.0.1:{other.port}\r\nauthorization: Bearer {group.token}\r\n\r\n"
        )
        async with await trio.open_tcp_stream("127.0.0.1", other.port) as stream:
            await stream.send_all(head.encode())
            assert (await stream.receive_some(100)).startswith(b"HTTP/1.1 200 ")
            await trio.sleep(3)
            assert read_memory(other) - before < 10
            await trio.sleep(SEND_SECONDS)
            received = 0
            with trio.fail_after(5), suppress(trio.BrokenResourceError):
                while data := await stream.receive_some(1_000_000):
                    received += len(data)
            assert received < 20_000_000
        assert (await group.get(f"/api/sessions/{session}"))["id"] == session
