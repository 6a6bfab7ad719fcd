"""A browser that runs: its process under the warden, and the way to it.

What is wrong is ended and replaced, never mended.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
from hilum import HilumError, ToolError, errors

from hilum_browser.gateway import Gateway
from hilum_browser.inside.link import Broken, Link

if TYPE_CHECKING:
    from hilum import Process, Processes

    from hilum_browser.settings import BrowserSettings

START = 40.0
"""Seconds for the browser to start, on a machine that has a lot to do."""
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from inside.worker import main; main(sys.argv[2])"
)
_LAST_WORDS = 40
MOST_TEXT = 10_000
MOST_MEGABYTES = 200  # a file comes in one frame of the link


class Running:
    """A browser's process, and what it is asked.

    Args:
        settings: How the browser is to be.
        gateway: Makes the connections of its pages.

    Attributes:
        version: Which browser it is.
        boxed: Whether Chromium's own sandbox holds its pages.
    """

    def __init__(self, settings: BrowserSettings, gateway: Gateway) -> None:
        self._settings = settings
        self.gateway = gateway
        self.version = ""
        self.boxed = False
        self._why = ""
        self._scope = trio.CancelScope()
        self._ready = trio.Event()
        self._gone = trio.Event()
        self._answers: dict[int, dict[str, Any] | None] = {}
        self._news = trio.Event()
        self._count = 0
        self._said: deque[str] = deque(maxlen=_LAST_WORDS)
        self._link: Link | None = None

    @property
    def ended(self) -> bool:
        """Whether it is of no use any more."""
        return self._scope.cancel_called or self._gone.is_set()

    async def run(self, processes: Processes, executable: str, folder: str) -> None:
        """Hold the process until it ends or is ended; nothing of it is left then.

        Args:
            processes: The session's.
            executable: Path of Chromium.
            folder: For its temporary files, where no sandbox gives it another.
        """
        argv = [sys.executable, "-P", "-c", _CODE, _FOLDER, self._config(executable)]
        try:
            with self._scope:
                async with processes.open(
                    argv, env={"TMPDIR": folder}, stdin=True, grace=0
                ) as process:
                    await self._carry(process)
        except (HilumError, Broken) as error:
            self._why = self._why or str(error)
        finally:
            self._gone.set()
            self._tell()

    async def start(self) -> None:
        """Wait until it can be asked something.

        Raises:
            ToolError: It does not start.
        """
        with trio.move_on_after(START):
            await self._ready.wait()
        if not self.version:
            await self.end()
            raise ToolError(*self._failure())

    async def ask(
        self, agent: str, action: str, given: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        """Have an action done, beside others.

        If this is cancelled, or takes too long, the browser is ended.

        Args:
            agent: Whose tabs it is about.
            action: Its name.
            given: The tool's arguments.
            seconds: How long it may take at most.

        Raises:
            ToolError: The browser crashed or hangs.
        """
        assert self._link is not None
        self._count += 1
        number = self._count
        self._answers[number] = None
        try:
            self._link.say({"id": number, "agent": agent, "action": action, "given": given})
            with trio.move_on_after(seconds):
                while (answer := self._answers[number]) is None and not self._gone.is_set():
                    await self._news.wait()
                if answer is not None and answer.get("code") != "crashed":
                    return answer
                await self.end()
                text = answer["text"] if answer else self._why or "The browser crashed."
                raise ToolError(text, hint="The next call starts a new one: navigate again.")
            text = f"The browser did not finish {action} within {seconds:g} s and was ended."
            await self.end(text)
            raise ToolError(
                text, code=errors.E_TIMEOUT, hint="The next call starts a new one: navigate again."
            )
        except trio.Cancelled:
            await self.end("The browser was ended, as another call that used it was stopped.")
            raise
        finally:
            del self._answers[number]

    async def end(self, why: str = "") -> None:
        """End it and everything that it started, and wait for that, even when cancelled.

        Args:
            why: What those are told who wait for an answer.
        """
        self._why = self._why or why
        self._scope.cancel()
        with trio.CancelScope(shield=True):
            await self._gone.wait()

    def _config(self, executable: str) -> str:
        settings = self._settings
        config = {
            "executable": executable,
            "width": settings.width,
            "height": settings.height,
            "sandbox": settings.sandbox,
            "any_certificate": settings.any_certificate,
            "seconds": settings.timeout,
            "page_seconds": settings.page_timeout,
            "most_text": MOST_TEXT,
            "most_download": 1_000_000 * min(settings.max_download, MOST_MEGABYTES),
        }
        return json.dumps(config)

    async def _carry(self, process: Process) -> None:
        assert process.stdin is not None
        link = self._link = Link(
            lambda: process.stdout.receive_some(65536),
            process.stdin.send_all,
            self._heard,
            self.gateway.dialled,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, process)
            await link.run()
            with trio.move_on_after(1):
                await process.wait()
            nursery.cancel_scope.cancel()

    async def _listen(self, process: Process) -> None:
        assert process.stderr is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await process.stderr.receive_some(65536):
                self._said.extend(
                    line[:500] for line in chunk.decode(errors="replace").splitlines()
                )

    def _heard(self, message: Any) -> None:
        match message:
            case {"ready": str(version), "boxed": bool(boxed)}:
                self.version = version
                self.boxed = boxed
                self._ready.set()
            case {"id": int(number), "answer": dict(answer)} if number in self._answers:
                self._answers[number] = answer
                self._tell()
            case {"gone": str(why)} | {"failed": str(why)}:
                self._why = why
                self._scope.cancel()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()
        if self._gone.is_set():
            self._ready.set()

    def _failure(self) -> tuple[str]:
        return (self._why or "\n".join(self._said) or f"It did not start within {START:g} s.",)
