"""Find the new files of a project that interpreters and test runners load on their own.

``python -c "import m"``, ``python -m pkg``, ``pytest`` and ``node -e "require('./p')"`` run code
that their command line does not contain. An agent may have written this code, so that it is read
like a script. The project's own files are only searched for what they import.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from hilum.shared_reads import read_once

from hilum_guard.command_paths import find_temporary, locate, read_status
from hilum_guard.commands.module_finder import (
    MAX_OWN_BYTES,
    FoundFiles,
    ModuleFinder,
    find_absolute,
)
from hilum_guard.commands.python_imports import find_imports
from hilum_guard.folder_listings import select_names
from hilum_guard.new_files import WrittenFiles
from hilum_guard.small_files import read_small_file

MAX_BYTES = 200_000
"""Maximum size of a new file to read, in bytes."""
MAX_FILES = 10_000
"""Maximum number of files that one command loads, as far as they are followed."""
MAX_WALKED = 100_000
"""Maximum number of names to examine for a test runner that searches folders."""
_PYTHON = re.compile(r"(?:python|pypy|ipython)[\d.]*|py")
_NODE = frozenset("node nodejs bun deno tsx ts-node jest vitest mocha ava tap".split())
_NODE_TESTS = frozenset("jest vitest mocha ava tap".split())
_PYTESTS = frozenset(("pytest", "py.test"))
# Programs and modules whose operands may be Python files, or modules as in `app:main`.
_INSTALLERS = frozenset("pip pip3 uv build".split())
_LOADERS = frozenset(
    """coverage cprofile profile pdb ipdb trace doctest runpy timeit debugpy kernprof scalene
    viztracer pyinstrument streamlit fastapi flask uvicorn gunicorn hypercorn daphne celery locust
    nose2 stestr behave manim unittest.mock""".split()
)
_VALUED = frozenset(("-X", "-W", "--check-hash-based-pycs"))
_SKIPPED = frozenset(
    "node_modules __pycache__ site-packages venv env build dist target coverage".split()
)
SCRIPT_ENDS = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".tsx", ".jsx")
_SCRIPT_IMPORT = re.compile(
    r"(?:\brequire\s*\(|\bimport\s*\(|\bfrom|\bimport)\s*['\"`](\.{0,2}/[^'\"`\n]+|\.)['\"`]"
)
_TEST_OF_SCRIPT = re.compile(
    r".*\.(?:test|spec)\.[cm]?[jt]sx?|(?:test|spec)[-_.].*\.[cm]?[jt]sx?|test\.[cm]?[jt]s"
)
_CHANGES_NAMES = re.compile(r"-o|-c|--override-ini.*|--doctest.*|--pyargs|-oP.*|-opython.*")


class Loaded(NamedTuple):
    """The new files that a command loads.

    Attributes:
        paths: The files, without those that the command names as its script.
        unread: Files among them that cannot be read, such as compiled modules, and those with which
            a limit was exceeded, so that others may be missing.
    """

    paths: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def find_loaded(
    name: str,
    words: Sequence[str],
    cwds: Iterable[str | None],
    environment: Mapping[str, str],
    workspace: str,
    *,
    stdin: str | None = None,
    fed: Sequence[str] = (),
) -> Loaded:
    """Return the new files that a command loads. Reads the disk.

    Args:
        name: The name of its program.
        words: The program and its arguments.
        cwds: The folders that it may run in.
        environment: The variables that are set for it.
        workspace: The root of the workspace, without links.
        stdin: Its standard input, if known.
        fed: The files that are redirected to its standard input.
    """
    is_tester = name in _PYTESTS or name == "unittest"
    is_loader = name in _LOADERS or name in _INSTALLERS
    if not (_PYTHON.fullmatch(name) or is_tester or is_loader or name in _NODE):
        return Loaded()
    folders = tuple(dict.fromkeys(cwd for cwd in cwds if cwd is not None))
    variables = tuple(environment.items())
    key = (
        "find_loaded",
        name,
        tuple(words),
        folders,
        variables,
        workspace,
        stdin,
        tuple(fed),
        find_temporary(),
    )

    def search() -> Loaded:
        found = [
            _search(name, words, cwd, environment, workspace, stdin=stdin, fed=fed)
            for cwd in folders
        ]
        paths = dict.fromkeys(path for each in found for path in each.paths)
        unread = dict.fromkeys(path for each in found for path in each.unread)
        return Loaded(tuple(paths), tuple(unread))

    return read_once(key, search)


def _search(
    name: str,
    words: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    workspace: str,
    *,
    stdin: str | None,
    fed: Sequence[str],
) -> Loaded:
    """Return the new files that a command loads in one folder."""
    search = _Search(cwd, workspace, environment)
    if name in _NODE:
        search.read_node(name, words[1:], stdin)
    elif _PYTHON.fullmatch(name):
        search.read_python(words[1:], stdin, fed)
    elif name in _INSTALLERS:
        search.read_installer(name, words[1:])
    else:
        search.read_tester(name, words[1:])
    search.close()
    return Loaded(tuple(search.new), tuple(search.unread))


def read_loaded(path: str, limit: int = MAX_BYTES) -> str | None:
    """Return the text of a file that a program loads; ``None`` if it cannot be read.

    Args:
        path: The file.
        limit: The maximum size of the file, in bytes.
    """
    data = read_small_file(path, limit)
    if data is None or b"\0" in data:
        return None
    return data.decode("utf-8", "replace")


class _Search:
    """A search for the files that a command loads from one folder.

    Attributes:
        new: The files that an agent may have written.
        unread: Those among them that cannot be read, and files beyond a limit.
    """

    def __init__(self, cwd: str, workspace: str, environment: Mapping[str, str]) -> None:
        self._cwd = locate(cwd)
        self._workspace = workspace
        self._written = WrittenFiles(workspace)
        self._environment = environment
        given = environment.get("PYTHONPATH", "").split(":")
        self._given = [self._absolute(each) for each in given if each]
        self._modules = ModuleFinder(self._cwd, workspace, self._given)
        self._seen: set[str] = set()
        self._waiting: list[tuple[str, tuple[str, ...], os.stat_result]] = []
        self.new: list[str] = []
        self.unread: list[str] = []

    def close(self) -> None:
        """Keep what is known of the project for the next search."""
        self._modules.close()

    # --- Python -----------------------------------------------------------------------------------

    def read_python(self, arguments: Sequence[str], stdin: str | None, fed: Sequence[str]) -> None:
        """Follow what `python ARGUMENTS` loads."""
        at = 0
        while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-":
            option = arguments[at]
            code = re.fullmatch(r"-[bBdEiIOPqsSuvx]*([cm])(.*)", option, re.DOTALL)
            if code:
                given = code[2] or "".join(arguments[at + 1 : at + 2])
                if code[1] == "c":
                    self._follow_text(given, (self._cwd,))
                else:
                    self._add_module(given, (self._cwd,), is_main=True)
                self._add_site(arguments[: at + 1])
                self._drain()
                return
            at += 2 if option in _VALUED else 1
        self._add_site(arguments[:at])
        script = arguments[at] if at < len(arguments) else "-"
        if script in ("-", "/dev/stdin"):
            self._follow_text(stdin or "", (self._cwd,))
            for path in fed:
                self._add(self._absolute(path), (self._cwd,))
        else:
            path = self._absolute(script)
            if os.path.isdir(path):
                self._add(os.path.join(path, "__main__.py"), (path,))
            elif os.path.isfile(path):
                self._follow_script(path)
        self._drain()

    def _add_site(self, options: Sequence[str]) -> None:
        """Add the modules that Python imports when it starts."""
        if any(re.fullmatch(r"-\w*[ISE]\w*", each) for each in options):
            return
        for folder in self._given:
            for name in ("sitecustomize", "usercustomize"):
                self._add_module(name, (folder,))

    def _follow_script(self, path: str) -> None:
        """Follow what a script imports; its own code is read elsewhere."""
        self._seen.add(path)
        if path.endswith((".pyc", ".pyz", ".zip", ".egg", ".whl")) or self._is_long(path):
            if self._is_written(path):
                self.unread.append(path)
            return
        self._wait(path, (os.path.dirname(path),))

    def _is_written(self, path: str) -> bool:
        try:
            return self._written.contains(path, read_status(path))
        except OSError:
            return False

    @staticmethod
    def _is_long(path: str) -> bool:
        try:
            return os.path.getsize(path) > MAX_BYTES
        except OSError:
            return False

    def read_tester(self, name: str, arguments: Sequence[str]) -> None:
        """Follow what pytest, unittest, and programs that load modules import."""
        self._add_site(())
        if name in _PYTESTS:
            self._read_pytest(arguments)
        elif name == "unittest":
            self._read_unittest(arguments)
        else:
            self._read_loader(arguments)
        self._drain()

    def read_installer(self, name: str, arguments: Sequence[str]) -> None:
        """Follow the `setup.py` that pip runs to install a folder."""
        if name != "build" and not {"install", "wheel", "build", "sync", "run"} & set(arguments):
            return
        for word in (".", *arguments) if name in ("build", "uv") else arguments:
            # `-e ./package[extra]`
            path = self._absolute(re.sub(r"\[[^\]]*\]$", "", word))
            if "setup.py" in self._modules.list_names(path):
                self._add(os.path.join(path, "setup.py"), (path,))
        self._drain()

    def _read_pytest(self, arguments: Sequence[str]) -> None:
        more = self._environment.get("PYTEST_ADDOPTS", "").split()
        words = [*more, *arguments]
        plugins = self._environment.get("PYTEST_PLUGINS", "").split(",")
        named = [each.partition("::")[0] for each in words if not each.startswith("-")]
        for before, word in pairwise(words):
            if before == "-p":
                plugins.append(word)
        plugins += [each[2:] for each in words if re.fullmatch(r"-p\w.*", each)]
        for plugin in filter(None, plugins):
            self._add_module(plugin, (self._cwd,))
        starts = [path for path in map(self._absolute, named) if os.path.exists(path)]
        takes_all = any(map(_CHANGES_NAMES.fullmatch, words)) or self._has_new_settings()
        patterns = ("*.py",) if takes_all else ("test_*.py", "*_test.py", "conftest.py")
        for start in starts or [self._cwd]:
            self._add_conftests(start)
            for path in self._walk(start, patterns):
                self._add(path, self._modules.find_bases(path.rpartition("/")[0]))

    def _has_new_settings(self) -> bool:
        """Return whether an agent may have changed which files hold tests."""
        for name in ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"):
            path = os.path.join(self._cwd, name)
            if os.path.isfile(path) and self._is_written(path):
                text = read_loaded(path)
                if text is None or re.search(r"python_files|doctest", text):
                    return True
        return False

    def _add_conftests(self, start: str) -> None:
        folder = start if os.path.isdir(start) else os.path.dirname(start)
        while f"{folder}/".startswith(f"{self._workspace}/"):
            if "conftest.py" in self._modules.list_names(folder):
                self._add(os.path.join(folder, "conftest.py"), self._modules.find_bases(folder))
            if folder == self._workspace:
                return
            folder = os.path.dirname(folder)

    def _read_unittest(self, arguments: Sequence[str]) -> None:
        words = list(arguments)
        pattern = "test*.py"
        starts: list[str] = []
        named: list[str] = []
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if option in ("-p", "--pattern", "-s", "--start-directory", "-t", "-k"):
                value = value if equals else (words.pop(0) if words else "")
                if option in ("-p", "--pattern"):
                    pattern = value
                elif option in ("-s", "--start-directory"):
                    starts.append(value)
            elif not word.startswith("-") and word != "discover":
                named.append(word)
        for word in named:
            path = self._absolute(word)
            if os.path.isdir(path):
                starts.append(word)
            elif os.path.isfile(path):
                self._add(path, (self._cwd,))
            else:
                self._add_module(word, (self._cwd,))
        if named and not starts:
            return
        for start in map(self._absolute, starts or ["."]):
            for path in self._walk(start, (pattern, "__init__.py")):
                self._add(path, (self._cwd, start))

    def _read_loader(self, arguments: Sequence[str]) -> None:
        for before, word in pairwise(("", *arguments)):
            path = self._absolute(word)
            if before == "-m":
                self._add_module(word, (self._cwd,), is_main=True)
            elif word.endswith(".py") and os.path.isfile(path):
                self._add(path, (os.path.dirname(path), self._cwd))
            elif re.fullmatch(r"[A-Za-z_][\w.]*(?::[\w.()]+)?", word):
                self._add_module(word.partition(":")[0], (self._cwd,))
            elif re.search(r"\bimport\b", word):
                self._follow_text(word, (self._cwd,))

    def _follow_text(self, text: str, bases: tuple[str, ...]) -> None:
        self._add_all(self._modules.find_imported(find_imports(text), self._cwd, bases))

    def _add_module(self, dotted: str, places: tuple[str, ...], *, is_main: bool = False) -> None:
        self._add_all(self._modules.find_module(dotted, places, is_main=is_main)[0])

    def _add_all(self, files: FoundFiles) -> None:
        for path, bases in files:
            if path not in self._seen:
                self._add(path, bases)

    # --- JavaScript -------------------------------------------------------------------------------

    def read_node(self, name: str, arguments: Sequence[str], stdin: str | None) -> None:
        """Follow what `node ARGUMENTS`, and test runners for JavaScript, load."""
        is_tester = name in _NODE_TESTS or "--test" in arguments or arguments[:1] == ["test"]
        named = []
        words = list(arguments)
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if option in ("-e", "--eval", "-p", "--print", "-pe"):
                self._follow_script_text(value if equals else "".join(words[:1]), self._cwd)
                break
            if option in ("-r", "--require", "--import", "--loader", "--experimental-loader"):
                self._add_script(value if equals else (words.pop(0) if words else ""), self._cwd)
            elif not word.startswith("-"):
                named.append(word)
        self._follow_script_text(stdin or "", self._cwd)
        for at, word in enumerate(named if is_tester or name in ("bun", "deno") else named[:1]):
            path = self._absolute(word)
            if os.path.isdir(path) and is_tester:
                self._add_tests_of_scripts(path)
            elif name in ("node", "nodejs") and not at and not is_tester and os.path.isfile(path):
                self._seen.add(path)
                self._wait(path, ())
            else:
                self._add_script(f"./{word}" if not word.startswith("/") else word, self._cwd)
        for name in self._modules.list_names(self._cwd) if is_tester else ():
            if re.fullmatch(
                r"(?:jest|vitest|vite|ava|babel)\.(?:config|setup)\.[cm]?[jt]s|\.mocharc\.c?js",
                name,
            ):
                self._add(os.path.join(self._cwd, name), ())
        if is_tester and not any(os.path.exists(self._absolute(word)) for word in named):
            self._add_tests_of_scripts(self._cwd)
        self._drain()

    def _add_tests_of_scripts(self, start: str) -> None:
        for path in self._walk(start, tuple(f"*{end}" for end in SCRIPT_ENDS)):
            folders = path.split("/")[-3:-1]
            if _TEST_OF_SCRIPT.fullmatch(os.path.basename(path)) or (
                {"test", "tests", "__tests__"} & set(folders)
            ):
                self._add(path, ())

    def _follow_script_text(self, text: str, folder: str) -> None:
        for named in _SCRIPT_IMPORT.findall(text):
            self._add_script(named, folder)

    def _add_script(self, named: str, folder: str) -> None:
        path = os.path.normpath(os.path.join(folder, named))
        ends = ("", *SCRIPT_ENDS, *(f"/index{end}" for end in SCRIPT_ENDS))
        # A TypeScript file is imported under the name of its result.
        stem = re.sub(r"\.[cm]?jsx?$", "", path)
        paths = [path + end for end in ends] + [stem + end for end in SCRIPT_ENDS]
        for each in paths:
            if os.path.basename(each) in self._modules.list_names(
                os.path.dirname(each)
            ) and os.path.isfile(each):
                self._add(each, ())
                return

    # --- files ------------------------------------------------------------------------------------

    def _absolute(self, path: str) -> str:
        return find_absolute(path, self._cwd)

    def _walk(self, start: str, patterns: tuple[str, ...]) -> Iterator[str]:
        """Yield the files below a folder, or the file itself, whose names match a pattern."""
        if os.path.isfile(start):
            yield start
            return
        left = MAX_WALKED
        waiting = [start]
        while waiting:
            folder = waiting.pop()
            found = select_names(folder, self._modules.read_listing(folder), patterns, _SKIPPED)
            left -= found.examined
            if left < 0:
                self.unread.append(folder)
                return
            yield from found.files
            waiting += found.folders

    def _add(self, path: str, bases: tuple[str, ...]) -> None:
        if path in self._seen:
            return
        if len(self._seen) >= MAX_FILES:
            self.unread.append(path)
            return
        self._seen.add(path)
        try:
            status = read_status(path)
        except OSError:
            return
        if self._written.contains(path, status):
            self.new.append(path)
            if path.endswith(".pyc") or status.st_size > MAX_BYTES:
                self.unread.append(path)
                return
        self._waiting.append((path, bases, status))

    def _wait(self, path: str, bases: tuple[str, ...]) -> None:
        """Follow a file later, which does not count as one that is loaded."""
        with suppress(OSError):
            self._waiting.append((path, bases, read_status(path)))

    def _drain(self) -> None:
        """Follow the imports of the files that were found."""
        while self._waiting:
            path, bases, status = self._waiting.pop()
            if status.st_size > MAX_OWN_BYTES:
                self.unread.append(path)
                continue
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
            if path.endswith(SCRIPT_ENDS):
                folder = os.path.dirname(path)
                for named in _read_script_imports(path, stamp):
                    self._add_script(named, folder)
            else:
                self._add_all(self._modules.read_file(path, stamp, bases))


@lru_cache(4096)
def _read_script_imports(path: str, stamp: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(_SCRIPT_IMPORT.findall(read_loaded(path, MAX_OWN_BYTES) or ""))
