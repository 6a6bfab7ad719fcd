"""The sessions of the server: opens them on demand, keeps them open, and closes idle ones."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import trio
from hilum import (
    HilumError,
    Kernel,
    Session,
    StoreError,
    UsageError,
    WorkspaceFiles,
    find_branch,
    open_standard_session,
)
from hilum.errors import E_BAD_ARGS, E_BUSY, E_FAILED, E_NOT_FOUND, E_UNKNOWN
from hilum.sharing import JoinedSession
from hilum.store import LeaseHolder, SessionBusy, SessionInfo, SharedStore, Store, unspell_folder
from hilum_view import SessionView
from hilum_view.fuzzy_index import FuzzyIndex

from hilum_serve.background_commands import watch_background_commands
from hilum_serve.exports import MAX_EXPORTS
from hilum_serve.feed import Feed
from hilum_serve.peer_group import PeerGroup
from hilum_serve.problems import E_RATE, Problem
from hilum_serve.session_state import SessionState, describe_state
from hilum_serve.shell_lines import ShellLines
from hilum_serve.users import User

Ending = Literal["", "closed", "restart"]
CLOSE_SECONDS = 10.0
"""Seconds that the runs of a session get to end when the session is closed."""
CATCH_UP_SECONDS = 5.0
MIN_IDLE_SECONDS = 0.2
"""Seconds for which a session stays open at least, so that whoever opened it can begin to use it."""
READ_SECONDS = 5.0
"""Seconds after which an unused session is closed that was only looked at.

Its lease would keep other machines from continuing it, although nobody works in it here.
"""
IDLE_CHECK_SECONDS = 0.05
"""Minimum number of seconds between two checks whether a session is idle."""
MAX_ANSWERS = 200
MAX_OPEN = 500
"""Maximum number of sessions that are open at the same time."""
MAX_LEFT = 1_000
"""Number of closed sessions of which is remembered whether they have moved."""
MAX_ID = 100
"""Maximum number of characters of a session's id."""
BRANCH_SECONDS = 5.0
"""Seconds after which the git branch of a folder is read again."""


