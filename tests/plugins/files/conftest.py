"""The tools, called as the kernel calls them, on a real folder in a real session."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import hilum_files
import msgspec
import pytest
import trio
from hilum import Call, Output, ToolError
from hilum.events import CallDone
from hilum.messages import Text, ToolResult
from hilum.testing import Bench, open_bench

Use = Callable[..., Awaitable[Output]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


@pytest.fixture
async def bench(root: Path, tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(hilum_files, workspace=root, folder=tmp_path / "bench") as bench:
        yield bench


@pytest.fixture
def use(bench: Bench) -> Use:
    """Call a tool by name with arguments as a model gives them.

    Fails if that takes longer than a minute.

    A file that exists is read before it is changed, unless it is told not to.
    """
    numbers = iter(range(1, 1000))

    async def use(name: str, *, unread: bool = False, **arguments: Any) -> Output:
        if not unread and name in ("write_file", "edit_file", "multi_edit", "delete_file"):
            try:
                await use("read_file", path=arguments["path"])
            except ToolError:
                pass  # it cannot be read, and the tool shall say what it makes of that
        tool, agent = bench.session.tools[name], bench.session.agents["main"]
        checked = tool.check(msgspec.json.encode(arguments).decode())
        session, identity = bench.session, str(next(numbers))
        deadline = trio.current_time() + 60
        call = Call(
            identity,
            name,
            checked,
            agent,
            session,
            session.workspace,
            session.processes,
            deadline,
            print,
        )
        with trio.fail_after(60):
            output = await tool.run(call)
        if name == "read_file":
            result = ToolResult(identity, name, (Text(output.text, "tool"),), "", dict(output.data))
            session.journal.append(
                [CallDone(seq=session.journal.last + 1, agent="main", result=result)]
            )
        return output

    return use
