"""Event streams: everything once and in order, also after lost connections."""

import json
import re

import pytest
import trio
from hilum import StoreError
from hilum.testing import ScriptedModel, pause, say, use
from hilum_serve import streams
from hilum_serve.http_server import encode_frame
from hilum_serve.streams import PHASES
from served import serving
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request


def numbers(elements):
    return [each["seq"] for each in elements if each["type"] not in ("delta", "hello", "beat")]


async def test_a_reader_gets_every_event_once_in_order(project):
    async with serving(project, answers=[say("one two three")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as socket:
            await hosted.session.run("Go")
            elements = await socket.read_until(type="run_ended")
            assert elements[0]["type"] == "hello"
            assert numbers(elements) == list(range(1, elements[-1]["seq"] + 1))
        async with served.socket(hosted.id, after=3) as socket:
            again = await socket.read_until(type="run_ended")
            later = [each for each in elements if each.get("seq", 0) > 3]
            assert again[1:] == [each for each in later if each["type"] != "delta"]


async def test_output_continues_at_its_offset_after_a_lost_connection(project):
    more = trio.Event()
    end = trio.Event()
    answers = [say("one two ") + pause(more) + say("three 😀 four") + pause(end)]
    async with serving(project, answers=answers) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        run = await hosted.session.prompt("Go")
        async with served.socket(hosted.id) as socket:
            first = await socket.read_until(type="delta")
        last = max(numbers(first))
        async with served.socket(hosted.id, after=last) as socket:
            text = ""
            async for element in socket.elements():
                if element["type"] == "delta":
                    assert element["offset"] <= len(text)
                    text = text[: element["offset"]] + element["text"]
                if text == "one two " and not more.is_set():
                    more.set()
                if text == "one two three 😀 four":
                    break
            # The answer ends only now, so the whole of it had to arrive as output.
            assert more.is_set()
            end.set()
            await socket.read_until(type="model_answered")
        assert (await run.wait()).text == "one two three 😀 four"


async def test_the_view_has_a_snapshot_then_changes(project):
    go = trio.Event()
    end = trio.Event()
    answers = [say("Hello ") + pause(go) + say("world") + pause(end), say("again")]
    async with serving(project, answers=answers) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        run = await hosted.session.prompt("Go")
        with trio.fail_after(10):
            while hosted.view.streaming("main") is None:  # noqa: ASYNC110
                await trio.sleep(0.01)
        async with served.socket(hosted.id, vocabulary="view") as socket:
            start = await socket.read_until(type="snapshot")
            assert [each["type"] for each in start] == ["hello", "snapshot"]
            entries = {each["id"]: each for each in start[-1]["entries"]}
            assert [each["kind"] for each in entries.values()] == ["prompt", "answer"]
            assert start[-1]["total"] == 2
            answer = entries[1]
            assert (answer["text"], answer["state"]) == ("Hello ", "streaming")
            assert start[-1]["seq"] == hosted.last
            go.set()
            (*_, grown) = await socket.read_until(type="text")
            assert (grown["entry"], grown["field"]) == (1, "text")
            assert (grown["at"], grown["add"]) == (len("Hello "), "world")
            end.set()
            seen = start[-1]["seq"]
            while seen < hosted.last or not run.result:
                element = await anext(socket)
                if element["type"] == "entry":
                    entries[element["entry"]["id"]] = element["entry"]
                seen = max(seen, element.get("seq", 0))
            assert [each["kind"] for each in entries.values()] == ["prompt", "answer", "outcome"]
            assert (entries[1]["text"], entries[1]["state"]) == ("Hello world", "done")
        await hosted.session.run("More")
        await hosted.catch_up()
        async with served.socket(hosted.id, after=seen, vocabulary="view") as socket:
            found = await socket.read_until(type="state")
            assert found[0]["type"] == "hello"
            assert found[-1]["seq"] == hosted.last
            # Only what changed comes, each entry once.
            added = [each["entry"] for each in found[1:-1]]
            assert [each["kind"] for each in added] == ["prompt", "answer", "outcome"]
            assert [each["id"] for each in added] == [3, 4, 5]
            assert added[1]["text"] == "again"


async def test_a_change_that_nobody_read_does_not_hide_a_later_one(project):
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        async with served.socket(hosted.id, vocabulary="view") as socket:
            await socket.read_until(type="snapshot")
            hosted.session.set(approve="auto")
            await socket.read_until(type="state", approve="auto")
        while hosted.feed._readers["view"]:  # noqa: ASYNC110
            await trio.sleep(0.01)
        hosted.session.set(approve="readonly")
        await hosted.catch_up()
        async with served.socket(hosted.id, vocabulary="view") as socket:
            snapshot = (await socket.read_until(type="snapshot"))[-1]
            assert snapshot["state"]["approve"] == "readonly"
            hosted.session.set(approve="auto")
            await socket.read_until(type="state", approve="auto")


async def test_a_new_reader_hides_no_change_from_the_others(project):
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        async with served.socket(hosted.id, vocabulary="view") as first:
            await first.read_until(type="snapshot")
            # The state changes without an event and without a note.
            hosted.title = "Another title"
            async with served.socket(hosted.id, vocabulary="view") as second:
                snapshot = (await second.read_until(type="snapshot"))[-1]
                assert snapshot["state"]["title"] == "Another title"
                await first.read_until(type="state", title="Another title")


async def test_only_the_last_element_of_a_catch_up_counts_as_seen(project, monkeypatch):
    # Each entry gets a message of its own, so that a connection can be lost between them.
    monkeypatch.setattr("hilum_serve.feed.MAX_PER_MESSAGE", 1)
    async with serving(project, answers=[say(f"answer {number}") for number in range(6)]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        async with served.socket(hosted.id, vocabulary="view") as socket:
            seen = (await socket.read_until(type="snapshot"))[-1]["seq"]
        for number in range(5):
            await hosted.session.run(f"Go {number}")
        await hosted.catch_up()
        texts: list[str] = []
        # Every connection is lost after a few elements, and the client returns with what it saw.
        for taken in (2, 3, 4, 100):
            async with served.socket(hosted.id, after=seen, vocabulary="view") as socket:
                for _ in range(taken):
                    (element,) = await socket.receive()
                    if element["type"] == "entry":
                        assert "seq" not in element
                        texts.append(element["entry"].get("text"))
                    seen = max(seen, element.get("seq", 0))
                    if element["type"] == "state":
                        break
        assert seen == hosted.last
        for number in range(1, 6):
            assert f"answer {number}" in texts


@pytest.mark.parametrize("session", ["missing", "20260101-000000-00000000"])
async def test_streams_of_unknown_sessions_are_404(project, session, capsys):
    async with serving(project) as served, served.client() as client:
        for what in ("", "/stream", "/export"):
            answer = await client.get(f"/api/sessions/{session}{what}")
            assert answer.status_code == 404, what
            assert answer.json()["code"] == "E_UNKNOWN"
        async with served.socket(session) as socket:
            elements = [each async for each in socket]
        assert elements[0]["status"] == 404
        assert socket.closed == 4404
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("session", "status"),
    [
        ("", 404),
        (".", 404),
        ("..", 404),
        ("%2e%2e", 404),
        ("%2e%2e%2f%2e%2e", 404),
        ("%5c..%5c", 404),
        ("%C3%BC", 404),
        ("%F0%9F%98%80", 404),
        ("%E2%80%AE", 404),
        ("%ff", 404),
        ("%zz", 404),
        ("%7f", 404),
        ("%C2%85", 404),
        ("a%20b", 404),
        ("a%3Fb", 404),
        ("x" * 101, 404),
        ("ü", 400),
        ("%00", 400),
        ("%0d%0aset-cookie:%20a=b", 400),
        ("%1b[31m", 400),
        ("x" * 10_000, 431),
    ],
)
async def test_a_socket_with_an_odd_id_is_not_accepted(project, session, status, capsys):
    async with serving(project) as served:
        request = [
            f"GET /api/sessions/{session}/socket HTTP/1.1",
            f"host: {served.address}",
            f"authorization: Bearer {served.token}",
            "upgrade: websocket",
            "connection: upgrade",
            "sec-websocket-version: 13",
            "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        answer = await served.raw("\r\n".join([*request, "", ""]).encode(), wait=0.5, first=20)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split(b"\r\n")[0].rstrip() == f"HTTP/1.1 {status}".encode()
        assert b"set-cookie" not in head
        if session.isascii():
            assert json.loads(body)["code"] in ("E_UNKNOWN", "E_BAD_ARGS", "E_TOO_LARGE")
        # The server goes on.
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as socket:
            assert (await socket.receive())[0]["type"] == "hello"
    assert "Traceback" not in capsys.readouterr().err


async def test_an_error_of_the_store_is_answered_before_a_stream_begins(
    project, monkeypatch, capsys
):
    async with serving(project, answers=[say("one")]) as served, served.client() as client:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        await served.hub.close(hosted.id)

        async def fail(session):
            raise StoreError("The disk is full.", code="E_STORE", hint="Make room.")

        monkeypatch.setattr(served.hub.store, "info", fail)
        answer = await client.get(f"/api/sessions/{hosted.id}/stream")
        assert answer.status_code == 503
        reply = answer.json()
        assert (reply["code"], reply["message"]) == ("E_STORE", "The disk is full.")
        assert reply["hint"] == "Make room."
    assert "Traceback" not in capsys.readouterr().err


async def test_an_error_during_a_stream_closes_the_socket_once(project, monkeypatch):
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")

        async def fail(vocabulary, after):
            raise StoreError("The disk is full.", code="E_STORE")

        monkeypatch.setattr(hosted.feed, "catch_up", fail)
        async with served.socket(hosted.id) as socket:
            elements = [each async for each in socket]
        assert elements[-1]["code"] == "E_STORE"
        assert socket.closed == 1013


async def test_server_sent_events_continue_after_the_last_id(project):
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        last = hosted.last

        def ids(answer):
            return [int(found) for found in re.findall(rb"^id: (\d+)$", answer, re.M)]

        answer = await served.read_events(hosted.id, last)
        assert b"content-type: text/event-stream" in answer
        assert ids(answer) == list(range(1, last + 1))
        again = await served.read_events(hosted.id, last, last_id=3)
        assert ids(again) == list(range(4, last + 1))


@pytest.mark.parametrize("vocabulary", ["002", "003"])
async def test_other_vocabularies_are_renamings(project, vocabulary):
    (project / "a.txt").write_text("text")
    answers = [use("read_file", path="a.txt"), say("Done.")]
    async with serving(project, answers=answers) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id, vocabulary=vocabulary) as socket:
            await hosted.session.run("Go")
            end = {"002": {"type": "agent:complete"}, "003": {"event": "final_answer"}}
            elements = await socket.read_until(**end[vocabulary])
        names = [each.get("type") or each.get("event") for each in elements]
        wanted = {
            "002": ["agent:start", "agent:tool-call", "agent:tool-completed", "agent:complete"],
            "003": ["thinking", "tool_call", "tool_result", "final_answer"],
        }
        assert [name for name in dict.fromkeys(names) if name in wanted[vocabulary]] == wanted[
            vocabulary
        ]
        call = next(each for each in elements if each.get("args"))
        assert call["args"] == {"path": "a.txt"}
        seqs = [each["seq"] for each in elements if "seq" in each and "offset" not in each]
        assert seqs == sorted(seqs)


async def test_the_elements_of_an_event_stay_together(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.feed.MAX_PER_MESSAGE", 1)
    (project / "a.txt").write_text("text")
    calls = use("read_file", path="a.txt") + use("read_file", path="a.txt", offset=1)
    async with serving(project, answers=[say("I look.") + calls, say("Done.")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        await hosted.session.run("Go")
        await hosted.catch_up()
        facts = []
        names = []
        async with served.socket(hosted.id, vocabulary="002") as socket:
            while "agent:complete" not in names:
                message = await socket.receive()
                names = [each["type"] for each in message]
                if names != ["hello"]:
                    facts.append([each["seq"] for each in message])
        # A client that returns with any of these numbers lacks no element of the same event.
        assert [len(set(seqs)) for seqs in facts] == [1] * len(facts)
        firsts = [seqs[0] for seqs in facts]
        assert firsts == sorted(set(firsts))
        assert max(len(seqs) for seqs in facts) == 3
        # Of server-sent events, only the last element of an event has its number.
        answer = await served.read_events(hosted.id, facts[-1][0], query="?vocabulary=002")
        assert re.findall(rb"^id: (\d+)$", answer, re.M) == [b"%d" % seqs[0] for seqs in facts]


async def test_random_lost_connections_lose_and_double_nothing(project, trials):
    count = trials(10, 100)
    words = " ".join(f"word{number}" for number in range(400))
    model = ScriptedModel([say(words)] * 6, pace=0.001)
    async with serving(project, model=model) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        got: list[int] = []
        done = trio.Event()

        async def work():
            for number in range(6):
                await hosted.session.run(f"Go {number}")
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            for attempt in range(count):
                async with served.socket(hosted.id, after=got[-1] if got else 0) as socket:
                    left = attempt % 7 + 1
                    while left and (message := await socket.receive()) is not None:
                        got += numbers(message)
                        left -= 1
                        if done.is_set() and got and got[-1] == hosted.last:
                            break
            await done.wait()
        async with served.socket(hosted.id, after=got[-1]) as socket:
            while got[-1] < hosted.last:
                got += numbers(await socket.receive())
        assert got == list(range(1, hosted.last + 1))


async def test_a_reader_that_stops_reading_is_dropped_and_told(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.http_server.SEND_SECONDS", 0.5)
    big = "x" * 300_000
    async with serving(project, answers=[say(big)] * 12) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as stuck, served.socket(hosted.id) as reading:
            await stuck.receive()
            for number in range(12):
                await hosted.session.run(f"Go {number}")
                await reading.read_until(type="run_ended")
            with trio.fail_after(10):
                while len(served.running.streams.readers) > 1:  # noqa: ASYNC110
                    await trio.sleep(0.05)
        async with served.socket(hosted.id, after=hosted.last) as socket:
            message = await socket.receive()
            assert message[0] == {"type": "hello", "last": hosted.last, "dropped": "slow"}


async def test_the_end_of_the_server_is_told(project):
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with trio.open_nursery() as nursery:
            codes = []

            async def read():
                async with served.socket(hosted.id) as socket:
                    elements = [each async for each in socket.elements()]
                    codes.append((elements[-1], socket.closed))

            nursery.start_soon(read)
            while not served.running.streams.readers:  # noqa: ASYNC110
                await trio.sleep(0.01)
            await served.running.streams.end_all("restart")
        assert codes == [({"type": "bye", "why": "restart"}, 1012)]


async def test_news_that_arrives_during_a_beat_is_not_late(project, monkeypatch):
    monkeypatch.setattr("hilum_serve.streams.BEAT_SECONDS", 2.0)
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        feed = hosted.feed
        take = feed.take
        is_armed = False
        woken_at = 0.0

        def take_then_wake(vocabulary, position):
            nonlocal is_armed, woken_at
            found = take(vocabulary, position)
            if is_armed and not found[0]:
                # The group is woken after its reader has looked, and before it waits.
                is_armed = False
                woken_at = trio.current_time()
                hosted.session.set(approve="auto")
                feed._take(hosted.session.journal.since(feed.seq))
                for phase in range(PHASES):
                    served.running.streams._phases.wake(phase)
            return found

        async with served.socket(hosted.id, after=hosted.last) as socket:
            await socket.receive()
            monkeypatch.setattr(feed, "take", take_then_wake)
            monkeypatch.setattr(feed, "_on_news", lambda: None)
            is_armed = True
            await socket.read_until(type="session_changed")
            # A reader that misses it reads again only when the next beat is due.
            assert trio.current_time() - woken_at < 1.2


async def test_a_closed_session_ends_its_streams_and_opens_again(project):
    async with serving(project, answers=[say("one")]) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as socket:
            await socket.receive()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(served.hub.close, hosted.id)
                elements = [each async for each in socket.elements()]
        assert elements[-1] == {"type": "bye", "why": "closed"}
        async with served.socket(hosted.id) as socket:
            assert json.dumps(await socket.receive()) != "[]"


async def test_stuck_readers_do_not_delay_the_end(project):
    big = "x" * 600_000
    with trio.fail_after(15):
        async with serving(project, answers=[say(big)] * 4) as served:
            hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
            async with served.socket(hosted.id) as stuck:
                await stuck.receive()
                for number in range(4):
                    await hosted.session.run(f"Go {number}")
                await trio.sleep(0.3)
                began = trio.current_time()
                await served.stop()
                assert trio.current_time() - began < 2.5


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, 200_000])
def test_frames_are_what_a_client_reads(size):
    client = WSConnection(ConnectionType.CLIENT)
    server = WSConnection(ConnectionType.SERVER)
    server.receive_data(client.send(Request(host="a", target="/")))
    list(server.events())
    client.receive_data(server.send(AcceptConnection()))
    list(client.events())
    client.receive_data(encode_frame("é" + "x" * (size - 1)))
    text = "".join(event.data for event in client.events())
    assert text == "é" + "x" * (size - 1)


async def test_a_client_that_is_ahead_of_the_log_gets_the_same_error_everywhere(project):
    async with serving(project) as served, served.client() as client:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        address = f"/api/sessions/{hosted.id}"
        for after in (hosted.last + 1, 2**53 - 1):
            expected = {
                "code": "E_BAD_ARGS",
                "message": f"The session has only {hosted.last} events, not {after}.",
                "hint": "Start again with after=0.",
            }
            query = {"after": after}
            returning = {"last-event-id": str(after)}
            answers = [
                await client.get(f"{address}/events", params=query),
                await client.get(f"{address}/stream", params=query),
                await client.get(f"{address}/stream", headers=returning),
            ]
            for answer in answers:
                assert answer.status_code == 400
                assert expected.items() <= answer.json().items()
            async with served.socket(hosted.id, after=after) as socket:
                [element] = await socket.receive()
                assert {"type": "error", "status": 400, **expected}.items() <= element.items()
            # Readers of the view get a snapshot in place of what they have.
            async with served.socket(hosted.id, after=after, vocabulary="view") as socket:
                await socket.read_until(type="snapshot")
        for wrong in ("9" * 17, "9" * 5_000, "-1", "1e3", "x"):
            answer = await client.get(f"{address}/stream", headers={"last-event-id": wrong})
            assert (answer.status_code, answer.json()["code"]) == (400, "E_BAD_ARGS")
        pairs = [("last-event-id", "1"), ("last-event-id", "2")]
        answer = await client.get(f"{address}/stream", headers=pairs)
        assert answer.status_code == 400
        page = await client.get(f"{address}/events", params={"after": hosted.last})
        assert page.json()["events"] == []


async def test_a_silent_web_socket_is_dropped(project, monkeypatch):
    monkeypatch.setattr(streams, "SILENCE_SECONDS", 0.5)
    async with serving(project) as served:
        hosted = await served.hub.create(served.hub.workspaces[0], served.owner)
        async with served.socket(hosted.id) as socket:
            elements = [each async for each in socket]
        assert elements[-1] == {"type": "bye", "why": "silent"}
        assert socket.closed == 1001
