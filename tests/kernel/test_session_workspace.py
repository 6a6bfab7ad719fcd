"""A session's files: extra roots come from the user's settings, and what a path does wrong is told
to the model.
"""

from pathlib import Path

import pytest
from hilum import (
    Call,
    Place,
    SettingsError,
    ToolError,
    UsageError,
    Workspace,
    open_kernel,
    open_standard_session,
    tool,
)
from hilum.errors import E_BAD_ARGS, E_FAILED, E_FILE_NOT_FOUND, E_PATH_TRAVERSAL
from hilum.events import PluginEvent
from hilum.settings import KernelSettings, load
from hilum.store import MemoryStore, SessionInfo
from hilum.testing import plugin


@tool(risk="read", effect="pure")
async def show(call: Call, path: str) -> str:
    """Show a file."""
    return await call.workspace.read_text(path)


async def test_extra_roots_are_the_users_to_name(bench, tmp_path: Path):
    """Files below them are read like those of the workspace.

    A project cannot open folders for itself.
    """
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "file").write_text("a note")
    kit = await bench(plugin("p", show), settings={"extra_roots": [str(tmp_path / "notes")]})
    assert (await kit.call("show", path=str(tmp_path / "notes" / "file"))).text == "a note"
    assert kit.session.workspace.roots == (kit.session.workspace.root, tmp_path / "notes")
    (tmp_path / ".hilum").mkdir()
    (tmp_path / ".hilum" / "settings.toml").write_text('extra_roots = ["/"]\n')
    with pytest.raises(SettingsError, match="only the user may set this"):
        load([KernelSettings], workspace=tmp_path, environ={"HOME": str(tmp_path)})


async def test_refused_paths_are_tool_errors(bench, tmp_path: Path):
    """Each with its code; nothing of it counts as the plugin's fault."""
    kit = await bench(plugin("p", show), files={"folder/file": ""})
    for path, code in (
        ("/etc/passwd", E_PATH_TRAVERSAL),
        ("missing", E_FILE_NOT_FOUND),
        ("folder", E_FAILED),
    ):
        result = await kit.call("show", path=path)
        assert (result.code, repr(path) in result.text) == (code, True)
    workspace = Workspace(tmp_path)
    with workspace.at(".") as place:
        assert isinstance(place, Place)
    with pytest.raises(ToolError) as caught:
        workspace.resolve("..")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["/", "//", "/usr/..", "link"])
async def test_the_whole_file_system_is_no_workspace(tmp_path: Path, name: str):
    """Under any of its names; no session is left behind."""
    (tmp_path / "link").symlink_to("/")
    folder = str(tmp_path / name) if name == "link" else name
    store = MemoryStore()
    async with open_kernel([], store=store, environ={"HOME": str(tmp_path)}) as kernel:
        with pytest.raises(UsageError, match="is the whole file system") as caught:
            async with kernel.open_session(folder):
                pass
    assert caught.value.code == E_BAD_ARGS
    assert "--workspace DIR" in caught.value.hint
    with pytest.raises(UsageError, match="is the whole file system"):
        async with open_standard_session(folder, store=store, environ={"HOME": str(tmp_path)}):
            pass
    assert await store.list() == []


async def test_a_session_of_the_whole_file_system_is_not_resumed(tmp_path: Path):
    store = MemoryStore()
    await (await store.create(SessionInfo("old", "/"))).close()
    async with open_kernel([], store=store, environ={"HOME": str(tmp_path)}) as kernel:
        with pytest.raises(UsageError, match="is the whole file system"):
            async with kernel.open_session(resume="old"):
                pass


async def test_the_whole_file_system_is_no_extra_root(tmp_path: Path):
    (tmp_path / "work").mkdir()
    options = {"settings": {"extra_roots": ["/"]}, "environ": {"HOME": str(tmp_path)}}
    async with open_kernel([], store=MemoryStore(), **options) as kernel:
        with pytest.raises(UsageError, match="is the whole file system"):
            async with kernel.open_session(tmp_path / "work"):
                pass


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("home/user", "The workspace is your home folder"),
        ("home", "The workspace contains your home folder"),
        ("home/user/project", ""),
    ],
)
async def test_a_session_in_the_home_folder_warns(tmp_path: Path, folder: str, text: str):
    (tmp_path / "home" / "user" / "project").mkdir(parents=True)
    environ = {"HOME": str(tmp_path / "home" / "user")}
    store = MemoryStore()
    async with (
        open_kernel([], store=store, environ=environ) as kernel,
        kernel.open_session(tmp_path / folder) as session,
    ):
        pass
    events = await store.read(session.id)
    notes = [event.data["say"] for event in events if isinstance(event, PluginEvent)]
    assert [note.startswith(text) for note in notes] == [True] * bool(text)
