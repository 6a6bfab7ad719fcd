"""The sandbox is tried while a session opens, if ``git status`` runs in it soon."""

import threading
from pathlib import Path

import hilum_guard
import pytest
import trio
import trio.testing
from hilum import open_kernel
from hilum_guard.sandbox import sandbox_probe


@pytest.fixture
def tried(monkeypatch):
    """Set when the sandbox is tried."""
    event = threading.Event()
    monkeypatch.setattr(sandbox_probe, "probe", event.set)
    return event


def open_guard(folder: Path, *, expects_prompt: bool = True, **settings: object):
    """Open a kernel that has only the guard."""
    return open_kernel(
        [hilum_guard],
        workspace=folder,
        environ={"HOME": str(folder / "home")},
        settings={f"guard.{name}": value for name, value in settings.items()},
        expects_prompt=expects_prompt,
    )


async def test_the_sandbox_is_tried_in_a_repository(tmp_path: Path, tried: threading.Event):
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "inner"
    inner.mkdir()
    async with open_guard(inner):
        assert await trio.to_thread.run_sync(tried.wait, 10)


@pytest.mark.parametrize(
    ("is_repository", "options"),
    [(False, {}), (True, {"expects_prompt": False}), (True, {"sandbox": "off"})],
)
async def test_nothing_is_tried_without_need(
    tmp_path: Path, tried: threading.Event, is_repository: bool, options: dict[str, object]
):
    if is_repository:
        (tmp_path / ".git").mkdir()
    async with open_guard(tmp_path, **options):
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not tried.is_set()


async def test_a_trial_that_fails_leaves_the_guard_on(tmp_path: Path, monkeypatch):
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise OSError("no more processes")

    monkeypatch.setattr(sandbox_probe, "probe", fail)
    (tmp_path / ".git").mkdir()
    async with open_guard(tmp_path) as kernel:
        assert await trio.to_thread.run_sync(failed.wait, 10)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert kernel.host.plugins["hilum_guard"].state == "ready"
