"""A client of one language server: requests, notifications, and what the server sends on its own.

::

    server ── stdout ──► frames ──► responses, diagnostics, requests of the server
       ▲ └─── stderr ──► the last lines, for the message about a failure
       └───── stdin ◄── frames ◄── requests, notifications, answers

Nothing waits for a server without a time limit, and nothing that a server writes is kept without a
limit. A server that breaks the protocol has failed (``failure``); its owner ends it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import msgspec
import trio
from hilum.processes import CommandError
from hilum_lint.diagnostics import to_one_line

from hilum_lsp.errors import ServerFailed, ServerRefused
from hilum_lsp.framing import FrameError, FrameReader, encode_frame
from hilum_lsp.protocol import (
    CAPABILITIES,
    ConfigurationParams,
    Initialized,
    Message,
    ProgressParams,
    PublishedDiagnostics,
)

if TYPE_CHECKING:
    from hilum import Process

    from hilum_lsp.positions import Encoding

T = TypeVar("T")

CHUNK = 1 << 16
# Maximum number of bytes that a server may send between two messages of hilum. A server reports the
# files of a large project on its own, so the limit is far above that.
MAX_UNSOLICITED = 64_000_000
# Maximum number of messages that wait until a server reads them.
MAX_UNREAD = 1_000
# Maximum size, in bytes, of the pushed diagnostics of a file, and maximum number of such files.
MAX_PUSH = 1_000_000
MAX_PUSHED = 100
# Maximum number of background tasks of a server that are known at the same time.
MAX_TASKS = 100
# Seconds that a server has for its first answer, and for its answer to `shutdown`.
INITIALIZE_TIMEOUT = 30.0
SHUTDOWN_TIMEOUT = 1.0
MAX_STDERR_LINE = 500
MAX_STDERR_LINES = 50
# Seconds to wait for the rest of standard error after the server has closed its standard output.
STDERR_TIMEOUT = 0.3
# How a line begins that names an error, in the output of programs in various languages.
_ERROR = re.compile(r"(?:[\w.]*(?:Error|Exception)|error|fatal|panic)\b.*:|thread '.*' panicked")
# Codes of errors: the method does not exist; the server wants the request again.
_NO_METHOD = -32601
_SERVER_CANCELLED = -32802
_CONTENT_MODIFIED = -32801
_READ_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@attrs.define(eq=False)
class _Pending:
    """A request that the server has not answered."""

    done: trio.Event = attrs.Factory(trio.Event)
    answer: Message | None = None


@attrs.define(eq=False)
class LanguageClient:
    """A client of a running server.

    Args:
        process: The server's process, with a pipe as standard input.
        root_uri: The folder that the server serves.
        options: The server's ``initializationOptions``.

    Attributes:
        capabilities: What the server can do; empty before ``initialize``.
        encoding: The unit in which the server counts columns.
        failure: Why the server can no longer be used; empty while it works.
        failed: Set when the server has failed.
        pushed: The last pushed diagnostics of each file, by URI.
        tasks: The background tasks that the server has begun and not ended.
        has_begun: Whether the server has begun a background task.
    """

    process: Process
    root_uri: str
    options: Any = None
    capabilities: dict[str, Any] = attrs.Factory(dict)
    encoding: Encoding = "utf-16"
    failure: str = ""
    failed: trio.Event = attrs.Factory(trio.Event)
    pushed: dict[str, PublishedDiagnostics] = attrs.Factory(dict)
    tasks: set[int | str] = attrs.Factory(set)
    has_begun: bool = False
    _ids: Any = attrs.Factory(lambda: itertools.count(1))
    _pending: dict[int, _Pending] = attrs.Factory(dict)
    _push_arrived: trio.Event = attrs.Factory(trio.Event)
    _tasks_changed: trio.Event = attrs.Factory(trio.Event)
    _unsolicited: int = 0
    _stderr_ended: trio.Event = attrs.Factory(trio.Event)
    _stderr: deque[str] = attrs.Factory(lambda: deque(maxlen=MAX_STDERR_LINES))
    _send: Any = None
    _receive: Any = None

    def __attrs_post_init__(self) -> None:
        # The channel has no limit, because a cancellation must be sent without waiting; MAX_UNREAD
        # limits it instead.
        self._send, self._receive = trio.open_memory_channel[bytes](math.inf)

    # --- transport --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Transfer messages until this method is cancelled.

        If the server fails, ``failed`` is set, and this method waits for its cancellation.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read_errors)
            nursery.start_soon(self._write)
            try:
                await self._read()
            except FrameError as error:
                self.fail(str(error))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await self._note_end("It closed its output.")
            await trio.sleep_forever()

    def fail(self, reason: str) -> None:
        """Mark the server as failed, for a reason that is a sentence."""
        if not self.failure:
            line = self._find_error_line()
            output = f" Its last output: {line}" if line else ""
            self.failure = f"{reason}{output}"
        for pending in self._pending.values():
            pending.done.set()
        self.failed.set()
        self._wake_push_readers()
        self._tasks_changed.set()

    def _find_error_line(self) -> str:
        """Return the last line of output that names an error, or else the last line."""
        # Many programs print a stack trace after their message.
        for line in reversed(self._stderr):
            if _ERROR.match(line):
                return line
        return self._stderr[-1] if self._stderr else ""

    async def _read(self) -> None:
        reader = FrameReader()
        while chunk := await self.process.stdout.receive_some(CHUNK):
            self._unsolicited += len(chunk)
            if self._unsolicited > MAX_UNSOLICITED:
                limit = MAX_UNSOLICITED // 1_000_000
                raise FrameError(f"It sent more than {limit} MB of unsolicited output.")
            for body in reader.feed(bytes(chunk)):
                self._handle(body)
        await self._note_end("It closed its output.")

    async def _note_end(self, reason: str) -> None:
        """Mark the server as failed because it ended or closed a pipe, and find out why.

        Args:
            reason: The reason if the server has not ended.
        """
        with trio.move_on_after(STDERR_TIMEOUT):
            # The last output of a server that has just ended explains why.
            await self._stderr_ended.wait()
            with suppress(CommandError):
                code = await self.process.wait()
                how = f"exit code {code}" if code >= 0 else f"signal {-code}"
                reason = f"It ended with {how}."
        self.fail(reason)

    async def _write(self) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        try:
            async for frame in self._receive:
                await stdin.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await self._note_end("It no longer reads its standard input.")

    async def _read_errors(self) -> None:
        stderr = self.process.stderr
        assert stderr is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while chunk := await stderr.receive_some(CHUNK):
                # A long line is cut, because only its beginning is ever shown.
                for line in bytes(chunk[-CHUNK:]).decode(errors="replace").splitlines():
                    text = to_one_line(line[:MAX_STDERR_LINE], 200)
                    if text:
                        self._stderr.append(text)
        self._stderr_ended.set()

    def _post(self, message: dict[str, Any]) -> None:
        """Queue a message for the server.

        Raises:
            ServerFailed: The server has failed, or does not read its messages.
        """
        if not self.failure and self._receive.statistics().current_buffer_used > MAX_UNREAD:
            self.fail("It does not read its standard input.")
        if self.failure:
            raise ServerFailed(self.failure)
        self._send.send_nowait(encode_frame(msgspec.json.encode({"jsonrpc": "2.0", **message})))

    # --- what the server sends --------------------------------------------------------------------

    def _handle(self, body: bytes) -> None:
        """Handle one message of the server, without waiting for anything."""
        try:
            message = msgspec.json.decode(body, type=Message)
        except _READ_ERRORS:
            raise FrameError("It sent a message that is not JSON-RPC.") from None
        if message.method is None:
            self._handle_answer(message)
        elif message.id is not None:
            self._answer(message)
        elif message.method == "textDocument/publishDiagnostics":
            self._store_diagnostics(message)
        elif message.method == "$/progress":
            self._note_progress(message)

    def _handle_answer(self, message: Message) -> None:
        pending = self._pending.get(message.id) if isinstance(message.id, int) else None
        # An answer to a request that was given up, or that was never made, is skipped.
        if pending is not None and pending.answer is None:
            pending.answer = message
            pending.done.set()

    def _store_diagnostics(self, message: Message) -> None:
        if len(bytes(message.params)) > MAX_PUSH:
            # As if the server did not answer, so the checker itself runs.
            return
        try:
            push = msgspec.json.decode(message.params, type=PublishedDiagnostics)
        except _READ_ERRORS:
            return
        self.pushed.pop(push.uri, None)
        if len(self.pushed) >= MAX_PUSHED:
            del self.pushed[next(iter(self.pushed))]
        self.pushed[push.uri] = push
        self._wake_push_readers()

    def _note_progress(self, message: Message) -> None:
        try:
            progress = msgspec.json.decode(message.params, type=ProgressParams)
        except _READ_ERRORS:
            # A server may also report parts of a result, which hilum does not ask for.
            return
        if progress.value.kind == "begin" and len(self.tasks) < MAX_TASKS:
            self.tasks.add(progress.token)
            self.has_begun = True
        elif progress.value.kind == "end":
            self.tasks.discard(progress.token)
        self._tasks_changed.set()
        self._tasks_changed = trio.Event()

    def _wake_push_readers(self) -> None:
        self._push_arrived.set()
        self._push_arrived = trio.Event()

    def _answer(self, message: Message) -> None:
        """Answer a request of the server, each in the way that the protocol expects.

        A server may wait for the answer, so even those that hilum does not serve are answered.
        """
        answer: dict[str, Any] = {"id": message.id}
        if message.method == "workspace/configuration":
            # One value is expected for each item; null stands for "not set".
            params = ConfigurationParams()
            with suppress(*_READ_ERRORS):
                params = msgspec.json.decode(message.params, type=ConfigurationParams)
            answer["result"] = [None] * len(params.items)
        elif message.method == "workspace/workspaceFolders":
            answer["result"] = [{"uri": self.root_uri, "name": "workspace"}]
        elif message.method == "workspace/applyEdit":
            # Only the user's approval lets a server's edits become changes.
            answer["result"] = {"applied": False, "failureReason": "not supported"}
        elif message.method in (
            "client/registerCapability",
            "client/unregisterCapability",
            "window/workDoneProgress/create",
            "window/showMessageRequest",
        ):
            answer["result"] = None
        else:
            answer["error"] = {"code": _NO_METHOD, "message": "not supported"}
        with suppress(ServerFailed):
            self._post(answer)

    # --- what hilum sends -------------------------------------------------------------------------

    def notify(self, method: str, params: Any) -> None:
        """Send a notification.

        Raises:
            ServerFailed: The server has failed.
        """
        self._unsolicited = 0
        self._post({"method": method, "params": params})

    async def request(self, method: str, params: Any, seconds: float) -> msgspec.Raw:
        """Send a request and return the result as JSON.

        If the request is cancelled or takes too long, the server is told so.

        Args:
            method: The method.
            params: Its parameters.
            seconds: Time limit.

        Raises:
            ServerFailed: The server has failed.
            ServerRefused: The server answered with an error.
            trio.TooSlowError: There was no answer in time.
        """
        identity = next(self._ids)
        pending = self._pending[identity] = _Pending()
        self._unsolicited = 0
        try:
            self._post({"id": identity, "method": method, "params": params})
            with trio.move_on_after(seconds):
                await pending.done.wait()
        finally:
            del self._pending[identity]
            if not pending.done.is_set():
                with suppress(ServerFailed):
                    self._post({"method": "$/cancelRequest", "params": {"id": identity}})
        answer = pending.answer
        if answer is None:
            if self.failure:
                raise ServerFailed(self.failure)
            raise trio.TooSlowError
        if answer.error is not None:
            again = answer.error.code in (_SERVER_CANCELLED, _CONTENT_MODIFIED)
            raise ServerRefused(to_one_line(answer.error.message, 200), again=again)
        return answer.result

    async def wait_idle(self, begins_within: float, seconds: float) -> bool:
        """Wait until the server has ended its background tasks; return whether it has.

        Args:
            begins_within: How long to wait for the first task, in seconds, if there was none yet.
            seconds: Time limit.
        """
        with trio.move_on_after(begins_within):
            while not self.has_begun and not self.failure:
                await self._tasks_changed.wait()
        with trio.move_on_after(seconds):
            while self.tasks and not self.failure:
                await self._tasks_changed.wait()
        return not self.tasks

    async def ask(self, method: str, params: Any, kind: type[T] | Any, seconds: float) -> T:
        """Send a request and return the result as a type; see ``request``.

        Raises:
            ServerFailed: Also if the result does not have the type.
        """
        result = await self.request(method, params, seconds)
        try:
            found: T = msgspec.json.decode(result, type=kind)
        except _READ_ERRORS:
            raise ServerFailed(f"Its answer to {method} is invalid.") from None
        return found

    async def wait_for_push(self, uri: str, version: int, seconds: float) -> PublishedDiagnostics:
        """Return the diagnostics that the server pushes for a version of a file.

        Diagnostics of older versions are skipped.

        Raises:
            ServerFailed: The server has failed.
            trio.TooSlowError: There were none in time.
        """
        with trio.fail_after(seconds):
            while True:
                arrived = self._push_arrived
                if self.failure:
                    raise ServerFailed(self.failure)
                push = self.pushed.get(uri)
                if push is not None and push.version == version:
                    return push
                await arrived.wait()

    # --- the beginning and the end ----------------------------------------------------------------

    async def initialize(self) -> None:
        """Agree with the server on what both can do.

        Raises:
            ServerFailed: The server has failed, or did not answer in time.
        """
        params = {
            # The server is in a process namespace of its own, where this number has no meaning.
            "processId": None,
            "clientInfo": {"name": "hilum"},
            "rootUri": self.root_uri,
            "capabilities": CAPABILITIES,
            "workspaceFolders": [{"uri": self.root_uri, "name": "workspace"}],
            "initializationOptions": self.options,
        }
        try:
            found: Initialized = await self.ask(
                "initialize", params, Initialized, INITIALIZE_TIMEOUT
            )
        except trio.TooSlowError:
            seconds = f"{INITIALIZE_TIMEOUT:g}"
            raise ServerFailed(f"It did not answer within {seconds} seconds.") from None
        except ServerRefused as error:
            raise ServerFailed(str(error)) from None
        self.capabilities = found.capabilities
        encoding = found.capabilities.get("positionEncoding")
        if encoding in ("utf-8", "utf-16", "utf-32"):
            self.encoding = encoding
        self.notify("initialized", {})

    async def shut_down(self) -> None:
        """Ask the server to end. Whoever opened the process ends it if it does not."""
        with suppress(ServerFailed, ServerRefused, trio.TooSlowError):
            await self.request("shutdown", None, SHUTDOWN_TIMEOUT)
            self.notify("exit", None)
            with trio.move_on_after(SHUTDOWN_TIMEOUT):
                await self.failed.wait()
