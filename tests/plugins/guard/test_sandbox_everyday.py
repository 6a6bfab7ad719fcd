"""What works in a sandbox as it does without: everyday tools, exit codes, signals, and stopping."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio
from hilum import ToolError
from hilum.processes import client
from hilum_guard.sandbox import bubblewrap

# A test runs with the first and the last kind of sandbox; with ``--all``, it runs with every kind.
pytestmark = pytest.mark.slow(cases=2)
PYTHON = sys.executable
EVERY = pytest.mark.parametrize(
    "backend", ["spare", "bubblewrap", "landlock", "filter"], indirect=True
)


async def works(box, *argv: str, **options) -> str:
    """Run something that must work; give its output."""
    done = await box.run(*argv, **options)
    assert done.returncode == 0, done
    return done.stdout.decode()


# --- tools ----------------------------------------------------------------------------------------


@pytest.mark.slow(cases=1)
async def test_pytest_on_a_project(box, root: Path) -> None:
    """Tests run, with temporary folders and caches."""
    (root / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'a').write_text('x')\n"
    )
    # Loading the plugins of this environment would take most of the time.
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = (PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py")
    assert "1 passed" in await works(box, *argv, env=env)


async def test_git_commit(box, root: Path) -> None:
    """A commit, a branch and a merge are made."""
    line = "echo a > a && git add a && git commit -qm one && git switch -qc other && echo b > a && git commit -qam two"
    await works(
        box, f"{line} && git switch -q - && git merge -q other && git gc -q && git status --short"
    )
    log = await trio.run_process(["git", "-C", root, "log", "--format=%s"], capture_stdout=True)
    assert log.stdout == b"two\none\n"


async def test_git_init_in_a_new_folder(box, root: Path) -> None:
    """A repository is made where there was none."""
    await works(
        box,
        "git init -q sub && cd sub && git -c user.name=a -c user.email=b commit -q --allow-empty -m one",
    )


@pytest.mark.parametrize("backend", ["spare", "bubblewrap", "landlock"], indirect=True)
async def test_a_linked_worktree(box, place: Path, root: Path) -> None:
    """A commit in a linked worktree writes to the repository it belongs to, whose hooks stay
    protected.
    """
    tree = place / "tree"
    for words in (
        ["commit", "-q", "--allow-empty", "-m", "one"],
        ["worktree", "add", "-q", str(tree)],
    ):
        await trio.run_process(["git", "-C", root, *words], capture_stderr=True)
    box.root = tree
    await works(box, "echo a > a && git add a && git commit -qm two && git log --oneline")
    if box.enforced.protected:
        done = await box.run(
            f"echo x > {root}/.git/hooks/pre-commit; echo x >> {root}/.git/config; echo x > .git"
        )
        assert done.stderr.count(b"Read-only file system") == 3
    assert (await box.run(f"echo x > {root}/file")).returncode


async def test_a_forged_worktree(box, place: Path, root: Path, outside: Path) -> None:
    """A file .git that names a folder which does not point back makes nothing writable."""
    for name in ("objects", "worktrees/proj"):
        (outside / name).mkdir(parents=True)
    (outside / "worktrees" / "proj" / "gitdir").write_text(f"{place}/another/.git\n")
    shutil.rmtree(root / ".git")
    (root / ".git").write_text(f"gitdir: {outside}/worktrees/proj\n")
    assert (await box.run(f"echo x > {outside}/objects/x")).returncode
    assert not list((outside / "objects").iterdir())


@pytest.mark.parametrize("backend", ["spare", "bubblewrap", "landlock"], indirect=True)
async def test_a_server_and_a_client_on_the_loopback(box) -> None:
    """Tests that start servers work: the loopback is up, with both its addresses."""
    code = "import socket as k\nwith k.create_server(('localhost', 0)) as s: k.create_connection(s.getsockname()[:2]).close()"
    await works(box, PYTHON, "-c", code)
    await works(box, PYTHON, "-c", code.replace("'localhost', 0)", "'::1', 0), family=k.AF_INET6"))


@pytest.mark.parametrize("backend", ["bubblewrap", "spare"], indirect=True)
async def test_unix_sockets_of_ones_own(box) -> None:
    """Processes of a command talk over sockets of their own."""
    code = "import socket\nwith socket.socket(socket.AF_UNIX) as s: s.bind('s'); s.listen()\n"
    await works(box, PYTHON, "-c", code)


async def test_multiprocessing(box) -> None:
    """Pools and their semaphores work."""
    code = "import multiprocessing as m\nif __name__ == '__main__':\n    with m.get_context('fork').Pool(2) as p:"
    assert await works(box, PYTHON, "-c", f"{code} print(p.map(abs, [-1, -2]))") == "[1, 2]\n"


@pytest.mark.slow(cases=0)
async def test_pip_and_venv(box, root: Path) -> None:
    """An environment is made, and pip answers in it, without the network."""
    await works(box, PYTHON, "-m", "venv", "env")
    assert "pip" in await works(box, "env/bin/pip --version")


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("gcc")), reason="no make or no gcc")
async def test_make_and_gcc(box, root: Path) -> None:
    """A program is compiled and run."""
    (root / "p.c").write_text('#include <stdio.h>\nint main(void) { puts("made"); }\n')
    (root / "Makefile").write_text("run: p\n\t@./p\n")
    assert "made" in await works(box, "make run")


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
async def test_node(box) -> None:
    """Node starts, and starts a child."""
    code = "console.log(require('child_process').execSync('echo from node').toString())"
    assert "from node" in await works(box, "node", "-e", code)


async def test_temporary_files_stay_for_the_session(box) -> None:
    """What one command leaves in the temporary folder the next one finds.

    The machine's /tmp has none of it.
    """
    processes = box.processes()
    done = await processes.run(["sh", "-c", "echo kept > $TMPDIR/kept-by-a-test && mktemp"])
    assert done.returncode == 0, done
    assert (await processes.run(["sh", "-c", "cat $TMPDIR/kept-by-a-test"])).stdout == b"kept\n"
    assert "kept-by-a-test" not in os.listdir("/tmp")


@EVERY
async def test_shell_ways(box) -> None:
    """Pipes, here-documents, process substitution and /dev work."""
    assert await works(
        box,
        "cat <(echo one) - <<< two | tee /dev/stderr > out; cat out; head -c 2 /dev/urandom > /dev/null",
    )
    assert await works(box, "cat", "-", input=b"typed") == "typed"


@EVERY
async def test_folders_with_odd_names(box, root: Path) -> None:
    """Spaces, quotes and line breaks in paths and arguments stay as they are."""
    name = "a b'c\"d\n$e"
    (root / name).mkdir()
    (root / name / "f").write_text("odd")
    assert await works(box, "cat", "f", cwd=name) == "odd"
    assert await works(box, "printf", "%s", name) == name


# --- how a command ends ---------------------------------------------------------------------------


@pytest.mark.slow(cases=12)
@EVERY
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("exit 3", 3),
        ("exit 125", 125),
        ("exit 129", 129),
        ("exit 137", 137),
        ("exit 255", 255),
        ("kill -9 $$", -9),
        ("kill -TERM $$", -15),
        ("kill -SEGV $$", -11),
        ("kill -HUP $$", -1),
        ("kill -PIPE $$", -13),
        ("no-such-program", 127),
    ],
)
async def test_exit_codes(box, line: str, code: int) -> None:
    """Codes and signals are reported as they are without a sandbox."""
    assert (await box.run(line)).returncode == code


@EVERY
async def test_a_program_that_is_not_there(box) -> None:
    """The same error as without a sandbox."""
    with pytest.raises(ToolError, match="There is no program 'no-such-program'"):
        await box.run("no-such-program", "argument")
    done = await box.run("./no-such-program", "argument")
    assert done.returncode == 127
    assert b"No such file" in done.stderr


@EVERY
async def test_default_signals(box) -> None:
    """A command starts with no signal ignored, and no descriptor of the sandbox's."""
    status = await works(box, "cat", "/proc/self/status")
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    assert not int(masks["SigIgn"], 16) & 0x7FFFFFFF
    assert not int(masks["SigBlk"], 16)
    assert (await works(box, "ls", "/proc/self/fd")).split() == ["0", "1", "2", "3"]


