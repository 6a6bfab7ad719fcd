"""Sockets of the user's services are hidden however they were bound."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from hilum_guard.sandbox import sockets, unix_sockets

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel lists them on Linux")


@pytest.fixture
def folder(monkeypatch):
    """Return a folder that the sandbox contains; the temporary folders do not exist there."""
    monkeypatch.setattr(sockets, "_COVERED", ("/proc/", "/dev/"))
    with tempfile.TemporaryDirectory(prefix="s") as path:
        yield Path(os.path.realpath(path))


@pytest.fixture
def bind(folder):
    """Return a function that binds a socket, which listens until the test ends."""
    with ExitStack() as stack:

        def bind(name: str) -> None:
            opened = stack.enter_context(socket.socket(socket.AF_UNIX))
            opened.bind(name)
            opened.listen()

        yield bind


def found_in(folder: Path) -> set[str]:
    """Return the names of the sockets that are found in a folder."""
    paths = [Path(path) for path in sockets.find_sockets()]
    return {str(path.relative_to(folder)) for path in paths if path.is_relative_to(folder)}


def test_sockets_are_found_however_they_were_bound(folder, bind, monkeypatch):
    (folder / "linked").symlink_to(".")
    (folder / "in").mkdir()
    monkeypatch.chdir(folder)
    bind(f"{folder}/plain")
    bind("relative")
    bind("in/relative")
    bind("@relative")
    bind(f"{folder}//double")
    bind(f"{folder}/in/../dots")
    bind(f"{folder}/linked/link")
    bind(f"{folder}/a\nb")
    bind(f"{folder}/ space")
    assert found_in(folder) == {
        "plain",
        "relative",
        "in/relative",
        "@relative",
        "double",
        "dots",
        "link",
        "a\nb",
        " space",
    }


def test_a_socket_that_was_renamed_or_linked_in_its_folder_is_found(folder, bind):
    """OpenSSH makes the socket of a shared connection in this way."""
    bind(f"{folder}/master.XyZ")
    os.link(folder / "master.XyZ", folder / "master")
    (folder / "master.XyZ").unlink()
    bind(f"{folder}/before")
    (folder / "before").rename(folder / "after")
    assert found_in(folder) == {"master", "after"}


def test_a_socket_that_nobody_has_open_is_left_alone(folder, bind):
    """A command's own server may have made it, in another network namespace."""
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{folder}/left")
    left.close()
    bind(f"{folder}/open")
    assert found_in(folder) == {"open"}


def test_new_sockets_in_a_known_folder_are_found_at_once(folder, bind):
    bind(f"{folder}/first")
    os.utime(folder, ns=(0, 0))
    assert found_in(folder) == {"first"}
    for number in range(20):
        bind(f"{folder}/{number}")
        (folder / str(number)).rename(folder / f"moved{number}")
        assert f"moved{number}" in found_in(folder)


def test_any_socket_of_the_folder_is_hidden_if_the_kernel_does_not_tell(folder, bind, monkeypatch):
    monkeypatch.setattr(sockets, "read_inodes", dict)
    sockets._locate.cache_clear()
    bind(f"{folder}/before")
    (folder / "before").rename(folder / "after")
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{folder}/left")
    left.close()
    assert found_in(folder) == {"after", "left"}


def test_a_folder_that_cannot_be_listed_hides_the_name(folder, bind, monkeypatch):
    bind(f"{folder}/known")
    for name in ("_list_sockets", "_list_sockets_once"):
        monkeypatch.setattr(sockets, name, lambda folder, stamp: None)
    assert found_in(folder) == {"known"}


@pytest.mark.parametrize("data", [b"", b"\1", b"\xff" * 40, b"\x14\0\0\0\x14\0" + bytes(14)])
def test_a_damaged_answer_of_the_kernel_is_no_failure(data):
    found: dict[int, int] = {}
    try:
        unix_sockets._read_part(data, found)
    except unix_sockets.struct.error:
        pass  # `read_inodes` ignores the rest
    assert found == {}


CONNECT = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('{}'); print('connected')"


@pytest.fixture
def agent():
    """Start a real ssh-agent with a relative path in the home folder; return the path."""
    program = shutil.which("ssh-agent")
    if program is None:
        pytest.skip("needs ssh-agent")
    with tempfile.TemporaryDirectory(dir=Path.home(), prefix=".agent") as folder:
        argv = [program, "-D", "-a", "rel.sock"]
        with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            path = f"{folder}/rel.sock"
            code = CONNECT.format(path)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
            assert done.stdout == b"connected\n"
            yield path
            process.terminate()


async def test_a_command_cannot_reach_an_agent_that_was_bound_by_a_relative_path(box, agent):
    """The sandbox shows its folder."""
    if box.backend != "bubblewrap":
        pytest.skip("in the other sandboxes, commands cannot open Unix sockets")
    done = await box.run(f'ls {agent} && {sys.executable} -c "{CONNECT.format(agent)}"')
    assert done.stdout == f"{agent}\n".encode(), done.stderr
    assert done.returncode != 0
