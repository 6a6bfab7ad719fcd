"""``/share`` serves the running session from the process that has it open."""

import hilum_serve
import httpx
import trio
from hilum.events import PluginEvent
from hilum.testing import say


async def test_a_shared_session_is_served_until_it_ends(bench):
    b = await bench("store", hilum_serve, answers=[say("Hello.")])
    reply = await b.session.prompt("/share")
    url = next(word for word in reply.reply.split() if word.startswith("http"))
    again = await b.session.prompt("/share")
    assert url in again.reply
    async with httpx.AsyncClient() as client:
        login = await client.get(url)
        assert login.status_code == 303
        cookie = login.headers["set-cookie"].partition(";")[0]
        base = url.partition("/login")[0]
        listed = await client.get(f"{base}/api/sessions", headers={"cookie": cookie})
        assert [each["id"] for each in listed.json()["sessions"]] == [b.session.id]
        state = await client.get(f"{base}/api/sessions/{b.session.id}", headers={"cookie": cookie})
        assert state.status_code == 200, state.text
        ended = await b.run("Hi")
        assert ended.text == "Hello."
        # No other session can be created.
        made = await client.post(
            f"{base}/api/sessions",
            json={"workspace": str(b.session.workspace.root)},
            headers={"cookie": cookie, "origin": base},
        )
        assert made.status_code == 404
    stopped = await b.session.prompt("/share stop")
    assert "no longer shared" in stopped.reply
    assert (await b.session.prompt("/share stop")).reply == "This conversation is not shared."
    assert "Enter /share" in (await b.session.prompt("/share what")).reply


async def test_readers_learn_that_sharing_has_ended(bench):
    b = await bench("store", hilum_serve)
    reply = (await b.session.prompt("/share")).reply
    url = next(word for word in reply.split() if word.startswith("http"))
    assert url.endswith(f"#/s/{b.session.id}")
    base, _, token = url.partition("#")[0].partition("/login?token=")
    headers = {"authorization": f"Bearer {token}"}
    stream = f"{base}/api/sessions/{b.session.id}/stream"
    async with httpx.AsyncClient(headers=headers, timeout=10) as client:
        assert (await client.get(f"{base}/api/me")).json()["shared"] is True
        async with client.stream("GET", stream) as answer:
            lines = answer.aiter_lines()
            assert "hello" in await anext(lines)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.session.prompt, "/share stop")
                rest = [line async for line in lines]
    assert 'data: {"type":"bye","why":"unshared"}' in rest


async def test_two_requests_at_the_same_time_start_one_server(bench):
    b = await bench("store", hilum_serve)
    replies = []

    async def share():
        replies.append((await b.session.prompt("/share")).reply)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(share)
        nursery.start_soon(share)
    urls = {word for reply in replies for word in reply.split() if word.startswith("http")}
    assert len(urls) == 1


async def test_a_program_error_ends_only_the_sharing(bench, monkeypatch):
    b = await bench("store", hilum_serve, answers=[say("Hello.")])
    crash = trio.Event()

    async def fail(streams):
        await crash.wait()
        raise ZeroDivisionError

    monkeypatch.setattr("hilum_serve.streams.Streams.run", fail)
    await b.session.prompt("/share")
    crash.set()
    noted = await b.wait_for(PluginEvent, lambda event: event.name == "serve.sharing_failed")
    assert "ZeroDivisionError" in noted.data["say"]
    assert (await b.run("Hi")).text == "Hello."
    assert (await b.session.prompt("/share stop")).reply == "This conversation is not shared."


async def test_a_shared_conversation_is_not_copied(bench):
    """The copy could not be opened through the address of the share."""
    b = await bench("files", "store", hilum_serve, answers=[say("Hello.")])
    await b.run("Hi.")
    reply = (await b.session.prompt("/share")).reply
    url = next(word for word in reply.split() if word.startswith("http"))
    base = url.partition("/login")[0]
    token = url.partition("token=")[2].partition("#")[0]
    headers = {"authorization": f"Bearer {token}", "hilum-seen": "3"}
    async with httpx.AsyncClient(headers=headers, timeout=5) as client:
        path = f"{base}/api/sessions/{b.session.id}"
        listed = await client.get(f"{path}/rewind")
        (point,) = listed.json()["points"]
        newest = {"hilum-seen": listed.headers["hilum-last"]}
        body = {"to": point["to"], "conversation": True, "files": False}
        answers = [
            await client.post(f"{path}/fork", json={}),
            await client.post(f"{path}/rewind", json=body, headers=newest),
        ]
    assert [(each.status_code, each.json()["code"]) for each in answers] == [(409, "E_BUSY")] * 2
    assert [info.id for info in await b.kernel.store.list()] == [b.session.id]


async def test_the_shared_page_can_end_the_sharing(bench):
    b = await bench("store", hilum_serve)
    reply = (await b.session.prompt("/share")).reply
    url = next(word for word in reply.split() if word.startswith("http"))
    base = url.partition("/login")[0]
    token = url.partition("token=")[2].partition("#")[0]
    headers = {"authorization": f"Bearer {token}", "hilum-seen": "0"}
    async with httpx.AsyncClient(headers=headers, timeout=5) as client:
        answer = await client.post(
            f"{base}/api/sessions/{b.session.id}/prompts", json={"text": "/share stop"}
        )
    assert answer.status_code in (200, 202), answer.text
    assert "no longer shared" in answer.json()["reply"]
    with trio.fail_after(10):
        while (await b.session.prompt("/share stop")).reply != "This conversation is not shared.":
            pass


async def test_other_texts_are_prompts(bench):
    b = await bench("store", hilum_serve, answers=[say("Hello.")])
    assert (await b.run("/shared is a folder")).text == "Hello."
