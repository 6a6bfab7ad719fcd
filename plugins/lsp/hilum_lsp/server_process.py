"""One language server: started when it is needed, ended when it is idle, large or broken."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs
import trio
from hilum import HilumError
from hilum_lint.diagnostics import to_one_line

from hilum_lsp.client import LanguageClient
from hilum_lsp.documents import Documents
from hilum_lsp.errors import ServerFailed, ServerRefused
from hilum_lsp.extended_settings import list_extended
from hilum_lsp.file_watch import FileWatch, Stamp, make_stamp
from hilum_lsp.memory_use import measure_tree
from hilum_lsp.positions import BOM
from hilum_lsp.uris import make_uri

if TYPE_CHECKING:
    from hilum import Session, WarmFinding

    from hilum_lsp.servers import LanguageServer
    from hilum_lsp.settings import LspSettings

T = TypeVar("T")

# How often a server that failed is started again, and the seconds before the first of these starts;
# each further pause is twice as long.
MAX_RESTARTS = 3
BACKOFF_SECONDS = 1.0
# Seconds after which a server that works no longer counts as one that keeps failing.
SETTLED_SECONDS = 600.0
# Number of requests in a row without an answer after which a server counts as hanging.
MAX_UNANSWERED = 3
# Number of diagnostics in a row that come too late, after which the checker runs instead of the
# server, and the seconds for which it does.
MAX_SLOW_DIAGNOSTICS = 3
SLOW_PAUSE_SECONDS = 300.0
# Seconds between two looks at a server's memory and at the time of its last use.
LOOK_SECONDS = 5.0
# Maximum number of configuration files.
MAX_SETTINGS = 40
# Seconds within which a server begins to read the project after it was told of the first file.
INDEXING_BEGINS = 1.0
# Seconds between SIGTERM and SIGKILL.
TERM_TIMEOUT = 1.0
# A shell script that starts a server with a memory limit, as for checkers. The limit only catches
# what grows within LOOK_SECONDS; it is twice as large, because it counts reserved memory as well.
# gopls does not start without a writable cache, and the sandbox has one only in temporary folders.
_LIMITED = """
ulimit -d "$0" 2>/dev/null
cache="${XDG_CACHE_HOME:-$HOME/.cache}"
if ! { mkdir -p "$cache" && [ -w "$cache" ]; } 2>/dev/null; then
    export XDG_CACHE_HOME="${TMPDIR:-/tmp}/cache/language-servers"
    mkdir -p "$XDG_CACHE_HOME"
