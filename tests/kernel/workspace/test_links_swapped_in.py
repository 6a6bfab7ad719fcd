"""Between the check of a path and its use, a link appears: nothing outside is read or written."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hilum.workspace import PathError, Place, Workspace

INSIDE, SECRET = b"inside", b"outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace and a folder outside of the same shape: ``a/name`` in both, with another
    content.
    """
    for top, content in (("home/proj", INSIDE), ("evil/proj", SECRET)):
        (tmp_path / top / "a").mkdir(parents=True)
        (tmp_path / top / "a" / "name").write_bytes(content)
    return tmp_path / "home" / "proj"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return tmp_path / "evil" / "proj"


def read(workspace: Workspace, path: str) -> bytes:
    with workspace.at(path) as place, place.open() as file:
        return file.read()


def write(workspace: Workspace, path: str, *, make: bool = False) -> None:
    with workspace.at(path, make=make) as place:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        os.close(os.open(place.name, flags, dir_fd=place.folder))


@contextmanager
def swapping(place: Path, target: Path, times: int) -> Iterator[Callable[[], bool]]:
    """Put a link to ``target`` in a place and take it away, in a thread, as fast as it goes.

    Yields a function that tells whether it has been done so many times.
    """
    kept, swaps, stop = place.with_name("kept"), [0], threading.Event()

    def swap() -> None:
        while not stop.is_set():
            place.rename(kept)
            with suppress(FileExistsError):  # the test may make what is away
                place.symlink_to(target)
                place.unlink()
            while kept.exists():
                shutil.rmtree(place, ignore_errors=True)
                with suppress(OSError):
                    kept.rename(place)
            swaps[0] += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield lambda: swaps[0] >= times or not thread.is_alive()
    finally:
        stop.set()
        thread.join()
    assert swaps[0] >= times


# Where the link appears, below the folder of the test, and where it leads.
SPOTS = {
    "file": ("home/proj/a/name", "evil/proj/a/name"),
    "folder": ("home/proj/a", "evil/proj/a"),
    "root": ("home/proj", "evil/proj"),
    "above the root": ("home", "evil"),
}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("spot", SPOTS)
def test_racing_link_never_leaks(
    root: Path, tmp_path: Path, spot: str, open_files, trials: Callable[[int, int], int]
) -> None:
    """While a thread swaps hundreds of times, reading gives what is inside or an error, and leaves
    nothing open.
    """
    place, target = (tmp_path / path for path in SPOTS[spot])
    workspace, seen = Workspace(root), set[bytes]()
    before = open_files()
    with swapping(place, target, trials(600, 3000)) as often:
        while not often():
            with suppress(PathError):
                seen.add(read(workspace, "a/name"))
    assert seen <= {INSIDE}
    assert read(workspace, "a/name") == INSIDE
    assert not open_files() - before


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("spot", SPOTS)
def test_racing_link_never_takes_a_write(
    root: Path, outside: Path, tmp_path: Path, spot: str, trials: Callable[[int, int], int]
) -> None:
    """While a thread swaps hundreds of times, no file and no folder is made or changed outside."""
    place, target = (tmp_path / path for path in SPOTS[spot])
    workspace = Workspace(root)
    with swapping(place, target, trials(600, 3000)) as often:
        while not often():
            for path in ("a/name", "a/new", "a/deep/new"):
                with suppress(PathError):
                    write(workspace, path, make="deep" in path)
    assert [path.relative_to(outside) for path in sorted(outside.rglob("*"))] == [
        Path("a"),
        Path("a/name"),
    ]
    assert (outside / "a" / "name").read_bytes() == SECRET


@pytest.mark.parametrize("use", [read, write])
@pytest.mark.parametrize("spot", SPOTS)
def test_link_that_appears_after_the_check_is_refused(
    root: Path, outside: Path, tmp_path: Path, spot: str, use: Callable[[Workspace, str], object]
) -> None:
    """However the timing falls, here the worst: the swap is the very next thing after the check."""
    place, target = (tmp_path / path for path in SPOTS[spot])

    class Swapped(Workspace):
        def resolve(
            self, path: str | Path, *, must_exist: bool = False, follow: bool = True
        ) -> Path:
            real = super().resolve(path, must_exist=must_exist, follow=follow)
            place.rename(tmp_path / "kept")
            place.symlink_to(target)
            return real

    with pytest.raises(PathError, match="cannot be used"):
        use(Swapped(root), "a/name")
    assert (outside / "a" / "name").read_bytes() == SECRET


def test_pipe_that_appears_after_the_check_is_refused(root: Path, open_files) -> None:
    """It is opened without waiting, found to be none that has content, and closed."""

    class Swapped(Place):
        def _check(self, status: os.stat_result) -> None:
            super()._check(status)
            (root / "a" / "name").unlink()
            os.mkfifo(root / "a" / "name")

    before = open_files()
    with Workspace(root).at("a/name") as place, pytest.raises(PathError, match="is a pipe"):
        Swapped(*place).open()
    assert not open_files() - before


@pytest.mark.parametrize("spot", ["root", "above the root"])
def test_link_in_place_of_a_root_is_refused(root: Path, tmp_path: Path, spot: str) -> None:
    """A root that becomes a link, or that comes to stand below one, is not followed to
    elsewhere.
    """
    place, target = (tmp_path / path for path in SPOTS[spot])
    workspace = Workspace(root)
    place.rename(tmp_path / "kept")
    place.symlink_to(target)
    for path in ("a/name", str(root / "a" / "name")):
        with pytest.raises(PathError):
            read(workspace, path)


def test_plain_folder_in_place_of_a_root_is_the_root(root: Path, tmp_path: Path) -> None:
    """A project that is deleted and fetched again goes on.

    Until then nothing is there, and it is not made.
    """
    workspace = Workspace(root)
    root.rename(tmp_path / "moved")
    with pytest.raises(PathError) as caught:
        write(workspace, "a/name", make=True)
    assert caught.value.code == "E_FILE_NOT_FOUND"
    assert not root.exists()
    (root / "a").mkdir(parents=True)
    (root / "a" / "name").write_bytes(b"new")
    assert read(workspace, "a/name") == b"new"
