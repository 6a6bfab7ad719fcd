"""Random work: looks at what inotify named find what walks of the whole workspace find."""

import os
import random
import shlex
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import reduce
from operator import add
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
import trio
from hilum.testing import open_bench, say, use
from hilum_files.journal import folder_watch
from hilum_files.journal.folder_watch import find_file_system

sys.path.insert(0, str(Path(__file__).parent))
from random_work import FOLDERS, content, held, plant, somewhere

pytestmark = pytest.mark.skipif(
    find_file_system("/tmp") not in folder_watch.LOCAL_FILE_SYSTEMS,
    reason="inotify is not used on this file system",
)


def changes_of(bench) -> hilum_files.Changes:
    return bench.session.plugin(hilum_files.Changes)


# --- random work ----------------------------------------------------------------------------------

WRITE_MAPPED = (
    "import mmap, os; f = open({path}, 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close();"
    " m[0:1] = b'{letter}'"
)


def random_command(root: Path, dice: random.Random) -> str:
    """A command whose result depends only on the tree, and which may fail."""

    def at() -> str:
        path = os.path.relpath(somewhere(root, dice), os.fsencode(root))
        return "$'" + "".join(f"\\x{byte:02x}" for byte in path) + "'"

    def folder() -> str:
        return shlex.quote(os.fsdecode(dice.choice(FOLDERS[1:])))

    number = dice.randrange(1000)
    letter = dice.choice("xyz")
    mapped = WRITE_MAPPED.format(path="'src/mapped'", letter=letter)
    return dice.choice(
        [
            lambda: f"echo {number} >> {at()}",
            lambda: f"rm -f {at()} {at()}",
            lambda: f"mv -f {at()} {at()}",
            lambda: f"cp -f {at()} {at()}",
            lambda: f"chmod {dice.choice(['600', '755', '444', '640'])} {at()}",
            lambda: f"mkdir -p made/{number}/x && touch made/{number}/y && echo 1 > made/z",
            lambda: f"rm -rf {folder()}",
            lambda: f"mv {folder()} moved{number}; echo {number} > moved{number}/in",
            lambda: f"mv {folder()} away; mv away {folder()}; echo {number} > {at()}",
            lambda: f"mv src swap; mv docs src; mv swap docs; echo {number} > {at()}",
            lambda: f"rm -rf {folder()} && echo file > {folder()}",
            lambda: f"ln -sfn {number} {at()}",
            lambda: f"ln -f {at()} hard{number % 3}; echo {number} >> hard{number % 3}",
            lambda: f"echo {number} >> hard{number % 3}; rm -f hard{number % 2}",
            lambda: f"mkdir -p .venv; ln -f {at()} .venv/link; echo {number} >> .venv/link",
            lambda: f"mkdir -p src; echo abc > src/mapped; python3 -c {shlex.quote(mapped)}",
            lambda: f"python3 -c {shlex.quote(mapped)}",
            lambda: f"mkdir -p node_modules/x; echo {number} > node_modules/x/y; rm -rf link",
            lambda: (
                f"for n in 1 2 3; do mkdir -p t$n/u; echo $n > t$n/u/v; mv t$n u{number}$n; done"
            ),
            lambda: f"rm -rf made moved*; mkdir -p empty/{number}",
            lambda: f"chmod {dice.choice(['500', '750', '755'])} {folder()}",
            lambda: f"touch -d 2001-01-01 {at()}; true",
            lambda: f"echo x > out{number}.log; mkdir -p build; cp out{number}.log build/",
        ]
    )()


def random_call(root: Path, dice: random.Random) -> tuple[str, dict[str, str]]:
    kind = dice.random()
    path = somewhere(root, dice).decode(errors="replace").replace("�", "x")
    if kind < 0.12:
        text = content(dice).decode("latin-1").replace("\0", "0")
        return "write_file", {"path": path, "content": text}
    if kind < 0.2:
        new = f"edited {dice.random()}"
        return "edit_file", {"path": path, "old_string": "line 1", "new_string": new}
    if kind < 0.25:
        return "delete_file", {"path": path}
    if kind < 0.35:
        return "read_file", {"path": path}
    return "run_terminal_cmd", {"command": random_command(root, dice)}


HOST = """
import os, random, sys
dice = random.Random(int(sys.argv[2]))
os.makedirs(os.path.join(sys.argv[1], "host", "sub"), exist_ok=True)
for _ in range(3):
    path = os.path.join(sys.argv[1], "host", dice.choice(["a", "b", "sub/c"]))
    if dice.random() < 0.3 and os.path.exists(path):
        os.remove(path)
    else:
        with open(path, "a") as file:
            file.write(f"{dice.random()}\\n")
"""


def edit_as_user(root: Path, seed: int) -> None:
    """Change files below ``host`` in another process, as the user's editor does."""
    subprocess.run([sys.executable, "-I", "-S", "-c", HOST, root, str(seed)], check=True)


