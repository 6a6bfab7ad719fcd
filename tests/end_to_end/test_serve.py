"""``hilum serve`` as a process: its address, signals, kills in the middle of a run, and tokens."""

import json
import re
import signal
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

READY = "ready · agent"


class Remote:
    """A running server and a client of it."""

    def __init__(self, process, url, token):
        self.process = process
        self.url = url
        self.token = token
        self.client = httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=30
        )
        self.seen = {}

    async def get(self, path):
        answer = await self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path, body=None, *, session=""):
        headers = {}
        if session:
            state = await self.get(f"/api/sessions/{session}")
            headers["hilum-seen"] = str(state["last"])
        return await self.client.post(path, json=body, headers=headers)

    async def events(self, session, after=0):
        """Return all events of a session after a number."""
        found = []
        while True:
            page = await self.get(f"/api/sessions/{session}/events?after={after}&limit=500")
            events = page["events"]
            found += events
            if not events:
                return found
            after = events[-1]["seq"]

    async def wait_for(self, session, check):
        """Return the state of a session when it fulfils a condition."""
        with trio.fail_after(30):
            while True:
                state = await self.get(f"/api/sessions/{session}")
                if check(state):
                    return state
                await trio.sleep(0.02)


@pytest.fixture
def served(cli):
    """Return a function that starts a server."""

    @asynccontextmanager
    async def served(*arguments):
        async with cli.started("serve", "--port", "0", *arguments) as process:
            text = ""
            while not (
                found := re.search(r"Open (http://[\da-f.:\[\]]+)/login\?token=(\S+)\n", text)
            ):
                data = await process.stdout.receive_some(10_000)
                assert data, (text, await process.stderr.receive_some(10_000))
                text += data.decode()
            remote = Remote(process, found[1], found[2])
            async with remote.client:
                yield remote

    return served


