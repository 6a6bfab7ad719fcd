"""A cache of what libraries compile, in private modules of Python and attrs that may change."""

import collections
import os
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import Any

import attr._make
import attrs
import pytest
from hilum import module_archive
from hilum.compile_cache import CompileCache

COMPILER: Any = re._compiler  # type: ignore[attr-defined]
REPLACED = (
    (attr._make, "compile"),
    (typing, "compile"),
    (collections, "eval"),
    (COMPILER, "compile"),
    (COMPILER, "_code"),
)
USE = """
import re, sys
from hilum import module_archive
from hilum.compile_cache import CompileCache

def use(cache):
    import attrs
    from typing import NamedTuple
    cache.install()

    @attrs.define
    class Point:
        x: int
        y: int = 2

    class Pair(NamedTuple):
        left: "int"

    assert Point(1) == Point(1, 2) and repr(Pair(1)) == "Pair(left=1)"
    re.purge()
    found = re.compile(r"(?P<first>a+)|(b)", re.IGNORECASE).match("AA")
    assert found.groupdict() == {"first": "AA"}
    cache.uninstall()
    assert not hasattr(sys.modules["attr._make"], "compile")

first = CompileCache()
use(first)
assert first._sources and first._patterns, (first._sources, first._patterns)
second = CompileCache(first.dump())
use(second)
assert second.new == 0
print("used")
"""


@pytest.fixture
def cache() -> Iterator[CompileCache]:
    """A cache that is in use, in this process."""
    cache = CompileCache()
    cache.install()
    re.purge()
    yield cache
    cache.uninstall()


def declare() -> type:
    """Return a class of attrs, whose methods are compiled."""

    @attrs.define
    class Point:
        x: int
        y: int = 2

    return Point


def test_nothing_is_replaced_after_the_start() -> None:
    before = [vars(module).get(name) for module, name in REPLACED]
    cache = CompileCache()
    cache.install()
    assert [vars(module).get(name) for module, name in REPLACED] != before
    cache.uninstall()
    assert [vars(module).get(name) for module, name in REPLACED] == before
    re.compile(r"after the (start)")
    declare()
    assert cache.new == 0


def test_a_later_import_uses_the_cache_only_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [vars(module).get(name) for module, name in REPLACED]
    cache = CompileCache()
    monkeypatch.setattr(module_archive, "_compile_cache", cache)
    with module_archive.cache_compiling():
        assert cache.is_installed
        declare()
        # Another one at the same time, as in a thread, leaves it in use.
        with module_archive.cache_compiling():
            pass
        assert cache.is_installed
    assert not cache.is_installed
    assert [vars(module).get(name) for module, name in REPLACED] == before
    assert cache.new == 1


def test_a_program_without_an_archive_imports_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_archive, "_compile_cache", None)
    with module_archive.cache_compiling():
        assert not hasattr(attr._make, "compile")


@pytest.mark.parametrize("name", ["_code", "_sre", "compile"])
def test_a_compiler_of_patterns_without_a_known_name_is_left_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ModuleType("re._compiler")
    vars(other).update(vars(COMPILER))
    delattr(other, name)
    monkeypatch.setattr(re, "_compiler", other)
    before = dict(vars(other))
    cache = CompileCache()
    cache.install()
    assert dict(vars(other)) == before
    cache.uninstall()


def test_patterns_of_a_compiler_with_other_arguments_are_not_kept(
    cache: CompileCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert re.compile("one of a (pair)").match("one of a pair")
    known = dict(cache._patterns)
    assert known
    re.purge()
    create = COMPILER._sre.compile
    arguments: list[object] = []

    def compile_with_more(*given: object) -> object:
        arguments.append(given)
        if len(arguments) == 1:
            raise TypeError("compile() missing required argument 'extra'")
        return create(*given)

    sre = ModuleType("_sre")
    vars(sre).update(vars(COMPILER._sre))
    sre.compile = compile_with_more  # type: ignore[attr-defined]
    monkeypatch.setattr(COMPILER, "_sre", sre)
    # What is kept is not accepted, and the library compiles as usual.
    assert re.compile("one of a (pair)").match("one of a pair")
    assert len(arguments) > 1


def test_a_library_may_compile_in_another_way(cache: CompileCache) -> None:
    """Other arguments are those of the built-in function, and nothing is kept."""
    compile_source: Any = vars(attr._make)["compile"]
    source = "def f(x: missing): pass"
    for arguments, named in (
        ((), {"dont_inherit": True, "optimize": 1}),
        ((0, True), {}),
        ((), {"flags": 0}),
    ):
        namespace: dict[str, Any] = {}
        code = compile_source(source, "<x>", "exec", *arguments, **named)
        if named.get("dont_inherit") or arguments:
            with pytest.raises(NameError):
                exec(code, namespace)
        else:
            exec(code, namespace)  # attrs has `from __future__ import annotations`
            assert namespace["f"].__annotations__ == {"x": "missing"}
    assert cache.new == 0
    with pytest.raises(TypeError):
        compile_source(source, "<x>", "exec", unknown=1)


def test_a_source_that_differs_in_each_process_is_not_kept(cache: CompileCache) -> None:
    """A later version of attrs may write the salt of a hash in another way."""
    compile_source: Any = vars(attr._make)["compile"]
    compile_source("x = hash(salt=-1234567890123)", "<x>", "exec")
    assert cache.new == 0


@pytest.mark.parametrize("data", [b"x", b"(", b"\xa9", b"N", b""])
def test_damaged_data_counts_as_none(data: bytes) -> None:
    cache = CompileCache(data)
    cache.install()
    declare()
    cache.uninstall()
    assert cache.new


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_other_versions_of_python(version: str) -> None:
    """Those that are installed."""
    program = which(f"python{version}")
    if program is None:
        pytest.skip("not installed")
    kernel = Path(sys.modules["hilum"].__path__[0]).parent
    libraries = Path(attrs.__file__).parent.parent
    path = os.pathsep.join(map(str, (kernel, libraries)))
    # Patterns are searched for in the bytecode of a module, or in the code that has them.
    done = subprocess.run(
        [program, "-c", USE], env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=60
    )
    if "pyenv: " in done.stderr:
        pytest.skip("not installed")
    assert done.stdout == "used\n", done.stderr
