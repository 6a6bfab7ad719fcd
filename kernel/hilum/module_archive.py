"""An archive with the bytecode of all modules that a command loads.

For each module, Python looks in several folders and reads one file, which takes 0.1 ms: 50 ms for the
750 modules that ``hilum run`` loads before its first request (tests/benchmarks/real_project.py). An
archive is one file instead, which the first start of a command leaves in ``__pycache__``, where
Python keeps the bytecode of single modules, too.

The archive is used under the same conditions as Python's own files: for each module, the source must
have the size and the time of modification that it had. In addition, no folder that Python would have
searched may have changed. Every other module is imported as usual.
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

TYPE_CHECKING = False  # importing typing takes 5 ms
if TYPE_CHECKING:
    from types import CodeType, ModuleType

    from hilum.compile_cache import CompileCache

MAX_MISSES = 20
"""Number of modules that may be missing in an archive before it is written anew."""
MAX_MISSING_TEXTS = 50
"""Number of compiled texts that may be missing in an archive before it is written anew."""
_MAX_ARCHIVES = 6  # a command has one for each value of sys.path, which tests and scripts change
_SUFFIX = ".modules"
_UNFINISHED_NS = 60_000_000_000  # age from which nobody is still writing a file
_HEADER = b"hilum modules 3\n"
# At the end of an archive: the checksum of the index, and its place.
_CHECKSUM_BYTES = 4
_PLACE_BYTES = 8
_END_BYTES = _PLACE_BYTES + _CHECKSUM_BYTES
# What reading a damaged file may raise.
_DAMAGE = (OSError, EOFError, TypeError, ValueError, MemoryError, SystemError, RecursionError)
# The header of a .pyc file: magic number, flags, and time of modification and size of the source
# (PEP 552). Flags other than 0 mean that the file is compared with the source in another way.
_PYC_HEADER = 16
_NO_FLAGS = bytes(4)

# For each module: its source, the folder in which it was found, its .pyc file, whether it is a
# package, the time of modification and size in the header of the .pyc file, and the place of its
# bytecode in the archive.
_Entry = tuple[str, str, str, bool, bytes, int, int]


class _ArchiveLoader(SourceFileLoader):
    """A loader of a module whose bytecode is in an archive."""

    def __init__(self, name: str, path: str, archive: int, start: int, size: int) -> None:
        super().__init__(name, path)
        self._archive = archive
        self._start = start
        self._size = size

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the module."""
        try:
            # A mapped file would stay in memory: 13 MB for as long as the program runs.
            code = marshal.loads(os.pread(self._archive, self._size, self._start))
        except _DAMAGE:
            code = None
        # Text in a damaged archive may be another object.
        return code if type(code) is _CODE_TYPE else super().get_code(fullname)


_CODE_TYPE: type[CodeType] = type(_ArchiveLoader.get_code.__code__)


