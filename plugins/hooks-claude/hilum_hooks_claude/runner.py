"""Runs the command of a hook: in the sandbox, with a time limit and a limit on its output."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import attrs
import hilum_guard
import trio
from hilum import HilumError, ToolDenied
from msgspec.structs import replace

from hilum_hooks_claude.answers import BLOCK_CODE, READ_ONLY, Answer, read_answer, read_failure
from hilum_hooks_claude.hook import Hook
from hilum_hooks_claude.settings import HooksSettings

if TYPE_CHECKING:
    from hilum import Session

MAX_KEPT = 1_000_000
"""Maximum number of bytes of each output stream that are read."""
MAX_OUTPUT = 8_000_000
"""Maximum number of bytes that a hook may write before it is ended."""
PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"
# `npx prettier` and `uv run` are in many hooks. Without a network, they would repeat their requests.
_OFFLINE = {"npm_config_fetch_retries": "0", "UV_OFFLINE": "1"}
# What programs say that cannot reach a server.
_NO_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ENETUNREACH|ECONNREFUSED|could not resolve host|name resolution"
    r"|name or service not known|network is unreachable|network is down|network was disabled"
    r"|set to offline mode",
    re.IGNORECASE,
)
_ABOUT_NETWORK = "Hooks have no network (setting hooks_claude.network)."
_ABOUT_FILES = (
    "Hooks write only to the project, except .claude, and to folders in the setting guard.writable."
)
# `uv run` ends with 2, as a hook that blocks, if it cannot run the script.
_UV = re.compile(r"(?:^|[\s;&|(/])uvx?\s")
_UV_FAILED = re.compile(
    r"error: (?:Failed to (?:spawn|fetch|download)|No solution found|No interpreter found"
    r"|Request failed|Could not acquire lock)"
)
# Short, because a call waits for the end of its hooks.
_GRACE = 0.5


@attrs.frozen
class Outcome:
    """How one hook ended.

    Attributes:
        answer: What it answered, or why it failed.
        code: Its exit code; ``None`` if it did not end by itself.
        seconds: How long it took.
    """

    answer: Answer
    code: int | None = None
    seconds: float = 0.0


class HookRunner:
    """Runs hooks in a session.

    Args:
        session: The session.
        settings: The plugin's settings.
    """

    def __init__(self, session: Session, settings: HooksSettings) -> None:
        self._session = session
        self._settings = settings

    def time_limit(self, hook: Hook) -> float:
        """Return the number of seconds that a hook may take."""
        return min(hook.timeout or self._settings.timeout, self._settings.max_timeout)

    async def run(
        self, hook: Hook, given: bytes, shown: Sequence[str] = (), limit: float = 0.0
    ) -> Outcome:
        """Run a hook and return its answer. A hook that does not work has a failure as its answer.

        Args:
            hook: The hook.
            given: What it reads from its standard input.
            shown: Files in temporary folders that it may read.
            limit: Seconds that it may take, if that is not its own time limit.
        """
        began = time.perf_counter()
        seconds = limit or self.time_limit(hook)
        try:
            required = await self._require_sandbox()
            with trio.move_on_after(seconds) as scope:
                outcome = await self._run_command(hook, given, shown, required)
            if scope.cancelled_caught:
                outcome = Outcome(Answer(failure=f"It did not end within {seconds:g} seconds."))
        except HilumError as error:
            outcome = Outcome(Answer(failure=f"It could not be run: {error.message}"))
        except OSError as error:
            outcome = Outcome(Answer(failure=f"It could not be run: {error}."))
        return attrs.evolve(outcome, seconds=round(time.perf_counter() - began, 3))

    async def _require_sandbox(self) -> hilum_guard.Enforcement | None:
        """Check that a sandbox confines the hooks.

        Returns:
            What the sandbox enforces; None if the user lets hooks run without one.

        Raises:
            ToolDenied: Nothing confines them, and the user has not allowed that.
        """
        if self._settings.unsandboxed:
            return None
        guard = find_guard(self._session)
        if guard is not None:
            enforced = await guard.sandbox.enforced()
            if enforced.by:
                return enforced
        raise ToolDenied(
            "There is no sandbox for it, so it is not run (setting hooks_claude.unsandboxed)."
        )

    async def _run_command(
        self,
        hook: Hook,
        given: bytes,
        shown: Sequence[str],
        required: hilum_guard.Enforcement | None,
    ) -> Outcome:
        root = str(self._session.workspace.root)
        argv = make_command(hook, root)
        written = 0
        scope = trio.CancelScope()

        def count(_stream: str, chunk: bytes) -> None:
            nonlocal written
            written += len(chunk)
            if written > MAX_OUTPUT:
                scope.cancel()

        with scope, self._widen(argv, shown, required):
            done = await self._session.processes.run(
                argv,
                cwd=root,
                env={PROJECT_VARIABLE: root, **self._offline()},
                input=given,
                on_output=count,
                limit=MAX_KEPT,
                grace=_GRACE,
            )
            stdout = done.stdout.decode(errors="replace")
            stderr = done.stderr.decode(errors="replace")
            if _is_failure_of_uv(hook, done.returncode, stderr):
                answer = read_failure(done.returncode, stderr)
            else:
                answer = read_answer(hook.event, done.returncode, stdout, stderr)
            return Outcome(self._explain(answer, stderr), done.returncode)
        megabytes = MAX_OUTPUT // 1_000_000
        return Outcome(Answer(failure=f"It wrote more than {megabytes} MB, so it was ended."))

    def _explain(self, answer: Answer, stderr: str) -> Answer:
        """Add to a failure what the sandbox has to do with it."""
        about = ""
        if answer.failure and not self._settings.network and _NO_NETWORK.search(stderr):
            about = _ABOUT_NETWORK
        elif answer.failure and not self._settings.unsandboxed and READ_ONLY.search(stderr):
            about = _ABOUT_FILES
        if not about:
            return answer
        return replace(answer, failure=f"{answer.failure.rstrip('.')}. {about}")

    def _offline(self) -> dict[str, str]:
        """Return the variables without which programs wait for a network that does not exist."""
        return {} if self._settings.network else _OFFLINE

    def _widen(
        self,
        argv: Sequence[str],
        shown: Sequence[str],
        required: hilum_guard.Enforcement | None,
    ) -> AbstractContextManager[None]:
        guard = find_guard(self._session)
        if guard is None:
            return nullcontext()
        access = hilum_guard.ExtraAccess(
            network=self._settings.network, shown=tuple(shown), required=required
        )
        return guard.widen(argv, access)


def _is_failure_of_uv(hook: Hook, code: int, stderr: str) -> bool:
    """Return whether `uv` ended a hook with the code for blocking, because it could not run it."""
    if code != BLOCK_CODE or _UV_FAILED.match(stderr.lstrip()) is None:
        return False
    return _UV.search(" ".join((hook.command, *(hook.arguments or ()), ""))) is not None


def find_guard(session: Session) -> hilum_guard.Guard | None:
    """Return what confines the processes of a session; ``None`` if the guard was left out."""
    return session.plugin(hilum_guard.Guard)


def make_command(hook: Hook, root: str) -> tuple[str, ...]:
    """Return the program and the arguments of a hook.

    Args:
        hook: The hook.
        root: The workspace.
    """
    if hook.arguments is None:
        shell = shutil.which("bash") or "/bin/sh"
        return (shell, "-c", hook.command)
    words = (hook.command, *hook.arguments)
    program, *arguments = (word.replace(f"${{{PROJECT_VARIABLE}}}", root) for word in words)
    return (os.path.expanduser(program), *arguments)
