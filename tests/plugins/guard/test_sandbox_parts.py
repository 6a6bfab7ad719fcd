"""The sandbox's parts: environment, filter, profile, paths, and what is said of it."""

import functools
import os
import struct
import sys
from pathlib import Path

import attrs
import hilum_guard
import hilum_shell
import pytest
from hilum import Command
from hilum.settings import use_environment
from hilum.testing import open_bench
from hilum_guard import checks
from hilum_guard.sandbox import (
    backends,
    bubblewrap,
    environment,
    probe_cache,
    sandbox_policy,
    sandbox_probe,
    seatbelt,
    seccomp,
)
from hilum_guard.sandbox.enforcement import Enforcement
from hilum_guard.sandbox.sandbox_prompt import describe_sandbox
from hilum_guard.session_guard import Guard
from hilum_guard.settings import GuardSettings

# --- environment ----------------------------------------------------------------------------------

SECRET = {
    "OPENAI_API_KEY": "abcdefgh",
    "openai_api_key": "abcdefgh",
    "AWS_SECRET_ACCESS_KEY": "abc/def+ghi",
    "GITHUB_TOKEN": "abcdefgh",
    "GH_PAT": "abcdefgh",
    "PGPASSWORD": "hunter22",
    "MYSQL_PWD": "hunter22",
    "DB_PASS": "hunter22",
    "SENTRY_DSN": "https://abc@host/1",
    "SSH_AUTH_SOCK": "/run/user/1000/agent",
    "DATABASE_URL": "postgres://me:word@host/db",
    "HTTPS_PROXY": "http://me:word@proxy:3128",
    "SOMETHING": "ghp_abcdefghijklmnopqrstuvwx",
    "OTHER": "AKIAABCDEFGHIJKLMNOP",
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nabc",
}
HARMLESS = {
    "PATH": "/usr/bin:/bin",
    "PWD": "/home/me",
    "TOKENIZERS_PARALLELISM": "false",
    "MAX_TOKENS": "4096",
    "GIT_AUTHOR_NAME": "me",
    "KEYBOARD": "us",
    "MONKEY": "banana-tree",
    "PASSENGERS": "many-people",
    "HTTP_PROXY": "http://proxy:3128",
    "DISK": "sk-1",
    "LANG": "C.UTF-8",
}


def test_secrets_are_left_out_and_nothing_else():
    """By name and by value."""
    both = SECRET | HARMLESS
    assert environment.clean_environment(both, both) == HARMLESS


def test_copies_of_a_secret_are_left_out():
    """Whatever they are called."""
    own = {"API_KEY": "value-of-key", "ARGUMENTS": "--key=value-of-key", "NAME": "x"}
    assert environment.clean_environment(own, own) == {"NAME": "x"}


def test_what_is_set_for_a_command_is_passed():
    """A server's token from its own configuration arrives; the same name inherited does not."""
    assert environment.clean_environment({"A_TOKEN": "for-this-one"}, {"A_TOKEN": "inherited"}) == {
        "A_TOKEN": "for-this-one"
    }
    assert environment.clean_environment({"B_TOKEN": "for-this-one"}, {}) == {
        "B_TOKEN": "for-this-one"
    }


def test_names_to_pass():
    """Whole names and patterns."""
    assert environment.clean_environment(SECRET, SECRET, ["GITHUB_TOKEN", "AWS_*"]).keys() == {
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
    }


# --- filter ---------------------------------------------------------------------------------------


def verdict(program: bytes, number: int, arch: int, first: int) -> int:
    """Run a filter as the kernel would."""
    data = struct.pack("<iIQ6Q", number, arch, 0, first, *[0] * 5)
    code, at, value = list(struct.iter_unpack("<HBBI", program)), 0, 0
    while True:
        operation, yes, no, operand = code[at]
        at += 1
        if operation == 0x06:
            return operand
        if operation == 0x20:
            value = int.from_bytes(data[operand : operand + 4], "little")
        else:
            at += yes if (value == operand if operation == 0x15 else value >= operand) else no


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_the_filter(machine: str):
    """It refuses the families it is made for, io_uring, keyrings and foreign architectures, and
    nothing else.
    """
    arch, sockets, refused_calls, x32 = seccomp.ARCHITECTURES[machine]
    allow = 0x7FFF0000
    for families, refused, allowed in [
        ((), range(45), ()),
        ((1, 40), (1, 40), (0, 2, 10, 16)),
        ((40,), (40,), (1, 2)),
    ]:
        program = seccomp.program(machine, families)
        assert all(verdict(program, sockets, arch, family) == 0x0005000D for family in refused)
        assert all(verdict(program, sockets, arch, family) == allow for family in allowed)
        # io_uring goes round filters; keys of the user are reached through their keyring.
        assert all(verdict(program, number, arch, 1) == 0x0005000D for number in refused_calls)
        assert verdict(program, sockets, 0x40000003, 2) == 0x0005000D
        assert verdict(program, sockets + 1, arch, 1) == allow
        assert verdict(program, 0x40000000 + sockets, arch, 2) == (0x0005000D if x32 else allow)