@EVERY
async def test_variables_that_lead_the_sandboxs_own_programs(box, root: Path) -> None:
    """They reach the command as they are, and nothing of the workspace is loaded on the way."""
    (root / "Evil.pm").write_text("open F, '>evil'; 1;")
    (root / "evil.py").write_text("open('evil', 'w')")
    env = {
        "PERL5OPT": "-MEvil",
        "PERL5LIB": str(root),
        "PYTHONSTARTUP": "evil.py",
        "LC_ALL": "xx_XX",
        "LD_X": "a=b \n\udc80",
    }
    done = await box.run("env", "-0", env=env)
    got = dict(line.split(b"=", 1) for line in done.stdout.split(b"\0") if line)
    assert {name: got[os.fsencode(name)] for name in env} == {
        name: os.fsencode(value) for name, value in env.items()
    }
    assert b"PERL_BADLANG" not in got
    assert not done.stderr
    assert not (root / "evil").exists()


@EVERY
async def test_stopping_lets_a_command_clean_up(box, root: Path) -> None:
    """SIGTERM reaches the command, which has its grace; then it is over."""
    up = "trap 'echo bye > said; exit' TERM; echo up; while :; do sleep 0.01; done"
    with trio.fail_after(60):
        async with box.processes().open(["bash", "-c", up]) as process:
            assert await process.stdout.receive_some() == b"up\n"
            await process.stop(grace=10)
    assert (root / "said").read_text() == "bye\n"


@EVERY
async def test_stopping_a_stubborn_command(box) -> None:
    """What ignores SIGTERM is killed after its grace, quickly."""
    with trio.fail_after(60):
        async with box.processes().open(
            ["bash", "-c", "trap '' TERM; echo up; while :; do sleep 9; done"]
        ) as process:
            assert await process.stdout.receive_some() == b"up\n"
            assert await process.stop(grace=0.1) == -signal.SIGKILL


@EVERY
async def test_a_last_word_of_what_is_left_behind(box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process in the background may still write what comes within the patience of what watches
    over it.
    """
    for module, name, usual, longer in (  # the machine may be busy
        (client, "_START", "import warden;", "import warden; warden.LINGER = 60;"),
        (
            bubblewrap,
            "_START",
            "import sandbox_init;",
            "import sandbox_init; sandbox_init.LINGER = 60;",
        ),
    ):
        assert usual in getattr(module, name)
        monkeypatch.setattr(module, name, getattr(module, name).replace(usual, longer))
    assert await works(box, "(sleep 0.03; echo late) & echo early") == "early\nlate\n"


async def test_many_commands_at_once(box, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not disturb each other."""
    # A socket of another program that appears meanwhile would change the sandboxes of all of them.
    monkeypatch.setattr("hilum_guard.sandbox.session_sandbox.find_sockets", lambda _: [])
    processes, codes = box.processes(), dict[int, int]()

    async def run(number: int) -> None:
        codes[number] = (await processes.run(["sh", "-c", f"exit {number}"])).returncode

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(run, number)
    assert codes == {number: number for number in range(20)}
