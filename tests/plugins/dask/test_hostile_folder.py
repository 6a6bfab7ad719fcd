"""Modules in the current folder, which is often the repository to work on, are never imported."""

import sys
from pathlib import Path

import pytest

HOSTILE = 'open({marker!r}, "a").write(f"{{__name__}}\\n")\n'
NAMES = ("trio", "msgspec", "hilum_dask", "hilum_cli", "__future__", "argparse")


@pytest.fixture
def marker(batch) -> Path:
    """The file that a module in the current folder writes if it is imported."""
    path = batch.folder / "imported"
    for name in NAMES:
        (batch.folder / f"{name}.py").write_text(HOSTILE.format(marker=str(path)))
    return path


@pytest.mark.parametrize("program", ["module", "script"])
async def test_a_batch_imports_no_module_of_the_current_folder(batch, marker, program):
    """Neither the driver nor the process of the tasks does."""
    script = str(Path(sys.executable).with_name("hilum"))
    start = (script,) if program == "script" else (sys.executable, "-m", "hilum")
    arguments = ("batch", batch.tasks("write x"), "--out", "out", "--runner", "batch_runners:act")
    async with batch.started(program=(*start, *arguments)) as driver:
        assert await driver.wait() == 0, (batch.folder / "stderr").read_text()
    assert batch.rows["1"]["state"] == "completed"
    assert not marker.exists(), marker.read_text()


async def test_a_worker_imports_no_module_of_the_current_folder(batch, marker, wait_until):
    """Nothing listens at the address, so the worker only tries to connect."""
    pytest.importorskip("distributed")
    (batch.folder / "tornado.py").write_text(HOSTILE.format(marker=str(marker)))
    program = (sys.executable, "-m", "hilum", "batch", "worker", "tcp://127.0.0.1:9")
    async with batch.started(program=program):
        errors = batch.folder / "stderr"
        await wait_until(lambda: "127.0.0.1:9" in errors.read_text())
    assert not marker.exists(), marker.read_text()
