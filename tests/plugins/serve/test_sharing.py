"""``/share`` serves the running session from the process that has it open."""

import hilum_serve
import httpx
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


async def test_other_texts_are_prompts(bench):
    b = await bench("store", hilum_serve, answers=[say("Hello.")])
    assert (await b.run("/shared is a folder")).text == "Hello."