class HostedSession:
    """A session that the server has open.

    Args:
        session: The session.
        workspace: The real path of its folder.
        title: Its title.

    Attributes:
        session: The session.
        workspace: The real path of its folder.
        title: Its title.
        branch: The git branch of the folder.
        view: The view of its events, which the feed keeps up to date.
        feed: What its readers get.
        answered_by: Names of the users who gave answers, by the id of the approval or question.
        files: The files of its folder, for completion.
        lock: Held by operations that must not run at the same time, such as undo and rewind.
        shell_lines: The commands that users run in it.
        clock_began: Unix time at which trio's clock was 0.
        is_own: Whether the server opened the session, and not a terminal in the same process.
        moved_at: Number of the last event before the session was opened here, if it may have been
            open in another server until then; 0 otherwise.
        is_only_read: Whether nobody has done more with the session here than look at it.
    """

    def __init__(
        self,
        session: Session,
        workspace: Path,
        title: str,
        *,
        is_own: bool = True,
        on_news: Callable[[], None] = lambda: None,
    ) -> None:
        self.session = session
        self.workspace = workspace
        self.title = title
        self.branch = ""
        self.view = SessionView()
        self.clock_began = time.time() - trio.current_time()
        # The lines are a part of the state, and show readers what changes in them.
        self.shell_lines = ShellLines(session, lambda: self.feed.note_state())
        self.feed = Feed(session, self.view, self.make_state, on_news)
        self.answered_by: dict[str, str] = {}
        self.files = WorkspaceFiles(FuzzyIndex)
        self.lock = trio.Lock()
        self.is_own = is_own
        self.moved_at = 0
        self.is_only_read = is_own
        self.used_at = trio.current_time()
        self._uses = 0
        self._unused = trio.Event()
        self._unused.set()

    def make_state(self) -> SessionState:
        """Return the state of the session, as readers and operations see it."""
        return describe_state(self, self.branch)

    def rename(self, title: str) -> None:
        """Note a new title, and show it to readers."""
        self.title = title
        self.feed.note_state()

    def note_answer(self, identity: str, user: User) -> None:
        """Remember who answered an approval or a question, for other readers.

        A terminal of the same process reads it from the session.
        """
        for answers in (self.answered_by, self.session.answered_on_page):
            answers[identity] = user.name
            while len(answers) > MAX_ANSWERS:
                del answers[next(iter(answers))]

    @property
    def id(self) -> str:
        """Id of the session."""
        return self.session.id

    @property
    def last(self) -> int:
        """Sequence number of the last event in the log."""
        return self.session.journal.last

    @property
    def is_busy(self) -> bool:
        """Whether an operation, a reader, a run or a user's command needs the session open.

        A command also does after its end, until the agent has read its output.
        """
        is_used = self._uses > 0 or self.shell_lines.is_running
        return is_used or bool(self.session.runs) or len(self.session.unread_outputs) > 0

    def check_reached(self, after: int) -> None:
        """Check that the log has an event of which a client says that it has it.

        Raises:
            Problem: The client is ahead of the log, so it would silently miss events (400).
        """
        if after > self.last:
            text = f"The session has only {self.last} events, not {after}."
            raise Problem(400, E_BAD_ARGS, text, "Start again with after=0.")

    async def catch_up(self) -> bool:
        """Wait until the view and the readers' feed contain the log as it is now.

        Returns:
            Whether they do; false if it takes too long or the feed has ended.
        """
        wanted = self.last
        with trio.move_on_after(CATCH_UP_SECONDS):
            await self.feed.reached(wanted)
        return self.feed.seq >= wanted

    @asynccontextmanager
    async def use(self) -> AsyncIterator[HostedSession]:
        """Keep the session open within the block."""
        if self._uses == 0:
            self._unused = trio.Event()
        self._uses += 1
        try:
            yield self
        finally:
            self._uses -= 1
            self.used_at = trio.current_time()
            if self._uses == 0:
                self._unused.set()

    async def wait_unused(self) -> None:
        """Wait until no operation and no reader uses the session."""
        await self._unused.wait()


class _Opening:
    """A session that is being opened, is open, or is being closed.

    Args:
        workspace: The real path of its folder.
        last: Number of its last event.
        resumes: Whether to continue the runs that were left in it.
    """

    def __init__(self, workspace: Path, last: int = 0, *, resumes: bool = False) -> None:
        self.workspace = workspace
        self.last = last
        self.resumes = resumes
        self.ready = trio.Event()
        self.close = trio.Event()
        self.closed = trio.Event()
        self.hosted: HostedSession | None = None
        self.error: HilumError | None = None


