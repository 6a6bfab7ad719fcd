"""Every operation needs its right, for every kind of token; the cases come from the table."""

import re

import httpx
import pytest
import trio
from api_calls import check, open_api, refusal
from hilum import UsageError
from hilum_serve.api import load_operations
from hilum_serve.hub import _Opening, is_session_id
from hilum_serve.operations import OPERATIONS
from hilum_serve.tokens import add_token
from hilum_serve.users import RIGHTS
from served import serving

load_operations()
# Operations that decide about something, or undo work.
DECIDING = [each for each in OPERATIONS if each.decides is not None]


@pytest.fixture
async def everyone(project, tmp_path):
    """Return a server with a session, and a client for each right."""
    tokens = tmp_path / "tokens.json"
    named = {rights: add_token(tokens, f"user-{rights}", rights) for rights in RIGHTS}
    async with (
        serving(project, tokens_file=tokens) as served,
        open_api(served, project) as api,
        served.client(named["watch"]) as watch,
        served.client(named["prompt"]) as prompt,
        served.client(named["approve"]) as approve,
        served.client(named["administer"]) as administer,
        served.client(None) as nobody,
    ):
        clients = {
            "watch": watch,
            "prompt": prompt,
            "approve": approve,
            "administer": administer,
            "nobody": nobody,
        }
        yield api.session, clients


async def request(
    client: httpx.AsyncClient, operation, session: str, *, seen: int = 0
) -> httpx.Response:
    """Send a request for an operation, about things that do not exist."""
    path = operation.path.replace("{session}", session)
    path = re.sub(r"\{\w+\}", "missing", path)
    body = None if operation.body is None else {}
    headers = {"hilum-seen": str(seen)} if operation.changes else {}
    fields = operation.query.__struct_fields__
    query = {name: "missing" for name in ("path", "scope", "q") if name in fields}
    if path.endswith("/diff"):
        query = {}
    return await client.request(operation.method, path, json=body, headers=headers, params=query)


async def test_each_right_includes_those_before_it(everyone):
    session, clients = everyone
    for operation in OPERATIONS:
        where = (operation.method, operation.path)
        needed = RIGHTS.index(operation.rights)
        for number, rights in enumerate(RIGHTS):
            response = await request(clients[rights], operation, session)
            if number < needed:
                assert refusal(response) == (403, "E_RIGHTS"), (where, rights)
            else:
                assert response.status_code != 401, (where, rights)
                assert "E_RIGHTS" not in response.text, (where, rights, response.text)
        response = await request(clients["nobody"], operation, session)
        assert refusal(response) == (401, "E_TOKEN"), where


def test_nothing_is_changed_by_watchers_and_nothing_is_decided_by_prompters():
    for operation in OPERATIONS:
        if operation.changes:
            assert operation.rights != "watch", operation.path
    assert len(DECIDING) >= 7
    for operation in DECIDING:
        assert RIGHTS.index(operation.rights) >= RIGHTS.index("approve"), operation.path


async def test_the_approval_policy_needs_the_right_to_approve(everyone, project):
    session, clients = everyone
    change = {"approve": "auto"}
    seen = {"hilum-seen": "0"}
    url = f"/api/sessions/{session}"
    new = {"workspace": str(project), **change}
    client = clients["prompt"]
    for response in (
        await client.patch(url, json=change, headers=seen),
        await client.patch(f"{url}/settings", json=change, headers=seen),
        await client.post("/api/sessions", json=new),
    ):
        assert refusal(response) == (403, "E_RIGHTS")
    assert check(await client.get(url))["approve"] == "ask_first"
    state = check(await clients["approve"].patch(url, json=change, headers=seen))
    assert state["approve"] == "auto"
    wanted = {"web_search": False}
    response = await clients["approve"].patch(f"{url}/settings", json=wanted, headers=seen)
    assert refusal(response) == (403, "E_RIGHTS")


