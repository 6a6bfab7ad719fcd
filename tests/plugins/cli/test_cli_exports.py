"""Exports of sessions are written completely, or not at all."""

import errno
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from hilum_cli.sessions import _write_whole


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let no file grow beyond 1,000 bytes, as on a disk that becomes full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_leaves_the_folder_as_it_was(tmp_path: Path, full_disk, overwrite) -> None:
    file = tmp_path / "work.jsonl"
    if overwrite:
        file.write_bytes(b"old")
    with pytest.raises(OSError) as failure:
        _write_whole(file, b"x" * 2_000, overwrite)
    assert failure.value.errno == errno.EFBIG
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == (
        {"work.jsonl": b"old"} if overwrite else {}
    )


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    file = tmp_path / "work.jsonl"
    _write_whole(file, b"one", False)
    with pytest.raises(FileExistsError):
        _write_whole(file, b"two", False)
    assert file.read_bytes() == b"one"
    _write_whole(file, b"two", True)
    assert file.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["work.jsonl"]


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    _write_whole(Path("/dev/null"), b"one", False)
    assert not Path("/dev/null").is_file()