class Hub:
    """The sessions of one server.

    Args:
        nursery: The nursery for the sessions' tasks.
        store: The store that lists the sessions.
        workspaces: The real paths of the folders that the server works in.
        options: Further arguments of ``open_standard_session``, for each session.
        idle_seconds: Seconds after which an unused session is closed.
        environ: The environment of the sessions.
        note_error: Function that is called with unexpected errors.
        group: The group of servers that this one belongs to, if any.

    Attributes:
        store: The store that lists the sessions.
        workspaces: The real paths of the folders that the server works in.
        exports: Limits the number of exports that are worked on at the same time.
        instance: A random text that changes with each start of the server; servers of a group have
            the same one for ever.
        on_news: Function that is called when a session has something new for its readers.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        store: Store,
        workspaces: Sequence[Path],
        *,
        options: Mapping[str, Any] | None = None,
        idle_seconds: float = 600.0,
        environ: Mapping[str, str] = os.environ,
        note_error: Callable[[BaseException], None] = lambda error: None,
        group: PeerGroup | None = None,
    ) -> None:
        self.store = store
        self.workspaces = list(workspaces)
        self.exports = trio.CapacityLimiter(MAX_EXPORTS)
        # A client of several servers does not know which of them it reaches.
        self.instance = os.urandom(8).hex() if group is None else group.instance
        self.on_news: Callable[[], None] = lambda: None
        self._nursery = nursery
        self._options = dict(options or {})
        self._idle_seconds = max(idle_seconds, MIN_IDLE_SECONDS)
        self._environ = environ
        self._note_error = note_error
        self._group = group
        self._open: dict[str, _Opening] = {}
        # New sessions, which have no id before they are open.
        self._new: set[_Opening] = set()
        # The last number and the move (``moved_at``) of sessions that were open here.
        self._left: dict[str, tuple[int, int]] = {}
        self._is_closing = False

    # --- finding ----------------------------------------------------------------------------------

    def folders_of(self, user: User) -> list[Path]:
        """Return the folders whose sessions a user may use."""
        return [folder for folder in self.workspaces if user.may_enter(folder)]

    def find_hosted(self, session: str) -> HostedSession | None:
        """Return a session if the server has it open."""
        opening = self._open.get(session)
        return opening.hosted if opening is not None and not opening.close.is_set() else None

    async def holds(self, session: str, user: User) -> bool:
        """Return whether the server has a user's session open, after waiting for one that closes."""
        while (opening := self._open.get(session)) is not None:
            # As in ``use``: nobody else may see what is open.
            if not user.may_enter(opening.workspace):
                return False
            if not opening.close.is_set():
                return True
            await opening.closed.wait()
        return False

    async def find_holders(self, infos: Sequence[SessionInfo]) -> Mapping[str, LeaseHolder]:
        """Return who has sessions open in other processes, as far as servers share sessions."""
        if self._group is None or not isinstance(self.store, SharedStore):
            return {}
        closed = [info.id for info in infos if self.find_hosted(info.id) is None]
        found = await self.store.find_holders(closed)
        return {session: holder for session, holder in found.items() if holder.holds}

    async def find_info(self, session: str, user: User) -> SessionInfo:
        """Return the description of a session that a user may use.

        Raises:
            StoreError: The session does not exist, or the user may not use it (``E_UNKNOWN``).
        """
        hosted = self.find_hosted(session)
        if hosted is not None and not hosted.is_own and user.may_enter(hosted.workspace):
            return SessionInfo(hosted.id, str(hosted.workspace), hosted.session.kind, hosted.title)
        try:
            info = await self.store.info(session) if is_session_id(session) else None
        except StoreError as error:
            # The store also finds sessions by the beginning of their id, and names all of them.
            if error.code != E_UNKNOWN:
                raise
            info = None
        # An id must be complete, so that a session has one address. A session that is not the
        # user's is answered like one that does not exist.
        if info is None or info.id != session or not self._may_use(info, user):
            raise unknown_session()
        return info

    def _may_use(self, info: SessionInfo, user: User) -> bool:
        folder = Path(unspell_folder(info.workspace))
        return folder in self.workspaces and user.may_enter(folder)

    async def list_sessions(self, user: User) -> list[SessionInfo]:
        """Return the sessions that a user may use, most recently used first."""
        infos = await self.store.list()
        return [info for info in infos if self._may_use(info, user) or self._is_shared(info, user)]

    def _is_shared(self, info: SessionInfo, user: User) -> bool:
        """Return whether a terminal in this process has a session open and shares it."""
        hosted = self.find_hosted(info.id)
        return hosted is not None and not hosted.is_own and user.may_enter(hosted.workspace)

    # --- opening ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def use(
        self, session: str, user: User, *, resumes: bool = False, reads: bool = False
    ) -> AsyncIterator[HostedSession]:
        """Open a session if it is closed, and keep it open within the block.

        Args:
            session: The id of the session.
            user: Who uses it.
            resumes: Whether opening it continues the runs that were left in it.
            reads: Whether it is only looked at. Then it is not taken from a process that lost its
                connection to the store a moment ago, and others can open it again soon.

        Raises:
            HilumError: The session does not exist, may not be used, or cannot be opened.
        """
        while True:
            opening = self._open.get(session)
            # Whether others have a session open must not show: not in the errors of its opening, and
            # not in the time that opening and closing take.
            if opening is None or not user.may_enter(opening.workspace):
                info = await self.find_info(session, user)
                if opening is not None:
                    raise unknown_session()
                if reads:
                    await self._check_not_away(session)
                # Another request may have opened it meanwhile.
                if session in self._open:
                    continue
                opening = _Opening(
                    Path(unspell_folder(info.workspace)), info.events, resumes=resumes
                )
                self._start(opening, info.id, info.title)
            if opening.close.is_set():
                await opening.closed.wait()
                continue
            await opening.ready.wait()
            if opening.error is not None:
                raise opening.error
            if not opening.close.is_set():
                break
        hosted = opening.hosted
        assert hosted is not None
        if not reads:
            hosted.is_only_read = False
        async with hosted.use():
            yield hosted

    async def _check_not_away(self, session: str) -> None:
        """Check that no process has a session open that cannot reach the store at the moment.

        Its lease is free, but its run goes on, and would end if the session were opened here.

        Raises:
            SessionBusy: One has.
        """
        if not isinstance(self.store, SharedStore):
            return
        holder = (await self.store.find_holders([session])).get(session)
        if holder is None or holder.holds or not await self.store.is_open(session):
            return
        raise SessionBusy(
            f"Process {holder.pid} on {holder.host} has the session open, and has lost its connection"
            " to the database.",
            hint="Try again in half a minute.",
            holder=holder,
        )

    async def create(
        self,
        workspace: Path,
        user: User,
        *,
        title: str = "",
        model: str = "",
        mode: str | None = None,
        approve: str | None = None,
    ) -> HostedSession:
        """Open a new session.

        Raises:
            HilumError: The folder is not the user's, or the session cannot be opened.
        """
        if workspace not in self.folders_of(user):
            raise UsageError(
                "The server does not work in this folder, or your token does not include it.",
                code=E_UNKNOWN,
                hint="GET /api/workspaces lists the folders.",
            )
        options = {"model": model, "mode": mode, "approve": approve}
        opening = _Opening(workspace)
        self._start(opening, "", title, options)
        await opening.ready.wait()
        if opening.error is not None:
            raise opening.error
        assert opening.hosted is not None
        opening.hosted.is_only_read = False
        return opening.hosted

    async def close(self, session: str) -> None:
        """Close a session after its operations have ended; its runs are stopped."""
        opening = self._open.get(session)
        if opening is not None:
            opening.close.set()
            await opening.closed.wait()

    async def delete(self, session: str, workspace: Path) -> None:
        """Close a session and delete it; requests that would open it wait meanwhile.

        Raises:
            StoreError: The session does not exist, or another process has it open.
        """
        while (opening := self._open.get(session)) is not None and opening.close.is_set():
            await opening.closed.wait()
        # A reader that returns as soon as the session closes must not open it again.
        barrier = _Opening(workspace)
        barrier.close.set()
        self._open[session] = barrier
        try:
            if opening is not None:
                opening.close.set()
                await opening.closed.wait()
            await self.store.delete(session)
        finally:
            del self._open[session]
            barrier.closed.set()

    async def close_all(self) -> None:
        """Close all sessions, and open no more."""
        self._is_closing = True
        openings = [*self._open.values(), *self._new]
        for opening in openings:
            opening.close.set()
        for opening in openings:
            await opening.closed.wait()

    @asynccontextmanager
    async def host(self, session: Session, title: str = "") -> AsyncIterator[HostedSession]:
        """Serve a session that the caller has open, as long as the block runs."""
        root = Path(session.workspace.root)
        hosted = HostedSession(session, root, title, is_own=False, on_news=self.on_news)
        opening = _Opening(root)
        opening.hosted = hosted
        opening.ready.set()
        if session.id in self._open:
            raise UsageError("The session is being served already.", code=E_BUSY)
        self._open[session.id] = opening
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hosted.feed.run)
                _start_watching(nursery, hosted)
                await hosted.feed.reached(hosted.last)
                yield hosted
                nursery.cancel_scope.cancel()
        finally:
            opening.close.set()
            hosted.feed.end("closed")
            self._open.pop(session.id, None)
            opening.closed.set()

    def _start(
        self,
        opening: _Opening,
        session: str,
        title: str,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Start the task that opens a session and closes it."""
        if self._is_closing:
            raise Problem(503, E_FAILED, "The server is stopping.", "Connect again in a moment.")
        if len(self._open) + len(self._new) >= MAX_OPEN:
            raise Problem(
                429,
                E_RATE,
                f"The server has {MAX_OPEN} sessions open, which is the limit.",
                "Close some of them, or wait until unused ones are closed.",
                headers=(("retry-after", "10"),),
            )
        if session:
            self._open[session] = opening
        else:
            self._new.add(opening)
        self._nursery.start_soon(self._run, opening, session, title, options or {})

    async def _run(
        self,
        opening: _Opening,
        session: str,
        title: str,
        options: Mapping[str, Any],
    ) -> None:
        """Open a session, serve it until it is closed, and contain its errors."""
        identity = session
        workspace = opening.workspace
        try:
            async with AsyncExitStack() as stack:
                hosted = await self._enter(stack, session, workspace, title, options)
                if self._group is not None and identity:
                    hosted.moved_at = self._find_move(identity, opening.last)
                identity = hosted.id
                self._open[identity] = opening
                self._new.discard(opening)
                await self._serve(opening, hosted)
        except Exception as error:
            # Whatever happens in a session must not end the others.
            opening.error = self._explain(error, workspace)
        except BaseExceptionGroup as group:
            ours, others = group.split(Exception)
            if ours is not None:
                opening.error = self._explain(ours, workspace)
            # Ctrl-C and cancellation are not errors of the session.
            if others is not None:
                raise others from None
        finally:
            if opening.hosted is not None:
                opening.hosted.feed.end("closed")
                self._note_left(opening.hosted)
            opening.close.set()
            self._new.discard(opening)
            if self._open.get(identity) is opening:
                del self._open[identity]
            opening.ready.set()
            opening.closed.set()

    def _find_move(self, session: str, last: int) -> int:
        """Return the number up to which another server may have written to a session; 0 for none."""
        left = self._left.get(session)
        return left[1] if left is not None and left[0] == last else last

    def _note_left(self, hosted: HostedSession) -> None:
        """Remember where a session ended that is closed. If it ends there later, it did not move."""
        if self._group is None:
            return
        self._left.pop(hosted.id, None)
        self._left[hosted.id] = (hosted.last, hosted.moved_at)
        if len(self._left) > MAX_LEFT:
            del self._left[next(iter(self._left))]

    async def _enter(
        self,
        stack: AsyncExitStack,
        session: str,
        workspace: Path,
        title: str,
        options: Mapping[str, Any],
    ) -> HostedSession:
        await check_folder(workspace)
        given = {**self._options, **options}
        prepare: Callable[[Kernel], object] | None = given.pop("prepare", None)

        def announce(kernel: Kernel) -> None:
            if prepare is not None:
                prepare(kernel)
            if self._group is not None and isinstance(kernel.store, SharedStore):
                kernel.store.announce(self._group.announcement)

        opening = partial(
            open_standard_session,
            workspace,
            resume=session,
            attended=True,
            needs_model=False,
            share=True,
            environ=self._environ,
            prepare=announce,
        )
        opened = await stack.enter_async_context(opening(**given))
        # The folder may have been replaced since the check.
        if opened.workspace.root != workspace:
            raise _replaced(workspace)
        if not session and title:
            await opened.kernel.store.rename(opened.id, title)
        return HostedSession(opened, workspace, title, on_news=self.on_news)

    async def _serve(self, opening: _Opening, hosted: HostedSession) -> None:
        """Keep a session open until it is to be closed, or nobody has used it for a while."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hosted.feed.run)
            await hosted.feed.reached(hosted.last)
            if opening.resumes and not isinstance(hosted.session, JoinedSession):
                # The server that ran them has died, and nobody would know that they must be resumed.
                # If that is not possible, users learn why when they resume them.
                with suppress(HilumError):
                    hosted.session.resume()
            opening.hosted = hosted
            opening.ready.set()
            _start_watching(nursery, hosted)
            nursery.start_soon(self._close_when_idle, opening, hosted)
            nursery.start_soon(self._close_when_ended, opening, hosted)
            await opening.close.wait()
            hosted.feed.end("restart" if self._is_closing else "closed")
            with trio.move_on_after(CLOSE_SECONDS):
                await hosted.wait_unused()
            nursery.cancel_scope.cancel()

    async def _close_when_idle(self, opening: _Opening, hosted: HostedSession) -> None:
        while True:
            idle = trio.current_time() - hosted.used_at
            if hosted.session.runs:
                hosted.is_only_read = False
            limit = self._idle_seconds
            if hosted.is_only_read:
                limit = min(limit, READ_SECONDS)
            if hosted.is_busy:
                hosted.used_at = trio.current_time()
            elif idle >= limit:
                opening.close.set()
                return
            await trio.sleep(min(max(limit - idle, IDLE_CHECK_SECONDS), 30))

    async def _close_when_ended(self, opening: _Opening, hosted: HostedSession) -> None:
        """Close a session whose log broke, or whose owner in another process has left."""
        if isinstance(hosted.session, JoinedSession):
            await hosted.session.lost.wait()
            # Readers come back at once, and the session then opens here.
            hosted.feed.end("restart")
        await hosted.feed.ended.wait()
        opening.close.set()

    def _explain(self, error: BaseException, workspace: Path) -> HilumError:
        """Return the error that users get when a session failed."""
        first = error
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, HilumError):
            return first
        self._note_error(error)
        return Problem(
            503,
            E_FAILED,
            f"A session in {workspace.name} ended because of an error ({type(first).__name__}).",
            "Open it again to continue; the server's terminal shows what happened.",
        )


