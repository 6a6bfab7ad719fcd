"""The user removes the masks of the sandbox, for example with ``git clean``: commands go on."""

import shutil
import subprocess
from pathlib import Path

import hilum_guard
import hilum_shell
import pytest
import trio
from hilum.testing import open_bench
from hilum_guard.sandbox import sandbox_probe
from hilum_guard.session_guard import Guard
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

CLEAN = ["git", "clean", "-fdx", "-e", "step*"]
WAIT = "echo x > step1; until [ -e step2 ]; do sleep 0.02; done; echo ended"


SERVER = """
import os, time
open("step1", "w").close()
while not os.path.exists("step2"):
    time.sleep(0.02)
name = "." + "cursor"
os.makedirs(name, exist_ok=True)
with open(name + "/mcp.json", "w") as file:
    file.write("x")
open("step3", "w").close()
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    """Only bubblewrap needs masks."""
    if sandbox_probe.probe().by != "bubblewrap":
        pytest.skip("no bubblewrap here")


async def wait_for(path: Path) -> None:
    """Wait until a command has created a file."""
    with trio.fail_after(60):
        # A file system announces nothing.
        while not await trio.Path(path).exists():  # noqa: ASYNC110
            await trio.sleep(0.01)


@pytest.mark.parametrize("removed", ["all", "one"])
@pytest.mark.parametrize("spares", [0, 8])
async def test_commands_go_on(
    tmp_path: Path, removed: str, spares: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, between and during commands, with and without spare sandboxes."""
    settings = {"guard": {"spare_sandboxes": spares}}
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path, approve="auto", settings=settings
    ) as bench:
        root = bench.workspace
        await trio.run_process(["git", "init", "-q", str(root)])
        watcher = bench.session.plugin(Guard).sandbox.watch
        looks: list[list[str]] = []
        find_replaced = watcher.replaced

        def count_look() -> list[str]:
            looks.append(find_replaced())
            return looks[-1]

        monkeypatch.setattr(watcher, "replaced", count_look)

        def clean() -> None:
            if removed == "all":
                cleaned = subprocess.run(CLEAN, cwd=root, check=True, capture_output=True)
                # A spare that is built in a thread may have created it again.
                assert b"Removing .vscode/" in cleaned.stdout
            else:
                (root / ".cursor").rmdir()

        async def clean_during_a_command() -> None:
            await wait_for(root / "step1")
            clean()
            # The command ends only after the watcher has looked, which may have begun a look before.
            # Whether it finds a gap or a new mask depends on whether a spare was built meanwhile.
            before = len(looks)
            with trio.fail_after(60):
                while len(looks) < before + 2:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            (root / "step2").touch()

        for _ in range(3):
            result = await bench.call("run_terminal_cmd", command="mkdir .cursor/x || echo refused")
            assert (result.code, "refused" in result.text) == ("", True), result.text
            clean()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_during_a_command)
            result = await bench.call("run_terminal_cmd", command=WAIT)
        assert (result.code, "ended" in result.text) == ("", True), result.text
        result = await bench.call("run_terminal_cmd", command="mkdir .cursor/x || echo refused")
        assert (result.code, "refused" in result.text) == ("", True), result.text
        names = {getattr(event, "name", "") for event in bench.events}
        assert not names & {"guard.undone", "guard.sandbox_lost"}
    assert not list(root.glob("*.quarantined"))


async def test_a_command_that_runs_on_cannot_fill_the_gap(tmp_path: Path) -> None:
    """A server of before the removal writes into the mask that hilum created again."""
    async with open_bench(hilum_guard, hilum_shell, folder=tmp_path, approve="auto") as bench:
        root = bench.workspace
        (root / "serve.py").write_text(SERVER)
        await bench.call("run_terminal_cmd", command="python3 serve.py", background=True)
        await wait_for(root / "step1")
        (root / ".cursor").rmdir()
        result = await bench.call("run_terminal_cmd", command="echo here")
        assert (result.code, "here" in result.text) == ("", True), result.text
        assert (root / ".cursor").is_dir()
        (root / "step2").touch()
        await wait_for(root / "step3")
        result = await bench.call("run_terminal_cmd", command="echo there")
        with trio.fail_after(60):
            while (root / ".cursor/mcp.json").exists():  # noqa: ASYNC110
                await trio.sleep(0.01)
    assert (root / ".cursor.quarantined/mcp.json").read_text() == "x"


def test_a_removed_mask_is_no_replaced_file(tmp_path: Path) -> None:
    """But a folder with content in its place is one, and is new to the next check.

    An empty folder is what a sandbox creates in order to mount on it. What appears in it is new.
    """
    root = tmp_path.resolve()
    mask = root / ".cursor"

    def put_masks() -> list[str]:
        mask.mkdir()
        return [str(mask)]

    watch = WorkspaceWatcher([str(root)], alive=lambda: 1)
    watch.begin(put_masks)
    mask.rmdir()
    assert watch.replaced() == []
    mask.mkdir()
    (mask / "mcp.json").write_text("{}")
    assert watch.replaced() == [str(mask)]
    assert "was written by a command" in watch.check()[0]
    shutil.rmtree(root / ".cursor.quarantined")
    watch.begin(put_masks)
    mask.rmdir()
    mask.mkdir()
    assert (watch.replaced(), watch.check()) == ([], [])
    (mask / "mcp.json").write_text("{}")
    assert "was written by a command" in watch.check()[0]
    shutil.rmtree(root / ".cursor.quarantined")
    watch.begin(put_masks)
    assert (watch.replaced(), watch.check()) == ([], [])


@pytest.mark.parametrize("spares", [0, 8])
async def test_git_takes_masks_for_ignored_folders(tmp_path: Path, spares: int) -> None:
    """`git stash -u` and `git clean -d` succeed, and the masks are not removed."""
    settings = {"guard": {"spare_sandboxes": spares}}
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path, approve="auto", settings=settings
    ) as bench:
        root = bench.workspace
        await trio.run_process(["git", "init", "-q", str(root)])
        (root / "old.py").write_text("1")
        name = "git -c user.name=a -c user.email=a@example.org"
        await bench.call("run_terminal_cmd", command=f"git add old.py && {name} commit -qm one")
        (root / "old.py").write_text("2")
        (root / "new.py").write_text("3")
        saved = await bench.call("run_terminal_cmd", command=f"{name} stash -qu && git clean -fdq")
        assert "Exit code 0" in saved.text
        assert "warning" not in saved.text
        assert (root / "old.py").read_text() == "1"
        assert not (root / "new.py").exists()
        assert (root / ".hilum").is_dir()
        back = await bench.call(
            "run_terminal_cmd", command="git stash pop -q && git status --short"
        )
        assert "Exit code 0" in back.text
        assert (root / "old.py").read_text() == "2"
        assert (root / "new.py").read_text() == "3"
        # What a user writes into a mask is shown to the next command, as it is.
        (root / ".hilum" / "rules.toml").write_text("")
        shown = await bench.call("run_terminal_cmd", command="ls -A .hilum .cursor")
        assert "rules.toml" in shown.text
        assert shown.text.count(".gitignore") == 1
    assert not (root / ".cursor").exists()
