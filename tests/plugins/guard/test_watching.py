"""What appears in a workspace and would be executed: it is noticed, whoever wrote it, and made
inert; and nothing else is.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hilum_guard.repositories import git_metadata
from hilum_guard.repositories.git_index import find_nested_repositories
from hilum_guard.watching import quarantine
from hilum_guard.watching.executed_files import TABLE, find_name, find_path
from hilum_guard.watching.sandbox_observer import SandboxObserver
from hilum_guard.watching.watch_thread import WatchThread
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher
from hypothesis import given
from hypothesis import strategies as st


def git(folder: Path, *words: str) -> str:
    """Run Git as the user, with no configuration but the folder's own."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "b",
    }
    environ |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "b", "GIT_CONFIG_NOSYSTEM": "1"}
    argv = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(
        argv, cwd=folder, env=environ, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a commit to copy, which is faster than creating one."""
    root = tmp_path_factory.mktemp("repository") / "proj"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


@pytest.fixture
def root(tmp_path: Path, repository: Path) -> Path:
    """A repository with a commit."""
    return shutil.copytree(repository, tmp_path.resolve() / "proj")


def watch(root: Path, alive: int = 1) -> WorkspaceWatcher:
    """A watch whose command may be running."""
    return WorkspaceWatcher([str(root)], alive=lambda: alive)


ORDINARY = {
    "a commit": "echo a > a && git add a && git commit -qm two && git branch other && git checkout -q other",
    "a merge": "git checkout -qb b && git commit -q --allow-empty -m b && git checkout -q - && git merge -q b",
    "a stash": "echo a > a && git add a && git commit -qm a && echo b > a && git stash -q && git stash pop -q",
    "a rebase": "git checkout -qb b && git commit -q --allow-empty -m b && git rebase -q HEAD~1",
    "a linked worktree": "git worktree add -q tree && cd tree && echo a > a && git add a && git commit -qm a",
    "a repository": "git init -q sub && cd sub && git commit -q --allow-empty -m x && git config user.name somebody",
    "a clone": "git init -q sub && git -C sub commit -q --allow-empty -m x && git clone -q sub other && git -C other fetch -q",
    "a submodule": "git init -q lib && git -C lib commit -q --allow-empty -m x && git submodule --quiet add ./lib mod",
    "a bare repository": "git init -q --bare b.git && git push -q b.git HEAD:main",
    "attributes": "echo '* text=auto' > .gitattributes && echo x > .gitignore && git add -A && git commit -qm x",
    "versions": "echo 3.11 > .python-version && echo nodejs 20 > .tool-versions && echo 20 > .nvmrc",
    "files": "mkdir -p a/b/c .github/workflows .ci && echo x > a/b/c/d.py && echo x > .github/workflows/ci.yml && rm -r a",
    "sparse": "git config core.sparseCheckout true && git gc -q && git tag v1 && git notes add -m x",
}


@pytest.mark.parametrize("script", [pytest.param(text, id=name) for name, text in ORDINARY.items()])
def test_ordinary_work_is_left_alone(root: Path, script: str) -> None:
    one = watch(root)
    one.begin()
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_COUNT": "3"}
    for number, (key, value) in enumerate(
        (("user.name", "a"), ("user.email", "b"), ("protocol.file.allow", "always"))
    ):
        environ |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    subprocess.run(["bash", "-ec", script], cwd=root, env=environ, check=True, capture_output=True)
    assert one.check() == []


@pytest.fixture
def project(root: Path) -> Path:
    """A repository with committed rules, settings of an editor and a start-up file."""
    for name in (".hilum/rules.lock", ".vscode/tasks.json", "sub/.envrc"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(f"{name}\n")
    git(root, "add", ".")
    git(root, "commit", "-qm", "two")
    return root


def test_what_git_checks_out_in_a_working_tree_stays(project: Path) -> None:
    alive = 1
    one = WorkspaceWatcher([str(project)], alive=lambda: alive)
    one.begin()
    git(project, "worktree", "add", "-q", "tree", "-b", "me/x")
    assert one.check() == []
    alive = 0
    assert one.check() == []
    held, said = one.begin()
    assert said == []
    # What is not protected can be removed and checked out again.
    assert [path for path in held if f"{project}/tree/" in path] == [f"{project}/tree/.git"]
    assert git(project / "tree", "status", "--porcelain") == ""
    git(project, "worktree", "remove", "tree")
    assert one.check() == []


@pytest.mark.parametrize(
    "path",
    [".vscode/tasks.json", ".vscode/new.json", ".hilum/settings.toml", "sub/.envrc", ".envrc"],
)
def test_what_a_command_changes_in_a_working_tree_is_made_inert(project: Path, path: str) -> None:
    one = watch(project, alive=0)
    one.begin()
    git(project, "worktree", "add", "-q", "tree")
    assert one.check() == []
    one.begin()
    (project / "tree" / path).write_text("x")
    said = one.check()
    assert len(said) == 1
    assert ".quarantined" in said[0]


def test_rules_of_another_branch_stay_as_they_were_committed(project: Path) -> None:
    (project / ".hilum/rules.lock").write_text("more\n")
    one = watch(project, alive=0)
    one.begin()
    git(project, "worktree", "add", "-q", "tree")
    assert one.check() == []
    (project / "tree/.hilum/rules.lock").write_text("fewer\n")
    one.begin()
    (project / "tree/sub/other").write_text("x")
    assert one.check() == [], "the user changed it while nothing ran"
    one.begin()
    git(project, "worktree", "add", "-q", "other")
    (project / "other/.hilum/rules.lock").write_text("fewer\n")
    assert "other/.hilum was written by a command" in one.check()[0]


def test_a_folder_that_only_looks_like_a_working_tree_keeps_nothing(project: Path) -> None:
    one = watch(project, alive=0)
    one.begin()
    git(project, "worktree", "add", "-q", "tree")
    shutil.copytree(project / "tree", project / "copy")
    shutil.copytree(project / ".vscode", project / "plain/.vscode")
    said = "\n".join(one.check())
    assert "copy/.hilum was" in said
    assert "plain/.vscode was" in said
    assert "tree/" not in said


def test_what_the_user_does_between_commands_stays(root: Path) -> None:
    one = watch(root, alive=0)
    one.begin()
    assert one.check() == []
    git(root, "config", "core.pager", "delta")
    (root / ".envrc").write_text("x")
    (root / ".git/hooks/pre-commit").write_text("x")
    held, said = one.begin()
    assert said == []
    assert {f"{root}/.envrc", f"{root}/.git/config", f"{root}/.git/hooks"} <= set(held)
    assert one.check() == []
    assert git(root, "config", "core.pager") == "delta\n"


def test_what_a_command_does_is_made_inert_also_when_it_is_seen_late(root: Path) -> None:
    one = watch(root, alive=0)
    one.begin()
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/.envrc").write_text("x")
    assert "a/b/.envrc was written by a command" in one.begin()[1][0], (
        "nobody had looked before the next command"
    )
    assert (root / "a/b/.envrc.quarantined").read_text() == "x"
    assert not (root / "a/b/.envrc").exists()


def test_settings_that_execute_nothing_stay_in_a_file_that_loses_others(root: Path) -> None:
    git(root, "init", "-q", "sub")
    one = watch(root)
    one.begin()
    git(root / "sub", "config", "core.fsmonitor", "evil")
    git(root / "sub", "config", "remote.origin.url", "https://example.com/x")
    git(root / "sub", "config", "filter.x.smudge", "evil")
    (line,) = one.check()
    assert "core.fsmonitor=evil" in line
    assert "filter.x.smudge=evil" in line
    listed = git(root / "sub", "config", "--list", "--local")
    assert "remote.origin.url=https://example.com/x" in listed
    assert "evil" not in listed


def test_a_link_in_the_way_leads_nowhere(root: Path, tmp_path: Path) -> None:
    """What is renamed is in the workspace, though a command has put a link in the path
    meanwhile.
    """
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ".envrc").write_text("mine")
    (root / "sub").mkdir()
    one = watch(root)
    one.begin()
    (root / "sub/.envrc").write_text("x")
    entries = one._look() - one._known
    (root / "sub/.envrc").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(outside)
    assert one._quarantine.make_inert(entries, one._known) == []
    assert (outside / ".envrc").read_text() == "mine"


def test_a_held_file_that_another_one_takes_the_place_of(root: Path) -> None:
    one = watch(root)
    one.begin()
    assert one.replaced() == []
    (root / ".git/config").write_text((root / ".git/config").read_text() + "# in its place\n")
    assert one.replaced() == []
    git(root, "config", "user.name", "somebody")
    assert one.replaced() == [f"{root}/.git/config"]
    assert one.replaced() == [], "it is said once"


def test_a_file_that_the_user_agreed_to_stays(root: Path) -> None:
    one = watch(root)
    one.exempt = lambda: [str(root / ".vscode/tasks.json")]
    one.begin()
    (root / ".vscode").mkdir()
    (root / ".vscode/tasks.json").write_text("x")
    (root / ".envrc").write_text("x")
    assert len(one.check()) == 1
    one.accept(str(root / ".vscode/tasks.json"))
    one.exempt = tuple
    assert one.check() == []
    assert (root / ".vscode/tasks.json").exists()


def test_the_thread_ends_whenever_it_is_told_to(root: Path) -> None:
    """Also in the moment in which it finds that nothing runs any more."""
    for number in range(30):
        one = watch(root, alive=0)
        looked = threading.Event()
        one.alive = lambda looked=looked: looked.set() or 0
        follower = WatchThread(one, SandboxObserver())
        follower.wake()
        if number % 2:
            looked.wait(5)
        ended = threading.Thread(target=follower.stop)
        ended.start()
        ended.join(20)
        assert not ended.is_alive()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("sub/.git", "gitdir: ../evil\0.git\n"), ("sub/.git", "gitdir: ../evil \n"), ("sub/.git", "gitdir:  ../evil\n"),
        ("sub/.git", "gitdir: ../../evil" + "\n" * 1_048_000), ("sub/.git", "gitdir: ../evil" + "\n" * 1_050_000),
        ("bare/commondir", "../evil\0x\n"), ("bare/config", "[core]\n\thooksPath = a\0b\n"),
        ("bare/config", "[include]\n\tpath = ~a\0b\n"), ("bare/rebase-merge/git-rebase-todo", "#" * 1_100_000 + "\nexec x\n"),
    ],
    ids=lambda text: str(text)[:30].replace("\0", "0").replace("\n", " "),
)  # fmt: skip
def test_what_git_reads_otherwise_is_made_inert_with_all_the_rest(
    root: Path, path: str, text: str
) -> None:
    """NUL bytes, spaces at an end, and files that are too large: Git follows some of them, so none
    of them stays.
    """
    git(root, "init", "-q", "--bare", "bare")
    (root / "sub").mkdir()
    one = watch(root)
    one.begin()
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).write_text(text)
    (root / ".envrc").write_text("x")
    said = "\n".join(one.check())
    assert path in said
    assert ".envrc was written" in said
    assert not (root / ".envrc").exists()
    assert not (root / path).exists() or (root / path).read_text() != text


@pytest.mark.parametrize("key", ["core.hooksPath", "include.path"])
def test_a_setting_of_the_users_that_names_no_path_stops_nothing(root: Path, key: str) -> None:
    section, _, name = key.partition(".")
    with (root / ".git/config").open("a") as file:
        file.write(f"[{section}]\n\t{name} = ~a\0b\n")
    one = watch(root)
    one.begin()
    (root / ".envrc").write_text("x")
    assert len(one.check()) == 1


def test_what_was_made_inert_is_known_before_anybody_finds_nothing_to_do(root: Path) -> None:
    """A call whose check waits for another one, or finds that nothing is dirty, reads the report."""
    reports: list[tuple[list[str], bool, list[str]]] = []

    def report(sentences: list[str]) -> None:
        # Another thread cannot check until the report is made.
        other = threading.Thread(target=lambda: found.extend(one.check()) or ended.set())
        found: list[str] = []
        ended = threading.Event()
        other.start()
        assert not ended.wait(0.05)
        waiting.append(other)
        reports.append((sentences, one.dirty, found))

    waiting: list[threading.Thread] = []
    one = WorkspaceWatcher([str(root)], alive=lambda: 0, report=report)
    one.begin()
    (root / ".envrc").write_text("x")
    said = one.check()
    waiting[0].join(20)
    assert reports == [(said, True, [])]
    assert said
    assert not one.dirty


class FailureRecorder(SandboxObserver):
    """Records the errors of failed checks."""

    def __init__(self) -> None:
        self.failed: list[Exception] = []

    def report_failure(self, error: Exception) -> None:
        self.failed.append(error)


def test_the_thread_survives_what_a_look_fails_with(root: Path) -> None:
    """It says what it was, and looks again."""
    one = watch(root)
    observer = FailureRecorder()
    failed = observer.failed
    again = threading.Event()

    def alive() -> int:
        if failed:
            again.set()
            return 0
        raise ValueError("no such thing")

    one.alive = alive
    follower = WatchThread(one, observer)
    follower.wake()
    assert again.wait(20)
    follower.stop()
    assert [str(error) for error in failed] == ["no such thing"]


@pytest.fixture
def owned() -> Iterator[Path]:
    """A folder of an ordinary user's, who the test is: root is kept from nothing."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve() / "proj"
        place.mkdir()
        Path(folder).chmod(0o755)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(place, 65534, 65534)
            os.setegid(65534)
            os.seteuid(65534)
        try:
            yield place
        finally:
            if is_root:
                os.seteuid(0)
                os.setegid(0)


@pytest.mark.parametrize("mode", [0o555, 0o311, 0o111, 0o000])
@pytest.mark.parametrize("path", ["s/.envrc", "s/t/u/.envrc", "s/.vscode/tasks.json"])
def test_a_folder_that_its_owner_cannot_write_or_list_hides_nothing(
    owned: Path, mode: int, path: str
) -> None:
    one = watch(owned)
    one.begin()
    (owned / path).parent.mkdir(parents=True)
    (owned / path).write_text("x")
    folder = (owned / path).parent
    while folder != owned:
        folder.chmod(mode)
        folder = folder.parent
    said = "\n".join(one.check())
    assert "was written by a command" in said
    subprocess.run(["chmod", "-R", "u+rwX", owned], check=True)
    assert not (owned / path).exists()
    assert one.check() == []


def test_a_hook_in_a_folder_that_cannot_be_listed_is_found(owned: Path) -> None:
    one = watch(owned)
    one.begin()
    subprocess.run(
        ["git", "init", "-q", "sub"],
        cwd=owned,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere"},
    )
    hook = owned / "sub/.git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("x")
    hook.parent.chmod(0o311)
    assert "is a hook" in "\n".join(one.check())
    assert not hook.exists()


def test_what_cannot_be_made_inert_is_told_and_never_becomes_the_users(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once, tried again at each look, and leaves the others alone."""
    one = watch(root, alive=0)
    one.begin()
    (root / ".envrc").write_text("x")
    (root / ".exrc").write_text("x")
    with monkeypatch.context() as patch:
        rename = quarantine._rename

        def refused(path: str) -> str:
            if path.endswith(".envrc"):
                raise PermissionError(1, "Operation not permitted")
            return rename(path)

        patch.setattr(quarantine, "_rename", refused)
        said = one.check()
        assert ".envrc could not be made inert" in said[0]
        assert ".exrc was written" in said[1]
        assert one.begin()[1] == []
        assert one.check() == []
    one.begin()
    assert ".envrc was written" in one.check()[0]


LINES = [
    "[core]", '[remote "o"]', "[gc]", "[alias]", "\tbare = false", "\tfsmonitor = x", "\turl = a", "\tst = !x", "name", "\\",
    "[core] fsmonitor = x", "\ta = b\\", "; c\\", "\x0b", 'key="', "[x",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES)))
def test_no_setting_that_executes_is_overlooked(lines: list[str]) -> None:
    """Whatever Git reads in a file after it was rewritten executes nothing."""
    text = "\n".join(lines)
    found = [
        setting
        for setting in git_metadata.parse_config(text)
        if not git_metadata.is_harmless(setting)
    ]
    rest = git_metadata.without(text, [git_metadata.describe(setting) for setting in found])
    done = subprocess.run(
        ["git", "config", "--file", "-", "--list"], input=rest, capture_output=True, text=True
    )
    assert not any(
        line.startswith(("core.fsmonitor", "alias.")) for line in done.stdout.splitlines()
    )


def test_the_table_is_found_by_path_and_name() -> None:
    for row in TABLE:
        name = row.pattern.replace("*", "x")
        assert find_path(f"a/{name.upper()}/b") is not None or "/" in name
        assert find_path(f"a/{name}") == (name, row)
        assert row.program
        assert row.when
    assert find_name("x.py") is None
    assert find_path("src/git/config") is None


def test_a_hook_and_a_link_are_made_inert_once(root: Path) -> None:
    """A hook with its new name is no new hook, and a link that was put back no new link."""
    git(root, "init", "-q", "--bare", "elsewhere")
    (root / "sub").mkdir()
    (root / "sub/.git").symlink_to(root / "elsewhere")
    one = watch(root)
    one.begin()
    (root / ".git/hooks/pre-commit").write_text("x")
    (root / "sub/.git").unlink()
    (root / "sub/.git").symlink_to("/etc")
    assert len(one.check()) == 2
    assert one.check() == []
    assert (root / ".git/hooks/pre-commit.quarantined").exists()
    assert os.readlink(root / "sub/.git") == str(root / "elsewhere")


def monitored(folder: Path) -> str:
    """Create a repository whose configuration executes a program. Returns its commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    commit = git(folder, "rev-parse", "HEAD").strip()
    git(folder, "config", "core.fsmonitor", "evil")
    return commit


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_the_nested_repositories_of_an_index_are_read(
    tmp_path: Path, version: str, objects: str
) -> None:
    git(tmp_path, "init", "-q", f"--object-format={objects}")
    commit = "1" * (40 if objects == "sha1" else 64)
    wanted = ["a/b c/d", "a/b c/e", "sub", "s\xfcb", "z/" + "long/" * 60 + "end"]
    for name in ("a/a", "m", "y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", "-A")
    for path in wanted:
        git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    if version == "3":
        (tmp_path / "later").write_text("x")
        git(tmp_path, "add", "-N", "later")
    else:
        git(tmp_path, "update-index", "--index-version", version)
    assert (tmp_path / ".git/index").read_bytes()[7] == int(version)
    assert set(git_metadata.gitlinks(f"{tmp_path}/.git")) >= set(wanted)


@pytest.mark.parametrize("objects", ["sha1", "sha256"])
def test_an_index_is_read_with_the_hashes_of_its_repository(tmp_path: Path, objects: str) -> None:
    """Read with hashes of the other size, a part of a name may look like a nested repository."""
    git(tmp_path, "init", "-q", f"--object-format={objects}")
    sizes = git_metadata._list_hash_sizes(f"{tmp_path}/.git")
    assert sizes == ((20,) if objects == "sha1" else (32,))
    config = tmp_path / ".git/config"
    plain = config.read_text()
    # What is not certain is read with both sizes.
    for line in ("objectformat = sha3", 'objectformat = sha1"x"', "objectformat = sha\\\n256"):
        config.write_text(f"{plain}[extensions]\n\t{line}\n")
        assert len(git_metadata._list_hash_sizes(f"{tmp_path}/.git")) == 2
    config.unlink()
    config.symlink_to("elsewhere")
    assert len(git_metadata._list_hash_sizes(f"{tmp_path}/.git")) == 2


def test_a_file_is_no_nested_repository_because_of_the_other_hash_size(root: Path) -> None:
    """Parts of this name are flags and a mode if the index is read with hashes of 32 bytes."""
    name = f"{'a' * 10}  {'b' * 64}\ud55c{'c' * 43}  {'d' * 40}"
    for each in (name, "z"):
        (root / each).write_text("x")
    git(root, "add", "-A")
    assert find_nested_repositories(f"{root}/.git/index")
    assert git_metadata.gitlinks(f"{root}/.git") == set()
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    assert git_metadata.gitlinks(f"{root}/.git") == {"sub"}


def test_a_split_index_is_read(root: Path) -> None:
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(root, "update-index", "--split-index")
    assert "sub" in git_metadata.gitlinks(f"{root}/.git")


def indexed(root: Path, count: int) -> bytes:
    """The index of a repository with files and a nested repository, without its checksum."""
    for number in range(count):
        (root / f"file{number}").write_text("x")
    git(root, "add", "-A")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    return (root / ".git/index").read_bytes()[:-20]


def test_a_nested_repository_with_unusual_bits_in_its_mode_is_read(root: Path) -> None:
    """Git looks only at the type in the mode."""
    data = indexed(root, 1).replace(b"\0\0\xe0\0", b"\x12\x34\xe1\xed")
    (root / ".git/index").write_bytes(data + hashlib.sha1(data).digest())
    assert git(root, "ls-files", "--stage").split()[-1] == "sub"
    assert git_metadata.gitlinks(f"{root}/.git") == {"sub"}


def test_entries_that_an_extension_names_are_read(root: Path) -> None:
    """Git reads them instead of those that follow the header."""
    data = bytearray(indexed(root, 1))
    at = data.index(b"sub\0") - 62
    data[8:12] = (1).to_bytes(4)
    blocks = at.to_bytes(4) + (1).to_bytes(4)
    data += b"IEOT" + (4 + len(blocks)).to_bytes(4) + (1).to_bytes(4) + blocks
    (root / ".git/index").write_bytes(data)
    assert "sub" in git_metadata.gitlinks(f"{root}/.git")


def test_no_path_of_an_index_has_a_nul_byte(root: Path) -> None:
    """Read with hashes of the other size, an entry has a long path that no function accepts."""
    (root / "README.md").write_text("x")
    git(root, "add", "-A")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},.hg/store/sub")
    index = root / ".git/index"
    data = index.read_bytes()
    at = data.index(b".hg/store/sub")
    # The 12 bytes after the flags of 20-byte hashes are those of the flags of 32-byte ones.
    index.write_bytes(data[: at + 10] + b"\0\x80" + data[at + 12 :])
    assert git_metadata.gitlinks(f"{root}/.git")
    assert not any("\0" in path for path in git_metadata.gitlinks(f"{root}/.git"))


@pytest.mark.parametrize("cut", [0, 4, 11, 12, 40, 74, 80])
def test_a_broken_index_is_read_as_far_as_it_goes(root: Path, cut: int) -> None:
    """A damaged index is no reason to fail."""
    data = indexed(root, 3)
    (root / ".git/index").write_bytes(data[:cut] if cut else data + b"IEOT")
    assert git_metadata.gitlinks(f"{root}/.git") == (set() if cut else {"sub"})


def test_entries_named_again_and_again_are_not_read_forever(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of entries that are read has a limit."""
    monkeypatch.setattr("hilum_guard.repositories.git_index.MAX_ENTRIES", 10)
    data = indexed(root, 3)
    blocks = ((12).to_bytes(4) + (3).to_bytes(4)) * 100_000
    data += b"IEOT" + (4 + len(blocks)).to_bytes(4) + (1).to_bytes(4) + blocks
    (root / ".git/index").write_bytes(data)
    assert git_metadata.gitlinks(f"{root}/.git") == {"sub"}


def test_an_index_that_is_no_file_has_no_nested_repositories(root: Path) -> None:
    """Reading a pipe or a device would not end."""
    index = root / ".git/index"
    index.unlink(missing_ok=True)
    index.symlink_to("/dev/zero")
    assert git_metadata.gitlinks(f"{root}/.git") == set()
    index.unlink()
    os.mkfifo(index)
    assert git_metadata.gitlinks(f"{root}/.git") == set()


def test_beyond_the_limit_nested_repositories_of_the_index_are_seen(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hilum_guard.watching.folder_scan.MAX_FOLDERS", 5)
    one = watch(root)
    one.begin()
    assert not one.truncated
    for number in range(10):
        (root / f"a{number}").mkdir()
    commit = monitored(root / "z/y/x/deep")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{commit},z/y/x/deep")
    assert "core.fsmonitor=evil" in "\n".join(one.check())
    assert one.truncated


def test_what_is_in_a_folder_that_was_made_inert_is_no_second_finding(root: Path) -> None:
    one = watch(root)
    one.begin()
    (root / ".vscode").mkdir()
    (root / ".vscode/mcp.json").write_text("{}")
    (root / ".vscode/.envrc").write_text("x")
    (line,) = one.check()
    assert "VS Code" in line
    assert one.check() == []


def test_a_virtual_environment_of_a_command_stays(root: Path) -> None:
    one = watch(root)
    one.begin()
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/bin/python").write_text("x")
    (root / ".npmrc").write_text("x")
    assert one.check() == []


def test_names_that_are_no_text_are_told_as_text(root: Path) -> None:
    one = watch(root)
    one.begin()
    strange = os.fsencode(root) + b"/sub\xff\n\x1b"
    os.makedirs(strange + b"/.vscode")
    (root / "sub").mkdir()
    os.symlink(b"/out\xff", os.fsencode(root) + b"/sub/.git")
    said = "\n".join(one.check())
    said.encode()
    assert "sub\\xff\\x0a\\x1b/.vscode was written" in said
    assert "/out\\xff" in said


@pytest.mark.parametrize(
    "name", ["COMMIT_EDITMSG", "rebase-merge/done", "rr-cache/x/postimage", "info/exclude"]
)
def test_a_link_out_of_a_git_folder_is_made_inert_once(
    root: Path, tmp_path: Path, name: str
) -> None:
    one = watch(root)
    one.begin()
    path = root / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "outside")
    assert len(one.check()) == 1
    assert one.check() == []
    assert not path.is_symlink()


def test_a_kill_while_a_file_is_rewritten_leaves_the_old_or_the_new_one(tmp_path, monkeypatch):
    config = tmp_path / "config"
    written = "[core]\n\tfsmonitor = touch executed\n\tbare = false\n"
    config.write_text(written)

    def end(*arguments, **more):
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", end)
        with pytest.raises(SystemExit):
            quarantine._rewrite(str(config), ["core.fsmonitor=touch executed"])
    assert config.read_text() == written
    kept = quarantine._rewrite(str(config), ["core.fsmonitor=touch executed"])
    assert "fsmonitor" not in config.read_text()
    assert Path(kept).read_text() == written