def _start_watching(nursery: trio.Nursery, hosted: HostedSession) -> None:
    """Start what keeps the state of an open session up to date, and let users run commands."""
    hosted.shell_lines.open(nursery)
    nursery.start_soon(_watch_branch, hosted)
    nursery.start_soon(watch_background_commands, hosted.session, hosted.feed)


async def _watch_branch(hosted: HostedSession) -> None:
    """Keep the name of the git branch up to date while somebody uses the session."""
    while True:
        if hosted.is_busy or not hosted.branch:
            branch = await trio.to_thread.run_sync(find_branch, hosted.workspace)
            if branch != hosted.branch:
                hosted.branch = branch
                hosted.feed.note_state()
        await trio.sleep(BRANCH_SECONDS)


async def check_folder(workspace: Path) -> None:
    """Check that a session's folder exists and has not been replaced by a link.

    Tokens are limited to folders by their real paths, so a link would open another folder to them.

    Args:
        workspace: The real path that the folder had when the server started.

    Raises:
        Problem: The folder is missing or leads to another one (404).
    """
    if not await trio.to_thread.run_sync(workspace.is_dir):
        raise Problem(
            404,
            E_NOT_FOUND,
            f"The folder {workspace} no longer exists.",
            "Restore the folder, or export or delete the session.",
        )
    if await trio.to_thread.run_sync(os.path.realpath, workspace) != str(workspace):
        raise _replaced(workspace)


def _replaced(workspace: Path) -> Problem:
    # Where the link leads is not told, because the user may not be allowed to see that folder.
    return Problem(
        404,
        E_NOT_FOUND,
        f"The folder {workspace} was replaced by a link.",
        "Restore the folder, or export or delete the session.",
    )


def unknown_session() -> Problem:
    """Return the error for a session that does not exist or is not the user's."""
    return Problem(404, E_UNKNOWN, "There is no such session.", "GET /api/sessions lists them.")


def is_session_id(text: str) -> bool:
    """Return whether a text has the form of a session's id."""
    if not text.isascii() or len(text) > MAX_ID or text.startswith("."):
        return False
    return all(each.isalnum() or each in "-_." for each in text)
