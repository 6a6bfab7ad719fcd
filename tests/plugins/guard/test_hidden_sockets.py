"""Sockets of the user's services are hidden however they were bound."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import hilum_guard
import hilum_shell
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


@pytest.fixture
def no_netlink(monkeypatch):
    """Use only the names in ``/proc/net/unix``."""
    monkeypatch.setattr(unix_sockets, "_ask_kernel", list)


@pytest.mark.usefixtures("no_netlink")
def test_any_socket_of_the_folder_is_hidden_if_the_kernel_does_not_tell(folder, bind):
    bind(f"{folder}/before")
    (folder / "before").rename(folder / "after")
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{folder}/left")
    left.close()
    assert found_in(folder) == {"after", "left"}


def test_if_the_list_cannot_be_read_the_kernel_is_asked(folder, bind, monkeypatch):
    monkeypatch.setattr(sockets, "read_list", lambda: None)
    bind(f"{folder}/first")
    assert found_in(folder) == {"first"}
    bind(f"{folder}/second")
    assert found_in(folder) == {"first", "second"}


def test_a_link_that_leads_elsewhere_now_does_not_uncover_the_socket(folder, bind):
    """A command may change it, and any new socket renews the list."""
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    (folder / "link").symlink_to("one")
    bind(f"{folder}/link/socket")
    assert found_in(folder) == {"one/socket"}
    (folder / "link").unlink()
    (folder / "link").symlink_to("two")
    bind(f"{folder}/other")
    assert found_in(folder) == {"one/socket", "other"}


def test_line_breaks_in_the_names_of_folders(folder, bind):
    (folder / "a\nb").mkdir()
    bind(f"{folder}/a\nb/c\nd")
    assert found_in(folder) == {"a\nb/c\nd"}


@pytest.mark.parametrize("knows_inodes", [True, False])
def test_sockets_beside_a_guessed_one_are_left_alone(
    folder, bind, monkeypatch, tmp_path, knows_inodes
):
    """A command's own server must not vanish because of a relative path elsewhere."""
    if not knows_inodes:
        monkeypatch.setattr(unix_sockets, "_ask_kernel", list)
    monkeypatch.setenv("HOME", str(folder))
    left = socket.socket(socket.AF_UNIX)
    left.bind(f"{folder}/own")
    left.close()
    monkeypatch.chdir(tmp_path)
    bind("relative")
    monkeypatch.chdir(folder)
    assert found_in(folder) == set()


def test_a_current_folder_that_was_deleted_is_no_failure(folder, bind, monkeypatch):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    bind("relative")
    bind(f"{folder}/absolute")
    shutil.rmtree(gone)
    assert found_in(folder) == {"absolute"}


def test_a_workspace_in_a_temporary_folder_is_searched(folder, bind, monkeypatch):
    """The sandbox shows it in its own temporary folder."""
    monkeypatch.setattr(sockets, "_COVERED", (f"{folder.parent}/",))
    bind(f"{folder}/socket")
    path = f"{folder}/socket"
    assert path not in sockets.find_sockets()
    assert path in sockets.find_sockets([str(folder)])
    assert path not in sockets.find_sockets([str(folder / "other")])


def test_a_folder_that_cannot_be_listed_hides_the_name(folder, bind, monkeypatch):
    bind(f"{folder}/known")
    monkeypatch.setattr(sockets, "_list_sockets", lambda folder: None)
    assert found_in(folder) == {"known"}


@pytest.mark.parametrize("data", [b"", b"\1", b"\xff" * 40, b"\x14\0\0\0\x14\0" + bytes(14)])
def test_a_damaged_answer_of_the_kernel_is_no_failure(data):
    found: list[unix_sockets.BoundSocket] = []
    try:
        unix_sockets._read_part(data, found)
    except unix_sockets.struct.error:
        pass  # `read_inodes` ignores the rest
    assert found == []


CONNECT = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('{}'); print('connected')"


@pytest.fixture
async def kit(bench):
    """Return a session in a temporary folder, whose sockets no other session on this machine hides."""
    kit = await bench(hilum_guard, hilum_shell)
    if (await kit.session.plugin(hilum_guard.Guard).sandbox.enforced()).by != "bubblewrap":
        pytest.skip("in the other sandboxes, commands cannot open Unix sockets")
    return kit


@pytest.fixture
def agent(kit):
    """Start a real ssh-agent with a relative path in the workspace; return the path."""
    program = shutil.which("ssh-agent")
    if program is None:
        pytest.skip("needs ssh-agent")
    folder = kit.workspace / "own"
    folder.mkdir()
    argv = [program, "-D", "-a", "rel.sock"]
    with subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        path = f"{folder}/rel.sock"
        code = CONNECT.format(path)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert done.stdout == b"connected\n"
        yield path
        process.terminate()


async def test_a_command_cannot_reach_an_agent_that_was_bound_by_a_relative_path(kit, agent):
    """The sandbox shows its folder."""
    code = CONNECT.format(agent)
    command = f'ls {agent} && {sys.executable} -c "{code}"'
    done = await kit.session.processes.run(["sh", "-c", command])
    assert done.stdout == f"{agent}\n".encode(), done.stderr
    assert done.returncode != 0


async def test_a_command_cannot_rename_the_folder_of_a_socket(kit, agent):
    """The next command would not know where the socket is."""
    folder = Path(agent).parent
    command = f"mkdir other && echo x > own/x && mv own other/moved; ls {agent}"
    done = await kit.session.processes.run(["sh", "-c", command])
    assert done.stdout == f"{agent}\n".encode(), done.stderr
    assert (folder / "x").read_text() == "x\n"
    code = CONNECT.format(agent)
    done = await kit.session.processes.run([sys.executable, "-c", code])
    assert b"connected" not in done.stdout
