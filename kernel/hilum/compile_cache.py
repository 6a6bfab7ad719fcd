"""A cache of what libraries compile from text while modules are imported.

attrs compiles the methods of each class, ``typing`` each annotation of a named tuple, and ``re`` each
pattern. For what ``hilum run`` imports, that takes 35 ms (tests/benchmarks/real_project.py). Each
result depends on nothing but the text and the version of Python, so an archive of modules has the
results, too (see ``module_archive``).

There is no public way to keep these results, so the cache replaces names in private modules: only in
the program ``hilum``, and only until its session is open. Where a later version of a library or of
Python differs, the library compiles as usual: a name that is missing is not replaced, other arguments
are passed on, and a pattern is kept only if it can be created again from what is kept.

Only patterns that are in the source code are kept: any other one may contain a secret of the user.
"""

from __future__ import annotations
import __future__

import collections
import marshal
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
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
# A source that still contains such a number would be compiled anew in each process, and kept each time.
_LONG_NUMBER = re.compile(r"\d{9}")

# The name of the module, the source, the file name and the mode.
_SourceKey = tuple[str, str, str, str]
# The pattern and the flags.
_PatternKey = tuple[str | bytes, int]
# The arguments of the compiler of `re` after the pattern: flags, code, number of groups, names of
# groups, and the groups' names in order.
_Pattern = tuple[int, list[int], int, dict[str, int], tuple[str | None, ...]]
_MISSING = object()
# What the compiler of `re` raises if it takes other arguments than those that are kept.
_OTHER_ARGUMENTS = (TypeError, ValueError, OverflowError, RuntimeError)


class CompileCache:
    """The results of compiling.

    Args:
        data: The result of ``dump`` in an earlier process; empty for none. Damaged data counts as
            none.

    Attributes:
        new: The number of results that were not in ``data``.
    """

    def __init__(self, data: bytes = b"") -> None:
        self.new = 0
        self._sources: dict[_SourceKey, CodeType] = {}
        self._patterns: dict[_PatternKey, _Pattern] = {}
        # The content of .pyc files, in which constants are as in the source.
        self._bytecode: dict[str, bytes] = {}
        # What was replaced: the module, the name, and the value before.
        self._replaced: list[tuple[ModuleType, str, object]] = []
        if data:
            with suppress(EOFError, ValueError, TypeError):
                self._sources, self._patterns = marshal.loads(data)

    def dump(self) -> bytes:
        """Return all results."""
        return marshal.dumps((self._sources, self._patterns))

    @property
    def is_installed(self) -> bool:
        """Whether this process uses the cache now."""
        return bool(self._replaced)

    def install(self) -> None:
        """Use the cache in this process."""
        for name in _MODULES:
            try:
                module = import_module(name)
            except ImportError:  # a later version of a library
                continue
            self._replace(module, "compile", self._make_compile(module))
        self._cache_named_tuples()
        self._cache_patterns()

    def uninstall(self) -> None:
        """Compile as usual from now on, and keep nothing more."""
        while self._replaced:
            module, name, before = self._replaced.pop()
            if before is _MISSING:
                delattr(module, name)
            else:
                setattr(module, name, before)
        self._bytecode.clear()

    def _replace(self, module: ModuleType, name: str, value: object) -> None:
        """Replace a global name of a module, or a built-in function in it."""
        self._replaced.append((module, name, vars(module).get(name, _MISSING)))
        setattr(module, name, value)

    def _make_compile(self, module: ModuleType) -> Callable[..., Any]:
        """Return what a module calls instead of the built-in function ``compile``."""
        name = module.__name__
        own_flags = _read_future(module)
        sources = self._sources

        def compile_source(source: Any, filename: Any, mode: str, *more: Any, **named: Any) -> Any:
            if more or named or type(source) is not str or type(filename) is not str:
                return _compile_as(own_flags, source, filename, mode, *more, **named)
            key = (name, _SALT.sub(r"\1\n", source), filename, mode)
            code = sources.get(key)
            if code is None:
                code = _compile_as(own_flags, source, filename, mode)
                if len(sources) < MAX_TEXTS and not _LONG_NUMBER.search(key[1]):
                    sources[key] = code
                    self.new += 1
            return code

        return compile_source

    def _cache_named_tuples(self) -> None:
        """Keep the constructors of named tuples, which ``collections`` evaluates from texts."""
        compile_source = self._make_compile(collections)

        def evaluate(source: Any, *namespaces: Any) -> Any:
            # Without namespaces, the built-in function would use those of its caller.
            if type(source) is str and namespaces:
                source = compile_source(source, "<string>", "eval")
            return eval(source, *namespaces) if namespaces else _eval_in(sys._getframe(1), source)

        self._replace(collections, "eval", evaluate)

    def _cache_patterns(self) -> None:
        compiler: Any = getattr(re, "_compiler", None)
        names = ("compile", "_code", "_sre")
        if not all(hasattr(compiler, name) for name in names):  # a later version of Python
            return
        compile_pattern = compiler.compile
        make_code = compiler._code
        made = threading.local()

        def keep_code(*arguments: Any, **named: Any) -> Any:
            made.code = make_code(*arguments, **named)
            return made.code

        def compile_once(pattern: Any, flags: int = 0, *more: Any, **named: Any) -> Any:
            if more or named or type(pattern) not in (str, bytes) or flags & re.DEBUG:
                return compile_pattern(pattern, flags, *more, **named)
            key = (pattern, int(flags))
            known = self._patterns.get(key)
            if known is not None:
                with suppress(*_OTHER_ARGUMENTS):
                    return compiler._sre.compile(pattern, *known)
            made.code = None
            found = compile_pattern(pattern, flags)
            if len(self._patterns) < MAX_TEXTS and not found.flags & re.LOCALE:
                # The callers are two functions of `re`, and then the code that has the pattern.
                described = _describe_pattern(found, made.code)
                if described is not None and self._is_in_source(pattern, sys._getframe(3)):
                    self._patterns[key] = described
                    self.new += 1
            return found

        self._replace(compiler, "_code", keep_code)
        self._replace(compiler, "compile", compile_once)

    def _is_in_source(self, pattern: str | bytes, caller: FrameType) -> bool:
        """Return whether the module of a caller contains a pattern as it is."""
        if pattern in caller.f_code.co_consts:
            return True
        cached = getattr(caller.f_globals.get("__spec__"), "cached", None)
        if not isinstance(cached, str):
            return False
        if cached not in self._bytecode:
            self._bytecode[cached] = _read_file(cached)
        text = pattern.encode(errors="replace") if isinstance(pattern, str) else pattern
        return text in self._bytecode[cached]


