"""Random work on a tree, and what a tree holds, bit for bit: for the tests and benchmarks of
undo.
"""

import os
import random
import shlex
import stat
from pathlib import Path

NAMES = [
    b"a.txt",
    b"b.py",
    "ü.md".encode(),
    b"c d.txt",
    b"\xff\xfe.bin",
    b"new\nline",
    b".hidden",
    b"ignored.log",
]
FOLDERS = [b"", b"src", b"src/deep", b"docs", b"empty", b"build"]
SKIPPED = {b".git"}


def held(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything below a folder: kind, permissions, content or target."""
    found: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            key = os.path.relpath(path, os.fsencode(root))
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[key] = ("folder", stat.S_IMODE(status.st_mode))
            else:
                with open(path, "rb") as file:
                    found[key] = ("file", stat.S_IMODE(status.st_mode), file.read())
    return found


def content(dice: random.Random) -> bytes:
    """Some content: text of some lines, with CRLF now and then, or bytes."""
    kind = dice.random()
    if kind < 0.15:
        return dice.randbytes(dice.randrange(2000))
    lines = [f"line {dice.randrange(50)}" for _ in range(dice.randrange(12))]
    text = ("\r\n" if kind < 0.3 else "\n").join(lines)
    return (text + "\n" * dice.randrange(2)).encode()


def plant(root: Path, dice: random.Random) -> None:
    """Make a tree to begin with."""
    for folder in FOLDERS:
        os.makedirs(os.path.join(os.fsencode(root), folder), exist_ok=True)
    for _ in range(dice.randrange(3, 12)):
        path = somewhere(root, dice)
        with open(path, "wb") as file:
            file.write(content(dice))
        os.chmod(path, dice.choice([0o644, 0o600, 0o755]))
    if dice.random() < 0.5:
        os.symlink(b"src/deep", os.path.join(os.fsencode(root), b"link"))
    (root / ".gitignore").write_text("*.log\nbuild/\n")


def somewhere(root: Path, dice: random.Random) -> bytes:
    """A path in the tree."""
    return os.path.join(os.fsencode(root), dice.choice(FOLDERS), dice.choice(NAMES))


def replace_by_link(folder: str, name: str) -> str:
    """A command that moves a folder away, replaces it with a link to it and may write below it."""
    link = f'mv {folder} {name} && ln -s "$PWD/{name}" {folder}'
    return f"{link}; echo {name} >> {folder}/a.txt; rm -f {folder}/b.py"


def replace_by_folder(link: str, number: int) -> str:
    """A command that replaces a link with a folder with content; it fails for anything else."""
    return f"test -L {link} && rm {link} && mkdir -p {link}/in && echo {number} > {link}/in/a.txt"


def command(root: Path, dice: random.Random) -> str:
    """A shell command that changes something, and may fail."""

    def at(path: bytes | None = None) -> str:
        path = os.path.relpath(path or somewhere(root, dice), os.fsencode(root))
        return "$'" + "".join(f"\\x{byte:02x}" for byte in path) + "'"

    def folder() -> str:
        return shlex.quote(os.fsdecode(dice.choice(FOLDERS[1:])))

    def target() -> str:
        # Calls run in parallel, so another one may create a file through a link that leads nowhere.
        outside = os.fspath(root.parent / "nowhere")
        return shlex.quote(
            dice.choice(["docs", "src/deep", ".", outside, os.fspath(root / "empty")])
        )

    folders = [os.fsdecode(name) for name in FOLDERS[1:]]
    number = dice.randrange(1000)
    return dice.choice(
        [
            lambda: f"echo {number} >> {at()}",
            lambda: f"printf '\\0{number}\\r\\n' > {at()}",
            lambda: f"rm -f {at()} {at()}",
            lambda: f"mv -f {at()} {at()}",
            lambda: f"cp -f {at()} {at()}",
            lambda: f"chmod {dice.choice(['600', '755', '444', '640'])} {at()}",
            lambda: f"mkdir -p made/{number}/x && touch made/{number}/y",
            lambda: f"rm -rf {folder()}",
            lambda: f"mv {folder()} moved{number}",
            lambda: f"rm -rf {folder()} && echo file > {folder()}",
            lambda: f"ln -sfn {number} {at()}",
            lambda: f"ln -sfn src link{number % 5}; rm -f link",
            lambda: f"rm -rf {folder()} && ln -s {target()} {folder()}",
            lambda: replace_by_link(dice.choice(FOLDERS[1:]).decode(), f"real{number}"),
            lambda: replace_by_folder(dice.choice(["link", "link1", *folders]), number),
            lambda: (
                f"find . -path ./.git -prune -o -type f -print0 | xargs -0 sed -i s/line/LINE{number}/"
            ),
            lambda: f"mkdir -p {folder()}; head -c 3000 /dev/urandom > {at()}; exit 3",
            lambda: f"chmod 500 {folder()}",
            lambda: "git add -A . 2>/dev/null; git stash -q 2>/dev/null; true",
        ]
    )()
