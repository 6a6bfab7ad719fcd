"""Runs Playwright and Chromium in the browser's own process, controlled over the link.

The link is the only network access of Playwright and Chromium. The process runs a file of this
package, without importing hilum. hilum ends the whole process tree from outside.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile

import anyio
import anyio.abc
import msgspec
from playwright.async_api import (
    Browser,
    BrowserType,
    Error,
    ProxySettings,
    async_playwright,
)

from .actions import Actions
from .errors import ActionError, first_line
from .link import Link
from .protocol import Answer, Command, Config
from .proxy import Proxy

START_TIMEOUT = 20.0
# A page must not bypass the proxy by name lookups, WebRTC or QUIC.
_ARGUMENTS = (
    "--disable-quic",
    # Nothing listens on this port. By default, Chromium sends form fields to its vendor.
    "--autofill-server-url=http://127.0.0.1:1/",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
# By default, Playwright would let a page open any number of tabs without a click.
_IGNORED_ARGUMENTS = ("--disable-popup-blocking",)


def main(config: str) -> None:
    """Run until standard input is closed."""
    # Standard output carries the link.
    output = os.dup(1)
    os.dup2(2, 1)  # library output must not get into the link
    asyncio.run(_main(msgspec.json.decode(config, type=Config), output))


async def _main(config: Config, output: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(output, "wb")
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    commands: asyncio.Queue[Command] = asyncio.Queue()
    link = Link(lambda: reader.read(65536), write, commands.put_nowait)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    user = "hilum"
    password = secrets.token_hex(16)
    settings = ProxySettings(
        server=f"http://127.0.0.1:{port}",
        bypass="<-loopback>",  # by default, browsers bypass the proxy for loopback addresses
        username=user,
        password=password,
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Proxy(link, user, password).serve, listener)
        tasks.start_soon(_serve, config, link, commands, settings)
        await link.run()
        os._exit(0)  # hilum has ended, and the warden ends the child processes


async def _serve(
    config: Config, link: Link, commands: asyncio.Queue[Command], proxy: ProxySettings
) -> None:
    folder = tempfile.mkdtemp(prefix="downloads-")
    async with async_playwright() as playwright:
        try:
            browser, is_sandboxed = await _launch(playwright.chromium, config, proxy, folder)
        except Error as error:
            link.send_message({"failed": str(error)[-4000:]})
            # hilum reads the message and ends this process. If the process exited earlier, the
            # message could be lost.
            await asyncio.Event().wait()
            raise
        browser.on(
            "disconnected",
            lambda _: link.send_message({"gone": "The browser crashed or was closed."}),
        )
        context = await browser.new_context(
            viewport={"width": config.width, "height": config.height},
            ignore_https_errors=config.any_certificate,
        )
        actions = Actions(context, config, folder)
        link.send_message({"ready": browser.version, "is_sandboxed": is_sandboxed})
        # hilum never sends commands that must wait for one another.
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(_answer(actions, link, await commands.get()))


async def _answer(actions: Actions, link: Link, command: Command) -> None:
    answer: Answer
    try:
        answer = await actions.run(command["agent"], command["action"], command["arguments"])
    except ActionError as error:
        answer = {"code": error.code, "text": error.text, "hint": error.hint, "site": error.url}
    except Exception as error:  # without an answer, the caller would wait forever
        text = f"{type(error).__name__}: {first_line(str(error))}."
        answer = {"code": "E_INTERNAL", "text": text, "hint": ""}
    link.send_message({"id": command["id"], "answer": answer})


async def _launch(
    chromium: BrowserType, config: Config, proxy: ProxySettings, folder: str
) -> tuple[Browser, bool]:
    """Start Chromium, and return whether it uses its own sandbox, which is tried first."""
    can_sandbox = bool(os.geteuid())  # Chromium's sandbox does not work as root
    if config.sandbox == "on" or (config.sandbox == "auto" and can_sandbox):
        try:
            return await _launch_once(chromium, config, proxy, folder, sandbox=True), True
        # Inside another sandbox, Chromium might not be allowed to create its own.
        except Error:
            if config.sandbox == "on":
                raise
    return await _launch_once(chromium, config, proxy, folder, sandbox=False), False


async def _launch_once(
    chromium: BrowserType, config: Config, proxy: ProxySettings, folder: str, *, sandbox: bool
) -> Browser:
    return await chromium.launch(
        executable_path=config.executable,
        chromium_sandbox=sandbox,
        proxy=proxy,
        downloads_path=folder,
        args=_ARGUMENTS,
        ignore_default_args=_IGNORED_ARGUMENTS,
        # Chromium writes to its home folder, but the user's home folder is read-only in the
        # sandbox.
        env={**os.environ, "HOME": os.environ.get("TMPDIR", "/tmp")},
        timeout=1000 * START_TIMEOUT,
    )
