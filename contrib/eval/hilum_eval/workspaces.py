"""Prepares the workspaces of attempts: git repositories with the files of a case."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import trio
from hilum import HilumError, remove_folder
from hilum.errors import E_CMD_FAIL, E_STORE, E_TIMEOUT
from hilum.processes import Command, CommandError, Completed, Warden

from hilum_eval.agents.command_template import HILUM
from hilum_eval.arm import Arm
from hilum_eval.case import Case
from hilum_eval.case_reader import FILES

RULES_FILE = "AGENTS.md"
SETUP_TIMEOUT = 300.0
"""Time limit of one setup command, in seconds."""
# The same author and time for every attempt, so that the repositories are equal.
_GIT_ENVIRON = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    # For repositories inside the files of a case.
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.hooksPath",
    "GIT_CONFIG_VALUE_1": os.devnull,
    "GIT_AUTHOR_NAME": "Developer",
    "GIT_AUTHOR_EMAIL": "developer@example.com",
    "GIT_AUTHOR_DATE": "2026-01-05T09:00:00+00:00",
    "GIT_COMMITTER_NAME": "Developer",
    "GIT_COMMITTER_EMAIL": "developer@example.com",
    "GIT_COMMITTER_DATE": "2026-01-05T09:00:00+00:00",
}
_GIT_COMMANDS = (
    ("init", "-q", "-b", "main"),
    ("add", "-A", "-f"),
    ("commit", "-q", "--allow-empty", "-m", "Initial state"),
)
# What child processes need of the environment; everything else would differ between machines.
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "PYTHONPATH")
_PRIVATE_PREFIXES = ("HILUM_", "XDG_", "VIRTUAL_ENV", "CONDA")


class FixtureError(HilumError):
    """The workspace of an attempt cannot be prepared."""

    code = E_CMD_FAIL


@attrs.frozen
class Place:
    """The folders of one attempt.

    Args:
        folder: The folder that contains the others.
    """

    folder: Path

    @property
    def workspace(self) -> Path:
        """The folder in which the agent works."""
        return self.folder / "project"

    @property
    def home(self) -> Path:
        """The home folder of the agent."""
        return self.folder / "home"

    @property
    def scratch(self) -> Path:
        """A folder for files of the agent, with its folder for temporary files."""
        return self.folder / "scratch"

    @property
    def prompts(self) -> Path:
        """The folder with the prompts, which an agent in a sandbox cannot change."""
        return self.folder / "prompts"

    @property
    def record(self) -> Path:
        """A folder for files of the measurement, which an agent in a sandbox does not see."""
        return self.folder / "record"

    @property
    def writable(self) -> tuple[Path, ...]:
        """The folders that the agent and the verifier can change."""
        return (self.workspace, self.home, self.scratch)

    def create(self) -> None:
        """Create the folders, except for the workspace."""
        for folder in (self.home, self.scratch / "tmp", self.prompts, self.record / "tmp"):
            folder.mkdir(parents=True)

    def remove(self) -> None:
        """Remove everything, also what an agent made read-only."""
        shutil.rmtree(self.folder, onerror=_make_removable)


class Workspaces:
    """Prepares workspaces. The files of a case are committed only once, and then copied.

    Args:
        warden: Runs git and the setup commands.
        base: The folder in which all workspaces are.
    """

    def __init__(self, warden: Warden, base: Path) -> None:
        self._warden = warden
        self._base = base
        self._locks: dict[str, trio.Lock] = {}

    async def prepare(self, case: Case, arm: Arm, repeat: int) -> Place:
        """Create the folders of an attempt, and run the setup commands of its case.

        Raises:
            FixtureError: A file cannot be copied, or a command failed.
        """
        name = f"{case.id}-{repeat}-"
        try:
            template = await self._find_template(case, arm)
            # The folder of the templates is inside, so it exists by now.
            folder = await trio.to_thread.run_sync(
                partial(tempfile.mkdtemp, prefix=name, dir=self._base)
            )
            place = Place(Path(folder))
            await trio.to_thread.run_sync(_copy_template, template, place)
        except OSError as error:
            raise FixtureError(
                f"The workspace cannot be created: {error.strerror or error}.",
                code=E_STORE,
                hint="Free some disk space, or set TMPDIR to another folder.",
            ) from None
        try:
            await self._set_up(case, arm, place)
        except BaseException:
            # The caller does not get the place, so nobody else would remove it.
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(place.remove)
            raise
        return place

    async def _set_up(self, case: Case, arm: Arm, place: Place) -> None:
        """Run the setup commands of a case."""
        environ = make_environ(arm, place)
        for command in case.setup:
            argv = ("/bin/sh", "-c", command)
            done = await self._run(Command(argv, str(place.workspace), environ), command)
            if done.returncode:
                raise FixtureError(
                    f"The setup command `{command}` failed with exit code {done.returncode}:"
                    f" {get_last_line(done)}",
                    hint="Correct `setup` in the file case.yaml.",
                )

    async def _find_template(self, case: Case, arm: Arm) -> Path:
        """Return the repository with the files of a case; create it at the first attempt."""
        # The instructions of other agents are part of the files.
        instructions = _find_instructions(arm)
        key = f"{case.id}-{hashlib.sha256(instructions.encode()).hexdigest()[:8]}"
        template = self._base / "templates" / key
        async with self._locks.setdefault(key, trio.Lock()):
            if (template / ".git").is_dir():
                return template
            partial_template = template.with_name(f"{key}.part")
            await trio.to_thread.run_sync(_copy_files, case, arm, partial_template)
            environ = {**_GIT_ENVIRON, "PATH": os.environ.get("PATH", os.defpath)}
            for arguments in _GIT_COMMANDS:
                command = Command(("git", *arguments), str(partial_template), environ)
                done = await self._run(command, f"git {arguments[0]}")
                if done.returncode:
                    raise FixtureError(
                        f"`git {arguments[0]}` failed in the files of {case.id}:"
                        f" {get_last_line(done)}"
                    )
            partial_template.rename(template)
        return template

    async def _run(self, command: Command, name: str) -> Completed:
        with trio.move_on_after(SETUP_TIMEOUT):
            try:
                return await self._warden.run(command)
            except CommandError as error:
                raise FixtureError(error.message, hint=error.hint) from None
        raise FixtureError(
            f"`{name}` did not end within {SETUP_TIMEOUT:g} seconds.", code=E_TIMEOUT
        )


def make_environ(arm: Arm, place: Place, *, live: bool = False) -> dict[str, str]:
    """Return the environment of an agent.

    Args:
        arm: The arm, whose variables are added.
        place: The folders of the attempt.
        live: Whether the agent needs the user's other variables, such as keys of providers.
    """
    environ = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    if live:
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_PRIVATE_PREFIXES)
        }
    # The programs of this Python, such as pytest, are found first.
    programs = os.path.dirname(sys.executable)
    environ["PATH"] = os.pathsep.join([programs, environ.get("PATH", os.defpath)])
    environ["HOME"] = str(place.home)
    environ["TMPDIR"] = str(place.scratch / "tmp")
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return {**environ, **arm.environ}


def get_last_line(done: Completed) -> str:
    """Return the last line that a command wrote to standard error or, if none, to its output."""
    for stream in (done.stderr, done.stdout):
        lines = stream.decode(errors="replace").strip().splitlines()
        if lines:
            return lines[-1].strip()[:500]
    return "it wrote nothing"


def _find_instructions(arm: Arm) -> str:
    """Return the instructions that an agent reads from its workspace; hilum reads its settings."""
    return "" if arm.agent == HILUM else arm.instructions


def _ignore(files: Path) -> Callable[[str, list[str]], set[str]]:
    """Return a function that chooses the files of a case that are not copied."""

    def choose(folder: str, names: list[str]) -> set[str]:
        # The configuration of a repository could start programs on this machine.
        ignored = {".git", "__pycache__"} if Path(folder) == files else {"__pycache__"}
        return ignored & set(names)

    return choose


def _copy_files(case: Case, arm: Arm, folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    files = case.folder / FILES
    if files.is_dir():
        shutil.copytree(files, folder, symlinks=True, ignore=_ignore(files))
    else:
        folder.mkdir(parents=True)
    rules = folder / RULES_FILE
    instructions = _find_instructions(arm)
    texts = [rules.read_text() if rules.is_file() else "", case.rules, instructions]
    text = "\n\n".join(part.strip() for part in texts if part.strip())
    if case.rules or instructions:
        rules.write_text(f"{text}\n")


def _copy_template(template: Path, place: Place) -> None:
    shutil.copytree(template, place.workspace, symlinks=True)
    place.create()
    rules = place.workspace / RULES_FILE
    if rules.is_file() and not rules.is_symlink():
        shutil.copyfile(rules, place.record / RULES_FILE)


def _make_removable(function: object, path: str, info: object) -> None:
    """Make a file removable and remove it; what still cannot be removed stays."""
    try:
        parent = os.path.dirname(path)
        os.chmod(parent, 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            remove_folder(path)
        else:
            os.unlink(path)
    except OSError:
        pass
