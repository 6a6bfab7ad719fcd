"""The paths with secrets in home folders are looked for again only if something may have changed,
and then always.
"""

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hilum_guard.secrets.hidden_paths import HiddenPaths
from hilum_guard.secrets.secret_paths import SETTLED

Find = Callable[[HiddenPaths], tuple[str, ...]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with a home folder in it, and a folder of configurations outside."""
    home = tmp_path.resolve() / "home"
    for name in (".ssh", ".tool/inner", "inner/.ssh", "inner/.config"):
        (home / name).mkdir(parents=True)
    (home / ".netrc").write_text("x")
    (home / ".tool" / "token").write_text("x")
    (home.parent / "config" / "gh").mkdir(parents=True)
    return home


@pytest.fixture
def find(home: Path) -> Find:
    """Find the paths of both home folders."""
    configs = (str(home / ".config"), str(home / "inner" / ".config"))
    others = (str(home / ".local/share/hilum"), str(home / ".config" / "hilum"))
    return lambda finder: finder.find((str(home), str(home / "inner")), configs, others)


@pytest.fixture
def find_outside(home: Path) -> Find:
    """Find the paths of a home folder, and of folders outside it."""
    configs = (str(home / ".config"), str(home.parent / "config"))
    others = (str(home.parent / "data" / "hilum"), str(home / ".config" / "hilum"))
    return lambda finder: finder.find((str(home),), configs, others)


def wait_until_settled(folder: Path) -> None:
    """Wait until the times of change in a folder are old enough to be trusted."""
    paths = [folder, *folder.rglob("*")]
    newest = max(path.lstat().st_ctime_ns for path in paths)
    time.sleep(max(newest + SETTLED + 10_000_000 - time.time_ns(), 0) / 1e9)


def test_what_has_not_changed_is_not_looked_for_again(
    home: Path, find: Find, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = HiddenPaths()
    wait_until_settled(home.parent)
    found = find(finder)
    assert found == find(HiddenPaths())
    assert str(home / ".netrc") in found
    assert str(home / "inner" / ".ssh") in found
    # Much changes in `/home`, but not what leads to the home folder, which the caller resolves.
    (home.parent / "other").touch()
    monkeypatch.setattr(finder._existing, "find", None)
    assert find(finder) == found
    # A change is noticed at once.
    (home / "inner" / ".npmrc").touch()
    with pytest.raises(TypeError):
        find(finder)


def test_a_folder_that_has_just_changed_is_not_trusted(
    find: Find, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """It may change again without another time of change."""
    finder = HiddenPaths()
    wait_until_settled(home.parent)
    with monkeypatch.context() as patch:
        patch.setattr("hilum_guard.secrets.existing_paths.SETTLED", 10**18)
        find(finder)
        assert not finder._known
    find(finder)
    assert finder._known


NAMES = (
    ".netrc",
    ".npmrc",
    ".tool/token",
    ".tool/inner/key",
    ".new/token",
    ".config/gh",
    "inner/.aws",
)


def mutate(home: Path, dice: random.Random) -> None:
    """Change something, in one of the folders or outside them."""
    path = home / dice.choice(NAMES)
    kind = dice.choice(
        ["remove", "file", "folder", "mode", "empty", "link", "retarget", "move", "outside"]
    )
    if kind == "mode":
        if path.is_file():
            path.chmod(dice.choice([0o600, 0o644]))
    elif kind == "empty":
        if path.is_file():
            path.write_text("")
    elif kind == "retarget":
        # What a link leads to changes, but no folder with a link in it.
        shutil.rmtree(home.parent / "target", ignore_errors=True)
        if dice.random() < 0.7:
            (home.parent / "target").mkdir()
    elif kind == "move":
        source = home / dice.choice([".tool", ".ssh", "inner", ".config"])
        if source.is_dir() and not source.is_symlink():
            target = home.parent / f"moved{dice.random()}"
            source.rename(target)
            if dice.random() < 0.5:
                source.symlink_to(target)
    elif kind == "outside":
        name = dice.choice(["data/hilum", "config/hub", "config/glab-cli"])
        (home.parent / name).mkdir(parents=True, exist_ok=True)
    else:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        if kind == "remove":
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "file":
            path.write_text("x")
            path.chmod(dice.choice([0o600, 0o644]))
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(home.parent / dice.choice(["target", "missing", "config"]))


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("seed", range(8))
def test_the_result_is_always_that_of_a_new_search(
    home: Path, find: Find, find_outside: Find, seed: int
) -> None:
    dice = random.Random(seed)
    finder = HiddenPaths()
    for _ in range(25):
        if dice.random() < 0.5:
            wait_until_settled(home.parent)
        ways = dice.choice([(find,), (find_outside,), (find, find_outside)])
        for way in ways:
            way(finder)
        for _ in range(dice.choice([0, 1, 1, 3])):
            mutate(home, dice)
        for way in ways:
            assert set(way(finder)) == set(way(HiddenPaths()))