fi
exec "$@"
"""
_ENDED = "It was ended."
_PLAIN = {"NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}


@attrs.define(eq=False)
class ServerProcess:
    """A language server for a folder of a project, which may be running or not.

    Args:
        session: The session.
        nursery: The nursery for the server's task, which ends with the session.
        server: Which server it is.
        program: Path of its program.
        folder: The folder that it serves.
        settings: The settings.
        before_start: Called before the server is started.

    Attributes:
        client: The client of the running server; ``None`` if it does not run or is not ready.
        documents: The files that the running server has open.
        given_up: Why the server is no longer started; empty if it is.
        last_use: When it was last used, on trio's clock.
        changed: Set, and replaced by a new event, when the server is ready or has ended.
    """

    session: Session
    nursery: trio.Nursery
    server: LanguageServer
    program: str
    folder: Path
    settings: LspSettings
    before_start: Callable[[], None]
    client: LanguageClient | None = None
    documents: Documents | None = None
    given_up: str = ""
    _is_started: bool = False
    _failures: int = 0
    _unanswered: int = 0
    _slow_diagnostics: int = 0
    _slow_until: float = 0.0
    _has_waited: bool = False
    last_use: float = 0.0
    changed: trio.Event = attrs.Factory(trio.Event)
    _not_before: float = 0.0
    _last_failure: str = ""
    _ended: trio.Event = attrs.Factory(trio.Event)
    _lock: trio.Lock = attrs.Factory(trio.Lock)
    _stamps: tuple[object, ...] = ()
    _watch: FileWatch = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._watch = FileWatch(self.folder, tuple(self.server.languages))

    @property
    def is_quick(self) -> bool:
        """Whether the server runs and has its diagnostics in time."""
        if self._slow_diagnostics >= MAX_SLOW_DIAGNOSTICS:
            return self.is_ready and trio.current_time() >= self._slow_until
        return self.is_ready

    @property
    def is_ready(self) -> bool:
        """Whether the server runs and answers."""
        return self.client is not None and not self.client.failure

    @property
    def is_started(self) -> bool:
        """Whether the server runs or is being started, and is not about to end."""
        return self._is_started and not self._ended.is_set()

    # --- start and end ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server in the background if it does not run and may be started now."""
        self.last_use = trio.current_time()
        if self._is_started or self.given_up or self.last_use < self._not_before:
            return
        self.before_start()
        self._is_started = True
        self._ended = trio.Event()
        self.nursery.start_soon(self._run, name=f"language server {self.server.name}")

    def end(self) -> None:
        """End the server if it runs or is being started; it may be started again."""
        self._ended.set()

    async def wait_ready(self, seconds: float) -> LanguageClient:
        """Start the server if necessary, and return its client when it answers.

        Raises:
            ServerFailed: The server cannot be used.
            trio.TooSlowError: It was not ready in time.
        """
        with trio.fail_after(seconds):
            while self._is_started and self._ended.is_set():
                await self.changed.wait()
            self.start()
            while True:
                changed = self.changed
                if self.given_up:
                    raise ServerFailed(self.given_up)
                if self.client is not None and self.is_ready:
                    return self.client
                if not self._is_started:
                    # It may be started again later, but this call does not wait for that: if more
                    # servers are needed at once than may run, they would end each other in turn.
                    raise ServerFailed(self._last_failure or _ENDED)
                await changed.wait()

    async def becomes_quick(self, seconds: float) -> bool:
        """Return whether the server, which was started, is ready and quick within some time."""
        with suppress(ServerFailed, trio.TooSlowError):
            await self.wait_ready(seconds)
        return self.is_quick

    def _note_change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def _run(self) -> None:
        """Run the server until it is idle, is ended or fails."""
        begun = trio.current_time()
        reason = ""
        try:
            reason = await self._run_process()
        except HilumError as error:
            # The sandbox may refuse the program, or the program may be gone.
            reason = str(error)
        except OSError as error:
            reason = error.strerror or str(error)
        finally:
            self.client = None
            self.documents = None
            self._is_started = False
            self._note_change()
        if reason:
            self._note_failure(reason, trio.current_time() - begun)
            self._note_change()

    def _note_failure(self, reason: str, ran: float) -> None:
        """Decide when the server may start again, and report once if it may not."""
        self._last_failure = to_one_line(reason, 200)
        self._failures = 1 if ran > SETTLED_SECONDS else self._failures + 1
        if self._failures <= MAX_RESTARTS:
            pause = BACKOFF_SECONDS * 2 ** (self._failures - 1)
            self._not_before = trio.current_time() + pause
            return
        self.given_up = self._last_failure
        say = (
            f"The language server {self.server.name} failed {self._failures} times and is no longer"
            f" started in this session: {self.given_up}"
        )
        self.session.note("lsp.given_up", say=say, server=self.server.name)

    async def _run_process(self) -> str:
        """Run the server's process; return why it failed, or an empty string if it was ended."""
        limit = str(2 * self.settings.memory // 1024)
        argv = [self.program, *self.server.arguments]
        async with (
            self.session.processes.open(
                ["/bin/sh", "-c", _LIMITED, limit, *argv],
                cwd=self.folder,
                env={**_PLAIN, **self.server.env},
                stdin=True,
                grace=TERM_TIMEOUT,
                # The sandbox of both cannot write to the workspace.
                purpose="server" if self.server.runs_project_code else "look",
            ) as process,
            trio.open_nursery() as nursery,
        ):
            options = self.server.initialization_options
            client = LanguageClient(process, make_uri(self.folder), options)
            nursery.start_soon(client.run)
            try:
                with trio.CancelScope() as starting:
                    nursery.start_soon(_cancel_after, self._ended, starting)
                    await client.initialize()
            except ServerFailed as error:
                nursery.cancel_scope.cancel()
                return str(error)
            if self._ended.is_set():
                nursery.cancel_scope.cancel()
                return ""
            self._unanswered = 0
            self._slow_diagnostics = 0
            self._has_waited = False
            self._stamps = await trio.to_thread.run_sync(self._read_stamps)
            await trio.to_thread.run_sync(self._watch.scan)
            self.documents = Documents(client, dict(self.server.languages))
            self.client = client
            self._note_change()
            reason = await self._watch_over(client, process.pid)
            self.client = None
            if not reason:
                await client.shut_down()
            # Requests that wait for an answer end, too.
            client.fail(reason or _ENDED)
            nursery.cancel_scope.cancel()
        return reason

    async def _watch_over(self, client: LanguageClient, pid: int) -> str:
        """Wait until the server must end, and return its failure; empty if it has none."""
        while True:
            with trio.move_on_after(LOOK_SECONDS):
                async with trio.open_nursery() as nursery:
                    for event in (client.failed, self._ended):
                        nursery.start_soon(_cancel_after, event, nursery.cancel_scope)
            if client.failure:
                return client.failure
            if self._ended.is_set():
                return ""
            if trio.current_time() - self.last_use > self.settings.idle:
                self.end()
                return ""
            used = await trio.to_thread.run_sync(measure_tree, pid)
            if used > self.settings.memory:
                limit = self.settings.memory // 1_000_000
                return f"It needed more than {limit:,} MB of memory."

    # --- requests ---------------------------------------------------------------------------------

    async def diagnose(
        self, path: Path, text: str, seconds: float
    ) -> tuple[WarmFinding, ...] | None:
        """Return the diagnostics of a text; ``None`` if the server cannot say.

        If the diagnostics of this text are known, the server is not asked.

        Args:
            path: The file.
            text: The text to check.
            seconds: Time limit.
        """
        self.start()
        if not self.is_ready or self.documents is None:
            return None
        known = self.documents.find(path)
        if known is not None and known.text == text and known.findings is not None:
            return known.findings

        try:
            found = await self._request_diagnostics(path, text, seconds)
        except trio.TooSlowError:
            # A server that is slow in a large project still finds definitions.
            self._slow_diagnostics += 1
            self._slow_until = trio.current_time() + SLOW_PAUSE_SECONDS
            return None
        except (ServerFailed, ServerRefused):
            return None
        self._slow_diagnostics = 0
        return found

    async def _request_diagnostics(
        self, path: Path, text: str, seconds: float
    ) -> tuple[WarmFinding, ...]:
        """Return the diagnostics of a text; see ``diagnose`` and ``Documents.diagnose``.

        The time limit is so short that a server without an answer does not count as hanging.
        """
        self.last_use = trio.current_time()
        with trio.fail_after(seconds):
            async with self._lock:
                client, documents = await self._get_client(seconds)
                if not self.server.checks_alone:
                    await self._send_changed_files(client, documents, but=path)
                found = await documents.diagnose(path, text, seconds)
        self._unanswered = 0
        return found

    async def use(
        self,
        function: Callable[[LanguageClient, Documents], Awaitable[T]],
        seconds: float,
    ) -> T:
        """Call a function with the running server while nothing else changes its files.

        The server first learns which files have changed on the disk.

        Args:
            function: Called with the client and the open files.
            seconds: Time limit for all of it.

        Raises:
            ServerFailed: The server cannot be used.
            trio.TooSlowError: It did not answer in time. A server that does so repeatedly is ended.
        """
        self.last_use = trio.current_time()
        asked: LanguageClient | None = None
        asked_at = 0.0
        try:
            with trio.fail_after(seconds):
                async with self._lock:
                    client, documents = await self._get_client(seconds)
                    await self._send_changed_files(client, documents)
                    asked = client
                    asked_at = trio.current_time()
                    found = await function(client, documents)
        except trio.TooSlowError:
            # A call that waited for the start of the server, or for another call, until its time was
            # almost over says nothing about the server.
            if asked is not None and trio.current_time() - asked_at > seconds / 10:
                self._unanswered += 1
                if self._unanswered >= MAX_UNANSWERED:
                    asked.fail("It does not answer.")
            raise
        self._unanswered = 0
        return found

    async def _get_client(self, seconds: float) -> tuple[LanguageClient, Documents]:
        """Return the client and the open files of the server, which starts if necessary."""
        await self._end_if_reconfigured()
        client = await self.wait_ready(seconds)
        documents = self.documents
        assert documents is not None
        return client, documents

    async def wait_indexed(self, client: LanguageClient) -> bool:
        """Wait until the server knows the whole project; return False if that takes too long.

        Half of the time limit is left for the request, which the server then answers with what it
        knows.
        """
        if not self.server.indexes:
            return True
        begins_within = 0.0 if self._has_waited else INDEXING_BEGINS
        self._has_waited = True
        return await client.wait_idle(begins_within, self.settings.timeout / 2)

    async def _send_changed_files(
        self, client: LanguageClient, documents: Documents, but: Path | None = None
    ) -> None:
        """Notify the server of files that have changed on the disk since the last notification.

        Files that it has open with another text than the disk has are closed.

        Args:
            client: The client.
            documents: The open files.
            but: A file that stays open, because the caller sends its text.
        """
        texts = {path: documents.text_of(path) for path in documents.list_paths() if path != but}

        def find_changes() -> tuple[list[tuple[Path, int]], list[Path]]:
            outdated = [path for path, text in texts.items() if not _has_text(path, text)]
            return self._watch.scan(), outdated

        changes, outdated = await trio.to_thread.run_sync(find_changes)
        for path in outdated:
            documents.close(path)
        if changes:
            params = [{"uri": make_uri(path), "type": kind} for path, kind in changes]
            client.notify("workspace/didChangeWatchedFiles", {"changes": params})

    async def _end_if_reconfigured(self) -> None:
        """End the server if a configuration file has changed, because servers read it at start."""
        if not self.is_ready:
            return
        stamps = await trio.to_thread.run_sync(self._read_stamps)
        # The server may have ended meanwhile; then no further change would be noted.
        if self.is_ready and stamps != self._stamps:
            ended = self.changed
            self.end()
            await ended.wait()

    def _read_stamps(self) -> tuple[object, ...]:
        """Return what identifies the content of the configuration files. Blocks."""
        paths = self._find_settings()
        seen = set(paths)
        stamps = []
        for path in paths:
            stamp = _read_stamp(path)
            stamps.append(stamp)
            if stamp is None or len(paths) > MAX_SETTINGS:
                continue
            for extended in _find_extended(path, stamp):
                if extended not in seen:
                    seen.add(extended)
                    paths.append(extended)
        return tuple(stamps)

    def _find_settings(self) -> list[str]:
        found = []
        for folder in (self.folder, *self.folder.parents):
            found += [os.path.join(folder, name) for name in self.server.restart_files]
            if folder in self.session.workspace.roots:
                break
        return found


def _has_text(path: Path, text: str) -> bool:
    """Return whether a file has a text, without its byte order mark. Blocks."""
    data = text.encode(errors="surrogatepass")
    with suppress(OSError), open(path, "rb", opener=_open) as file:
        # A file that somebody replaced may have any size.
        return file.read(len(data) + len(BOM) + 1).removeprefix(BOM) == data
    return False


def _open(path: str, flags: int) -> int:
    """Open a file; a pipe in its place must not keep the thread waiting."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read_stamp(path: str) -> Stamp | None:
    with suppress(OSError):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return None
        return make_stamp(status)
    return None


@functools.lru_cache(maxsize=200)
def _find_extended(path: str, stamp: Stamp) -> tuple[str, ...]:
    """Return the files that a configuration file extends. Blocks.

    Args:
        path: The configuration file.
        stamp: What identifies its content.
    """
    return tuple(list_extended(path))


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