def _read_future(module: ModuleType) -> int:
    """Return the flags of the ``from __future__`` statements of a module.

    Code inherits them from the module that compiles it.
    """
    flags = 0
    for name in __future__.all_feature_names:
        feature = vars(module).get(name)
        if feature is getattr(__future__, name):
            flags |= feature.compiler_flag
    return flags


def _compile_as(
    own_flags: int,
    source: Any,
    filename: Any,
    mode: str,
    flags: int = 0,
    dont_inherit: bool = False,
    optimize: int = -1,
    **named: Any,
) -> Any:
    """Compile as the built-in function does in a module with some ``from __future__`` statements."""
    if not dont_inherit:
        flags |= own_flags
    return compile(source, filename, mode, flags, dont_inherit=True, optimize=optimize, **named)


def _eval_in(caller: FrameType, source: Any) -> Any:
    """Evaluate a source in the namespaces of its caller."""
    return eval(source, caller.f_globals, caller.f_locals)


def _read_file(path: str) -> bytes:
    """Return the content of a file; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _describe_pattern(pattern: re.Pattern[Any], code: list[int] | None) -> _Pattern | None:
    """Return the arguments with which the compiler of `re` created a pattern.

    Args:
        pattern: The pattern.
        code: Its code, if the compiler has shown it.

    Returns:
        The arguments; ``None`` if they do not create an equal pattern.
    """
    if code is None:
        return None
    names: list[str | None] = [None] * (pattern.groups + 1)
    for name, number in pattern.groupindex.items():
        names[number] = name
    compiler: Any = re._compiler  # type: ignore[attr-defined]
    try:
        # Some numbers in the code are objects of a subclass, which cannot be stored.
        plain = [int(number) for number in code]
        described = (
            pattern.flags,
            plain,
            pattern.groups,
            dict(pattern.groupindex),
            tuple(names),
        )
        again = compiler._sre.compile(pattern.pattern, *described)
    except _OTHER_ARGUMENTS:
        return None
    is_same = again == pattern and dict(again.groupindex) == dict(pattern.groupindex)
    return described if is_same else None
