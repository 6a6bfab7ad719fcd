"""Calls of a server's operations in tests, with the sequence number that each change must name."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import trio
from served import Served

PATIENCE = 20.0


class Api:
    """A client of one session, which names the last sequence number that it has seen."""

    def __init__(self, client: httpx.AsyncClient, session: str) -> None:
        self.client = client
        self.session = session
        self.seen = 0

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        /,
        *,
        seen: int | None = None,
        **query: Any,
    ) -> httpx.Response:
        """Call an operation of the session and return the response, whatever its status is."""
        headers = {}
        content = None
        if method not in ("GET", "HEAD"):
            headers["hilum-seen"] = str(self.seen if seen is None else seen)
        if body is not None:
            content = body
        url = f"/api/sessions/{self.session}{path}"
        response = await self.client.request(
            method, url, headers=headers, json=content, params=query
        )
        self.seen = max(self.seen, int(response.headers.get("hilum-last", 0)))
        return response

    async def get(self, path: str = "", /, **query: Any) -> Any:
        """Return the result of a reading operation."""
        return check(await self.call("GET", path, **query))

    async def post(self, path: str, body: Any = None, /, **query: Any) -> Any:
        """Return the result of a changing operation."""
        return check(await self.call("POST", path, body, **query))

    async def run(self, text: str, **more: Any) -> dict[str, Any]:
        """Prompt the main agent, and return the run when it has ended."""
        started = await self.post("/prompts", {"text": text, **more})
        return await self.get(f"/runs/{started['run']}", wait=PATIENCE)

    async def wait_until(self, path: str, ready: Callable[[Any], Any]) -> Any:
        """Ask again and again until a result is as wanted, and return it."""
        with trio.fail_after(PATIENCE):
            while True:
                result = await self.get(path)
                if ready(result):
                    return result
                await trio.sleep(0.02)

    async def wait_for(self, kind: str) -> dict[str, Any]:
        """Return the first waiting item of a kind, once there is one."""

        def find(state: dict[str, Any]) -> list[dict[str, Any]]:
            return [item for item in state["waiting"] if item["kind"] == kind]

        return find(await self.wait_until("", find))[0]


def check(response: httpx.Response) -> Any:
    """Return the JSON of a response that must be a success."""
    assert response.status_code < 300, (response.status_code, response.text)
    return response.json()


def refusal(response: httpx.Response) -> tuple[int, str]:
    """Return status and code of an error, which must be JSON with a message."""
    assert response.headers["content-type"].startswith("application/json"), response.text
    error = response.json()
    assert error["message"]
    return response.status_code, error["code"]


@asynccontextmanager
async def open_api(served: Served, workspace: Path, **options: Any) -> AsyncIterator[Api]:
    """Create a session over HTTP, as the owner of the server."""
    async with served.client() as client:
        body = {"workspace": str(workspace), **options}
        response = await client.post("/api/sessions", json=body)
        state = check(response)
        assert response.status_code == 201
        api = Api(client, state["id"])
        api.seen = state["last"]
        yield api
