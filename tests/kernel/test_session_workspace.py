"""A session's files: extra roots come from the user's settings, and what a path does wrong is told
to the model.
"""

from pathlib import Path

import pytest
from hilum import Call, Place, SettingsError, ToolError, Workspace, tool
from hilum.errors import E_FAILED, E_FILE_NOT_FOUND, E_PATH_TRAVERSAL
from hilum.settings import KernelSettings, load
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
