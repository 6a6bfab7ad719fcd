"""The library without hilum: shapes are tested through the kernel, here is what a program of
another kind relies on.
"""

import json
import re
from contextlib import suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Protocol, runtime_checkable

import pluggy
import pytest
import trio
from hilum.hooks import HookError, Lifespans, Mistake, PluginFailure, Table, specifier

hookspec, hookimpl = specifier("tea"), pluggy.HookimplMarker("tea")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "kernel-packages.md"
SECTION = PAGE.read_text().partition("## `hilum.hooks`")[2]


@hookspec(shape="gather", on_failure="left out", returns=str)
async def suggest(guest): ...


@hookspec(shape="pipe", on_failure="not poured", returns=str)
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


def test_the_example_in_the_page_runs(capsys):
    """Somebody will copy it."""
    code = SECTION.split("```python\n")[1].split("```")[0]
    exec(code, {"__name__": "example"})
    assert capsys.readouterr().out == "[('darjeeling', 'Ada might like a first flush.')]\n"


async def test_a_failure_is_a_fault_and_the_others_answer(table, faults):
    """Nobody pays for another's mistake."""
    table.add(plugin(suggest=lambda guest: broken()), "kettle", 0)
    table.add(plugin(suggest=lambda guest: f"Assam for {guest}"), "assam", 1)
    answers = await table.gather("suggest", guest="Ada")
    assert [plugin for plugin, _ in answers] == ["kettle", "assam"]
    assert isinstance(answers[0][1], PluginFailure)
    assert answers[1][1] == "Assam for Ada"
    (fault,) = faults
    assert re.fullmatch(r"RuntimeError: no water \(\S*test_hooks_alone.py, line \d+\)", str(fault))


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


@hookimpl
async def suggest_wrongly(gust):
    return gust


@hookimpl
def pouring(cup, saucer=None):
    return cup


def test_every_mistake_of_a_plugin_is_reported_with_line_and_suggestion(table):
    """Not only the first one; pluggy rejects two of them, and hilum the others."""
    module = ModuleType("kettle")
    module.suggest = suggest_wrongly
    module.pour = hookimpl(lambda cups="": cups)
    module.puor = pouring
    with pytest.raises(HookError) as caught:
        table.add(module, "kettle", 0, mistakes=[Mistake("gates is 7.")])
    first, *lines = caught.value.message.splitlines()
    assert first == "4 mistakes:"
    place = r"\S*test_hooks_alone.py, line \d+"
    expected = [
        r"  gates is 7\.",
        rf"  {place}: suggest has no argument gust; it has guest\. Did you mean guest\?",
        rf"  {place}: pour has no argument cups; it has cup\. Did you mean cup\?",
        rf"  {place}: There is no hook 'puor'\. Did you mean pour\?",
    ]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line), line
    assert f"line {suggest_wrongly.__code__.co_firstlineno}: suggest" in lines[1]
    assert table.names("kettle") == []


async def test_an_answer_of_the_wrong_type_names_the_function_and_what_is_expected(faults):
    """The exception is raised by the kernel, so its traceback has no line of the plugin."""

    @hookspec(shape="collect", on_failure="left out", returns=str, returns_many=True)
    def list_teas(guest): ...

    table = Teas(faults.append, {"list_teas": list_teas.tea_spec_info}, [])
    table.add(plugin(list_teas=lambda guest: [7]), "kettle", 0)
    table.add(plugin(list_teas=lambda guest: 8), "pot", 1)
    table.collect("list_teas", guest="Ada")
    texts = [re.sub(r"[^ (]*(test_hooks_alone.py, line )\d+", r"\1N", str(each)) for each in faults]
    assert texts == [
        "it returned 7, expected str or a list of str (test_hooks_alone.py, line N)",
        "it returned 8, expected str or a list of str (test_hooks_alone.py, line N)",
    ]


def test_a_failure_is_part_of_a_sentence():
    """It has no full stop, because the messages around it add one."""
    assert str(PluginFailure("kettle", "pour", ValueError("It is empty."))) == (
        "ValueError: It is empty"
    )
    assert str(PluginFailure("kettle", "pour", HookError("It leaks.", hint="Mend it."))) == (
        "It leaks. Mend it"
    )


def test_the_place_of_a_failure_is_in_the_plugin_and_not_in_a_library():
    """Its author needs the own line: the last one of the package that was called."""
    try:
        json.loads("{")
    except ValueError as error:
        text = str(PluginFailure("kettle", "pour", error))
    assert re.search(r"\(\S*test_hooks_alone.py, line \d+\)$", text), text


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
        assert lifespans.plugin(str) == "half"
        fall.set()
        await lifespans.close()
    assert closed == ["unsteady"]
    assert told == [("b", "it fell")]


@runtime_checkable
class Kettle(Protocol):
    """What a plugin may offer."""

    size: int

    def pour(self) -> str:
        """Return tea."""
        ...


