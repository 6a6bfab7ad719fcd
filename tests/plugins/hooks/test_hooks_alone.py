"""The library without hilum: shapes are tested through the kernel, here is what a program of
another kind relies on.
"""

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pluggy
import pytest
import trio
from hilum_hooks import Fault, HookError, Lifespans, Manager, Table, specifier

hookspec, hookimpl = specifier("tea"), pluggy.HookimplMarker("tea")
README = Path(__file__).resolve().parents[3] / "plugins" / "hooks" / "README.md"


@hookspec(shape="gather", fault="left out", gives=str)
async def suggest(guest): ...


@hookspec(shape="pipe", fault="not poured", gives=str)
def pour(cup): ...


SPECS = {"suggest": suggest.tea_spec_info, "pour": pour.tea_spec_info}


class Teas(Table):
    project = "tea"


@pytest.fixture
def faults():
    return []


@pytest.fixture
def table(faults):
    return Teas(faults.append, SPECS, [])


def plugin(**hooks):
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def broken(*args):
    raise RuntimeError("no water")


def test_the_readme_example_runs():
    """Somebody will copy it."""
    code = README.read_text().split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[('darjeeling', 'Ada might like a first flush.')]\n"


async def test_a_failure_is_a_fault_and_the_others_answer(table, faults):
    """Nobody pays for another's mistake."""
    table.add(plugin(suggest=lambda guest: broken()), "kettle", 0)
    table.add(plugin(suggest=lambda guest: f"Assam for {guest}"), "assam", 1)
    answers = await table.gather("suggest", guest="Ada")
    assert [plugin for plugin, _ in answers] == ["kettle", "assam"]
    assert isinstance(answers[0][1], Fault)
    assert answers[1][1] == "Assam for Ada"
    assert [str(fault) for fault in faults] == ["RuntimeError: no water"]


async def test_a_pipe_that_fails_raises_and_stays_closed_when_it_goes(table, faults):
    """What guards is never skipped."""
    table.add(plugin(pour=lambda cup: broken()), "kettle", 0)
    for _ in range(3):
        with pytest.raises(HookError, match="kettle failed: RuntimeError: no water"):
            await table.pipe("pour", "cup", cup="x")
    assert faults[-1].switched_off
    assert "kettle" in table.closed["pour"]


async def test_a_copy_is_a_table_of_its_own(table):
    """What is added to or taken from it does not touch the first."""
    table.add(plugin(suggest=lambda: "Assam"), "assam", 0)
    copy = table.copy(lambda fault: None)
    copy.remove("assam", "sold out")
    copy.add(plugin(suggest=lambda: "Mate"), "mate", 1)
    assert await table.gather("suggest", guest="Ada") == [("assam", "Assam")]
    assert await copy.gather("suggest", guest="Ada") == [("mate", "Mate")]
    assert "suggest" not in copy.closed


def test_a_plugin_that_does_not_fit_is_refused_whole(table):
    """It is told what would be right, and none of its hooks is added."""
    with pytest.raises(HookError, match="suggest has no argument host; it has guest"):
        table.add(plugin(pour=lambda cup: cup, suggest=lambda host: ""), "kettle", 0)
    assert table.names("kettle") == []


async def test_a_lifespan_that_crashes_is_told_and_ends_alone():
    """The others live on, and are closed in reverse order."""
    told, closed = [], []
    fall, fallen = trio.Event(), trio.Event()

    @hookimpl
    async def unsteady(owner):
        yield "half"
        closed.append("unsteady")

    @hookimpl
    async def falling():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fall.wait)
            yield "other half"
            await fall.wait()
        raise RuntimeError("it fell")

    def crashed(name, error):
        told.append((name, str(error)))
        fallen.set()

    lifespans = Lifespans("live", object(), crashed, "tea")
    with trio.fail_after(60):
        assert await lifespans.open("a", SimpleNamespace(live=unsteady)) == "half"
        assert await lifespans.open("b", SimpleNamespace(live=falling)) == "other half"
        assert lifespans.half(str) == "half"
        fall.set()
        await lifespans.close()
    assert closed == ["unsteady"]
    assert told == [("b", "it fell")]


def test_the_manager_finds_what_a_module_marks_and_checks_it():
    """Other names in it are passed over.

    What does not fit its specification is refused, as by pluggy itself.
    """
    manager, specs, module = Manager("tea"), ModuleType("specs"), ModuleType("plugin")
    specs.pour = hookspec(shape="gather", fault="cold")(lambda cup: None)
    manager.add_hookspecs(specs)
    module.pour, module.other = hookimpl(lambda cup: cup), object()
    manager.register(module)
    assert [impl.function for impl in manager.hook.pour.get_hookimpls()] == [module.pour]
    wrong = ModuleType("wrong")
    wrong.pour = hookimpl(lambda saucer: saucer)
    with pytest.raises(pluggy.PluginValidationError):
        manager.register(wrong)