async def test_a_token_for_one_folder_sees_no_other(project, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    tokens = tmp_path / "tokens.json"
    token = add_token(tokens, "ada", "administer", workspaces=[other])
    async with (
        serving(project, more=[other], tokens_file=tokens) as served,
        open_api(served, project) as api,
        served.client(token) as client,
    ):
        assert check(await client.get("/api/sessions"))["sessions"] == []
        folders = check(await client.get("/api/workspaces"))["workspaces"]
        assert [each["path"] for each in folders] == [str(other)]
        for operation in OPERATIONS:
            if operation.has_session and operation.body is None:
                response = await request(client, operation, api.session)
                assert refusal(response) == (404, "E_UNKNOWN"), operation.path
        # The streams are no operations of the table, and these operations need a body that fits.
        stream = await client.get(f"/api/sessions/{api.session}/stream")
        assert refusal(stream) == (404, "E_UNKNOWN")
        headers = {"hilum-seen": "0"}
        bodies = {
            "/prompts": {"text": "x"},
            "/approvals/x": {"accepted": True},
            "/questions/x": {"answers": []},
            "/plans/x": {"accepted": True},
            "/stop": {},
            "/fork": {},
        }
        for path, body in bodies.items():
            url = f"/api/sessions/{api.session}{path}"
            response = await client.post(url, json=body, headers=headers)
            assert refusal(response) == (404, "E_UNKNOWN"), path
        response = await client.post("/api/sessions", json={"workspace": str(project)})
        assert refusal(response) == (404, "E_UNKNOWN")


async def test_a_foreign_session_is_refused_like_one_that_does_not_exist(project, tmp_path):
    """Text, status and headers are the same, whether it is closed, open, opening or missing."""
    other = tmp_path / "other"
    other.mkdir()
    tokens = tmp_path / "tokens.json"
    token = add_token(tokens, "eva", "administer", workspaces=[project])
    async with (
        serving(project, more=[other], tokens_file=tokens) as served,
        open_api(served, project) as own,
        served.client(token) as client,
    ):
        closed = await served.hub.create(other, served.owner)
        closed.session.set(approve="auto")
        await served.hub.close(closed.id)
        opened = await served.hub.create(other, served.owner)
        gone = await served.hub.create(other, served.owner)
        gone.session.set(approve="auto")
        await served.hub.close(gone.id)
        broken = _Opening(other)
        broken.error = UsageError("The model of the other folder is unknown.")
        broken.ready.set()
        starting = _Opening(other)
        served.hub._open |= {
            "20260101-000000-broken00": broken,
            "20260101-000000-starting": starting,
        }
        # The beginning of an id, also one that several sessions share, is no address.
        missing = ["20260101-000000-00000000", "2", own.session[:10], "..", "é", "x" * 300]
        foreign = [closed.id, opened.id, gone.id, *list(served.hub._open)[-2:]]
        for operation in OPERATIONS:
            if not operation.has_session:
                continue
            answers = set()
            for session in [*missing[:4], *foreign]:
                if session == "..":
                    continue
                with trio.fail_after(5):
                    response = await request(client, operation, session)
                headers = {
                    (name, value)
                    for name, value in response.headers.items()
                    if name not in ("date",)
                }
                answers.add((response.status_code, response.content, frozenset(headers)))
            assert len(answers) == 1, (operation.path, answers)
            [(status, content, _)] = answers
            assert status == 404 or b"E_BAD_ARGS" in content, (operation.path, content)
        for session in [*missing, *foreign]:
            response = await client.get(f"/api/sessions/{session}/stream")
            assert refusal(response) == (404, "E_UNKNOWN")
            # Other addresses are refused before the WebSocket is accepted (see test_streams).
            if is_session_id(session):
                async with served.socket(session, token=token) as socket:
                    [error] = await socket.receive()
                    assert error["message"] == "There is no such session."
                    assert await socket.receive() is None
                    assert socket.closed == 4404
        served.hub._open.pop("20260101-000000-broken00")
        served.hub._open.pop("20260101-000000-starting")
