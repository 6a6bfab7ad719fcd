"""A desk at which the file tools work: a real folder, real settings, calls made as the kernel makes them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hilum_files
import msgspec
import pytest
import trio
from hilum import Call, Output, Tool, Workspace
from hilum.settings import load

Use = Callable[..., Awaitable[Output]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


@pytest.fixture
def use(root: Path) -> Use:
    """Call a tool by name with arguments as a model gives them; fails if that takes longer than 20 seconds."""
    tools: dict[str, Tool] = {tool.name: tool for tool in hilum_files.provide_tools()}
    session = SimpleNamespace(settings=load([hilum_files.FilesSettings], environ={"HOME": str(root)}).get)
    workspace = Workspace(root)

    async def use(name: str, **arguments: Any) -> Output:
        tool = tools[name]
        checked = tool.check(msgspec.json.encode(arguments).decode())
        call = Call("1", name, checked, None, session, workspace, None, trio.current_time() + 20, lambda text: None)
        with trio.fail_after(20):
            return await tool.run(call)

    return use
