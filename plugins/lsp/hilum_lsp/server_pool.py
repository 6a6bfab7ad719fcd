"""The language servers of a session, and which of them serves a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import ToolError, errors
from hilum_lint.project import CheckerUse, LintProject
from hilum_lint.trust import may_run_code

from hilum_lsp.server_process import ServerProcess
from hilum_lsp.servers import SERVERS, LanguageServer

if TYPE_CHECKING:
    from hilum import Session

    from hilum_lsp.settings import LspSettings

# Maximum number of servers that run at once: a repository may contain many projects.
MAX_RUNNING = 6


@attrs.define(eq=False)
class ServerPool:
    """The servers of a session, each for one folder.

    Args:
        session: The session.
        nursery: The nursery for the servers' tasks, which end with the session.
        settings: The settings.
    """

    session: Session
    nursery: trio.Nursery
    settings: LspSettings
    _processes: dict[tuple[str, str, Path], ServerProcess] = attrs.Factory(dict)

    def running(self) -> list[ServerProcess]:
        """Return the servers that find definitions and run."""
        found = []
        for each in self._processes.values():
            if each.is_ready and each.server.navigates:
                found.append(each)
        return found

    def find_checker(self, checker: str, program: str, folder: Path) -> ServerProcess | None:
        """Return the server that has the diagnostics of a checker; ``None`` if it was not started.

        Args:
            checker: Name of the checker in ``hilum-lint``.
            program: Path of the checker's program.
            folder: The folder in which the checker runs.
        """
        server = _find_server(checker)
        if server is None:
            return None
        program = _find_sibling(program, server)
        return self._processes.get((server.name, program, folder))

    def start_checker(self, checker: str, program: str, folder: Path) -> None:
        """Start the server that has the diagnostics of a checker, if there is one.

        ``hilum-lint`` has found the checker's program and decided that it may run.
        """
        server = _find_server(checker)
        if server is None or not self._may_start(server):
            return
        path = _find_sibling(program, server)
        if path:
            self._get(server, path, folder).start()

    def _may_start(self, server: LanguageServer) -> bool:
        return self.settings.enabled and server.name not in self.settings.off

    def _get(self, server: LanguageServer, program: str, folder: Path) -> ServerProcess:
        """Return a server's process, which is created but not started at first use."""
        key = (server.name, program, folder)
        if key not in self._processes:
            self._processes[key] = ServerProcess(
                self.session,
                self.nursery,
                server,
                program,
                folder,
                self.settings,
                self._make_room,
            )
        return self._processes[key]

    def _make_room(self) -> None:
        """End the server that was used longest ago if no further one may start."""
        started = [each for each in self._processes.values() if each.is_started]
        if len(started) >= MAX_RUNNING:
            min(started, key=lambda each: each.last_use).end()

    async def find_navigator(self, path: Path) -> ServerProcess:
        """Return the server that finds definitions in a file; it may not run yet.

        Args:
            path: The file, resolved.

        Raises:
            ToolError: ``E_NOT_INSTALLED`` if no server for the file may run, ``E_NOT_CONFIGURED``
                if the user has switched the servers off.
        """
        if not self.settings.enabled:
            raise ToolError(
                "Language servers are switched off (lsp.enabled).",
                code=errors.E_NOT_CONFIGURED,
                hint="Use search_files.",
            )
        uses = await trio.to_thread.run_sync(self._plan, path, abandon_on_cancel=True)
        problems: dict[str, None] = {}
        by_name = {server.name: server for server in SERVERS}
        for use in uses:
            server = by_name[use.checker.name]
            if not use.program:
                problems[f"{server.name}: {use.problem}"] = None
                self._end_refused(server, use)
                continue
            problem = await trio.to_thread.run_sync(server.find_problem, use.program)
            if problem:
                problems[f"{server.name}: {problem}"] = None
                continue
            process = self._get(server, use.program, use.folder)
            if not process.given_up:
                return process
            problems[f"{server.name}: {process.given_up.rstrip('.')}"] = None
        raise self._make_error(path, list(problems))

    def _make_error(self, path: Path, problems: Sequence[str]) -> ToolError:
        """Create the error of a file for which no server may run.

        Args:
            path: The file.
            problems: Why each server that is installed cannot be used.
        """
        kind = path.suffix or path.name
        known = [each for each in SERVERS if each.navigates and path.suffix in each.languages]
        if not known:
            return ToolError(
                f"hilum knows no language server for {kind} files.",
                code=errors.E_NOT_INSTALLED,
                hint="Use search_files.",
            )
        off = [f"{each.name} is switched off" for each in known if not self._may_start(each)]
        names = [each.name for each in known if self._may_start(each)]
        reasons = "; ".join([*problems, *off])
        advice = f"; the user may install {' or '.join(names)}" if names else ""
        if any("not trusted" in problem for problem in problems):
            advice += ", or trust this folder (hilum trust)"
        return ToolError(
            f"There is no language server for {kind} files{f' ({reasons})' if reasons else ''}.",
            code=errors.E_NOT_INSTALLED,
            hint=f"Use search_files{advice}.",
        )

    def _plan(self, path: Path) -> list[CheckerUse]:
        """Return the servers for a file: first those that the project configures. Blocks."""
        trusted = may_run_code(self.session)
        servers = [each for each in SERVERS if each.navigates and self._may_start(each)]
        uses: list[CheckerUse] = []
        for always in (False, True):
            checkers = [each.as_checker(always=always) for each in servers]
            project = LintProject(self.session.workspace, checkers, trusted)
            uses += project.plan([path])
        return uses

    def _end_refused(self, server: LanguageServer, use: CheckerUse) -> None:
        """End a running server that may no longer run, for example because trust was withdrawn."""
        for (name, _, folder), process in self._processes.items():
            if name == server.name and folder == use.folder:
                process.end()


def _find_server(checker: str) -> LanguageServer | None:
    return next((each for each in SERVERS if checker and each.checker == checker), None)


def _find_sibling(program: str, server: LanguageServer) -> str:
    """Return the path of a server that is installed together with its checker.

    Args:
        program: Path of the checker's program.
        server: The server, whose program may have another name.
    """
    path = Path(program)
    return str(path.with_name(server.program)) if program else ""
