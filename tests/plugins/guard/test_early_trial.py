"""The sandbox is tried while a session opens, if ``git status`` runs in it soon."""

import threading
from collections.abc import Callable
from pathlib import Path

import hilum_guard
import pytest
import trio
import trio.testing
from hilum import open_kernel
from hilum.testing import ModelProvider, ScriptedModel, plugin
from hilum_guard.sandbox import sandbox_probe, session_sandbox
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher


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


async def test_the_first_request_goes_before_what_later_commands_need(tmp_path: Path, monkeypatch):
    """The loopback, the scan of the workspace, and what killed sessions left."""
    order: list[str] = []
    all_done = threading.Event()

    def note(name: str) -> Callable[..., None]:
        def add(*_: object) -> None:
            order.append(name)
            if name == "sweep":
                all_done.set()

        return add

    monkeypatch.setattr(session_sandbox.Sandbox, "_prepare_network", note("loopback"))
    monkeypatch.setattr(WorkspaceWatcher, "scan_ahead", note("scan"))
    monkeypatch.setattr(session_sandbox, "sweep", note("sweep"))
    (tmp_path / ".git").mkdir()

    async def answer(_request: object) -> str:
        assert await trio.to_thread.run_sync(all_done.wait, 30)
        return "done"

    models = [ModelProvider({"model": ScriptedModel([answer])})]
    given = {"provide_models": lambda: models, "gather_context": lambda: order.append("context")}
    async with (
        open_kernel(
            [hilum_guard, plugin("given", **given)],
            model="scripted/model",
            workspace=tmp_path,
            environ={"HOME": str(tmp_path / "home")},
            expects_prompt=True,
        ) as kernel,
        kernel.open_session(tmp_path) as session,
    ):
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert order == []
        with trio.fail_after(60):
            run = await session.prompt("x")
            assert (await run.wait()).state == "completed"
    # A closing session sweeps if nothing has swept in this process yet.
    assert order == ["context", "loopback", "scan", "sweep", "sweep"]
