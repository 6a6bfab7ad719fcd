"""Commands in a real sandbox of each kind: a workspace, a home folder with secrets, and a
warden.
"""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hilum.events import ApprovalAsked
from hilum.processes import Command, Completed, Processes, Warden
from hilum.testing import say, use
from hilum_guard.sandbox import backends
from hilum_guard.sandbox.enforcement import Enforcement
from hilum_guard.sandbox.session_sandbox import Sandbox
from hilum_guard.sandbox.spares import SparePool
from hilum_guard.settings import GuardSettings
from spare_warden import SpareWarden

# A sample of three cases is the first, the third and the last.
BACKENDS = ("spare", "landlock", "bubblewrap", "filter")
Run = Callable[..., Awaitable[Completed]]


# Both try the sandbox in several processes.
check_bubblewrap = functools.cache(backends.check_bubblewrap)
check_landlock = functools.cache(backends.check_landlock)


def enforced_by(backend: str) -> Enforcement:
    """What a kind of sandbox enforces; skips the test where the system has not got it."""
    found = check_bubblewrap() if backend in ("bubblewrap", "spare") else check_landlock()
    if isinstance(found, str):
        pytest.skip(found)
    if backend == "landlock" and found.network != "namespace":
        pytest.skip("no network namespaces for Landlock")
    return attrs.evolve(found, network="filter") if backend == "filter" else found


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is not in /tmp, which a sandbox has its own of."""
    with tempfile.TemporaryDirectory(
        prefix=".hilum-test-", dir=Path.home(), ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def home(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a key, a cloud login behind a link, and hilum's own folders."""
    home = place / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("the-private-key")
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "credentials").write_text("the-cloud-key")
    (home / ".aws").symlink_to(place / "elsewhere")
    (home / ".netrc").write_text("the-netrc")
    (home / ".config" / "hilum").mkdir(parents=True)
    (home / ".config" / "hilum" / "settings.toml").write_text("# the-settings")
    (home / "notes.txt").write_text("notes")
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HILUM_CONFIG", "HILUM_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(scope="session")
def new_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Git repository to copy, which is faster than creating one."""
    root = tmp_path_factory.mktemp("repository") / "proj"
    subprocess.run(["git", "init", "-q", root], check=True)
    for name in ("name", "email"):
        subprocess.run(["git", "-C", root, "config", f"user.{name}", "someone"], check=True)
    for sample in (root / ".git" / "hooks").glob("*.sample"):
        sample.unlink()
    return root


@pytest.fixture
def root(place: Path, new_repository: Path) -> Path:
    """A workspace that is a Git repository."""
    return shutil.copytree(new_repository, place / "proj")


@pytest.fixture
def outside(place: Path) -> Path:
    """A folder beside the workspace, with a file in it."""
    outside = place / "outside"
    outside.mkdir()
    (outside / "file").write_text("as it was")
    return outside


@pytest.fixture
async def warden(request: pytest.FixtureRequest) -> AsyncIterator[Warden]:
    """A warden of its own; with the kind ``spare``, it runs every command in a spare sandbox."""
    is_spare = "backend" in request.fixturenames and request.getfixturevalue("backend") == "spare"
    async with SpareWarden() if is_spare else Warden() as warden:
        yield warden


class Box:
    """A workspace's sandbox, and the processes in it."""

    def __init__(self, warden: Warden, root: Path, backend: str, temp: Path) -> None:
        self.warden, self.root, self.backend, self.enforced = (
            warden,
            root,
            backend,
            enforced_by(backend),
        )
        self._temp, self.sandboxes = temp, list[Sandbox]()

    def processes(self, **settings: Any) -> Processes:
        """Processes of a session with these settings."""
        temp = self._temp / f"{self._temp.name}-{len(self.sandboxes)}"
        temp.mkdir(parents=True)
        one = Sandbox(self.root, GuardSettings(**settings), str(temp), enforced=self.enforced)
        self.sandboxes.append(one)
        if self.backend == "spare":
            one.spares = SparePool(self.warden.start_spare, 8)

        async def wrap(command: Command) -> Command:
            return await one.wrap_process(command)

        return Processes(self.warden, wrap, str(self.root))

    async def run(
        self, *argv: str, settings: dict[str, Any] | None = None, **options: Any
    ) -> Completed:
        """Run a command, or a command line if it is a single word; fails after a minute."""
        words = argv if len(argv) > 1 else ("bash", "-c", *argv)
        with trio.fail_after(60):
            return await self.processes(**(settings or {})).run(words, **options)

    def close(self) -> None:
        """Close all sandboxes."""
        for one in self.sandboxes:
            one.close()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """A kind of sandbox.

    ``spare`` is bubblewrap, with every command in a spare sandbox that was built before, and
    ``filter`` is Landlock without a network namespace.
    """
    return request.param


@pytest.fixture
def temp() -> Iterator[Path]:
    """A folder for the sandboxes' temporary ones, with a short path."""
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        yield Path(folder)


@pytest.fixture
def box(home: Path, root: Path, backend: str, warden: Warden, temp: Path) -> Iterator[Box]:
    """The sandbox of each kind."""
    box = Box(warden, root, backend, temp)
    yield box
    box.close()


@pytest.fixture
def marked() -> Callable[[str], list[int]]:
    """Lists the processes that carry a marker in their environment."""
    return _marked


def _marked(marker: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if marker.encode() in Path(f"/proc/{name}/environ").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="session")
def judged_workspace(tmp_path_factory):
    """A repository with a link out, a bare repository in a folder, and secrets nowhere."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "x").write_text("not yours")
    root = tmp_path_factory.mktemp("judged") / "project"
    (root / "src").mkdir(parents=True)
    (root / "tests").mkdir()
    for name in (
        "README.md",
        "src/main.py",
        "src/ls",
        ".gitignore",
        "data.json",
        "file with spaces.txt",
    ):
        (root / name).write_text("foo\n")
    (root / "link-out").symlink_to(outside / "x")
    (root / "src" / "link-out").symlink_to(outside / "x")
    (root / "src" / "link-folder").symlink_to(outside, target_is_directory=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(outside), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", str(root)], check=True, env=environ)
    subprocess.run(["git", "init", "-q", "--bare", str(root / "bare")], check=True, env=environ)
    return root


@pytest.fixture
def asked():
    """Has a tool called, answers the approval that is asked for it (with a no), and gives that
    approval.
    """

    async def asked(
        kit, name, *, accept=False, remember="once", meanwhile=lambda: None, **arguments
    ):
        kit.model.next(use(name, **arguments), say("Then so."))
        last = kit.session.journal.last
        run = await kit.start("x")
        event = await kit.wait_for(ApprovalAsked, after=last)
        meanwhile()
        kit.session.answer(event.id, accept, remember=remember)
        with kit.guard():
            await run.wait()
        return event

    return asked


@pytest.fixture
def answered(asked):
    """The same with a yes; gives the result of the call."""

    async def answered(kit, name, **arguments):
        await asked(kit, name, accept=True, **arguments)
        return kit.results[-1]

    return answered
