"""What commands left in folders of installed packages is made inert when the session ends."""

import os
import random
import time
from functools import partial
from pathlib import Path

import pytest
from hilum_guard.repositories import git_metadata
from hilum_guard.watching import quarantine, workspace_watcher
from hilum_guard.watching.folder_scan import FolderScan
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

PACKAGES = ("node_modules", "lib/site-packages", "src/__pycache__")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for each in PACKAGES:
        (tmp_path / each / "old" / ".vscode").mkdir(parents=True)
        (tmp_path / each / "old" / "inner").mkdir()
    return tmp_path.resolve()


@pytest.fixture
def watch(root: Path) -> WorkspaceWatcher:
    wait()
    return WorkspaceWatcher([str(root)], alive=lambda: 0)


def wait() -> None:
    """Wait until changes have another time than before; no program can set these times."""
    time.sleep(0.07)


def run(watch: WorkspaceWatcher, command) -> None:
    """Run a command, and what the user does before and after it."""
    wait()
    watch.begin()
    command()
    watch.check()
    wait()


def names(sentences: list[str]) -> set[str]:
    return {sentence.partition(" ")[0] for sentence in sentences}


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("others", [0, 2])
def test_a_file_of_a_command_that_ended_is_found(root, watch, package, others):
    """However many commands follow."""
    folder = root / package
    run(watch, (folder / ".envrc").touch)
    run(watch, (folder / "new" / "x").mkdir(parents=True) or (folder / "new/x/.envrc").touch)
    for _ in range(others):
        run(watch, (root / "a.txt").touch)
    found = watch.check(everywhere=True)
    assert {f"{package}/.envrc"} <= names(found)
    assert (folder / ".envrc.quarantined").exists()
    assert (folder / "old" / ".vscode").is_dir()
    assert watch.check(everywhere=True) == []


def test_the_users_own_files_between_commands_are_left_alone(root, watch):
    run(watch, (root / "a.txt").touch)
    (root / "node_modules" / "mine").mkdir()
    (root / "node_modules" / "mine" / ".envrc").touch()
    (root / "node_modules" / "old" / ".envrc").touch()
    (root / ".envrc").touch()
    run(watch, (root / "b.txt").touch)
    (root / "lib" / "site-packages" / "mine").mkdir()
    (root / "lib" / "site-packages" / "mine" / ".envrc").touch()
    assert watch.check(everywhere=True) == []
    assert (root / "node_modules" / "mine" / ".envrc").exists()


def test_what_was_there_is_left_alone_when_a_command_installs_something(root, watch):
    run(watch, (root / "node_modules" / "new").mkdir)
    assert watch.check(everywhere=True) == []
    assert (root / "node_modules" / "old" / ".vscode").is_dir()


def test_what_a_command_moved_there_is_found(root, watch):
    """Also a whole folder of packages, whose content is older."""
    (root / "parked" / ".vscode").mkdir(parents=True)
    (root / "whole" / "pkg" / ".vscode").mkdir(parents=True)
    run(watch, lambda: (root / "parked").rename(root / "node_modules" / "moved"))
    assert names(watch.check(everywhere=True)) == {"node_modules/moved/.vscode"}
    run(watch, lambda: (root / "node_modules").rename(root / "before"))
    run(watch, lambda: (root / "whole").rename(root / "node_modules"))
    found = names(watch.check(everywhere=True))
    assert "node_modules/pkg/.vscode" in found


def test_many_intervals_are_joined(root, watch, monkeypatch):
    monkeypatch.setattr(workspace_watcher, "MAX_INTERVALS", 3)
    for number in range(6):
        run(watch, (root / "node_modules" / f"{number}").mkdir)
        run(watch, (root / "node_modules" / f"{number}" / ".envrc").touch)
    assert len(watch._intervals) == 3
    assert names(watch.check(everywhere=True)) == {
        f"node_modules/{number}/.envrc" for number in range(6)
    }