async def create(remote, cli, **more):
    answer = await remote.post("/api/sessions", {"workspace": str(cli.workspace), **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def test_the_address_is_printed_once_and_the_files_are_private(cli, served):
    async with served() as remote:
        port = int(remote.url.rpartition(":")[2])
        file = cli.folder / "data" / "serve" / f"{port}.json"
        assert file.stat().st_mode & 0o777 == 0o600
        assert json.loads(file.read_text())["token"] == remote.token
        second = await cli("serve", "--port", str(port))
        assert second.code == 2
        assert "E_PORT" in second.err
        assert f"process {remote.process.pid}" in second.err
        remote.process.send_signal(signal.SIGTERM)
        assert await remote.process.wait() == 128 + signal.SIGTERM
        assert not file.exists()


async def test_the_network_needs_named_people(cli):
    refused = await cli("serve", "--host", "0.0.0.0", "--port", "0")
    assert refused.code == 2
    assert "--token-name" in refused.err
    unknown = await cli("serve", "--host", "0.0.0.0", "--token-name", "eva")
    assert "There is no valid token named 'eva'." in unknown.err
    assert "hilum serve token add" in unknown.err


async def test_only_the_named_tokens_get_in(cli, served):
    eva = (await cli("serve", "token", "add", "eva")).out.strip()
    ida = (await cli("serve", "token", "add", "ida")).out.strip()
    async with served("--token-name", "eva") as remote, httpx.AsyncClient() as client:
        for token, status in ((eva, 200), (ida, 401)):
            headers = {"authorization": f"Bearer {token}"}
            answer = await client.get(f"{remote.url}/api/me", headers=headers)
            assert answer.status_code == status


async def test_a_removed_token_does_not_keep_the_server_from_starting(cli, served):
    eva = (await cli("serve", "token", "add", "eva")).out.strip()
    names = ("--token-name", "eva", "--token-name", "rev")
    async with served(*names) as remote, httpx.AsyncClient() as client:
        headers = {"authorization": f"Bearer {eva}"}
        answer = await client.get(f"{remote.url}/api/me", headers=headers)
        assert answer.status_code == 200
        warning = (await remote.process.stderr.receive_some(10_000)).decode()
        assert "There is no valid token named 'rev'." in warning
        # It is accepted as soon as it exists.
        rev = (await cli("serve", "token", "add", "rev")).out.strip()
        headers = {"authorization": f"Bearer {rev}"}
        with trio.fail_after(10):
            while True:
                answer = await client.get(f"{remote.url}/api/me", headers=headers)
                if answer.status_code == 200:
                    break
                await trio.sleep(0.1)
        await cli("serve", "token", "remove", "eva")
        await cli("serve", "token", "remove", "rev")
    nobody = await cli("serve", "--port", "0", *names)
    assert nobody.code == 2
    assert "There are no valid tokens named 'eva', 'rev'." in nobody.err


async def test_the_printed_address_is_one_that_the_server_accepts(cli, served):
    async with served("--host", "::1") as remote, httpx.AsyncClient() as client:
        assert remote.url.startswith("http://[::1]:")
        headers = {"authorization": f"Bearer {remote.token}"}
        answer = await client.get(f"{remote.url}/api/me", headers=headers)
        assert answer.status_code == 200


async def test_tokens_are_added_listed_and_removed(cli):
    added = await cli("serve", "token", "add", "eva", "--rights", "prompt", "--expires", "7d")
    assert added.code == 0, added.err
    token = added.out.strip()
    assert f"http://127.0.0.1:8722/login?token={token}\n" in added.err
    file = cli.folder / "config" / "serve-tokens.json"
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    listed = await cli("serve", "token", "list")
    assert "eva  prompt  until" in listed.out
    assert json.loads((await cli("serve", "token", "list", "--json")).out)[0]["name"] == "eva"
    wrong = await cli("serve", "token", "add", "max", "--expires", "soon")
    assert wrong.code == 2
    assert (await cli("serve", "token", "remove", "eva")).code == 0
    assert (await cli("serve", "token", "remove", "eva")).code == 2


async def test_a_killed_server_loses_nothing_and_the_run_resumes(cli, served, asks, trials):
    kills = trials(2, 20)
    calls = kills * 3
    answers = [asks("run_terminal_cmd", id=f"c{n}", command=f"echo {n}") for n in range(calls)]

    async def script(request):
        done = sum(message["role"] == "tool" for message in json.loads(request.body)["messages"])
        await trio.sleep(0.05)
        return answers[done] if done < calls else "All done."

    async with cli.model(script):
        session = ""
        known = []
        for kill in range(kills):
            async with served() as remote:
                if not session:
                    session = await create(remote, cli, approve="auto")
                state = await remote.get(f"/api/sessions/{session}")
                after = known[-1]["seq"] if known else 0
                if kill == 0:
                    path = f"/api/sessions/{session}/prompts"
                    started = await remote.post(path, {"text": "Go"}, session=session)
                    assert started.status_code == 202, started.text
                else:
                    resumed = await remote.post(f"/api/sessions/{session}/resume", session=session)
                    assert resumed.status_code == 202, resumed.text
                wanted = state["last"] + 2 + kill % 3
                await remote.wait_for(
                    session,
                    lambda state, wanted=wanted: state["last"] >= wanted or not state["running"],
                )
                known += await remote.events(session, after)
                remote.process.kill()
                await remote.process.wait()
        async with served() as remote:
            resumed = await remote.post(f"/api/sessions/{session}/resume", session=session)
            await remote.wait_for(session, lambda state: not state["running"])
            known += await remote.events(session, known[-1]["seq"])
            whole = await remote.events(session)
            assert [each["seq"] for each in whole] == list(range(1, len(whole) + 1))
            assert known == whole
            ends = [each for each in whole if each["type"] == "run_ended"]
            assert ends[-1]["state"] in ("completed", "partial_success"), ends


async def test_an_approval_is_still_open_after_a_restart(cli, served, asks):
    write = asks("write_file", path="new.txt", content="text")
    async with cli.model(write, "Done."):
        async with served() as remote:
            session = await create(remote, cli, approve="ask_first")
            await remote.post(f"/api/sessions/{session}/prompts", {"text": "Go"}, session=session)
            await remote.wait_for(session, lambda state: state["waiting"])
            remote.process.send_signal(signal.SIGTERM)
            assert await remote.process.wait() == 128 + signal.SIGTERM
        async with served() as remote:
            await remote.post(f"/api/sessions/{session}/resume", session=session)
            state = await remote.wait_for(session, lambda state: state["waiting"])
            [approval] = state["waiting"]
            path = f"/api/sessions/{session}/approvals/{approval['id']}"
            stale = await remote.client.post(
                path, json={"accepted": True}, headers={"hilum-seen": str(approval["seq"] - 1)}
            )
            assert stale.status_code == 409
            assert stale.json()["code"] == "E_STALE"
            first = await remote.post(path, {"accepted": True}, session=session)
            assert first.status_code == 200, first.text
            second = await remote.post(path, {"accepted": False}, session=session)
            assert second.status_code == 409, second.text
            await remote.wait_for(session, lambda state: not state["running"])
            assert (cli.workspace / "new.txt").read_text() == "text"


async def test_share_in_the_terminal_serves_the_conversation(cli):
    """What a program approves over HTTP, the terminal shows, and the other way round."""
    async with cli.model("Good day.", "Over HTTP."), cli.on_screen(columns=160) as screen:
        await screen.wait_for(READY)
        await screen.type("Hello\r")
        await screen.wait_for("Good day.")
        await screen.type("/share\r")
        await screen.wait_for("until you")
        url, token = re.search(r"(http://[\d.:]+)/login\?token=([\w-]+)", screen.text).groups()
        remote = Remote(None, url, token)
        async with remote.client:
            [listed] = (await remote.get("/api/sessions"))["sessions"]
            session = listed["id"]
            path = f"/api/sessions/{session}/prompts"
            assert (await remote.post(path, {"text": "Hi"}, session=session)).status_code == 202
            await screen.wait_for("Over HTTP.")
            await screen.type("/share stop\r")
            await screen.wait_for("no longer shared")
            with pytest.raises(httpx.TransportError):
                await remote.get("/api/me")


@pytest.mark.parametrize("options", [(), ("--plain",)], ids=["screen", "plain"])
async def test_the_terminal_says_who_answered_on_the_page(cli, asks, options):
    """The call is neither reported as given in a terminal nor as ended with its run."""
    answers = [
        "Good day.",
        asks("write_file", path="b.py", content="y = 2\n"),
        "Done.",
    ]
    async with cli.model(*answers), cli.on_screen(*options, "Say hello", columns=160) as screen:
        await screen.wait_for("Good day.")
        await screen.type("/share\r")
        await screen.wait_for("until you")
        url, token = re.search(r"(http://[\d.:]+)/login\?token=([\w-]+)", screen.text).groups()
        remote = Remote(None, url, token)
        async with remote.client:
            session = (await remote.get("/api/sessions"))["sessions"][0]["id"]
            base = f"/api/sessions/{session}"
            await screen.type("Write b.py\r")
            state = await remote.wait_for(session, lambda state: state["waiting"])
            await screen.wait_for("b.py")
            item = state["waiting"][0]["id"]
            given = await remote.post(
                f"{base}/approvals/{item}", {"accepted": True}, session=session
            )
            assert given.status_code == 200, given.text
            await screen.wait_for("Allowed by owner on the page: write b.py")
            await screen.wait_for("Done.")
            assert "the run has ended" not in screen.text
            assert "in another terminal" not in screen.text


async def test_the_server_joins_a_session_that_a_terminal_has_open(cli, served):
    answers = ["Good day.", "Over HTTP.", "Alone."]
    async with cli.model(*answers), cli.on_screen() as screen:
        await screen.wait_for(READY)
        await screen.type("Hello\r")
        await screen.wait_for("Good day.")
        async with served() as remote:
            [listed] = (await remote.get("/api/sessions"))["sessions"]
            session = listed["id"]
            path = f"/api/sessions/{session}/prompts"
            answer = await remote.post(path, {"text": "Hi"}, session=session)
            assert answer.status_code == 202, answer.text
            await screen.wait_for("Over HTTP.")
            await remote.wait_for(session, lambda state: not state["running"])
            whole = await remote.events(session)
            assert [each["seq"] for each in whole] == list(range(1, len(whole) + 1))
            await screen.type("/exit\r")
            await screen.end()
            # Without the terminal, the server opens the session itself.
            answer = await remote.post(path, {"text": "And now"}, session=session)
            assert answer.status_code == 202, answer.text
            await remote.wait_for(session, lambda state: not state["running"])
            ends = [each for each in await remote.events(session) if each["type"] == "run_ended"]
            assert [each["text"] for each in ends] == answers
