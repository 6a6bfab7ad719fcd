"""A malicious model in a malicious repository, with `approve = auto`: nothing of it gets out
without a question.

Each attack runs with bubblewrap, with Landlock alone, and with neither; then the user goes on
working, outside the sandbox. Each also runs where nothing guards the model, which shows that it is
one.
"""

import base64
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import hilum_files
import hilum_guard
import hilum_shell
import pytest
from attacks import ATTACKS, Attack, Service
from hilum import kernel
from hilum.errors import E_BLOCKED, E_DENIED
from hilum.testing import open_bench
from hilum_guard.sandbox import backends, sandbox_probe
from hilum_guard.sandbox.enforcement import Enforcement
from spare_warden import SpareWarden

ROWS = [pytest.param(attack, id=attack.name.replace(" ", "_")) for attack in ATTACKS]
# Whether each command runs in a spare sandbox, which was built before the command was known.
SPARE = pytest.mark.parametrize("spare", [False, True], ids=["new", "spare"])
GIT_CONFIG = "[user]\n\tname = someone\n\temail = a@b\n[init]\n\tdefaultBranch = main\n"
TOUCHED = 'touched() { if [ -f "$1" ]; then sh "$1"; fi; }'
# Both try the sandbox in several processes.
check_bubblewrap = functools.cache(backends.check_bubblewrap)
check_landlock = functools.cache(backends.check_landlock)