# --- profile --------------------------------------------------------------------------------------


def test_the_profile_for_macos():
    """Paths are parameters, the stricter rules come last, and the network is the loopback's. (The
    text; not on a Mac.)
    """
    one = sandbox_policy.SandboxPolicy(
        writable=('/w"s',), protected=('/w"s/.git/hooks',), hidden=("/home/me/.ssh",), temp="/t"
    )
    text, parameters = seatbelt.make_profile(one)
    assert parameters == {"P0": '/w"s', "P1": "/t", "P2": '/w"s/.git/hooks', "P3": "/home/me/.ssh"}
    assert "/w" not in text
    assert text.count("(") == text.count(")")
    order = [
        "(deny file-write*)",
        '(allow file-write* (subpath (param "P0")))',
        '(deny file-write* (subpath (param "P2")))',
    ]
    order.append('(deny file-read* file-write* (subpath (param "P3")))')
    assert [text.index(rule) for rule in order] == sorted(text.index(rule) for rule in order)
    assert "(deny network*)" in text
    assert "(deny network*)" not in seatbelt.make_profile(attrs.evolve(one, network=True))[0]
    wrapped = seatbelt.wrap(Command(("ls", "-l"), "/w", {}), one)
    assert wrapped.argv[:2] == ("/usr/bin/sandbox-exec", "-p")
    assert wrapped.argv[-2:] == ("ls", "-l")
    assert "-D" in wrapped.argv
    assert 'P0=/w"s' in wrapped.argv


# --- paths ----------------------------------------------------------------------------------------


def test_links_in_the_place_of_protected_paths(root: Path, home: Path, outside: Path):
    """They cannot be held, so they are not among them."""
    (root / ".hilum").symlink_to(outside)
    made = sandbox_policy.make_policy(root, GuardSettings(), "/t")
    assert str(root / ".hilum") not in made.protected
    assert str(root / ".git" / "hooks") in made.protected


def test_writable_folders_that_are_not_there_are_left_out(root: Path, home: Path):
    """A mistyped one stops nothing."""
    assert sandbox_policy.make_policy(root, GuardSettings(writable=["~/no"]), "/t").writable == (
        str(root),
    )


# --- what is said ---------------------------------------------------------------------------------


def test_the_report_tells_every_part(monkeypatch: pytest.MonkeyPatch):
    """Each part has a row, what is missing says so, and what to do stands beside it."""
    monkeypatch.setattr(
        sandbox_probe, "probe", lambda: Enforcement(reasons=("Nothing: no kernel.",))
    )
    rows = checks.report_sandbox()
    assert [row[1] for row in rows[:4]] == ["not enforced"] * 4
    assert all(row[2] for row in rows[:4])
    assert rows[4] == ("sandbox: note", "Nothing: no kernel.", "")
    monkeypatch.setattr(
        sandbox_probe,
        "probe",
        lambda: Enforcement("bubblewrap", True, True, "namespace", True, True),
    )
    assert checks.report_sandbox()[0] == ("sandbox: files", "enforced by bubblewrap", "")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_probe_tells_the_truth():
    """What it says is what the trials say, and it is asked once."""
    found = sandbox_probe.probe()
    assert found is sandbox_probe.probe()
    assert found == backends.find_enforcement()


def test_a_system_without_any(monkeypatch: pytest.MonkeyPatch):
    """Is a state with a name and reasons."""
    monkeypatch.setattr(backends, "check_bubblewrap", lambda: "bubblewrap is not installed")
    monkeypatch.setattr(
        backends, "check_landlock", lambda *_: "this kernel does not support Landlock"
    )
    found = sandbox_probe._try_sandboxes()
    assert found == Enforcement(reasons=found.reasons)
    assert not found.whole
    assert found.reasons == (
        "Nothing: bubblewrap is not installed; this kernel does not support Landlock.",
    )
    assert "without a sandbox" in describe_sandbox(found, GuardSettings())


# --- a bubblewrap that does not confine -----------------------------------------------------------

