"""Published servers from npm in the sandbox: every part of the protocol, files, and a browser."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hilum_guard
import hilum_plan
import pytest
import trio
import trio.lowlevel
from hilum.events import CallDone, Delta
from hilum.messages import Image
from hilum.testing import Bench, say, use

from .conftest import Opened, client, known, until
from .npm import described, program, there
from .test_mcp_calls import answering
from .test_mcp_http import free_port, listens, started

EVERYTHING = "@modelcontextprotocol/server-everything"
# The SDK leaves generators of broken-off streams to the collector, which trio warns of.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
    ),
    there,
]
LATE = "ev__simulate-research-query"


async def everything(kit: Bench) -> None:
    """Wait for the tools that the server offers only after it knows the client's abilities."""
    await known(kit, "ev")
    assert await until(lambda: "ev__get-roots-list" in kit.session.tools)


async def exercised(kit: Bench) -> None:
    """Call everything that the server offers; the same over all transports."""
    call = kit.call
    assert (await call("ev__echo", message="hi")).text == "Echo: hi"
    assert (await call("ev__get-sum", a=1, b=2)).text == "The sum of 1 and 2 is 3."
    wrong = await call("ev__get-sum", a=1, b="x")
    assert wrong.code == "E_FAILED"
    assert "expected number" in wrong.text
    assert (
        "humidity"
        in (await call("ev__get-structured-content", location="New York")).data["structured"]
    )
    picture = await call("ev__get-tiny-image")
    assert [part.media_type for part in picture.parts if isinstance(part, Image)] == ["image/png"]
    noted = await call("ev__get-annotated-message", messageType="error", includeImage=True)
    assert "Error: Operation failed" in noted.text
    links = await call("ev__get-resource-links", count=3)
    assert links.text.count("[resource demo://resource/dynamic/") == 3
    for kind in ("Text", "Blob"):
        whole = await call("ev__get-resource-reference", resourceType=kind, resourceId=2)
        assert "Resource 2: This is a" in whole.text, "what is text is shown as such"
    zipped = await call(
        "ev__gzip-file-as-resource", data="data:text/plain,hello", outputType="resource"
    )
    assert "application/gzip" in zipped.text
    listed = await call("list_resources", server="ev")
    assert "demo://resource/static/document/features.md (text/markdown)" in listed.text
    assert "demo://resource/dynamic/text/{resourceId}" in listed.text
    read = await call("read_resource", server="ev", uri="demo://resource/dynamic/text/7")
    assert "Resource 7: This is a plaintext resource" in read.text
    assert (await call("read_resource", server="ev", uri="file:///etc/passwd")).code == "E_SERVER"
    roots = await call("ev__get-roots-list")
    assert kit.session.workspace.root.as_uri() in roots.text


async def asked(kit: Bench) -> None:
    """Let the server ask the user and the model."""
    given = {
        "full, legal name": "Ada", "terms and conditions": "Yes", "first line": "It was a dark and stormy night.",
        "email address": "Leave it empty", "website": "Leave it empty", "date of birth": "Leave it empty",
        "favorite integer": "42", "Favorite number": "3.14", "friend": "Joey", "instruments": "Piano",
        "hero": "Superman", "fish": "Trout", "pet": "Cats", "to your model": "Yes, this once",
    }  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answering, kit, given)
        await trio.lowlevel.checkpoint()
        form = await kit.call("ev__trigger-elicitation-request")
        assert "User provided the requested information" in form.text
        raw = json.loads(form.text.partition("Raw result: ")[2])["content"]
        assert raw == {
            "name": "Ada", "check": True, "firstLine": "It was a dark and stormy night.", "integer": 42, "number": 3.14,
            "untitledSingleSelectEnum": "Joey", "untitledMultipleSelectEnum": ["Piano"], "titledSingleSelectEnum": "hero-1",
            "titledMultipleSelectEnum": ["fish-3"], "legacyTitledEnum": "pet-1",
        }  # fmt: skip
        kit.model.next(
            use("ev__trigger-sampling-request", prompt="Say it.", maxTokens=10),
            say("Said."),
            say("Done."),
        )  # type: ignore[attr-defined]
        await kit.run("go")
        assert '"text": "Said."' in kit.of(CallDone)[-1].result.text
        nursery.cancel_scope.cancel()


async def test_everything_over_stdio_in_the_sandbox(servers: Opened) -> None:
    async with servers({"ev": described(EVERYTHING)}, hilum_plan, hilum_guard) as kit:
        await everything(kit)
        await exercised(kit)
        await asked(kit)
        seen: list[str] = []
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                async for event in kit.session.events(kit.session.journal.last, deltas=True):
                    if isinstance(event, Delta) and event.kind == "output":
                        seen.append(event.text)

            nursery.start_soon(read)
            long = await kit.call("ev__trigger-long-running-operation", duration=0.5, steps=2)
            nursery.cancel_scope.cancel()
        assert "Long running operation completed" in long.text
        assert "1/2" in "".join(seen)
        assert LATE not in kit.session.tools, (
            "a tool that only works as a task, which hilum has not"
        )
        assert "simulate-research-query" in " ".join(client(kit, "ev").offer.left_out)  # type: ignore[union-attr]
        kit.model.next(say("Sunny."))  # type: ignore[attr-defined]
        assert (await kit.run("/ev:args-prompt Paris")).text == "Sunny."
        assert "What's weather in Paris?" in str(kit.requests[-1].messages[-1])
        assert "/ev:resource-prompt resourceType resourceId" in (
            (await kit.session.prompt("/prompts")).reply or ""
        )
        log = client(kit, "ev")._log
        await log.flush()
        assert "Roots updated: 1 root(s) received from client" in log.file.read_text()


