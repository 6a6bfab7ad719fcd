"""glob_search: which paths, in which order, and what is said when there are too many or none."""

import os

import pytest
from hilum import ToolError
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_PATH_TRAVERSAL


async def test_what_changed_last_comes_first(call, write, root) -> None:
    """Of equals, by path."""
    write(dict.fromkeys(("a.py", "lib/b.py", "lib/c.py", "d.txt"), ""))
    for name, time in (("a.py", 10), ("lib/b.py", 30), ("lib/c.py", 10)):
        os.utime(root / name, (time, time))
    assert (await call("glob_search", pattern="*.py")).text == "lib/b.py\na.py\nlib/c.py"
    assert (await call("glob_search", pattern="lib/*.py")).text == "lib/b.py\nlib/c.py"
    assert (await call("glob_search", pattern="*.py", path="lib")).text == "lib/b.py\nlib/c.py"


async def test_too_many_are_cut_and_said(call, write) -> None:
    """The notice says how many there are and what to do."""
    write({f"{n}.txt": "" for n in range(30)})
    output = await call("glob_search", pattern="*.txt", settings={"path_limit": 10})
    assert len(output.data["paths"]) == 10
    assert output.data["count"] == 30
    assert output.text.endswith(
        "[The 10 most recent of 30 files are shown; to see the others, narrow glob or path.]"
    )


async def test_none_is_said(call, write) -> None:
    """With what was left out, and what to try."""
    write({"a.py": "", ".gitignore": "*.log\n", "b.log": ""})
    output = await call("glob_search", pattern="*.log")
    assert output.text.startswith("No file of the workspace matches '*.log'.")
    assert "include_ignored" in output.text
    assert (await call("glob_search", pattern="*.log", include_ignored=True)).text == "b.log"


async def test_odd_names(call, root) -> None:
    """Line ends and bytes that are no text are escaped.

    Braces and brackets can be escaped in the glob.
    """
    for name in (b"b\xff.x", b"c\nd.x", b"[e].x"):
        os.close(os.open(os.fsencode(root) + b"/" + name, os.O_CREAT))
    output = await call("glob_search", pattern="*.x")
    assert set(output.text.split("\n")) == {r"'b\udcff.x'", r"'c\nd.x'", "[e].x"}
    assert (await call("glob_search", pattern=r"\[e\].x")).text == "[e].x"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"pattern": " "}, E_BAD_ARGS),
        ({"pattern": "{a"}, E_BAD_ARGS),
        ({"pattern": "../*"}, E_PATH_TRAVERSAL),
        ({"pattern": "~/*"}, E_PATH_TRAVERSAL),
        ({"pattern": "*", "path": "/"}, E_PATH_TRAVERSAL),
        ({"pattern": "*", "path": "nothing"}, E_FILE_NOT_FOUND),
    ],
)
async def test_what_is_refused(call, root, monkeypatch, arguments, code) -> None:
    """Each with its code and a way out."""
    monkeypatch.setenv("HOME", str(root.parent))
    with pytest.raises(ToolError) as caught:
        await call("glob_search", **arguments)
    assert caught.value.code == code
    assert caught.value.hint