RUNS_WITHOUT_SANDBOX = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
HIDES_NOTHING = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
exec /usr/bin/bwrap --ro-bind / / --dev /dev --proc /proc --unshare-user "$@"
"""


def replace_bubblewrap(program: Path, text: str) -> None:
    """Put another program in the place of bubblewrap, as an upgrade does."""
    other = program.with_name("other")
    other.write_text(text)
    other.chmod(0o755)
    os.replace(other, program)


def restore_bubblewrap(program: Path) -> None:
    program.unlink()
    program.symlink_to("/usr/bin/bwrap")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bubblewrap that can be replaced."""
    if bubblewrap.find_bubblewrap() != "/usr/bin/bwrap" or bubblewrap.try_bubblewrap():
        pytest.skip("no bubblewrap here")
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.symlink_to("/usr/bin/bwrap")
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(program))
    return program


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (RUNS_WITHOUT_SANDBOX, "could write outside"),
        (HIDES_NOTHING, "could read a hidden file"),
        ("#!/bin/sh\n", "does not run commands"),
    ],
)
def test_a_bubblewrap_that_does_not_confine_is_not_used(
    tmp_path: Path, program: Path, text: str, why: str
) -> None:
    """The trial notices it, the report says so, and nothing of it is kept for the next start."""
    with use_environment({"HILUM_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}):
        assert sandbox_probe.probe().by == "bubblewrap"
        replace_bubblewrap(program, text)
        found = sandbox_probe.probe()
        assert found.by != "bubblewrap"
        assert why in found.reasons[0]
        rows = checks.report_sandbox()
        assert not any("enforced by bubblewrap" in row[1] for row in rows)
        assert any(row[0] == "sandbox: note" and why in row[1] for row in rows)
        assert probe_cache.read_probe() is None


async def test_a_bubblewrap_that_is_replaced_during_a_session(
    tmp_path: Path, program: Path
) -> None:
    """It is tried before the next command, and again when it is whole."""
    async with open_bench(
        hilum_guard,
        hilum_shell,
        folder=tmp_path,
        approve="auto",
        answers=["done"],
        kind="headless",
    ) as b:
        outside = tmp_path / "outside"
        box = b.session.plugin(Guard).sandbox
        await b.call("run_terminal_cmd", command=f"echo x > {outside}")
        assert box.known is not None
        assert box.known.by == "bubblewrap"
        replace_bubblewrap(program, RUNS_WITHOUT_SANDBOX)
        result = await b.call("run_terminal_cmd", command=f"echo x > {outside}")
        # What is left needs the approval of a user who is not there.
        assert result.code == "E_DENIED"
        assert box.known.by != "bubblewrap"
        assert not outside.exists()
        restore_bubblewrap(program)
        result = await b.call("run_terminal_cmd", command="echo here")
        assert "here" in result.text
        assert box.known.by == "bubblewrap"


# --- in a session ---------------------------------------------------------------------------------


async def test_a_tool_of_a_session(tmp_path: Path) -> None:
    """The model's commands run in the sandbox, it is told so, the log holds what is enforced, and
    nothing stays.
    """
    if not sandbox_probe.probe().by:
        pytest.skip("no sandbox here")
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path, approve="auto", answers=["done"]
    ) as b:
        result = await b.call("run_terminal_cmd", command="echo hi > in && cat in; echo x > ../out")
        assert "hi" in result.text
        assert (b.workspace / "in").read_text() == "hi\n"
        [note] = [event for event in b.events if getattr(event, "name", "") == "guard.sandbox"]
        assert note.data["by"] == sandbox_probe.probe().by
        await b.run("hello")
        assert "Commands run in a sandbox." in b.requests[-1].body.decode()
        folder = b.session.plugin(Guard).sandbox.folder
        assert "tmp" in os.listdir(folder)
    assert os.path.basename(folder) not in os.listdir(os.path.dirname(folder))
    assert os.listdir(tmp_path / "workspace") == ["in"]


async def test_nothing_is_tried_before_the_first_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is told what is presumed.

    When the first command finds something else, it is told that.
    """
    found = Enforcement(reasons=("Nothing: tried in vain.",))
    trials = []

    @functools.cache
    def probe() -> Enforcement:
        trials.append(1)
        return found

    monkeypatch.setattr(sandbox_probe, "probe", probe)
    presumed = sandbox_probe.presume_enforcement()
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path, approve="auto", answers=["done", "done"]
    ) as b:
        await b.run("hello")
        assert not trials
        assert describe_sandbox(presumed, GuardSettings()) in b.requests[-1].body.decode().replace(
            '\\"', '"'
        )
        await b.call("run_terminal_cmd", command="true")
        assert trials == [1]
        await b.run("hello again")
        assert "without a sandbox" in b.requests[-1].body.decode()


def test_a_folder_that_python_no_longer_imports_from_is_not_mounted(tmp_path, monkeypatch):
    """bubblewrap starts nothing if a source is missing, and a program may remove a folder that was
    on its path.
    """
    folder = Path("/tmp").resolve() / f"hilum-test-{tmp_path.name}-{os.getpid()}"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    try:
        assert str(folder) in bubblewrap._find_python_folders()
    finally:
        folder.rmdir()
    assert str(folder) not in bubblewrap._find_python_folders()
    monkeypatch.undo()
    assert str(folder) not in bubblewrap._find_python_folders()