# The service changes its own file all the time, and another one through a mapping.
CHANGE_ALL_THE_TIME = """
import mmap, os, time
os.makedirs("host", exist_ok=True)
file = open("host/mapped", "w+b")
file.write(b"xx")
file.flush()
mapped = mmap.mmap(file.fileno(), 0)
while True:
    mapped[0] = (mapped[0] + 1) % 256
    open("host/log", "a").write("x")
    time.sleep(0.01)
"""
SERVICE = f"exec python3 -c {shlex.quote(CHANGE_ALL_THE_TIME)}"


class Work:
    """Random work in one workspace.

    Args:
        folder: Where everything is.
        seed: Decides what is done.
        incremental: Whether inotify is used.
        always_confirm: Whether the model always thinks until the workspace has been walked.
        parallel: Whether commands run at the same time.
        service: Whether a background service changes files meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        incremental: bool,
        always_confirm: bool = False,
        parallel: bool = False,
        service: bool = False,
    ) -> None:
        self.root = folder / "workspace"
        self.root.mkdir(parents=True)
        self.folder = folder
        self.dice = random.Random(seed)
        self.incremental = incremental
        self.always_confirm = always_confirm
        self.parallel = parallel
        self.service = service
        self.journal: list[tuple[str, list[object]]] = []
        plant(self.root, self.dice)

    def _answers(self, changes: hilum_files.Changes) -> Iterator[object]:
        for _ in range(self.dice.randrange(1, 4)):
            count = self.dice.choice([2, 3]) if self.parallel else 1
            calls = [random_call(self.root, self.dice) for _ in range(count)]
            answer = reduce(add, [use(name, **arguments) for name, arguments in calls])
            yield self._after_thinking(answer, self.dice.randrange(10_000), changes)
        yield say("Done.")

    def _after_thinking(
        self, answer: object, seed: int, changes: hilum_files.Changes
    ) -> Callable[[object], Awaitable[object]]:
        async def think(request: object) -> object:
            # This is what happens after a quarter of a second; some answers come earlier.
            if self.always_confirm or seed % 3:
                await changes.confirm()
            if seed % 2:
                await trio.to_thread.run_sync(edit_as_user, self.root, seed)
            return answer

        return think

    async def run(self) -> None:
        """Do the work, undo it, and check that the tree is what it was, but for the user's edits."""
        settings = {"files.incremental_snapshots": self.incremental}
        first = held(self.root)
        async with open_bench(
            hilum_files,
            hilum_shell,
            workspace=self.root,
            folder=self.folder / "bench",
            settings=settings,
        ) as bench:
            changes = bench.session.plugin(hilum_files.Changes)
            for _ in range(self.dice.randrange(1, 4)):
                if self.service:
                    await bench.call("run_terminal_cmd", command=SERVICE, background=True)
                bench.model.next(*self._answers(changes))
                await bench.run("Work.")
                if self.service:
                    number = len([each for each in bench.results if each.name == "stop_service"])
                    await bench.call("stop_service", service=f"s{number + 1}")
                await trio.to_thread.run_sync(edit_as_user, self.root, self.dice.randrange(10_000))
            await changes.confirm()
            self._note(changes)
            scope = self.dice.choice(["call", "turn", "run"])
            if self.service:
                # The service may have changed its own files since, which an undo leaves alone.
                await changes.undo("since", "0", keep_going=True)
            while not self.service and changes.records():
                await changes.undo(scope)
            assert without_host(held(self.root)) == without_host(first)

    def _note(self, changes: hilum_files.Changes) -> None:
        """Note each call with its changes; a walk may have found some of them later."""
        calls: dict[str, tuple[str, list[object]]] = {}
        for record in changes.records():
            _, found = calls.setdefault(record.call, (record.what or record.tool, []))
            found += [(each.path, each.before, each.after) for each in record.changes]
        self.journal = [(what, sorted(found, key=repr)) for what, found in calls.values()]


def without_host(tree: dict[bytes, tuple[object, ...]]) -> dict[bytes, tuple[object, ...]]:
    """The tree without the user's own folder, and without the folders that are left out."""
    outside = (b"host", b"node_modules", b".venv")
    return {path: entry for path, entry in tree.items() if path.split(b"/")[0] not in outside}


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("seed", range(150))
async def test_the_journal_is_the_same_with_walks_and_with_looks(tmp_path: Path, seed: int) -> None:
    """Commands, edits, hard links, mappings, renames and the user's edits between the calls."""
    journals = []
    for incremental in (True, False):
        work = Work(tmp_path / str(incremental), seed, incremental=incremental, always_confirm=True)
        await work.run()
        journals.append(work.journal)
    assert journals[0] == journals[1]


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("seed", range(150, 300))
async def test_undo_is_exact_with_parallel_commands_and_services(tmp_path: Path, seed: int) -> None:
    """Whoever is first, and whether or not the model thinks long enough for a walk."""
    work = Work(tmp_path, seed, incremental=True, parallel=seed % 2 == 0, service=seed % 3 == 0)
    await work.run()
