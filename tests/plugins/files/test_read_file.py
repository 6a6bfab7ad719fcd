"""read_file: the format, the cuts, the ranges, and everything that is no plain short text file."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hilum import ToolError
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_PATH_TRAVERSAL


async def test_lines_are_numbered(use, root: Path) -> None:
    """A short file is shown whole, without a notice."""
    (root / "a.txt").write_text("one\n\n  three\n")
    output = await use("read_file", path="a.txt")
    assert output.text == "1 | one\n2 | \n3 |   three"
    assert output.data.items() >= {"path": "a.txt", "start": 1, "end": 3, "total": 3}.items()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "[The file is empty.]"),
        (b"\n", "1 | "),
        (b"no newline at the end", "1 | no newline at the end"),
        (b"\xef\xbb\xbfbom\r\ncrlf\r\n", "1 | bom\n2 | crlf"),
        ("dürüm 🥙\u2028still line 1\n".encode(), "1 | dürüm 🥙\u2028still line 1"),
    ],
)
async def test_odd_but_fine_files(use, root: Path, content: bytes, text: str) -> None:
    """Empty files, missing last newlines, byte order marks, CRLF and Unicode are read as what they
    are.
    """
    (root / "a.txt").write_bytes(content)
    assert (await use("read_file", path="a.txt")).text == text


@pytest.mark.parametrize(
    ("arguments", "first", "last", "notice"),
    [
        ({"start_line": 3, "end_line": 4}, "3 | line 3", "4 | line 4", "[Lines 3-4 of 9.]"),
        ({"start_line": 8}, "8 | line 8", "9 | line 9", "[Lines 8-9 of 9.]"),
        ({"end_line": 2}, "1 | line 1", "2 | line 2", "[Lines 1-2 of 9.]"),
        ({"offset": 3, "limit": 2}, "3 | line 3", "4 | line 4", "[Lines 3-4 of 9.]"),
        ({"offset": 0, "limit": 1}, "1 | line 1", "1 | line 1", "[Lines 1-1 of 9.]"),
        ({"start_line": 7, "end_line": 99}, "7 | line 7", "9 | line 9", "[Lines 7-9 of 9.]"),
        ({"start_line": None, "limit": None}, "1 | line 1", "9 | line 9", ""),
    ],
)
async def test_ranges(use, root: Path, arguments: dict, first: str, last: str, notice: str) -> None:
    """Both ways to name a range give its lines and say how many there are."""
    (root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 10)))
    lines = (await use("read_file", path="a.txt", **arguments)).text.split("\n")
    assert lines[0] == first
    assert (lines[-2:] if notice else lines[-1:]) == ([last, notice] if notice else [last])


async def test_impossible_ranges(use, root: Path) -> None:
    """A range that is none, and one behind the end, are told with what there is."""
    (root / "a.txt").write_text("one\ntwo\n")
    for arguments, words in (
        ({"start_line": 5, "end_line": 3}, "not a valid range"),
        ({"start_line": 3}, "only 2 lines"),
    ):
        with pytest.raises(ToolError, match=words) as caught:
            await use("read_file", path="a.txt", **arguments)
        assert caught.value.code == E_BAD_ARGS


@pytest.mark.parametrize("arguments", [{}, {"start_line": 1, "end_line": 5000}])
async def test_long_files_are_cut(use, root: Path, arguments: dict) -> None:
    """A long file, and a long range, end at 10,000 characters.

    Reading on where the notice says gives all of it.
    """
    content = "".join(f"this is line {n}\n" for n in range(1, 2001))
    (root / "a.txt").write_text(content)
    output = await use("read_file", path="a.txt", **arguments)
    assert 9_900 < len(output.text) < 10_100
    end = output.data["end"]
    assert output.text.endswith(
        f"\n[Lines 1-{end} of 2000, cut at 10,000 characters. Continue with start_line={end + 1}.]"
    )
    seen, start = [], 1
    while start <= 2000:
        output = await use("read_file", path="a.txt", start_line=start)
        seen += [line.split(" | ", 1)[1] for line in output.text.split("\n") if " | " in line]
        start = output.data["end"] + 1
    assert "\n".join(seen) + "\n" == content


async def test_long_lines_are_cut(use, root: Path) -> None:
    """One huge line does not hide what comes after it, and a cut inside a character is clean."""
    (root / "a.txt").write_text("é" * 100_000 + "\nnext\n" + "x" * 2000 + "\n")
    lines = (await use("read_file", path="a.txt")).text.split("\n")
    assert lines[0] == "1 | " + "é" * 2000 + " [… the line continues: 200,001 bytes in total]"
    assert lines[1:] == ["2 | next", "3 | " + "x" * 2000]


async def test_huge_file_in_bounded_time_and_memory(use, root: Path) -> None:
    """Lines far inside 50 MB come quickly and without the file in memory, many lines or a single
    one.
    """
    line = b"x" * 99 + b"\n"
    with (root / "lines").open("wb") as file:
        for _ in range(500):
            file.write(line * 1000)
    (root / "single").write_bytes(b"y" * 50_000_000)
    tracemalloc.start()
    begun = time.process_time()
    output = await use("read_file", path="lines", start_line=400_000, end_line=400_001)
    single = await use("read_file", path="single")
    seconds, (_, peak) = time.process_time() - begun, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert output.text.endswith("[Lines 400000-400001 of 500000.]")
    assert single.text.endswith("50,000,000 bytes in total]")
    assert peak < 5_000_000
    assert seconds < 5


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\0\0\0", r"binary file of 7 bytes"),
        (b"text\n" * 5000 + b"\0\n", None),
        ("häßlich\n".encode("latin-1"), r"not UTF-8 text: line 1 has the byte 0xe4"),
        (b"fine\n\xff\xff\n", r"line 2 has the byte 0xff"),
        ("text".encode("utf-16"), r"UTF-16"),
    ],
)
async def test_no_text(use, root: Path, content: bytes, words: str | None) -> None:
    """Binary files and other encodings are told plainly.

    What is wrong far behind the shown lines does not matter.
    """
    (root / "a.bin").write_bytes(content)
    if words is None:
        assert (await use("read_file", path="a.bin")).text.startswith("1 | text")
        with pytest.raises(ToolError, match="binary"):
            await use("read_file", path="a.bin", start_line=5001)
        return
    with pytest.raises(ToolError, match=words) as caught:
        await use("read_file", path="a.bin")
    assert caught.value.hint


async def test_missing_file_suggests_near_paths(use, root: Path) -> None:
    """A file that is elsewhere, and one with a slip in its name, are suggested."""
    (root / "src").mkdir()
    (root / "src" / "settings.py").touch()
    for path in ("settings.py", "src/setings.py"):
        with pytest.raises(ToolError) as caught:
            await use("read_file", path=path)
        assert caught.value.code == E_FILE_NOT_FOUND
        assert "'src/settings.py'" in caught.value.hint


async def test_no_file_at_all(use, root: Path) -> None:
    """Folders, pipes and paths outside are refused without waiting."""
    os.mkfifo(root / "pipe")
    for path in (".", "pipe"):
        with pytest.raises(ToolError):
            await use("read_file", path=path)
    for path in ("../x", "/etc/passwd"):
        with pytest.raises(ToolError) as caught:
            await use("read_file", path=path)
        assert caught.value.code == E_PATH_TRAVERSAL


async def test_bad_arguments_name_the_place(use) -> None:
    """A number as a word is refused with the parameter's name."""
    with pytest.raises(ToolError, match="start_line") as caught:
        await use("read_file", path="a.txt", start_line="three")
    assert caught.value.code == E_BAD_ARGS


@pytest.mark.parametrize("path", [".", "", "sub"])
async def test_a_folder_says_what_to_do(use, root: Path, path: str) -> None:
    """Reading a folder is refused with the way to see what is in it."""
    (root / "sub").mkdir()
    with pytest.raises(ToolError, match="is a folder") as caught:
        await use("read_file", path=path)
    assert "List the folder" in caught.value.hint
