"""The browser's own process: Playwright and Chromium, told what to do over the link, with the link
as their only network.

Started as a file of this folder's package, without hilum. It is ended from outside, with everything
that it started.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
from typing import Any

import anyio
import anyio.abc
import msgspec

from .actions import Actions
from .failures import Failed, first_line
from .link import Link
from .proxy import Proxy

START = 20.0
# A page must not get round the proxy: neither by looking names up, nor by WebRTC.
_ARGUMENTS = (
    "--disable-quic",
    "--autofill-server-url=http://127.0.0.1:1/",  # a port that it connects to nowhere: forms are nobody else's concern
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)


class Config(msgspec.Struct):
    """What the browser is to be like.

    Args:
        executable: Path of Chromium.
        width: Width of a page in pixels.
        height: Height.
        sandbox: Whether Chromium's own sandbox must be used (``on``), where it works (``auto``), or
            not (``off``).
        any_certificate: Whether TLS certificates are not checked.
        seconds: How long to wait for an element.
        page_seconds: How long a page may take to begin to come.
        most_text: Characters of a page's text to give.
        most_download: Bytes of a download.
    """

    executable: str
    width: int
    height: int
    sandbox: str
    any_certificate: bool
    seconds: float
    page_seconds: float
    most_text: int
    most_download: int


def main(config: str) -> None:
    """Run until the other end of standard input closes."""
    out = os.dup(1)
    os.dup2(2, 1)  # whatever prints does not speak into the link
    asyncio.run(_main(msgspec.json.decode(config, type=Config), out))


async def _main(config: Config, out: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(out, "wb")
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    link = Link(lambda: reader.read(65536), write, commands.put_nowait)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with anyio.create_task_group() as tasks:
        proxy = {
            "server": f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}",
            "bypass": "<-loopback>",  # this takes away what browsers leave out by themselves
            "username": "hilum",
            "password": secrets.token_hex(16),
        }
        tasks.start_soon(Proxy(link, proxy["username"], proxy["password"]).serve, listener)
        tasks.start_soon(_serve, config, link, commands, proxy)
        await link.run()
        os._exit(0)  # nobody is there any more; what was started is ended by who started this


async def _serve(
    config: Config, link: Link, commands: asyncio.Queue[dict[str, Any]], proxy: Any
) -> None:
    from playwright.async_api import Error, async_playwright

    folder = tempfile.mkdtemp(prefix="downloads-")
    async with async_playwright() as playwright:
        try:
            browser, boxed = await _launch(playwright.chromium, config, proxy, folder)
        except Error as error:
            link.say({"failed": str(error)[-4000:]})
            await asyncio.Event().wait()
            raise
        browser.on(
            "disconnected", lambda _: link.say({"gone": "The browser crashed or was closed."})
        )
        context = await browser.new_context(
            viewport={"width": config.width, "height": config.height},
            ignore_https_errors=config.any_certificate,
        )
        limits = (config.seconds, config.page_seconds, config.most_text, config.most_download)
        actions = Actions(context, *limits, folder)
        link.say({"ready": browser.version, "boxed": boxed})
        async with asyncio.TaskGroup() as tasks:  # who asks sees to what must not be done at once
            while True:
                tasks.create_task(_answer(actions, link, await commands.get()))


async def _answer(actions: Actions, link: Link, command: dict[str, Any]) -> None:
    try:
        answer = await actions.do(command["agent"], command["action"], command["given"])
    except Failed as error:
        answer = {"code": error.code, "text": error.text, "hint": error.hint, "site": error.url}
    except Exception as error:  # it must be told, or the caller waits for nothing
        answer = {
            "code": "E_INTERNAL",
            "text": f"{type(error).__name__}: {first_line(str(error))}.",
            "hint": "",
        }
    link.say({"id": command["id"], "answer": answer})


async def _launch(chromium: Any, config: Config, proxy: Any, folder: str) -> tuple[Any, bool]:
    """Start Chromium, with its own sandbox where that works."""
    from playwright.async_api import Error

    ways = {"on": (True,), "off": (False,)}.get(
        config.sandbox, (True, False) if os.geteuid() else (False,)
    )
    for boxed in ways:
        try:
            browser = await chromium.launch(
                executable_path=config.executable,
                chromium_sandbox=boxed,
                proxy=proxy,
                downloads_path=folder,
                args=[*_ARGUMENTS],
                ignore_default_args=[
                    "--disable-popup-blocking"
                ],  # a page opens tabs when clicked, and not in a storm
                env={**os.environ, "HOME": os.environ.get("TMPDIR", "/tmp")},
                timeout=1000 * START,
            )
            return browser, boxed
        except Error:
            if boxed == ways[-1]:
                raise
    raise AssertionError("there is always a way")
