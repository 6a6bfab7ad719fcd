"""Files in dot-folders that only the user may read are found at any depth, and a folder is listed
again only if something in it has changed.
"""

import os
import random
import shutil
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.inotify import LOCAL_FILE_SYSTEMS, find_file_system
from hilum.testing import open_bench
from hilum_guard.secrets import home_events, private_files
from hilum_guard.secrets.hidden_paths import HiddenPaths
from hilum_guard.secrets.private_files import MAX_DEPTH, MAX_HIDDEN, PrivateFiles

# What `git hash-object` prints for an empty file.
EMPTY_HASH = b"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
needs_events = pytest.mark.skipif(
    find_file_system("/tmp") not in LOCAL_FILE_SYSTEMS,
    reason="inotify does not report all changes here",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder."""
    home = tmp_path.resolve() / "home"
    home.mkdir()
    return home


@pytest.fixture(params=["events", "no events"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find files with and without events about changes."""
    if request.param == "no events":
        monkeypatch.setattr(home_events, "LOCAL_FILE_SYSTEMS", frozenset())


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were listed."""
    found: list[str] = []
    list_folder = private_files._list_folder

    def note(path: str, *arguments: object) -> object:
        found.append(path)
        return list_folder(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(private_files, "_list_folder", note)
    return found


def write(path: Path, mode: int = 0o600, text: str = "x") -> Path:
    """Write a file with a mode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def find(home: Path, finder: PrivateFiles | None = None) -> list[str]:
    """Return what is found, relative to the home folder."""
    found = (finder or PrivateFiles()).find(str(home))
    return sorted(os.path.relpath(path, home) for path in found)


@pytest.mark.usefixtures("ways")
def test_files_are_found_to_the_documented_depth(home: Path) -> None:
    deepest = "/".join([".a", *"b" * (MAX_DEPTH - 1), "token"])
    too_deep = "/".join([".c", *"d" * MAX_DEPTH, "token"])
    for name in (".token", ".tool/x/y/z/token", deepest, too_deep, "visible/token"):
        write(home / name)
    write(home / ".local/share/jupyter/runtime/jpserver-1.json")
    write(home / ".tool/public", 0o644)
    write(home / ".tool/empty", text="")
    write(home / ".gitconfig")
    assert find(home) == sorted(
        [".token", ".tool/x/y/z/token", deepest, ".local/share/jupyter/runtime/jpserver-1.json"]
    )


def test_a_readable_file_in_a_private_folder_stays_readable(home: Path) -> None:
    """Many programs make all of their folders private; the mode of the file decides."""
    write(home / ".tool/settings", 0o644)
    (home / ".tool").chmod(0o700)
    assert find(home) == []
    write(home / ".tool/token")
    assert find(home) == [".tool/token"]


def test_generated_folders_are_not_searched(home: Path, listed: list[str]) -> None:
    """Programs need what is in them, but not the tokens, which are known by their names."""
    names = [".cache/pip/http/a/b", ".cache/uv/x", ".cargo/registry/x", ".npm/_cacache/x",
             ".rustup/x", ".pyenv/versions/x", ".local/share/uv/python/x", ".local/share/pipx/x",
             ".vscode-server/extensions/x", ".tool/node_modules/x", ".tool/.git/objects/x",
             ".tool/.venv/lib/python3/site-packages/x"]  # fmt: skip
    for name in names:
        write(home / name / "file")
    assert find(home) == []
    assert not any(name in path for name in names for path in listed)
    tokens = [".local/share/uv/credentials/credentials.toml", ".cache/snowflake/credential_cache.json",
              ".local/share/jupyter/runtime/kernel-1.json", ".cache/huggingface/token"]  # fmt: skip
    for name in tokens:
        write(home / name, 0o644)
    found = HiddenPaths().find((str(home),), (), ())
    for name in tokens:
        assert any(f"{home / name}".startswith(path) for path in found), name


def test_a_folder_with_only_private_files_is_hidden_as_a_whole(home: Path) -> None:
    for number in range(500):
        write(home / f".tool/inner/deep/{number}")
    for folder in (".tool", ".tool/inner", ".tool/inner/deep"):
        (home / folder).chmod(0o700)
    assert find(home) == [".tool"]
    # What the user lets commands read is not hidden with the folder.
    shown = home / ".tool/inner/deep/7"
    found = PrivateFiles().find(str(home), (), [str(shown)])
    assert str(home / ".tool/inner/deep/8") in found
    assert len(found) == 500
    # Nor is a folder that commands may write to.
    assert len(PrivateFiles().find(str(home), (), [str(home / ".tool/inner/deep")])) == 500
    # With a readable file in it, a folder is not hidden.
    write(home / ".tool/settings", 0o644)
    assert find(home) == [".tool/inner"]


def test_shared_folders_are_never_hidden_as_a_whole(home: Path) -> None:
    for name in (".config/tool/token", ".local/share/tool/token"):
        write(home / name)
    for folder in (".config", ".config/tool", ".local", ".local/share", ".local/share/tool"):
        (home / folder).chmod(0o700)
    assert find(home) == [".config/tool", ".local/share/tool"]


def test_many_files_become_few_folders(home: Path) -> None:
    for number in range(MAX_HIDDEN):
        write(home / f".tool/inner/{number}")
    write(home / ".other/token")
    write(home / ".tool/settings", 0o644)
    assert find(home) == [".other/token", ".tool/inner"]
    # Nothing is left out if files cannot be joined.
    for number in range(MAX_HIDDEN + 5):
        write(home / f".file{number}")
    assert len(find(home)) > MAX_HIDDEN


@pytest.mark.usefixtures("ways")
def test_links_are_followed(home: Path) -> None:
    """As GNU Stow creates them; folders only in the home folder."""
    write(home / "dotfiles/tool/deep/token")
    write(home / "dotfiles/netrc")
    write(home / "dotfiles/public", 0o644)
    write(home.parent / "outside/token")
    write(home.parent / "outside/file")
    (home / ".tool").symlink_to("dotfiles/tool")
    (home / ".rc").symlink_to("dotfiles/netrc")
    (home / ".public").symlink_to("dotfiles/public")
    (home / ".outside").symlink_to(home.parent / "outside")
    (home / ".file").symlink_to(home.parent / "outside/file")
    (home / ".up").symlink_to(home.parent)
    (home / ".self").symlink_to(home)
    (home / ".missing").symlink_to("nowhere")
    finder = PrivateFiles()
    expected = [".file", ".rc", "dotfiles/tool/deep/token"]
    assert find(home, finder) == expected
    # No event reports a change of what a link leads to.
    (home / "dotfiles/public").chmod(0o600)
    write(home / "nowhere/token")
    assert find(home, finder) == [".file", ".public", *expected[1:], "nowhere/token"]


@needs_events
def test_only_changed_folders_are_listed_again(home: Path, listed: list[str]) -> None:
    for number in range(20):
        write(home / f".tool/{number}/a/b/c/file", 0o644)
    finder = PrivateFiles()
    assert find(home, finder) == []
    listed.clear()
    assert find(home, finder) == []
    assert listed == []
    (home / ".tool/3/a/b/c/file").chmod(0o600)
    assert find(home, finder) == [".tool/3/a/b/c/file"]
    assert listed == [str(home / ".tool/3/a/b/c")]


def test_without_events_deep_folders_are_listed_again_at_intervals(
    home: Path, listed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home_events, "LOCAL_FILE_SYSTEMS", frozenset())
    monkeypatch.setattr(private_files, "FEW_FOLDERS", 1)
    now = 1000.0
    monkeypatch.setattr(private_files.time, "monotonic", lambda: now)
    write(home / ".tool/a/b/c/d/old", 0o644)
    finder = PrivateFiles()
    assert find(home, finder) == []
    listed.clear()
    write(home / ".tool/a/b/c/d/token")
    write(home / ".tool/a/token")
    assert find(home, finder) == [".tool/a/token"]
    assert str(home / ".tool/a/b/c/d") not in listed
    now += private_files.INTERVAL
    assert find(home, finder) == [".tool/a/b/c/d/token", ".tool/a/token"]


@needs_events
def test_a_forked_process_does_not_share_events(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one of the processes reads, the other does not receive."""
    write(home / ".tool/file", 0o644)
    finder = PrivateFiles()
    find(home, finder)
    other = os.getpid() + 1
    monkeypatch.setattr(home_events.os, "getpid", lambda: other)
    write(home / ".tool/token")
    for _ in finder._homes[str(home)].events._inotify.read():  # type: ignore[union-attr]
        pass
    assert find(home, finder) == [".tool/token"]


@needs_events
def test_watches_end_with_the_finder(home: Path) -> None:
    """The user may have only 128 queues of events."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        find(home)
    finder = PrivateFiles()
    for number in range(20):
        (home / f"{number}").mkdir()
        find(home / f"{number}", finder)
    assert len(os.listdir("/proc/self/fd")) <= before + private_files.MAX_HOMES


@needs_events
def test_at_the_limit_of_watches_all_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_events, "_SHARE", 10**9)
    finder = PrivateFiles()
    for number in range(5):
        write(home / f".tool/{number}/a/b/c/token")
        assert len(find(home, finder)) == number + 1


def mutate(home: Path, dice: random.Random) -> None:
    """Change something."""
    folders = [".a", ".a/b", ".a/b/c", ".a/b/c/d", ".e", ".e/f", "visible/g"]
    folder = home / dice.choice(folders)
    file = folder / dice.choice(["1", "2"])
    kind = dice.choice(
        ["write", "write", "mode", "remove", "exchange", "chmod", "link", "empty", "remake"]
    )
    if kind == "write":
        if file.parent.is_dir() or not os.path.lexists(file.parent):
            write(file, dice.choice([0o600, 0o644]), dice.choice(["", "x"]))
    elif kind == "mode" and file.is_file():
        file.chmod(dice.choice([0o600, 0o644]))
    elif kind == "empty" and file.is_file():
        file.write_text(dice.choice(["", "y"]))
    elif kind == "remove" and folder.exists():
        folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
    elif kind == "remake" and folder.is_dir() and not folder.is_symlink():
        shutil.copytree(folder, home / "copy", symlinks=True)
        shutil.rmtree(folder)
        (home / "copy").rename(folder)
    elif kind == "exchange":
        other = home / dice.choice(folders)
        is_apart = not other.is_relative_to(folder) and not folder.is_relative_to(other)
        if is_apart and folder.exists() and other.exists():
            folder.rename(home / "swap")
            other.rename(folder)
            (home / "swap").rename(other)
    elif kind == "chmod" and folder.is_dir():
        folder.chmod(dice.choice([0o700, 0o755]))
    elif kind == "link" and not folder.exists() and folder.parent.is_dir():
        folder.unlink(missing_ok=True)
        folder.symlink_to(home / dice.choice(["visible/g", ".e", "nowhere"]))


def prepare(home: Path) -> None:
    for name in (".a/b/c/d/1", ".e/f/2", "visible/g/1"):
        write(home / name)


@pytest.mark.slow(cases=10)
@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("seed", range(10))
def test_the_result_is_always_that_of_a_new_search(home: Path, seed: int) -> None:
    dice = random.Random(seed)
    prepare(home)
    finder = PrivateFiles()
    for _ in range(150):
        for _ in range(dice.choice([0, 1, 1, 3])):
            # Some changes are impossible because of links that lead nowhere or in a circle.
            with suppress(OSError, shutil.Error):
                mutate(home, dice)
        assert find(home, finder) == find(home), seed


async def test_commands_cannot_read_what_is_hidden(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the real sandbox, also what appears between two commands; other files stay readable."""
    script = """
        import contextlib, pathlib

        for file in sorted(pathlib.Path("home").rglob("*")):
            with contextlib.suppress(OSError):
                print(file.read_text())
    """
    files = {"show.py": textwrap.dedent(script)}
    kit = await bench(hilum_guard, hilum_files, hilum_shell, approve="auto", files=files)
    if not (await kit.session.plugin(hilum_guard.Guard).sandbox.enforced()).files:
        pytest.skip("no sandbox holds files here")
    # Of the folders in /tmp, a command sees only the workspace.
    home = kit.session.workspace.root / "home"
    monkeypatch.setenv("HOME", str(home))
    write(home / ".tool/a/b/c/d/e/token", text="deep-horse")
    write(home / ".private/settings/token", text="whole-horse")
    for folder in (".private", ".private/settings"):
        (home / folder).chmod(0o700)
    write(home / ".tool/a/b/public", 0o644, "public-horse")
    write(home / ".cache/pip/http/1", text="cached-horse")
    text = (await kit.call("run_terminal_cmd", command="python3 show.py")).text
    assert "public-horse" in text
    assert "cached-horse" in text
    assert "deep-horse" not in text
    assert "whole-horse" not in text
    write(home / ".tool/a/b/c/d/new/token", text="new-horse")
    text = (await kit.call("run_terminal_cmd", command="python3 show.py")).text
    assert "public-horse" in text
    assert "new-horse" not in text


def test_an_early_search_stays_near_the_home_folder(home: Path, listed: list[str]) -> None:
    """It must not delay the first request; what was searched before is used."""
    write(home / ".near/a/token")
    write(home / ".deep/a/b/c/token")
    finder = PrivateFiles()
    for _ in range(2):
        listed.clear()
        early = finder.find(str(home), is_early=True)
        assert [os.path.relpath(path, home) for path in early] == [".near/a/token"]
        assert str(home / ".deep/a/b/c") not in listed
    both = [".deep/a/b/c/token", ".near/a/token"]
    assert find(home, finder) == both
    listed.clear()
    again = finder.find(str(home), is_early=True)
    assert sorted(os.path.relpath(path, home) for path in again) == both


async def test_only_git_runs_before_the_whole_search(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only before the first request: no model has chosen what it reads.

    A language server, which only reads as well, may live longer.
    """
    kit = await bench(hilum_guard, hilum_shell)
    sandbox = kit.session.plugin(hilum_guard.Guard).sandbox
    if not (await sandbox.enforced()).files:
        pytest.skip("no sandbox holds files here")
    home = kit.session.workspace.root / "home"
    monkeypatch.setenv("HOME", str(home))
    token = str(write(home / ".tool/a/b/c/d/token"))
    near = str(write(home / ".tool/token"))

    async def may_read(path: str, *argv: str) -> bool:
        done = await kit.session.processes.run([*argv, path], purpose="look")
        return done.returncode == 0 and done.stdout.strip() not in (b"", EMPTY_HASH)

    assert await may_read(token, "git", "hash-object")
    assert not await may_read(near, "git", "hash-object")
    assert not await may_read(token, "cat")
    # The search for `cat` has found it now, so that a new home folder is needed.
    home = home.rename(home.with_name("home2"))
    monkeypatch.setenv("HOME", str(home))
    sandbox.has_requested = True
    assert not await may_read(str(home / ".tool/a/b/c/d/token"), "git", "hash-object")


async def test_a_call_counts_as_an_answer_to_a_request(home: Path, tmp_path: Path) -> None:
    """A resumed session may begin with one."""
    async with open_bench(hilum_guard, hilum_shell, folder=tmp_path / "bench") as bench:
        guard = bench.session.plugin(hilum_guard.Guard)
        assert not guard.sandbox.has_requested
        await bench.call("run_terminal_cmd", command="true")
        assert guard.sandbox.has_requested