async def test_a_call_of_everything_is_cancelled(servers: Opened) -> None:
    async with servers({"ev": described(EVERYTHING)}, settings={"mcp.call_seconds": 0.5}) as kit:
        await known(kit, "ev")
        late = await kit.call("ev__trigger-long-running-operation", duration=30, steps=1)
        assert late.code == "E_TIMEOUT"
        assert (await kit.call("ev__echo", message="hi")).text == "Echo: hi"
        assert client(kit, "ev").connection.starts == 1


@pytest.mark.parametrize("kind", ["streamableHttp", "sse"])
async def test_everything_over_http(servers: Opened, tmp_path: Path, kind: str) -> None:
    port = free_port()
    with (tmp_path / "said").open("wb") as said, ExitStack() as stack:
        started([*program(EVERYTHING), kind], said, stack, PORT=str(port))
        assert await until(lambda: listens(port), 60)
        url = f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
        async with servers({"ev": {"url": url}}, hilum_plan) as kit:
            await everything(kit)
            await exercised(kit)
            await asked(kit)
    if kind != "sse":
        assert "Received session termination request" in (tmp_path / "said").read_text()


async def logged(kit: Bench, name: str, words: str) -> None:
    """Wait until a server has written these words to its log."""
    log = client(kit, name)._log
    with trio.fail_after(20):
        while True:
            await log.flush()
            if log.file.exists() and words in log.file.read_text():
                return
            await trio.sleep(0.01)  # the file belongs to another process: no event reports it


async def test_the_server_of_files_has_the_workspace_alone(servers: Opened, tmp_path: Path) -> None:
    fs = described(
        "@modelcontextprotocol/server-filesystem"
    )  # no folder is named: it asks for the roots
    async with servers({"fs": fs}, hilum_guard) as kit:
        await known(kit, "fs")
        root = kit.session.workspace.root
        (root / "a.txt").write_text("one\ntwo\n")
        await until(lambda: client(kit, "fs").connection.state == "up")
        # The server already answers calls while it checks the roots that it asked for.
        await logged(kit, "fs", "Updated allowed directories")
        assert (await kit.call("fs__read_text_file", path=str(root / "a.txt"))).text == "one\ntwo\n"
        wrote = await kit.call("fs__write_file", path=str(root / "b.txt"), content="three")
        assert not wrote.code
        assert (root / "b.txt").read_text() == "three"
        outside = await kit.call("fs__read_text_file", path="/etc/passwd")
        assert outside.code == "E_FAILED"
        assert "Access denied" in outside.text


class Page(BaseHTTPRequestHandler):
    """A page with a button that reports when it is pressed."""

    def do_GET(self) -> None:
        body = b"""<title>Shop</title><h1>Shop</h1>
        <button onclick="document.querySelector('h1').textContent = 'Sold'">Buy</button>"""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[str]:
    """Serve the page."""
    site = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{site.server_port}/"
    site.shutdown()
    thread.join()
    site.server_close()


@pytest.fixture
def chromium() -> str:
    """Return the path of Chromium."""
    return shutil.which("chromium") or pytest.skip("needs Chromium (apt install chromium)")


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("profile", ["--isolated", ""], ids=["isolated", "kept"])
async def test_a_browser_that_playwrights_server_drives(
    servers: Opened, shop: str, chromium: str, profile: str, tmp_path: Path
) -> None:
    words = (
        "--headless",
        "--no-sandbox",
        f"--executable-path={chromium}",
        *filter(None, [profile]),
    )
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with servers(
        {"web": described("@playwright/mcp", *words)}, hilum_guard, environ=environ
    ) as kit:
        await known(kit, "web")
        shown = await kit.call("web__browser_navigate", url=shop)
        assert not shown.code, shown.text
        page = await kit.call("web__browser_snapshot")
        line = next(line for line in page.text.splitlines() if 'button "Buy"' in line)
        reference = line.partition("[ref=")[2].partition("]")[0]
        await kit.call("web__browser_click", element="Buy", ref=reference, target=reference)
        assert 'heading "Sold"' in (await kit.call("web__browser_snapshot")).text
        picture = await kit.call("web__browser_take_screenshot")
        assert any(isinstance(part, Image) for part in picture.parts)


async def test_a_browser_that_chromes_own_server_drives(
    servers: Opened, shop: str, chromium: str
) -> None:
    words = ("--headless", "--isolated", f"--executablePath={chromium}", "--chromeArg=--no-sandbox")
    async with servers({"web": described("chrome-devtools-mcp", *words)}, hilum_guard) as kit:
        await known(kit, "web")
        opened = await kit.call("web__new_page", url=shop)
        assert not opened.code, opened.text
        page = await kit.call("web__take_snapshot", pageId=2)
        line = next(line for line in page.text.splitlines() if 'button "Buy"' in line)
        await kit.call(
            "web__click", pageId=2, uid=line.strip().partition("uid=")[2].partition(" ")[0]
        )
        assert 'heading "Sold"' in (await kit.call("web__take_snapshot", pageId=2)).text
        picture = await kit.call("web__take_screenshot", pageId=2)
        assert any(isinstance(part, Image) for part in picture.parts)
