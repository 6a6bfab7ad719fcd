"""``save_file``: what tools of other plugins make becomes files that can be undone, and that the
guard has seen.
"""

from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import pytest
from hilum import Call, tool
from hilum.events import ApprovalAsked, CallDone
from hilum.testing import ScriptedModel, open_bench, plugin, use
from hilum_files import Changes, save_file

PNG = b"\x89PNG\r\n\x1a\n\x00\xff"


@tool(risk="network", effect="once", writes="path")
async def draw(call: Call, path: str, overwrite: bool = False) -> str:
    """Draw."""
    return f"Saved {await save_file(call, path, PNG, overwrite=overwrite)}."


async def drawn(root: Path, tmp_path: Path, **arguments: Any) -> CallDone:
    async with open_bench(
        hilum_files,
        plugin("art", draw),
        workspace=root,
        folder=tmp_path / "bench",
        settings={"approve": "auto"},
    ) as bench:
        await bench.call("draw", **arguments)
        if (root / arguments["path"]).read_bytes() == PNG:
            assert await bench.session.plugin(Changes).undo()
        return bench.of(CallDone)[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proj").mkdir()
    return tmp_path / "proj"


async def test_a_file_is_saved_and_undone(root, tmp_path):
    """Bytes are bytes; folders are made; undo takes all of it away."""
    done = await drawn(root, tmp_path, path="art/a.png")
    assert done.result.text == "Saved art/a.png."
    assert not (root / "art").exists()


async def test_a_file_that_is_there_stays_unless_it_may_be_overwritten(root, tmp_path):
    """Nothing is lost by a name that was taken; what is overwritten comes back with undo."""
    (root / "a.png").write_bytes(b"old")
    done = await drawn(root, tmp_path, path="a.png")
    assert done.result.code == "E_BAD_ARGS"
    assert "already exists" in done.result.text
    assert (root / "a.png").read_bytes() == b"old"
    done = await drawn(root, tmp_path, path="a.png", overwrite=True)
    assert done.result.code == ""
    assert (root / "a.png").read_bytes() == b"old"  # undone


@pytest.mark.parametrize("path", [".git/hooks/post-checkout", ".hilum/agents/x.md"])
async def test_the_guard_sees_where_a_network_tool_writes(root, tmp_path, path):
    """Its risk is the network, and its path is judged as that of a tool that writes."""
    (root / ".git" / "hooks").mkdir(parents=True)
    async with open_bench(
        hilum_files, hilum_guard, plugin("art", draw),
        model=ScriptedModel([use("draw", path=path), "done"]), workspace=root, folder=tmp_path / "bench",
        settings={"approve": "auto"},
    ) as bench:  # fmt: skip
        run = await bench.start("draw")
        asked = await bench.wait_for(ApprovalAsked)
        assert path in asked.reason
        bench.session.answer(asked.id, False, reason="no")
        await run.wait()
    assert not (root / path).exists()