class Broken:
    """An instance whose property fails."""

    def pour(self):
        """Return tea."""

    @property
    def size(self):
        """The size."""
        raise ValueError("unknown")


async def test_an_instance_is_found_by_its_protocol():
    """One that fits later, or is preferred, is found although another was looked for before."""
    lifespans = Lifespans("live", object(), lambda name, error: None, "tea")
    late = SimpleNamespace(pour=str)
    preferred = SimpleNamespace(pour=str, size=3)

    async def open_instance(instance, **options):
        @hookimpl
        def live():
            return instance

        await lifespans.open("a", SimpleNamespace(live=live), **options)

    for instance in (object(), Broken(), SimpleNamespace(size=1), late):
        await open_instance(instance)
        assert lifespans.plugin(Kettle) is None
    late.size = 2
    assert lifespans.plugin(Kettle) is late
    assert lifespans.plugin(Kettle) is late
    await open_instance(preferred, preferred=True)
    assert lifespans.plugin(Kettle) is preferred
    assert lifespans.plugin(Broken).pour() is None


def test_pluggy_keeps_checks_and_orders_what_is_called(table):
    """Modules and instances alike; other names in them are passed over."""
    module, late = ModuleType("plugin"), SimpleNamespace()
    module.pour, module.other = hookimpl(lambda cup: f"{cup}, warmed"), object()
    late.pour = hookimpl(lambda cup: f"{cup}, filled", tryfirst=True)

    class Milk:
        @hookimpl
        def pour(self, cup):
            return f"{cup}, with milk"

    table.declare("a", ["pour"])
    table.add(late, "late", 1)
    table.add(Milk(), "a", 0, instance=True)
    table.add(module, "a", 0)
    impls = table.registry.hook.pour.get_hookimpls()
    assert late.pour is impls[-1].function
    cup = trio.run(lambda: table.pipe("pour", "cup", cup="cup"))
    assert cup == "cup, filled, warmed, with milk"
    wrong = ModuleType("wrong")
    wrong.pour = hookimpl(lambda saucer: saucer)
    with pytest.raises(HookError, match="pour has no argument saucer; it has cup") as caught:
        table.add(wrong, "wrong", 2)
    assert isinstance(caught.value.__cause__, pluggy.PluginValidationError)
    unknown = ModuleType("unknown")
    unknown.stir = hookimpl(lambda: None)
    with pytest.raises(HookError, match="There is no hook 'stir'") as caught:
        table.add(unknown, "unknown", 2)
    assert isinstance(caught.value.__cause__, pluggy.PluginValidationError)
    assert table.registry.hook.pour.get_hookimpls() == impls


@pytest.mark.parametrize("lines", ["add_hookspecs", "register", "unregister", "check_pending"])
def test_nothing_works_without_pluggy(monkeypatch, lines):
    """hilum keeps no list of its own: without pluggy nothing is called, checked or taken out."""
    monkeypatch.setattr(pluggy.PluginManager, lines, lambda *args, **options: None)
    table = Teas(lambda fault: None, SPECS, [])
    outcome = []
    for hooks in ({"pour": lambda cup: "full"}, {"pour": lambda saucer: ""}, {"stir": lambda: ""}):
        try:
            table.add(plugin(**hooks), f"plugin {len(outcome)}", len(outcome))
            outcome.append(trio.run(lambda: table.pipe("pour", "cup", cup="empty")))
        except HookError:
            outcome.append("refused")
    with suppress(AssertionError):  # pluggy's, where nothing was registered
        table.forget("plugin 0")
    outcome.append(trio.run(lambda: table.pipe("pour", "cup", cup="empty")))
    assert outcome != ["full", "refused", "refused", "empty"]


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda cup, saucer=None: cup, "pour has no argument saucer; it has cup"),
        (hookimpl(lambda cup: cup, wrapper=True), "pour is marked as a wrapper"),
    ],
    ids=["default", "wrapper"],
)
def test_what_pluggy_would_take_and_cannot_be_called_is_refused(table, function, problem):
    marked = function if hasattr(function, "tea_impl") else hookimpl(function)
    with pytest.raises(HookError, match=problem):
        table.add(SimpleNamespace(pour=marked), "kettle", 0)
    assert table.names("kettle") == []


async def test_arguments_with_a_default_are_passed(table):
    table.add(plugin(suggest=lambda guest="nobody": f"Assam for {guest}"), "assam", 0)
    assert await table.gather("suggest", guest="Ada") == [("assam", "Assam for Ada")]


def test_equal_objects_of_two_plugins_are_two_plugins(table):
    """pluggy compares what it registers; a plugin's own ``==`` must not count."""
    one, other = plugin(suggest=lambda: "Assam"), plugin()
    vars(other).update(vars(one))
    assert one == other
    table.add(one, "one", 0)
    table.add(other, "other", 1)
    assert [impl.plugin for impl in table.registry.implementations("suggest")] == ["one", "other"]
