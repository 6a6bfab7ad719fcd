"""Git in the sandbox never records that a hidden file was deleted, and never removes one."""

import json
import os
import subprocess
import time

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum_guard.sandbox import backends
from hilum_guard.sandbox.placeholders import Placeholders
from hilum_guard.sandbox.session_sandbox import ProtectedPaths

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
SECRETS = {"secrets/k.md": "the-key\n", "secrets/sub/run.sh": "echo key\n", ".env.example": "A=1\n"}
FILES = {
    ".claude/settings.json": json.dumps(
        {"permissions": {"deny": ["Read(./secrets/**)", "Read(./.env.example)"]}}
    ),
    "src/a.py": "1\n",
    **SECRETS,
}


def git(place, *words):
    """Run Git outside the sandbox in a folder or a session's workspace, and return its output."""
    argv = ["git", "-C", getattr(place, "workspace", place), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def commit_all(kit):
    """Make the workspace a repository and commit everything."""
    git(kit, "init", "-q")
    git(kit, "config", "user.name", "someone")
    git(kit, "config", "user.email", "someone@example.org")
    (kit.workspace / "secrets/sub/run.sh").chmod(0o755)
    git(kit, "add", "-A")
    git(kit, "commit", "-q", "-m", "first")


def age(kit):
    """Make the files older than the index, as in a repository that is in use."""
    for name in FILES:
        os.utime(kit.workspace / name, (time.time() - 100, time.time() - 100))
    git(kit, "update-index", "--refresh")


def check_nothing_lost(kit):
    """Check that the hidden files are in the commit, in the index and on the disk, unchanged."""
    for name, text in SECRETS.items():
        assert git(kit, "show", f"HEAD:{name}") == text
        assert git(kit, "show", f":{name}") == text
        assert (kit.workspace / name).read_text() == text


@pytest.fixture
async def kit(bench):
    """A session in a repository with tracked files that rules hide."""
    kit = await bench(*PLUGINS, approve="auto", files=FILES)
    if isinstance(backends.check_bubblewrap(), str):
        pytest.skip("bubblewrap does not work on this system")
    commit_all(kit)
    return kit


async def run(kit, command):
    """Run a command of the model."""
    with kit.guard():
        return await kit.call("run_terminal_cmd", command=command)


@pytest.mark.parametrize("aged", [True, False], ids=["older", "as new as the index"])
@pytest.mark.parametrize(
    "command",
    [
        "git add -A && git commit -q -m work",
        "git commit -q -am work",
        "git add src/a.py && git commit -q -m work",
        "git add . && git commit -q -m work",
        "git commit -q -m work src/a.py",
        """python3 -c "import os; os.system('git add -A && git commit -q -m work')" """,
    ],
)
async def test_commits_keep_hidden_files(kit, command, aged):
    if aged:
        age(kit)
    result = await run(kit, f"echo 2 > src/a.py; {command}")
    assert not result.code, result.text
    assert git(kit, "show", "--name-only", "--format=", "HEAD").split() == ["src/a.py"]
    check_nothing_lost(kit)
    assert git(kit, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "command",
    [
        "git stash -q && git stash pop -q",
        "git checkout -q -- . && echo 2 > src/a.py",
        "git reset -q --hard && echo 2 > src/a.py",
        "git restore . && echo 2 > src/a.py",
        "git reset -q && git status --short",
        "git checkout -q -b other && git add -u",
    ],
)
async def test_other_commands_leave_hidden_files_alone(kit, command):
    script = f"import os\nos.system({f'echo 2 > src/a.py; {command}'!r})\n"
    (kit.workspace / "do.py").write_text(script)
    git(kit, "add", "do.py")
    git(kit, "commit", "-q", "-m", "script")
    result = await run(kit, "python3 do.py")
    assert not result.code, result.text
    check_nothing_lost(kit)
    assert git(kit, "status", "--porcelain") in (" M src/a.py\n", "M  src/a.py\n")


async def test_a_stash_of_untracked_files_leaves_hidden_files_alone(kit):
    command = "echo 2 > src/a.py; git stash -q -u && git stash pop -q"
    # Git cannot remove the empty folders that the sandbox protects, and stops with exit code 1.
    await run(kit, command)
    check_nothing_lost(kit)
    assert git(kit, "status", "--porcelain") == " M src/a.py\n"


async def test_git_sees_nothing_of_hidden_files(kit):
    result = await run(kit, "git status --short; git diff --stat")
    assert "secrets" not in result.text
    assert ".env.example" not in result.text
    result = await run(kit, """python3 -c "print(open('sec'+'rets/k.md').read())" """)
    assert "the-key" not in result.text
    assert "Permission denied" in result.text
    result = await run(kit, "tar cf - . 2>/dev/null | tar xOf - 2>/dev/null; true")
    assert "the-key" not in result.text


async def test_the_users_own_change_of_a_hidden_file_is_not_lost(kit):
    (kit.workspace / "secrets/k.md").write_text("a newer key\n")
    result = await run(kit, "echo 2 > src/a.py; git commit -q -am work; git status --short")
    assert not result.code, result.text
    assert (kit.workspace / "secrets/k.md").read_text() == "a newer key\n"
    assert git(kit, "show", "HEAD:secrets/k.md") == "the-key\n"
    assert git(kit, "status", "--porcelain") == " M secrets/k.md\n"


async def test_a_split_index_fails_closed(kit):
    git(kit, "update-index", "--split-index")
    await run(kit, "echo 2 > src/a.py; git add -A; git commit -q -am work")
    check_nothing_lost(kit)


async def test_a_hidden_link_stays(kit):
    (kit.workspace / "secrets/link").symlink_to("k.md")
    git(kit, "add", "-A")
    git(kit, "commit", "-q", "-m", "link")
    result = await run(kit, "echo 2 > src/a.py; git add -A && git commit -q -m work")
    assert not result.code, result.text
    assert git(kit, "show", "--name-only", "--format=", "HEAD").split() == ["src/a.py"]
    check_nothing_lost(kit)


async def test_no_sandbox_lets_git_record_a_deletion(box, root):
    """Landlock hides only the content, so Git also sees that the files exist."""
    for name, text in {"secrets/k.md": "the-key\n", "src/a.py": "1\n"}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (time.time() - 100, time.time() - 100))
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    processes = box.processes()
    hidden = ProtectedPaths(hidden=(str(root / "secrets"),))
    box.sandboxes[-1].extra_protected["rules"] = lambda: hidden
    script = "cat secrets/k.md; echo 2 > src/a.py; git add -A; git commit -q -am work; git status"
    done = await processes.run(("bash", "-c", script))
    assert "the-key" not in str(done)
    names = git(root, "ls-tree", "-r", "--name-only", "HEAD").split()
    assert names == ["secrets/k.md", "src/a.py"]


def test_the_index_of_another_repository_is_not_written(tmp_path):
    """A command can write a `.git` file that names any repository."""
    other = tmp_path / "other"
    (other / "secrets").mkdir(parents=True)
    (other / "secrets/k").write_text("k")
    git(other, "init", "-q")
    git(other, "add", "-A")
    # Otherwise what is written may be the same, if all happens within one tick of the clock.
    os.utime(other / "secrets/k", (1, 1))
    before = (other / ".git/index").read_bytes()
    work = tmp_path / "work"
    (work / "secrets").mkdir(parents=True)
    (work / ".git").write_text(f"gitdir: {other}/.git")
    placeholders = Placeholders(str(tmp_path / "placeholders"))
    placeholders.create([str(work / "secrets")], [str(work)])
    assert (other / ".git/index").read_bytes() == before
    placeholders.create([str(other / "secrets")], [str(other)])
    assert (other / ".git/index").read_bytes() != before
    git(other, "fsck")
    assert git(other, "diff", "--name-only") == ""
