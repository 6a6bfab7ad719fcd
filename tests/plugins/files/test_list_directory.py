"""list_directory: order, sizes, links, depth, and what is left out."""

import os
import time
from pathlib import Path

import pytest
from hilum import ToolError
from hilum.errors import E_FILE_NOT_FOUND, E_PATH_TRAVERSAL


@pytest.fixture
def tree(root: Path) -> Path:
    for folder in ("src/pkg/deep", "docs", ".git/objects", "node_modules/left", "empty"):
        (root / folder).mkdir(parents=True)
    (root / "README.md").write_bytes(b"x" * 1234)
    (root / "src" / "main.py").write_bytes(b"x" * 12)
    (root / "src" / "pkg" / "deep" / "data.bin").write_bytes(b"x" * 2_500_000)
    (root / ".git" / "config").touch()
    (root / "latest").symlink_to("src/main.py")
    return root


async def test_one_level(use, tree: Path) -> None:
    """Folders end in a slash, files have a size, links show where they point.

    Skipped folders are named like others.
    """
    output = await use("list_directory")
    assert output.text.split("\n") == [
        "./",
        ".git/",
        "README.md  1.2 kB",
        "docs/",
        "empty/",
        "latest -> src/main.py",
        "node_modules/",
        "src/",
    ]


async def test_depth(use, tree: Path) -> None:
    """Deeper levels come below their folders.

    Version control and builds are not looked into, and that is said.
    """
    lines = (await use("list_directory", depth=9)).text.split("\n")
    assert lines[-5:] == [
        "src/main.py  12 B",
        "src/pkg/",
        "src/pkg/deep/",
        "src/pkg/deep/data.bin  2.5 MB",
        "[Not opened: .git/, node_modules/]",
    ]
    assert not any("objects" in line or "left" in line for line in lines)


async def test_skipped_folder_by_name(use, tree: Path) -> None:
    """A skipped folder is listed when it is asked for."""
    assert "left/" in (await use("list_directory", path="node_modules")).text


async def test_other_folders(use, tree: Path) -> None:
    """Empty ones say so; absolute, untidy and linked names work and are shown as what they are."""
    (tree / "alias").symlink_to("src")
    assert (await use("list_directory", path="empty")).text == "empty/\n[The folder is empty.]"
    for path in ("src", str(tree / "src"), "docs/../src/", "alias"):
        assert (await use("list_directory", path=path)).text == "src/\nmain.py  12 B\npkg/"


async def test_what_cannot_be_listed(use, tree: Path, tmp_path: Path) -> None:
    """Missing folders, files and paths outside are refused."""
    (tree / "out").symlink_to(tmp_path)
    with pytest.raises(ToolError) as caught:
        await use("list_directory", path="scr")
    assert caught.value.code == E_FILE_NOT_FOUND
    with pytest.raises(ToolError, match="Not a directory"):
        await use("list_directory", path="README.md")
    for path in ("..", "out", "/"):
        with pytest.raises(ToolError) as caught:
            await use("list_directory", path=path)
        assert caught.value.code == E_PATH_TRAVERSAL


async def test_two_thousand_entries(use, root: Path) -> None:
    """A crowded folder shows 500 entries and says how many there are.

    A crowded level does not hide the one above.
    """
    for number in range(2_000):
        (root / f"file_{number:05}").touch()
    begun = time.process_time()
    lines = (await use("list_directory")).text.split("\n")
    assert time.process_time() - begun < 1
    assert len(lines) == 502
    assert lines[1].startswith("file_00000")
    assert lines[-1].startswith("[500 of 2,000 entries shown")


async def test_limit_cuts_the_deepest(use, root: Path) -> None:
    """All names of the first level stay when the second overflows."""
    for name in ("a", "z"):
        (root / name).mkdir()
    for number in range(600):
        (root / "a" / f"{number}").touch()
    lines = (await use("list_directory", depth=2)).text.split("\n")
    assert "z/" in lines
    assert lines[-1].startswith("[500 of 602 entries")


async def test_odd_entries(use, root: Path) -> None:
    """Pipes, and names with newlines or bytes that are no text, stay on one line each and can be
    encoded.
    """
    os.mkfifo(root / "pipe")
    (root / "a\nb").touch()
    os.mkdir(os.fsencode(root) + b"/\xff")
    text = (await use("list_directory", depth=2)).text
    assert text.encode().decode().split("\n") == [
        "./",
        "'a\\nb'  0 B",
        "pipe  (pipe, socket or device)",
        "'\\udcff'/",
    ]
