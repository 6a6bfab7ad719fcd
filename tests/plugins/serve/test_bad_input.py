"""Requests with mistakes: each is refused with a code and a sentence, and the server goes on."""

import re

import pytest
from api_calls import Api, check, open_api, refusal
from hilum.testing import use
from hilum_serve.api import load_operations
from hilum_serve.operations import OPERATIONS
from served import serving

load_operations()
GOOD = {"text": "x"}
JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"null", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b"{}", 400),
        (b'{"text": 3}', 400),
        (b'{"text": null}', 400),
        (b'{"text": "x", "unknown": 1}', 400),
        (b'{"text": "x", "agent": ""}', 400),
        (b'{"text": "x", "agent": 1e400}', 400),
        (b'{"text": "\xff"}', 400),
        (b'{"text": "\\ud800"}', 400),
        (b'{"text": "x", "images": [{"media_type": "image/png"}]}', 400),
        (b'{"text": "x", "images": "y"}', 400),
        (b"[" * 100_000, 400),
        (b'{"text": ' * 50_000, 400),
        (b'{"text": "' + b"x" * 600_000 + b'"}', 400),
    ],
)
async def test_bodies_with_mistakes(project, body, status):
    async with serving(project) as served, open_api(served, project) as api:
        url = f"/api/sessions/{api.session}/prompts"
        headers = {"hilum-seen": str(api.seen), **JSON}
        response = await api.client.post(url, content=body, headers=headers)
        assert response.status_code == status, response.text
        refusal(response)
        assert (await api.get())["last"] == api.seen, "nothing was written"


async def test_bodies_that_are_too_large_or_no_json(project):
    async with serving(project) as served, open_api(served, project) as api:
        url = f"/api/sessions/{api.session}"
        seen = {"hilum-seen": str(api.seen)}
        # The size that a client declares is enough; one that does not declare it is counted.
        piece = b"x" * 100_000
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for _ in range(12))
        for framing, sent in (
            (f"content-length: {100_000_000}", b""),
            ("transfer-encoding: chunked", chunks + b"0\r\n\r\n"),
        ):
            head = (
                f"POST {url}/steering HTTP/1.1\r\nhost: {served.address}\r\n"
                f"authorization: Bearer {served.token}\r\nhilum-seen: {api.seen}\r\n"
                f"content-type: application/json\r\n{framing}\r\n\r\n"
            )
            raw = await served.raw(head.encode() + sent, wait=2)
            assert b" 413 " in raw.split(b"\r\n")[0], framing
            assert b"E_TOO_LARGE" in raw
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            response = await api.client.post(
                f"{url}/prompts", content=b'{"text": "x"}', headers={**seen, "content-type": kind}
            )
            assert refusal(response) == (415, "E_BAD_ARGS"), kind


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (None, (428, "E_SEEN")),
        ("", (400, "E_SEEN")),
        ("-1", (400, "E_SEEN")),
        ("1.0", (400, "E_SEEN")),
        ("1e3", (400, "E_SEEN")),
        ("١", (400, "E_SEEN")),
        ("0x10", (400, "E_SEEN")),
        ("99999", (400, "E_SEEN")),
        ("9" * 30, (400, "E_SEEN")),
    ],
)
async def test_every_change_names_what_the_client_has_seen(project, seen, expected):
    async with serving(project) as served, open_api(served, project) as api:
        url = f"/api/sessions/{api.session}/prompts"
        headers = {} if seen is None else {"hilum-seen": seen.encode()}
        response = await api.client.post(url, json=GOOD, headers=headers)
        assert refusal(response) == expected


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "limit=", "limit=1&limit=2", "unknown=1", "before=-1"],
)
async def test_queries_with_mistakes(project, query):
    async with serving(project) as served, served.client() as client:
        response = await client.get(f"/api/sessions?{query}")
        assert refusal(response) == (400, "E_BAD_ARGS")


async def test_unknown_sessions_and_ids(project):
    """Every operation answers 404 for an unknown session, whatever the id looks like."""
    names = ("missing", "20260101-000000-00000000", "..%2f..", "%00", "a%20b", "%ff", "💥")
    async with serving(project) as served, served.client() as client:
        for operation in OPERATIONS:
            if not operation.has_session or operation.body is not None:
                continue
            for name in names:
                path = operation.path.replace("{session}", name)
                path = re.sub(r"\{\w+\}", "x", path)
                needed = {"path": "x", "scope": "x"}
                fields = operation.query.__struct_fields__
                query = {key: value for key, value in needed.items() if key in fields}
                headers = {"hilum-seen": "0"} if operation.changes else {}
                response = await client.request(
                    operation.method, path, headers=headers, params=query
                )
                assert response.status_code in (400, 404), (operation.path, name, response.text)
                refusal(response)
        # The streams are no operations of the table.
        for name in names:
            response = await client.get(f"/api/sessions/{name}/stream")
            assert response.status_code in (400, 404), (name, response.text)
            refusal(response)


async def test_methods_that_a_path_does_not_have(project):
    async with serving(project) as served, served.client() as client:
        for method in ("PUT", "TRACE", "QUERY", "PATCH", "OPTIONS"):
            response = await client.request(method, "/api/sessions")
            assert refusal(response)[0] == 405
            assert response.headers["allow"] == "GET, POST"
        response = await client.get("/api/nothing")
        assert refusal(response) == (404, "E_UNKNOWN")


async def test_numbers_may_be_written_as_floats(project):
    """JSON does not tell 1.0 from 1, and neither does the OpenAPI document."""
    async with serving(project, answers=["x"]) as served, open_api(served, project) as api:
        url = f"/api/sessions/{api.session}/fork"
        headers = {"hilum-seen": str(api.seen), **JSON}
        response = await api.client.post(url, content=b'{"at": 2.0}', headers=headers)
        assert response.status_code == 201
        response = await api.client.post(url, content=b'{"at": 2.5}', headers=headers)
        assert refusal(response) == (400, "E_BAD_ARGS")


async def test_an_approval_is_still_open_after_the_server_was_stopped(project):
    """Stopped in the middle of an approval: another server asks again when it resumes."""
    write = use("write_file", path="a.txt", content="a")
    async with serving(project, answers=[write]) as served, open_api(served, project) as api:
        await api.post("/prompts", {"text": "Go."})
        first = await api.wait_for("approval")
        session = api.session
    async with serving(project, answers=["Done."]) as served, served.client() as client:
        api = Api(client, session)
        state = await api.get()
        assert not (project / "a.txt").exists()
        # The run was cut off, not stopped by its user, so it waits to be resumed.
        assert state["left"] == 1
        await api.post("/resume")
        item = await api.wait_for("approval")
        assert item["call"]["arguments"] == first["call"]["arguments"]
        stale = await api.call("POST", f"/approvals/{first['id']}", {"accepted": True})
        assert stale.status_code in (404, 409)
        await api.post(f"/approvals/{item['id']}", {"accepted": True})
        await api.wait_until("", lambda state: not state["running"])
        assert (project / "a.txt").exists()
        check(await client.get("/api/me"))
