"""Paths that another plugin has the sandbox hold."""

import os
from pathlib import Path

import hilum_files
import hilum_guard
import hilum_shell
import pytest
import trio
import trio.lowlevel
from hilum.events import ApprovalAsked
from hilum.testing import Bench, open_bench, use
from hilum_guard import Guard, ProtectedPaths


async def ran(kit: Bench, command: str) -> str:
    return (await kit.call("run_terminal_cmd", command=command)).text


async def guarded(kit: Bench) -> Guard:
    guard = kit.session.plugin(Guard)
    assert guard is not None
    if not (await guard.sandbox.enforced()).protected:
        pytest.skip("no sandbox that holds paths inside of the workspace")
    return guard


async def test_protected_paths_are_read_only_and_hidden_ones_are_not_there() -> None:
    files = {"kept/a": "a", "secret/key": "KEY", "free": "f"}
    async with open_bench(hilum_guard, hilum_shell, files=files) as kit:
        guard, root = await guarded(kit), kit.session.workspace.root
        guard.protect(
            "test",
            lambda: ProtectedPaths(
                (str(root / "kept"), str(root / "missing")), (str(root / "secret"),)
            ),
        )
        assert "Read-only" in await ran(kit, "echo x > kept/a")
        assert "Read-only" in await ran(kit, "touch kept/b")
        await ran(kit, "mv kept gone; rm -rf kept; echo x > free")
        assert (root / "kept/a").read_text() == "a"
        assert (root / "free").read_text() == "x\n"
        assert "KEY" not in await ran(kit, "cat secret/*; grep -r KEY .")
        assert "a" in await ran(kit, "cat kept/a")


async def test_what_is_held_is_asked_for_before_each_command_and_can_end() -> None:
    async with open_bench(hilum_guard, hilum_shell, files={"a": "1", "b": "1"}) as kit:
        guard, root = await guarded(kit), kit.session.workspace.root
        held: list[Path] = [root / "a"]
        guard.protect("test", lambda: ProtectedPaths(tuple(str(path) for path in held)))
        await ran(kit, "echo 2 > a; echo 2 > b")
        held[:] = [root / "b"]
        await ran(kit, "echo 3 > a; echo 3 > b")
        assert [(root / name).read_text() for name in "ab"] == ["3\n", "2\n"]
        guard.protect("test", None)
        await ran(kit, "echo 4 > b")
        assert (root / "b").read_text() == "4\n"


async def test_a_path_outside_of_what_commands_write_is_none_to_protect() -> None:
    async with open_bench(hilum_guard, hilum_shell, files={"a": "1"}) as kit:
        guard = await guarded(kit)
        guard.protect("test", lambda: ProtectedPaths(("/etc/hostname", "/usr"), ()))
        assert "1" in await ran(kit, "cat a; ls /usr >/dev/null")


async def test_what_a_stopped_call_was_to_write_is_expected_no_more(bench):
    """A yes that never came exempts no file from being watched."""
    kit = await bench(hilum_guard, hilum_files, approve="auto")
    kit.model.next(use("write_file", path=".envrc", content="x"))
    run = await kit.start("x")
    await kit.wait_for(ApprovalAsked)
    keeper = kit.session.plugin(hilum_guard.Guard).workspace_guard
    assert [os.path.basename(path) for path in keeper._exempt()] == [".envrc"]
    run.stop()
    with kit.guard():
        await run.wait()
        while keeper._exempt():
            await trio.lowlevel.checkpoint()


GIT_FOLDER = {
    "a bare repository": ({"b/objects/x": "x", "b/refs/x": "x"}, "b/HEAD"),
    "its configuration": ({"b/objects/x": "x", "b/refs/x": "x", "b/HEAD": "x"}, "b/config"),
    "its references": ({"b/objects/x": "x", "b/HEAD": "x"}, "b/refs/heads/main"),
    "its hooks": ({"b/objects/x": "x", "b/refs/x": "x", "b/HEAD": "x"}, "b/hooks/pre-commit"),
    "the folder in common": ({"b/objects/x": "x", "b/refs/x": "x"}, "b/config"),
    "another folder in common": ({"b/HEAD": "x"}, "b/commondir"),
    "the head of one in two parts": ({"b/commondir": "x"}, "b/HEAD"),
    "its configuration in two parts": ({"b/commondir": "x"}, "b/config.worktree"),
}


async def test_a_file_that_completes_a_git_folder_is_asked_for() -> None:
    files: dict[str, str] = {}
    completing: dict[str, str] = {}
    for number, (name, (parts, path)) in enumerate(GIT_FOLDER.items()):
        # Each row has a folder of its own.
        files |= {f"{number}/{part}": text for part, text in parts.items()}
        completing[name] = f"{number}/{path}"
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        files=files,
        approve="auto",
        kind="headless",
        settings={"guard.sandbox": "off"},
    ) as kit:
        for name, path in completing.items():
            result = await kit.call("run_terminal_cmd", command=f"echo x > {path}")
            assert result.code == "E_DENIED", name
            result = await kit.call("write_file", path=path, content="x")
            assert result.code == "E_DENIED", name


@pytest.mark.parametrize(
    "path", ["src/config/a.ts", "src/hooks/a.ts", "config", "src/refs/a.py", "src/HEAD.md"]
)
async def test_folders_with_names_of_git_are_ordinary(path: str) -> None:
    files = {"src/config/b.ts": "", "src/hooks/b.ts": "", "src/refs/b.py": "", "docs/x": ""}
    async with open_bench(
        hilum_guard, hilum_files, files=files, approve="auto", kind="headless"
    ) as kit:
        result = await kit.call("write_file", path=path, content="x")
    assert result.code == ""


EXECUTED = (
    "lefthook.toml", "lefthook.json", ".lefthook-local.yml", ".config/lefthook.yml", "mise/config.toml", ".mise.toml",
    ".config/mise/config.toml", ".continue/mcpServers/x.yaml", ".amazonq/cli-agents/x.json", ".openhands/setup.sh",
    ".factory/settings.json", ".github/hooks/x.json", ".huskyrc", ".huskyrc.js", "prek.toml", ".pre-commit-config.yml",
    ".zlogout", ".yarnrc.yml", ".npmrc", ".venv/bin/python", "venv/bin/pip", ".kilocode/mcp.json", ".junie/x", ".trae/x",
)  # fmt: skip


async def test_files_that_other_programs_execute_are_asked_for() -> None:
    async with open_bench(hilum_guard, hilum_files, approve="auto", kind="headless") as kit:
        codes = {
            path: (await kit.call("write_file", path=path, content="x")).code for path in EXECUTED
        }
    assert set(codes.values()) == {"E_DENIED"}, codes