def test_without_commands_and_changes_nothing_is_scanned(root, watch, monkeypatch):
    assert watch.check(everywhere=True) == []
    run(watch, (root / "a.txt").touch)
    looks = []
    monkeypatch.setattr(WorkspaceWatcher, "_look", lambda self, **options: looks.append(options))
    assert watch.check(everywhere=True) == []
    assert looks == []


def test_packages_are_not_even_listed_without_commands(root, watch, monkeypatch):
    monkeypatch.setattr(FolderScan, "has_changed_packages", None)
    assert watch.check(everywhere=True) == []


def test_a_file_in_a_folder_that_a_command_changed_counts_as_its_own(root, watch):
    """Nothing tells a folder that was moved there from one in which something was added."""
    run(watch, (root / "node_modules" / "old" / "added").mkdir)
    assert names(watch.check(everywhere=True)) == {"node_modules/old/.vscode"}


@pytest.mark.parametrize("seed", range(8))
def test_in_random_histories_exactly_the_files_of_commands_are_found(root, watch, seed):
    choose = random.Random(seed)
    expected = set()
    kept = set()
    for number in range(8):
        is_command = choose.random() < 0.5
        inner = choose.choice(("", "old/inner", f"n{number}") if is_command else ("", "mine"))
        folder = root / choose.choice(PACKAGES[:2]) / inner / f"x{number}"
        if choose.random() < 0.3:
            act = partial(move_in, root / f"parked{number}", folder)
        else:
            act = partial(put, folder)
        if is_command:
            run(watch, act)
            expected.add(str(folder.relative_to(root) / ".envrc"))
        else:
            wait()
            act()
            wait()
            kept.add(folder / ".envrc")
    assert names(watch.check(everywhere=True)) == expected
    assert all(path.exists() for path in kept)


def put(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / ".envrc").touch()


def move_in(parked: Path, folder: Path) -> None:
    put(parked)
    folder.parent.mkdir(parents=True, exist_ok=True)
    parked.rename(folder)


def test_a_link_in_a_git_folder_does_not_lead_the_check_away(root, watch):
    """Such as one to the root of the file system, which a check would search without an end."""
    fake = root / "fake"

    def make():
        for name in ("objects", "refs"):
            (fake / name).mkdir(parents=True)
        (fake / "HEAD").write_text("ref: refs/heads/main\n")
        for name in ("modules", "worktrees"):
            (fake / name).symlink_to("/")
        (root / ".envrc").touch()

    wait()
    watch.begin()
    make()
    assert ".envrc" in names(watch.check())
    assert git_metadata._entries(str(fake / "modules"), []) == []


def test_a_file_is_not_rewritten_from_where_a_link_leads(tmp_path):
    """A command may exchange a folder for a link while it is checked."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "config").write_text("key = hidden\n")
    (tmp_path / "exchanged").symlink_to(secret)
    with pytest.raises(OSError, match=r"exchanged|Not a directory|Too many"):
        quarantine._rewrite(str(tmp_path / "exchanged" / "config"), [])
    assert sorted(path.name for path in secret.iterdir()) == ["config"]


def test_settings_are_not_read_from_where_a_link_leads(tmp_path):
    """They are quoted in what the user and the model read."""
    secret = tmp_path.resolve() / "secret"
    secret.mkdir()
    (secret / "config").write_text("key = hidden\n")
    link = secret.with_name("exchanged")
    link.symlink_to(secret)
    found = list(git_metadata._find_settings(f"{link}/config", str(link)))
    assert found
    assert "hidden" not in repr(found)


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="only Linux has O_PATH")
def test_settings_are_read_where_the_folder_cannot_be_listed(tmp_path):
    """Git does not need the permission to list it, either."""
    folder = tmp_path.resolve() / "git"
    folder.mkdir()
    (folder / "config").write_text("[core]\n\tfsmonitor = touch x\n")
    folder.chmod(0o300)
    try:
        found = list(git_metadata._find_settings(f"{folder}/config", str(folder)))
    finally:
        folder.chmod(0o700)
    assert "fsmonitor" in repr(found)
