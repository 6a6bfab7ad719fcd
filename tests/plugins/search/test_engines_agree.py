"""ripgrep and Python find the same: files, order, lines, context and counts, on trees made up and
on real ones.
"""

import os
import random
import shutil
import sysconfig
from pathlib import Path

import hilum
import pytest

REPOSITORY = Path(hilum.__file__).parents[2]
LIBRARY = Path(sysconfig.get_path("stdlib")).resolve()
ODD = LIBRARY / "test" if (LIBRARY / "test").is_dir() else LIBRARY / "encodings"
"""Python's own tests: odd encodings, binary files, bad syntax. Not every installation has them."""
NAMES = [
    "a",
    "b",
    "ab",
    "a.py",
    "b.py",
    ".h",
    "x y",
    "é.c",
    "foo",
    "bar",
    "a.log",
    "[x]",
    "a\\b",
    "#c",
    "!d",
    "sp ",
    "build",
]
PARTS = """a b * ? *.py *.log foo bar ** [ab] [!a] [a-b] {a,b} a* *b .* é* build \\#c \\!d sp\\  a.?? [x *** a** **b {a a} a,b
[]a] [^a]* \\[x\\] [é]* ?.c ??.c""".split()
PATTERNS = [
    "x",
    "needle",
    "^$",
    r"\bn\w+e\b",
    "(?i)NEEDLE",
    r"[^x]+$",
    r"x\nx",
    r"\s+x",
    r"\w+ x|\w{7}",
    r"[a-n]{2,3}e",
]


def rule(chance: random.Random) -> str:
    """Make up a line of an ignore file."""
    text = "/".join(chance.choices(PARTS, k=chance.choice([1, 1, 1, 2, 2, 3])))
    return (
        "!" * (chance.random() < 0.3)
        + "/" * (chance.random() < 0.2)
        + text
        + "/" * (chance.random() < 0.25)
    )


def plant(top: Path, chance: random.Random) -> list[str]:
    """Make up a tree with ignore files of every kind in it and above it, and repositories in it.

    Give its folders.
    """
    root = top / "root"
    root.mkdir(parents=True)
    folders = [root]
    for _ in range(chance.randint(5, 40)):
        path = chance.choice(folders) / chance.choice(NAMES)
        if os.path.lexists(path):
            continue
        kind = chance.random()
        if kind < 0.35:
            path.mkdir()
            folders.append(path)
        elif kind < 0.4:
            path.symlink_to(chance.choice(folders))
        else:
            words = chance.choices(
                ["x", "needle", "", "a needle x", "Needle é", "\r"], k=chance.randint(0, 12)
            )
            ended = chance.randint(0, 1) or words[-1:] == [
                "\r"
            ]  # a lone \r ends no line; nobody has that since 2001
            path.write_text("\n".join(words) + "\n" * ended, newline="")
    for folder in [*folders, top]:
        for name, likely in ((".gitignore", 0.3), (".ignore", 0.1), (".rgignore", 0.1)):
            if chance.random() < likely:
                (folder / name).write_text(
                    "\n".join(rule(chance) for _ in range(chance.randint(1, 4)))
                )
        if chance.random() < 0.1:
            (folder / ".git" / "info").mkdir(parents=True)
            (folder / ".git" / "info" / "exclude").write_text(rule(chance))
    return [str(folder.relative_to(root)) for folder in folders]


async def compare(call, both, at: Path, name: str, **arguments) -> None:
    first, second = [await call(name, engine, at=at, **arguments) for engine in both]
    assert first.text == second.text, arguments
    told = [
        {k: v for k, v in output.data.items() if k not in ("engine", "seconds")}
        for output in (first, second)
    ]
    if not first.text.startswith("more than"):
        assert told[0] == told[1], arguments


@pytest.mark.parametrize("seed", range(25))
async def test_made_up_trees(call, both, tmp_path, seed) -> None:
    """Ignore rules in all places and forms, in and out of repositories, from the top and from a
    folder.
    """
    chance = random.Random(seed)
    folders = plant(tmp_path / "made", chance)
    root = tmp_path / "made" / "root"
    for path in {".", chance.choice(folders)}:
        await compare(call, both, root, "search_files", pattern=chance.choice(PATTERNS), path=path)
        await compare(
            call,
            both,
            root,
            "search_files",
            pattern="^",
            path=path,
            context=0,
            settings={"limit": 1000},
        )
        ignored = chance.random() < 0.3
        await compare(
            call,
            both,
            root,
            "search_files",
            pattern="e",
            glob="*.py",
            path=path,
            include_ignored=ignored,
        )


@pytest.fixture(scope="module")
def trees(tmp_path_factory) -> dict[str, Path]:
    """Real trees.

    Of this project a copy: while tests run, caches come and go in it, and no two searches see the
    same.
    """
    copy = tmp_path_factory.mktemp("real") / "project"
    shutil.copytree(
        REPOSITORY,
        copy,
        symlinks=True,
        ignore=shutil.ignore_patterns(".*_cache", "__pycache__", ".venv", ".git", ".hypothesis"),
    )
    return {"standard library": ODD, "this project": copy}


@pytest.mark.parametrize("tree", ["standard library", "this project"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"pattern": "cancel_scope"},
        {"pattern": "CancelScope|open_nursery", "ignore_case": True},
        {"pattern": r"^class \w+Error\(\w*Warning\):"},
        {"pattern": r"\bself\.\w+\s*=\s*\w+\(.*\)\s+#"},
        {"pattern": "é|ü|ß", "context": 3},
        {"pattern": r"^\s*raise \w+Error\(.*\bfrom\b", "glob": "**/*.py"},
        {"pattern": r"except.*:\n\s+pass\n\s+else"},
        {"pattern": r"(\w+)\s*==\s*\1\b"},
        {"pattern": r"\w+\s+[0-9]{7}|\w{40,}"},
        {"pattern": r"[A-F\d]{9,12}?[g-z]"},
        {"pattern": "import", "context": 0},
        {"pattern": r"[^\x00-\x7f]{3}", "include_ignored": True},
        {"pattern": "no such words anywhere"},
        {"pattern": "x", "literal": True, "glob": "*.toml,*.cfg"},
    ],
    ids=lambda arguments: arguments["pattern"],
)
async def test_real_trees(call, both, trees, tree, arguments) -> None:
    """A part of Python's library, more than the files that one process of the worker takes, and
    hilum.
    """
    await compare(
        call,
        both,
        trees[tree],
        "search_files",
        settings={"limit": 900, "timeout": 50.0},
        **arguments,
    )


@pytest.mark.parametrize(
    "pattern", ["*.py", "**/test_*.py", "**/[a-c]*/*.{py,pyi}", "*", "!*.py", "hilum/**"]
)
async def test_globs_on_a_real_tree(call, both, trees, pattern) -> None:
    """The same paths in the same order."""
    await compare(
        call,
        both,
        trees["this project"],
        "glob_search",
        pattern=pattern,
        settings={"path_limit": 100_000},
    )