class ArchiveFinder:
    """A finder of modules in an archive, for ``sys.meta_path``.

    Args:
        archive: The descriptor of the archive, which stays open.

    Attributes:
        compiled: The content of a cache of compiled texts.
        missed: The names that were looked for here and not found.

    Raises:
        ValueError: The archive is damaged or was made for another ``sys.path``.
    """

    def __init__(self, archive: int) -> None:
        status = os.fstat(archive)
        end = status.st_size - _END_BYTES
        if not stat.S_ISREG(status.st_mode) or end < 0:
            raise ValueError
        if os.pread(archive, len(_HEADER), 0) != _HEADER:
            raise ValueError
        last = os.pread(archive, _END_BYTES, end)
        place = int.from_bytes(last[_CHECKSUM_BYTES:], "big")
        if not 0 < place < end:
            raise ValueError
        index = os.pread(archive, end - place, place)
        # Without it, a damaged index could contain any objects, and crash Python.
        if zlib.crc32(index) != int.from_bytes(last[:_CHECKSUM_BYTES], "big"):
            raise ValueError
        self._path: list[str]
        self._entries: dict[str, _Entry]
        self.compiled: bytes
        folders: dict[str, int]
        self._path, folders, self._entries, self.compiled = marshal.loads(index)
        self._archive = archive
        self.missed: set[str] = set()
        if self._path != sys.path:
            raise ValueError
        self._unchanged = {
            folder for folder, stamp in folders.items() if _read_time(folder) == stamp
        }
        # A module of a folder on sys.path may be in any folder before it by now.
        self._unchanged_path = set()
        for folder in self._path:
            if folder not in self._unchanged:
                break
            self._unchanged_path.add(folder)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module; None if it must be found as usual."""
        spec = self._find_spec(name, path)
        if spec is None:
            self.missed.add(name)
        return spec

    def _find_spec(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        entry = self._entries.get(name)
        if entry is None:
            return None
        source, folder, cached, is_package, stamp, start, end = entry
        if path is None:
            is_same = folder in self._unchanged_path and sys.path == self._path
        else:
            is_same = folder in self._unchanged and len(path) == 1 and path[0] == folder
        if not is_same or _read_stamp(source) != stamp:
            return None
        loader = _ArchiveLoader(name, source, self._archive, start, end - start)
        spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
        spec.has_location = True
        spec.cached = cached
        if is_package:
            spec.submodule_search_locations = [os.path.dirname(source)]
        return spec


def _read_stamp(source: str) -> bytes:
    """Return what the header of a .pyc file says of its source; empty if there is no source."""
    try:
        status = os.stat(source)
    except OSError:
        return b""
    numbers = (int(status.st_mtime), status.st_size)
    return b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)


def _read_time(path: str) -> int:
    """Return the time of modification, which of a folder changes with its entries; 0 for none."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _find_archive(command: str) -> str:
    """Return the path of a command's archive; empty if there can be none."""
    spec = __spec__
    if spec is None or not spec.cached:
        return ""
    facts = (sys.hexversion, sys.flags.optimize, sys.prefix, *sys.path)
    number = zlib.crc32(os.fsencode("\n".join(map(str, facts))))
    name = f"{command}-{number:08x}.{sys.implementation.cache_tag}{_SUFFIX}"
    return os.path.join(os.path.dirname(spec.cached), name)


# --- use ------------------------------------------------------------------------------------------

_used_command = ""
_finder: ArchiveFinder | None = None
_compile_cache: CompileCache | None = None
_may_save = False


def use_archive(command: str, *, save: bool = True) -> None:
    """Import modules from a command's archive from now on, if it has a valid one.

    Only the program ``hilum`` does this, and only if nothing else has changed how it imports.

    Args:
        command: The command.
        save: Whether ``save_archive`` may write the archive.
    """
    global _used_command, _finder, _compile_cache, _may_save
    # A process of the fork server has loaded everything.
    if _used_command or "hilum.kernel" in sys.modules or PathFinder not in sys.meta_path:
        return
    _used_command = command
    _may_save = save
    finder = _open_archive(_find_archive(command))
    _finder = finder
    if finder is not None:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    # Its modules are in the archive.
    from hilum.compile_cache import CompileCache

    try:
        _compile_cache = CompileCache(finder.compiled if finder is not None else b"")
    except _DAMAGE:  # another version of hilum has written it
        _compile_cache = CompileCache()
    if finder is not None:
        finder.compiled = b""
    _compile_cache.install()


def _open_archive(path: str) -> ArchiveFinder | None:
    """Return the finder of an archive; None if there is no valid one."""
    try:
        # A pipe in its place must not keep the start waiting.
        archive = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return ArchiveFinder(archive)
    except _DAMAGE:
        os.close(archive)
        return None


def end_start() -> None:
    """Let libraries compile as usual again, because the program has imported what it needs."""
    if _compile_cache is not None:
        _compile_cache.uninstall()