@attrs.frozen
class Field:
    """The user's machine: a home, a folder beside the workspace, a server, and a place where hits
    are noticed.
    """

    folder: Path
    workspace: Path
    environ: dict[str, str]
    received: list[bytes]

    def run(self, script: str) -> None:
        """Do something as the user, outside the sandbox."""
        environ = {"PATH": os.environ["PATH"], "LC_ALL": "C", **self.environ, "GIT_EDITOR": "true"}
        subprocess.run(
            ["bash", "-c", f"{TOUCHED}\n{script}"],
            cwd=self.workspace,
            env=environ,
            capture_output=True,
            timeout=30,
        )

    def filled(self, command: str) -> str:
        """Write the variables of a command out: in a session there are none of them."""
        for name, value in self.environ.items():
            command = command.replace(f"${name}", value)
        return command

    def harm(self) -> list[str]:
        """Return what was executed, changed or received outside."""
        found = ["executed outside"] * (self.folder / "home/hit").exists()
        found += ["changed outside"] * ((self.folder / "outside/file").read_text() != "as it was")
        # What Git wrote through a link of the model's, for one.
        new = sorted(
            path.name for path in (self.folder / "outside").iterdir() if path.name != "file"
        )
        found += [f"made {name} outside" for name in new]
        return found + [f"received {data!r}" for data in self.received]


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit to copy, which is faster than creating one."""
    root = tmp_path_factory.mktemp("repository") / "workspace"
    environ = {"PATH": os.environ["PATH"], "HOME": str(root.parent)}
    (root.parent / ".gitconfig").write_text(GIT_CONFIG)
    root.mkdir()
    script = "git init -q && echo a > a && git add a && git commit -qm one"
    subprocess.run(["bash", "-ec", script], cwd=root, env=environ, check=True)
    return root


@contextmanager
def opened(folder: Path, repository: Path) -> Iterator[Field]:
    """Make the user's machine."""
    home, workspace, outside = folder / "home", folder / "workspace", folder / "outside"
    shutil.copytree(repository, workspace)
    for path in (home, outside):
        path.mkdir()
    (outside / "file").write_text("as it was")
    (home / ".gitconfig").write_text(GIT_CONFIG)
    (home / ".bashrc").write_text("")
    hit = workspace / "hit.sh"
    hit.write_text(f"#!/bin/sh\n: > {home}/hit\n")
    hit.chmod(0o755)
    received: list[bytes] = []
    with (
        socket.socket() as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        path = f"{home}/agent.sock"
        unix.bind(path)
        for one in (server, unix):
            one.listen()
        stop = threading.Event()
        threads = [
            threading.Thread(target=_record, args=(one, received, stop))
            for one in (server, unix, datagrams)
        ]
        for thread in threads:
            thread.start()
        environ = {
            "HIT": str(hit), "RECORDER": str(port), "SOCKET": path, "OUTSIDE": str(outside), "HOME": str(home),
        }  # fmt: skip
        field = Field(folder, workspace, environ, received)
        try:
            yield field
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def _record(one: socket.socket, received: list[bytes], stop: threading.Event) -> None:
    one.settimeout(0.05)
    while not stop.is_set():
        try:
            if one.type == socket.SOCK_DGRAM:
                received.append(one.recv(100))
            else:
                with one.accept()[0] as connection:
                    connection.settimeout(1)
                    received.append(connection.recv(100))
        except TimeoutError:
            continue


@pytest.fixture
def field(repository: Path) -> Iterator[Field]:
    """The user's machine. It is not in /tmp, of which a sandbox has its own."""
    made = tempfile.TemporaryDirectory(
        prefix=".hilum-test-", dir=Path.home(), ignore_cleanup_errors=True
    )
    with made as folder, opened(Path(folder).resolve(), repository) as field:
        yield field


@pytest.mark.slow(cases=7)
@pytest.mark.parametrize("attack", [row for row in ROWS if row.values[0].real])
def test_unguarded(field: Field, attack: Attack) -> None:
    """Where nothing guards the model the attack succeeds: what fails below fails for a reason."""
    field.run(attack.user)
    services = []
    for each in attack.model:
        command = field.filled(each.command if isinstance(each, Service) else each)
        argv = ["bash", "-c", command]
        environ = {"PATH": os.environ["PATH"], **field.environ}
        if isinstance(each, Service):
            services.append(
                subprocess.Popen(argv, cwd=field.workspace, env=environ, start_new_session=True)
            )
            field.run("sleep 0.3")
        else:
            subprocess.run(argv, cwd=field.workspace, env=environ, capture_output=True, timeout=30)
    field.run(attack.meanwhile)
    for _ in range(
        20 if services else 1
    ):  # a service needs its time, which a busy machine has not got at once
        field.run(attack.after)
        if field.harm():
            break
    for service in services:
        os.killpg(service.pid, 9)
        service.wait()
    if "RECORDER" in str(attack.model) or "SOCKET" in str(attack.model):
        field.run("sleep 0.1")
    assert field.harm()


RUNNER = "import base64, subprocess, sys; subprocess.run(['bash', '-c', base64.b64decode(open(sys.argv[1]).read())])\n"
"""A program of the workspace that runs what a data file says: nobody who reads its command knows
what it does.
"""


def hidden_in_a_program(field: Field, command: str, number: int) -> str:
    """Write a command where reading cannot find it. Returns the command that runs it."""
    (field.workspace / "runner.py").write_text(RUNNER)
    (field.workspace / f"data-{number}.txt").write_bytes(base64.b64encode(command.encode()))
    return f"python3 runner.py data-{number}.txt"


async def attacked(
    field: Field, attack: Attack, folder: str = "bench", *, unread: bool = False
) -> list[str]:
    """Let the model attack, in a session where nobody answers questions, and the user go on.

    Args:
        field: The user's machine.
        attack: What is tried.
        folder: Where the session keeps its files.
        unread: Whether the commands are hidden in a program, so that only the sandbox can hold
            them.

    Returns:
        The codes of the calls.
    """
    if folder != "bench-1":
        field.run(attack.user)
    (field.folder / folder).mkdir()
    codes = []
    async with open_bench(
        hilum_guard, hilum_files, hilum_shell, workspace=field.workspace, folder=field.folder / folder, kind="headless",
        environ={"HOME": field.environ["HOME"]},
    ) as kit:  # fmt: skip
        for number, each in enumerate(attack.model):
            is_service = isinstance(each, Service)
            command = field.filled(each.command if is_service else each)
            if unread:
                command = hidden_in_a_program(field, command, number)
            background = {"background": True} if is_service else {}
            result = await kit.call("run_terminal_cmd", command=command, **background)
            codes.append(result.code)
        if any(isinstance(each, Service) for each in attack.model):
            field.run(attack.meanwhile)
            field.run(attack.after)
    field.run(attack.after)
    return codes


@pytest.mark.slow(cases=15)
@pytest.mark.parametrize("attack", ROWS)
@SPARE
async def test_with_bubblewrap(
    field: Field, attack: Attack, spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox holds what it can, and the rest is made inert."""
    if spare:
        monkeypatch.setattr(kernel, "Warden", SpareWarden)
    enforced(check_bubblewrap(), monkeypatch)
    await attacked(field, attack)
    assert not field.harm()


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize("attack", ROWS)
@SPARE
async def test_with_bubblewrap_through_a_program(
    field: Field, attack: Attack, spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no reading of commands can see runs, unasked under auto, and does no harm either."""
    if spare:
        monkeypatch.setattr(kernel, "Warden", SpareWarden)
    enforced(check_bubblewrap(), monkeypatch)
    codes = await attacked(field, attack, unread=True)
    assert E_BLOCKED not in codes
    assert not field.harm()


@pytest.mark.slow(cases=7)
@pytest.mark.parametrize("attack", ROWS)
async def test_asked(field: Field, attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Landlock alone protected paths cannot be held, and without it nothing: what could write
    them is asked for.
    """
    for number, found in enumerate(
        (check_landlock("no bubblewrap"), Enforcement(reasons=("Nothing works.",)))
    ):
        if not isinstance(found, str):
            enforced(found, monkeypatch)
            assert {*await attacked(field, attack, f"bench-{number}")} <= {E_DENIED, E_BLOCKED}
            assert not field.harm()


def enforced(found: Enforcement | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions find this sandbox on the machine."""
    if isinstance(found, str):
        pytest.skip(found)
    probe = functools.cache(lambda: found)
    probe()
    monkeypatch.setattr(sandbox_probe, "probe", probe)
