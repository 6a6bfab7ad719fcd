"""Runs a browser's process and sends requests to it.

A process that fails is ended and replaced, never repaired.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import HilumError, ToolError, errors

from hilum_browser.driver.link import Link, LinkError
from hilum_browser.driver.protocol import Answer, Arguments, Config
from hilum_browser.gateway import Gateway

if TYPE_CHECKING:
    from hilum import Process, Processes

    from hilum_browser.settings import BrowserSettings

# Number of seconds within which the browser must start, even on a busy machine.
START_TIMEOUT = 40.0
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# -P below keeps the workspace, which is the current folder, out of the module search path.
_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from driver.main import main; main(sys.argv[2])"
)
_MAX_ERROR_LINES = 40
MAX_TEXT = 10_000
MAX_MEGABYTES = 200  # a download is transferred in one frame of the link
_NEW_BROWSER_HINT = "The next call starts a new one: navigate again."


class BrowserProcess:
    """The process of a browser.

    Args:
        settings: The configuration of the browser.
        gateway: The gateway that opens connections for the browser's pages.

    Attributes:
        version: The version of Chromium; empty until the browser is ready.
        is_sandboxed: Whether Chromium's own sandbox is active.
    """

    def __init__(self, settings: BrowserSettings, gateway: Gateway) -> None:
        self._settings = settings
        self.gateway = gateway
        self.version = ""
        self.is_sandboxed = False
        self._reason = ""
        self._scope = trio.CancelScope()
        self._is_ready = trio.Event()
        self._is_gone = trio.Event()
        self._answers: dict[int, Answer | None] = {}
        self._has_news = trio.Event()
        self._count = 0
        self._error_lines: deque[str] = deque(maxlen=_MAX_ERROR_LINES)
        self._link: Link | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended or is about to end."""
        return self._scope.cancel_called or self._is_gone.is_set()

    async def run(self, processes: Processes, executable: str, folder: str) -> None:
        """Run the process until it exits or is ended.

        Args:
            processes: The session's processes.
            executable: The path of Chromium.
            folder: The folder for temporary files, if no sandbox provides another one.
        """
        argv = [sys.executable, "-P", "-c", _START, _FOLDER, self._encode_config(executable)]
        try:
            with self._scope:
                async with processes.open(
                    argv, env={"TMPDIR": folder}, stdin=True, grace=0, purpose="service"
                ) as process:
                    await self._communicate(process)
        except (HilumError, LinkError) as error:
            self._reason = self._reason or str(error)
        finally:
            self._is_gone.set()
            self._notify()

    async def wait_until_ready(self) -> None:
        """Wait until the browser accepts requests.

        Raises:
            ToolError: The browser does not start.
        """
        with trio.move_on_after(START_TIMEOUT):
            await self._is_ready.wait()
        if not self.version:
            await self.end()
            output = "\n".join(self._error_lines)
            late = f"The browser did not start within {START_TIMEOUT:g} s."
            raise ToolError(self._reason or output or late)

    async def request(
        self, agent: str, action: str, arguments: Arguments, seconds: float
    ) -> Answer:
        """Run an action and return its answer. Several requests may be pending at once.

        If this call is cancelled or takes too long, it ends the browser.

        Args:
            agent: The agent whose tabs the action uses.
            action: The name of the action.
            arguments: The arguments of the tool.
            seconds: The time limit in seconds.

        Raises:
            ToolError: The browser crashed or hangs.
        """
        assert self._link is not None
        self._count += 1
        number = self._count
        self._answers[number] = None
        message = {"id": number, "agent": agent, "action": action, "arguments": arguments}
        try:
            self._link.send_message(message)
            with trio.move_on_after(seconds) as limit:
                answer = await self._wait_for_answer(number)
            if limit.cancelled_caught:
                text = f"The browser did not finish {action} within {seconds:g} s and was ended."
                await self.end(text)
                raise ToolError(text, code=errors.E_TIMEOUT, hint=_NEW_BROWSER_HINT)
        except trio.Cancelled:
            # The action cannot be cancelled, and would still be running during the next one.
            await self.end("The browser was ended because another call that used it was stopped.")
            raise
        finally:
            del self._answers[number]
        if answer is not None and answer.get("code") != "crashed":
            return answer
        await self.end()
        text = answer["text"] if answer else self._reason or "The browser crashed."
        raise ToolError(text, hint=_NEW_BROWSER_HINT)

    async def _wait_for_answer(self, number: int) -> Answer | None:
        """Return the answer to a request, or ``None`` if the browser has ended."""
        while self._answers[number] is None and not self._is_gone.is_set():
            await self._has_news.wait()
        return self._answers[number]

    async def end(self, reason: str = "") -> None:
        """End the process tree and wait until it has ended, even if this call is cancelled.

        Args:
            reason: The reason to report to tasks that are waiting for an answer.
        """
        self._reason = self._reason or reason
        self._scope.cancel()
        # Shield the wait from cancellation, because a cancelled call must not leave a process that
        # nothing waits for.
        with trio.CancelScope(shield=True):
            await self._is_gone.wait()

    def _encode_config(self, executable: str) -> str:
        settings = self._settings
        config = Config(
            executable=executable,
            width=settings.width,
            height=settings.height,
            sandbox=settings.sandbox,
            any_certificate=settings.any_certificate,
            timeout=settings.timeout,
            page_timeout=settings.page_timeout,
            max_text=MAX_TEXT,
            max_download=1_000_000 * min(settings.max_download, MAX_MEGABYTES),
        )
        return msgspec.json.encode(config).decode()

    async def _communicate(self, process: Process) -> None:
        assert process.stdin is not None
        link = self._link = Link(
            lambda: process.stdout.receive_some(65536),
            process.stdin.send_all,
            self._on_message,
            self.gateway.serve_channel,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_errors, process)
            await link.run()
            # The last lines on standard error often contain the reason why the process ended.
            with trio.move_on_after(1):
                await process.wait()
            nursery.cancel_scope.cancel()

    async def _read_errors(self, process: Process) -> None:
        assert process.stderr is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await process.stderr.receive_some(65536):
                lines = chunk.decode(errors="replace").splitlines()
                self._error_lines.extend(line[:500] for line in lines)

    def _on_message(self, message: Any) -> None:
        # Malformed messages are ignored, because the sandboxed process is not trusted.
        match message:
            case {"ready": str(version), "is_sandboxed": bool(is_sandboxed)}:
                self.version = version
                self.is_sandboxed = is_sandboxed
                self._is_ready.set()
            case {"id": int(number), "answer": dict(answer)} if number in self._answers:
                self._answers[number] = answer
                self._notify()
            case {"gone": str(reason)} | {"failed": str(reason)}:
                self._reason = reason
                self._scope.cancel()

    def _notify(self) -> None:
        """Wake up all tasks that are waiting for an answer."""
        # Each wait requires a new event, because trio's events cannot be cleared.
        self._has_news.set()
        self._has_news = trio.Event()
        # `wait_until_ready` must not wait for a process that has ended.
        if self._is_gone.is_set():
            self._is_ready.set()
