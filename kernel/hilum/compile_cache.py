"""A cache of what libraries compile from text while modules are imported.

attrs compiles the methods of each class, ``typing`` each annotation of a named tuple, and ``re`` each
pattern. For what ``hilum run`` imports, that takes 50 ms (tests/benchmarks/real_project.py). Each
result depends on nothing but the text and the version of Python, so an archive of modules has the
results, too (see ``module_archive``).

Only patterns that are in the source code are kept: one that a function builds may contain a secret of
the user.
"""

from __future__ import annotations

import collections
import marshal
import re
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import CodeType, FrameType, ModuleType
from typing import Any

MAX_TEXTS = 5_000
"""Number of results after which no more are kept."""
_MODULES = ("attr._make", "typing")
"""The modules whose use of the built-in function ``compile`` is cached."""

# attrs gives the hashes of each class a salt, the hash of the class's name, which is another one in each
# process. Any number will do, so the one of the process that compiled the methods is kept.
_SALT = re.compile(r"(hash\(\(\n\s+)-?\d+,\n")

# The name of the module, the source, the file name and the mode.
_SourceKey = tuple[str, str, str, str]
# The pattern and the flags.
_PatternKey = tuple[str | bytes, int]
# The arguments of the compiler of `re` after the pattern: flags, code, number of groups, names of
# groups, and the groups' names in order.
_Pattern = tuple[int, list[int], int, dict[str, int], tuple[str | None, ...]]


class CompileCache:
    """The results of compiling.

    Args:
        data: The result of ``dump`` in an earlier process; empty for none.

    Attributes:
        new: The number of results that were not in ``data``.
    """

    def __init__(self, data: bytes = b"") -> None:
        self.new = 0
        self._sources: dict[_SourceKey, CodeType] = {}
        self._patterns: dict[_PatternKey, _Pattern] = {}
        # The content of .pyc files, in which constants are as in the source.
        self._bytecode: dict[str, bytes] = {}
        if data:
            self._sources, self._patterns = marshal.loads(data)

    def dump(self) -> bytes:
        """Return all results."""
        return marshal.dumps((self._sources, self._patterns))

    def install(self) -> None:
        """Use the cache in this process."""
        for name in _MODULES:
            module: Any = import_module(name)
            module.compile = self._make_compile(module)
        self._cache_named_tuples()
        self._cache_patterns()

    def _make_compile(self, module: ModuleType) -> Callable[..., Any]:
        """Return what a module calls instead of the built-in function ``compile``."""
        name = module.__name__
        # Code inherits the `from __future__` statements of the module that compiles it.
        feature = getattr(module, "annotations", None)
        flags = getattr(feature, "compiler_flag", 0)
        sources = self._sources

        def compile_source(source: Any, filename: Any, mode: str, *more: Any, **named: Any) -> Any:
            if more or named or type(source) is not str or type(filename) is not str:
                return compile(source, filename, mode, *more, **named)
            key = (name, _SALT.sub(r"\1\n", source), filename, mode)
            code = sources.get(key)
            if code is None:
                code = compile(source, filename, mode, flags, dont_inherit=True)
                if len(sources) < MAX_TEXTS:
                    sources[key] = code
                    self.new += 1
            return code

        return compile_source

    def _cache_named_tuples(self) -> None:
        """Keep the constructors of named tuples, which ``collections`` evaluates from texts."""
        module: Any = collections
        compile_source = self._make_compile(module)

        def evaluate(source: Any, *namespaces: Any) -> Any:
            if type(source) is str and len(namespaces) == 1:
                source = compile_source(source, "<string>", "eval")
            return eval(source, *namespaces)

        module.eval = evaluate

    def _cache_patterns(self) -> None:
        compiler: Any = getattr(re, "_compiler", None)
        if compiler is None or not hasattr(compiler, "_code"):  # a later version of Python
            return
        compile_pattern = compiler.compile
        make_code = compiler._code
        made = threading.local()

        def keep_code(*arguments: Any) -> Any:
            made.code = make_code(*arguments)
            return made.code

        def compile_once(pattern: Any, flags: int = 0) -> Any:
            if type(pattern) not in (str, bytes) or flags & re.DEBUG:
                return compile_pattern(pattern, flags)
            key = (pattern, int(flags))
            known = self._patterns.get(key)
            if known is not None:
                return compiler._sre.compile(pattern, *known)
            found = compile_pattern(pattern, flags)
            # The callers are two functions of `re`, and then the code that has the pattern.
            is_in_source = self._is_in_source(pattern, sys._getframe(3))
            if is_in_source and not found.flags & re.LOCALE and len(self._patterns) < MAX_TEXTS:
                self._patterns[key] = _describe_pattern(found, made.code)
                self.new += 1
            return found

        compiler._code = keep_code
        compiler.compile = compile_once

    def _is_in_source(self, pattern: str | bytes, caller: FrameType) -> bool:
        """Return whether the module of a caller contains a pattern as it is."""
        code = caller.f_code
        if code.co_name == "<module>" or pattern in code.co_consts:
            return True
        cached = getattr(caller.f_globals.get("__spec__"), "cached", None)
        if not isinstance(cached, str):
            return False
        if cached not in self._bytecode:
            self._bytecode[cached] = _read_file(cached)
        text = pattern.encode(errors="replace") if isinstance(pattern, str) else pattern
        return text in self._bytecode[cached]


def _read_file(path: str) -> bytes:
    """Return the content of a file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _describe_pattern(pattern: re.Pattern[Any], code: list[int]) -> _Pattern:
    """Return the arguments with which the compiler of `re` created a pattern."""
    names: list[str | None] = [None] * (pattern.groups + 1)
    for name, number in pattern.groupindex.items():
        names[number] = name
    # Some numbers in the code are objects of a subclass, which cannot be stored.
    plain = [int(number) for number in code]
    return (pattern.flags, plain, pattern.groups, dict(pattern.groupindex), tuple(names))