@contextmanager
def cache_compiling() -> Iterator[None]:
    """Use what libraries have compiled for the archive, for an import after the session is open.

    Nothing happens in a program that has no archive.
    """
    if _compile_cache is None or _compile_cache.is_installed:
        yield
        return
    _compile_cache.install()
    try:
        yield
    finally:
        _compile_cache.uninstall()


# --- writing --------------------------------------------------------------------------------------


def save_archive() -> None:
    """Write the archive of the running command, if too many modules were not in it.

    Nothing happens if that is not possible: the next start then imports as usual. Blocks.
    """
    end_start()
    if _compile_cache is None or not _may_save or sys.dont_write_bytecode:
        return
    modules = _find_modules()
    missing = set(modules)
    # What was imported before the archive was opened, such as this module, is not missing in it.
    if _finder is not None:
        missing &= _finder.missed
    is_new = len(missing) > MAX_MISSES or _compile_cache.new > MAX_MISSING_TEXTS
    path = _find_archive(_used_command)
    if not is_new or not path:
        return
    new = f"{path}.{os.getpid()}"
    try:
        with open(new, "xb") as file:
            file.write(_make_archive(modules, _compile_cache.dump()))
            file.flush()
            # After a power failure, the file could have its name, but not its content.
            os.fsync(file.fileno())
        os.replace(new, path)
        _remove_old(os.path.dirname(path))
    except (OSError, ValueError):
        _remove(new)


def _find_modules() -> dict[str, ModuleSpec]:
    """Return the specifications of the modules that an archive can have, by name."""
    found = {}
    for name, module in list(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        if spec is None or type(spec.loader) not in (SourceFileLoader, _ArchiveLoader):
            continue
        if spec.name == name and spec.cached:
            found[name] = spec
    return found


def _make_archive(modules: dict[str, ModuleSpec], compiled: bytes) -> bytes:
    """Return the content of an archive.

    Args:
        modules: The modules.
        compiled: The content of a cache of compiled texts.
    """
    entries: dict[str, _Entry] = {}
    folders = {folder: _read_time(folder) for folder in sys.path}
    parts = [_HEADER]
    size = len(_HEADER)
    for name, spec in modules.items():
        source = str(spec.origin)
        is_package = spec.submodule_search_locations is not None
        folder = os.path.dirname(os.path.dirname(source) if is_package else source)
        cached = str(spec.cached)
        stamp = _read_stamp(source)
        bytecode = _read_bytecode(cached, stamp)
        if not bytecode:
            continue
        folders[folder] = _read_time(folder)
        end = size + len(bytecode)
        entries[name] = (source, folder, cached, is_package, stamp, size, end)
        parts.append(bytecode)
        size = end
    index = marshal.dumps((sys.path, folders, entries, compiled))
    place = size.to_bytes(_PLACE_BYTES, "big")
    checksum = zlib.crc32(index).to_bytes(_CHECKSUM_BYTES, "big")
    return b"".join((*parts, index, checksum, place))


def _read_bytecode(cached: str, stamp: bytes) -> bytes:
    """Return the bytecode in a .pyc file; empty if it is not that of the source."""
    try:
        with open(cached, "rb") as file:
            data = file.read()
    except OSError:
        return b""
    if data[4:_PYC_HEADER] != _NO_FLAGS + stamp:
        return b""
    return data[_PYC_HEADER:]


def _remove_old(folder: str) -> None:
    """Remove the oldest archives in a folder, and what killed processes have not finished writing.

    Archives become old because of another version of Python or another ``sys.path``.
    """
    archives = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(_SUFFIX):
            archives.append(path)
        elif f"{_SUFFIX}." in name and _read_time(path) < time.time_ns() - _UNFINISHED_NS:
            _remove(path)
    for path in sorted(archives, key=_read_time)[:-_MAX_ARCHIVES]:
        _remove(path)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
