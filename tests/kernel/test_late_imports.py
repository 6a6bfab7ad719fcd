"""Modules that a plugin's first call needs are imported while the model works on the first request."""

import sys
import threading

import pytest
import trio
from hilum import hookimpl
from hilum.events import ModelStarted
from hilum.testing import ScriptedModel, open_bench, pause

TELLS = """
import sys
from trio import from_thread
from_thread.run_sync(sys.late_test.append, __name__)
from_thread.run_sync(sys.late_test_event.set)
"""
BLOCKS = """
import sys
from trio import from_thread
from_thread.run_sync(sys.late_test_event.set)
sys.late_test_release.wait()
"""


@pytest.fixture
def late(tmp_path, monkeypatch):
    """Return the names of the imported modules, and the event that each of them sets."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "late_test", [], raising=False)
    monkeypatch.setattr(sys, "late_test_event", trio.Event(), raising=False)
    monkeypatch.setattr(sys, "late_test_release", threading.Event(), raising=False)
    (tmp_path / "late_tells.py").write_text(TELLS)
    (tmp_path / "late_fails.py").write_text("raise RuntimeError('cannot be imported')\n")
    (tmp_path / "late_blocks.py").write_text(BLOCKS)
    yield sys
    sys.late_test_release.set()
    for name in ("late_tells", "late_fails", "late_blocks"):
        sys.modules.pop(name, None)


class Lazy:
    """A plugin that names modules."""

    def __init__(self, *names):
        self.names = names

    @hookimpl
    def open_session(self, session):
        """Name the modules."""
        session.import_later(*self.names)
        return self


async def test_modules_are_imported_while_the_model_works(bench, late):
    answered = trio.Event()
    kit = await bench(Lazy("late_tells"), model=ScriptedModel([pause(answered), "Done."]))
    await kit.start("Think.")
    await kit.wait_for(ModelStarted)
    assert late.late_test == []
    with trio.fail_after(10):
        await late.late_test_event.wait()
    assert late.late_test == ["late_tells"]
    answered.set()


async def test_modules_are_imported_while_the_user_types(bench, late):
    await bench(Lazy("late_tells"))
    with trio.fail_after(10):
        await late.late_test_event.wait()
    assert late.late_test == ["late_tells"]


async def test_a_module_that_cannot_be_imported_is_left_out(bench, late):
    kit = await bench(Lazy("late_fails", "no_such_module_at_all", "late_tells"))
    with trio.fail_after(10):
        await late.late_test_event.wait()
    assert late.late_test == ["late_tells"]
    assert kit.session.hooks is not None
    with pytest.raises(RuntimeError, match="cannot be imported"):
        __import__("late_fails")


async def test_a_session_closes_while_a_module_is_imported(late):
    with trio.fail_after(10):
        async with open_bench(Lazy("late_blocks", "late_tells")):
            await late.late_test_event.wait()
    late.late_test_release.set()
    # The thread ends with the module that it was importing.
    assert late.late_test == []
