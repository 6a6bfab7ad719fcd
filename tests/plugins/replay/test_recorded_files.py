"""A recording contains only files that the session may have read, and changes nothing elsewhere."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
from hilum import hookimpl, tool
from hilum.events import ApprovalAsked, CallStarted
from hilum.messages import ToolCall
from hilum.testing import ScriptedModel, open_bench, use
from hilum_files.journal.content_store import ContentStore
from hilum_replay.sessions import workspace_files
from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.exporting import make_recording
from hilum_replay.sessions.recorded_calls import apply_edit
from hilum_replay.sessions.recording import FileEdit, Recording

FILES = {"a.txt": "a\n", "private_notes.txt": "private\n", "docs/b.txt": "b\n"}
IGNORED = {
    **FILES,
    ".gitignore": "*.secret\nbuild/\n",
    "x.secret": "x\n",
    "build/out.txt": "out\n",
    "docs/.gitignore": "draft.txt\n",
    "docs/draft.txt": "draft\n",
}
COMMAND = use("run_terminal_cmd", command="true")
TODO = use(
    "todo_write", todos=[{"id": "1", "content": "Read private_notes.txt", "status": "pending"}]
)


class Counting:
    """A plugin with a tool that does not declare which files it reads."""

    name = "counting"

    @tool(risk="read", effect="pure")
    async def count_words(self, path: str, title: str) -> str:
        """Count the words in a file."""
        return "1"

    @hookimpl
    def provide_tools(self) -> list[object]:
        return [self.count_words]


async def record(
    folder: Path,
    *calls: ToolCall,
    files: Mapping[str, str | bytes] = FILES,
    repositories: tuple[str, ...] = (),
) -> Recording:
    """Record a session with these calls, which the user approves."""
    bench_folder = folder / "bench"
    async with open_bench(
        *("files", "search", "shell", "guard", "plan", Counting()),
        model=ScriptedModel([*calls, "Done."]),
        files=files,
        folder=bench_folder,
    ) as bench:
        for repository in repositories:
            command = ["git", "init", "-q", str(bench.workspace / repository)]
            await trio.run_process(command)

        async def approve() -> None:
            last = 0
            while True:
                asked = await bench.wait_for(ApprovalAsked, after=last)
                last = asked.seq
                bench.session.answer(asked.id, accepted=True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(approve)
            run = await bench.start("Look.")
            await run.wait()
            nursery.cancel_scope.cancel()
        events = list(bench.events)
    store = ContentStore(bench_folder / "data" / "objects")
    recording = await trio.to_thread.run_sync(make_recording, events, store.get)
    store.close()
    return recording


async def test_a_tool_that_reads_no_files_adds_none(tmp_path):
    recording = await record(tmp_path, TODO)
    assert [event for event in recording.events if isinstance(event, CallStarted)]
    assert set(recording.before) == set()
    assert not recording.header.left_out


async def test_a_tool_without_declared_paths_adds_the_files_that_it_names(tmp_path):
    call = use("count_words", path="docs", title="private_notes.txt")
    recording = await record(tmp_path, call)
    assert set(recording.before) == {"docs/b.txt"}


async def test_a_call_adds_the_file_that_it_reads(tmp_path):
    recording = await record(tmp_path, use("read_file", path="a.txt"))
    assert set(recording.before) == {"a.txt"}


@pytest.mark.parametrize("repositories", [(), (".",)])
@pytest.mark.parametrize("call", [COMMAND, use("search_files", pattern="x")])
async def test_ignored_files_are_not_included(tmp_path, call, repositories):
    recording = await record(tmp_path, call, files=IGNORED, repositories=repositories)
    assert set(recording.before) == {*FILES, ".gitignore", "docs/.gitignore"}


async def test_an_ignored_file_that_a_call_names_is_included(tmp_path):
    call = use("read_file", path="build/out.txt")
    recording = await record(tmp_path, call, files=IGNORED)
    assert set(recording.before) == {"build/out.txt"}


@pytest.mark.parametrize("outer", [(), (".",)])
async def test_files_of_repositories_in_the_workspace_are_included(tmp_path, outer):
    files = {**FILES, "docs/.gitignore": "draft.txt\n", "docs/draft.txt": "draft\n"}
    recording = await record(tmp_path, COMMAND, files=files, repositories=(*outer, "docs"))
    assert set(recording.before) == {*FILES, "docs/.gitignore"}


async def test_without_git_a_folder_with_ignored_files_is_left_out(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", fail)
    recording = await record(tmp_path, COMMAND, files=IGNORED)
    assert set(recording.before) == set()
    assert recording.header.left_out == {".": workspace_files.NO_GIT}
    recording = await record(tmp_path / "other", COMMAND)
    assert set(recording.before) == set(FILES)


async def test_files_with_secrets_are_included_only_if_a_call_names_them(tmp_path):
    files = {**FILES, ".env": "NAME=value\n"}
    recording = await record(tmp_path, COMMAND, files=files)
    assert set(recording.before) == set(FILES)
    assert "keys and passwords" in recording.header.left_out[".env"]
    recording = await record(tmp_path / "other", use("read_file", path=".env"), files=files)
    assert set(recording.before) == {".env"}


async def test_large_files_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace_files, "FILE_LIMIT", 1000)
    files = {**FILES, "big.txt": "x" * 1001, "whole.txt": "y" * 1000}
    recording = await record(tmp_path, COMMAND, files=files)
    assert set(recording.before) == {*FILES, "whole.txt"}
    assert recording.before["whole.txt"] == b"y" * 1000
    assert recording.header.left_out == {"big.txt": "it is too large (1,001 bytes)"}


async def test_links_that_lead_to_themselves_are_recorded(tmp_path):
    folder = tmp_path / "bench" / "workspace"
    async with open_bench(
        *("files", "shell", "guard"),
        model=ScriptedModel([COMMAND, use("read_file", path="x" * 300), "Done."]),
        files=FILES,
        folder=tmp_path / "bench",
    ) as bench:
        folder = bench.workspace
        os.symlink("loop", folder / "loop")
        await bench.run("Look.")
        events = list(bench.events)
    recording = await trio.to_thread.run_sync(make_recording, events, lambda name: None)
    assert recording.header.links == {"loop": "loop"}
    assert set(recording.before) == set(FILES)


# --- changes of files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        FileEdit(1, "link.txt", "new"),
        FileEdit(1, "folder/outside.txt", "new"),
        FileEdit(1, "folder/outside.txt"),
        FileEdit(1, "folder/made", folder=True),
        FileEdit(1, "../outside/outside.txt", "new"),
    ],
)
def test_an_edit_changes_nothing_outside_of_the_workspace(tmp_path, edit):
    root = tmp_path / "work"
    outside = tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "outside.txt").write_text("old\n")
    (root / "link.txt").symlink_to(outside / "outside.txt")
    (root / "folder").symlink_to(outside)
    apply_edit(edit, ContainedFiles(root), {"new": b"new\n"})
    assert (outside / "outside.txt").read_text() == "old\n"
    assert os.listdir(outside) == ["outside.txt"]


def test_an_edit_within_the_workspace_is_made(tmp_path):
    files = ContainedFiles(tmp_path)
    apply_edit(FileEdit(1, "folder/a.txt", "new"), files, {"new": b"new\n"})
    assert (tmp_path / "folder" / "a.txt").read_text() == "new\n"
    apply_edit(FileEdit(2, "folder/a.txt"), files, {})
    assert os.listdir(tmp_path / "folder") == []
