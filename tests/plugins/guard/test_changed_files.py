"""Which files are staged is read as Git itself tells it, from loose and packed objects."""

import os
import random
import subprocess
from pathlib import Path

import pytest
from hilum_guard import list_changed_files
from hilum_guard.repositories import changed_files

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


def git(top: Path, *words: str) -> str:
    argv = ["git", *AUTHOR, *words]
    return subprocess.run(argv, cwd=top, check=True, capture_output=True, text=True).stdout


def list_by_git(top: Path) -> list[str]:
    words = ("diff", "--cached", "--name-only", "-z", "--no-renames", "HEAD")
    return sorted(git(top, *words).split("\0")[:-1])


def list_between(top: Path, old: str, new: str) -> list[str] | None:
    return list_changed_files(str(top / ".git"), str(top / ".git"), old, new)


def list_staged(top: Path) -> list[str] | None:
    return list_changed_files(str(top / ".git"), str(top / ".git"), "HEAD", "")


def write(top: Path, name: str, text: str) -> None:
    (top / name).parent.mkdir(parents=True, exist_ok=True)
    (top / name).write_text(text)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    for number in range(40):
        write(tmp_path, f"d{number % 5}/e{number % 3}/f{number}.txt", f"{number}\n")
    write(tmp_path, "infra/a TREE", "a\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "1")
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_commits_are_compared_as_git_compares_them(packed: bool, top: Path) -> None:
    git(top, "checkout", "-q", "-b", "side")
    write(top, "side/a.txt", "a\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "2")
    git(top, "checkout", "-q", "main")
    git(top, "rm", "-qr", "d2")
    write(top, "d2", "a file in place of a folder\n")
    write(top, "d1/e1/f1.txt", "other\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "3")
    git(top, "merge", "-q", "-m", "4", "side")
    if packed:
        git(top, "gc", "-q")
    pairs = [
        ("HEAD^", "HEAD"),
        ("HEAD^2", "HEAD"),
        ("HEAD~2", "@"),
        ("HEAD", "HEAD^2~1"),
        ("main", "HEAD~1"),
        ("main~2", "main^2"),
        ("@~1", ""),
    ]
    for old, new in pairs:
        words = ("diff", "--name-only", "-z", "--no-renames", *(["--cached"] if not new else []))
        expected = git(top, *words, old, *([new] if new else [])).split("\0")[:-1]
        assert list_between(top, old, new) == sorted(expected), (old, new)
    for old, new in (
        ("HEAD~3", "HEAD"),
        ("HEAD^3", "HEAD"),
        ("absent", "HEAD"),
        ("config", "HEAD"),
        ("main@{0}", "HEAD"),
        ("HEAD", "HEAD@{1}"),
    ):
        assert list_between(top, old, new) is None
    # Git would take the tag for the branch.
    git(top, "tag", "main", "HEAD~1")
    assert list_between(top, "main", "HEAD") is None


@pytest.mark.parametrize("seed", range(2))
def test_any_history_is_read_as_git_reads_it(seed: int, top: Path) -> None:
    chooser = random.Random(seed)
    for step in range(10):
        names = git(top, "ls-files", "-z").split("\0")[:-1]
        name = chooser.choice(names)
        action = chooser.choice("change new remove commit pack soft mixed mode".split())
        if action == "change":
            write(top, name, f"{step}\n" * chooser.randrange(1, 400))
            git(top, "add", name)
        elif action == "new":
            write(top, f"d{step % 7}/new{step}/x.txt", f"{step}\n")
            git(top, "add", "-A")
        elif action == "remove":
            git(top, "rm", "-q", "--cached", name)
        elif action == "commit":
            git(top, "commit", "-q", "--allow-empty", "-m", str(step))
        elif action == "pack":
            git(top, "gc", "-q")
        elif action == "soft" and git(top, "rev-list", "HEAD").count("\n") > 1:
            git(top, "reset", "-q", "--soft", "HEAD~1")
        elif action == "mixed":
            git(top, "reset", "-q")
        elif action == "mode":
            git(top, "update-index", "--chmod=+x", name)
        assert list_staged(top) == list_by_git(top), (step, action)


def test_long_chains_of_differences_are_read(top: Path) -> None:
    for number in range(8):
        for inner in range(60):
            write(top, f"many/file-{inner:03}.txt", f"{inner} {number if inner == number else 0}\n")
        git(top, "add", "-A")
        git(top, "commit", "-qm", str(number))
    git(top, "repack", "-qadf", "--depth=50", "--window=50")
    for back in (0, 2, 5):
        git(top, "reset", "-q", "--soft", f"HEAD~{back}")
        assert list_staged(top) == list_by_git(top)


def test_without_the_list_of_folders_the_result_is_the_same(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(top, "d1/e1/f1.txt", "other\n")
    git(top, "add", "-A")
    expected = list_staged(top)
    monkeypatch.setattr(changed_files, "_read_cached_tree", lambda *_: changed_files._CachedTree())
    assert list_staged(top) == expected == ["d1/e1/f1.txt"]


def test_a_conflict_counts_as_a_difference(top: Path) -> None:
    name = "infra/a TREE"
    git(top, "checkout", "-q", "-b", "other")
    write(top, name, "b\n")
    git(top, "commit", "-qam", "2")
    git(top, "checkout", "-q", "main")
    write(top, name, "c\n")
    git(top, "commit", "-qam", "3")
    subprocess.run(["git", *AUTHOR, "merge", "-q", "other"], cwd=top, capture_output=True)
    assert list_staged(top) == [name]


@pytest.mark.parametrize(
    "damage",
    ["unborn", "alternates", "replace", "split", "object", "pack", "index", "sha256"],
)
def test_what_cannot_be_read_certainly_is_unknown(damage: str, top: Path, tmp_path: Path) -> None:
    head = git(top, "rev-parse", "HEAD").strip()
    if damage == "unborn":
        git(top, "checkout", "-q", "--orphan", "new")
    elif damage == "alternates":
        write(top, ".git/objects/info/alternates", "/elsewhere\n")
    elif damage == "replace":
        git(top, "commit", "-q", "--allow-empty", "-m", "2")
        git(top, "replace", "--graft", "HEAD")
    elif damage == "split":
        git(top, "update-index", "--split-index")
    elif damage == "object":
        path = top / ".git/objects" / head[:2] / head[2:]
        os.chmod(path, 0o644)
        path.write_bytes(b"x")
    elif damage == "pack":
        git(top, "gc", "-q")
        for path in (top / ".git/objects/pack").glob("*.pack"):
            os.chmod(path, 0o644)
            path.write_bytes(path.read_bytes()[:40])
    elif damage == "index":
        (top / ".git/index").write_bytes(b"DIRC")
    else:
        top = tmp_path / "sha256"
        top.mkdir()
        git(top, "init", "-q", "--object-format=sha256")
        write(top, "a", "a\n")
        git(top, "add", "-A")
        git(top, "commit", "-qm", "1")
    assert list_staged(top) is None
