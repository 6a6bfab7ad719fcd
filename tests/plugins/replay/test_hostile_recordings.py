"""A recording of somebody else changes nothing outside of its folder, and takes bounded memory."""

import errno
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio
from hilum import ToolError, UsageError
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND, E_STORE
from hilum.testing import open_bench, use
from hilum_replay import read_limits
from hilum_replay.cassette_reader import load, loads
from hilum_replay.sessions import recording as recordings
from hilum_replay.sessions import replay_command, workspace_files
from hilum_replay.sessions.comparison import describe
from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.exporting import export_test, make_repeatable
from hilum_replay.sessions.exporting import make_recording as make_recording_of
from hilum_replay.sessions.player import write_files
from hilum_replay.sessions.recorded_calls import apply_edit
from hilum_replay.sessions.recording import (
    SESSION_FILE,
    FileEdit,
    Header,
    RecordedFile,
    Recording,
    load_recording,
    save_recording,
)
from hilum_replay.sessions.session_test import check_session, run_recording
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "plugins/replay/hilum_replay/corpus"
DEEP = "[" * 50_000 + "]" * 50_000
NESTED = "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of a recording of the corpus."""
    shutil.copytree(CORPUS / "read_and_search", tmp_path / "copy")
    return tmp_path / "copy"


def change_header(folder: Path, **values: object) -> None:
    """Change the header of a recording; a dictionary is added to the one that is there."""
    file = folder / SESSION_FILE
    first, _, rest = file.read_bytes().partition(b"\n")
    header = msgspec.json.decode(first)
    for name, value in values.items():
        if isinstance(value, dict):
            header[name] = {**header.get(name, {}), **value}
        else:
            header[name] = value
    file.write_bytes(msgspec.json.encode(header) + b"\n" + rest)


def check_refused(folder: Path, message: str, code: str = E_STORE) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        check_session(folder, folder.parent / "work")
    assert refused.value.code == code
    assert refused.value.hint


def describe_tree(folder: Path) -> dict[str, tuple[int, str, bytes]]:
    """Return the mode, the target and the content of everything in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        target = str(path.readlink()) if path.is_symlink() else ""
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(folder))] = (status.st_mode, target, data)
    return found


# --- writing --------------------------------------------------------------------------------------


def plant(folder: Path, victim: Path) -> None:
    """Make a recording whose links, one through the other, lead to a folder outside."""
    up = "../" * 20
    change_header(
        folder,
        folders=["top", NESTED],
        links={
            f"{NESTED}/er": f"{up}top",
            f"{NESTED}/er/l": f"{up}..{victim}",
            f"{NESTED}/er/l/planted": "../copy/before/shop/cart.py",
        },
    )


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder outside of all recordings."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept\n")
    return folder


def test_links_through_links_write_nothing_outside(copy, victim):
    # In the workspace, the second link is at top/l, and climbs to the root of the file system.
    plant(copy, victim)
    before = describe_tree(victim)
    check_refused(copy, "leads through a link")
    assert describe_tree(victim) == before


def test_links_through_links_plant_nothing_in_a_corpus_of_pytest(copy, victim, tmp_path):
    plant(copy, victim)
    before = describe_tree(victim)
    options = "-q -p no:cacheprovider -p no:schemathesis".split()
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(
        [*command, "--hilum-corpus", str(tmp_path)],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTEST_DEBUG_TEMPROOT": str(tmp_path.parent),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "E_STORE" in done.stdout
    assert describe_tree(victim) == before


def test_links_through_links_plant_nothing_in_a_replay_with_a_change(copy, victim):
    plant(copy, victim)
    before = describe_tree(victim)
    arguments = [str(copy), "--at", "5", "--rule", "deny write_file"]
    with pytest.raises(UsageError, match="leads through a link"):
        replay_command.main(arguments)
    assert describe_tree(victim) == before


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"folders": ["../made"]}, "leads out of the workspace"),
        ({"folders": ["a/../../made"]}, "leads out of the workspace"),
        ({"deleted": ["/etc/passwd"]}, "leads out of the workspace"),
        ({"edits": [{"seq": 9, "path": "../made", "folder": True}]}, "leads out"),
        ({"effects": {"main/call-1": [{"seq": 9, "path": "/tmp/made"}]}}, "leads out"),
        ({"edits": [{"seq": 9, "path": "a", "content": "f" * 40}]}, "content of 'a' is missing"),
        ({"digests": {"before/../../victim/kept.txt": "0"}}, "leads out of the workspace"),
        ({"digests": {"elsewhere/kept.txt": "0"}}, "is not a file of a recording"),
        ({"links": {"a": "../victim"}}, "leads out of the workspace"),
        ({"links": {"a": "/etc"}}, "leads out of the workspace"),
        # Read as text, the second link stays inside.
        ({"links": {"b/c/d": "../../shop", "e": "b/c/d/../.."}}, "leads out of the workspace"),
        ({"links": {"shop": "notes"}}, "leads through a link, 'shop'"),
        ({"links": {"README.md": "notes"}}, "is a link and something else"),
        ({"links": {".": "notes"}}, "is not the path of a file"),
        ({"links": {"a": ""}}, "without a valid target"),
        ({"links": {"a": "b\0c"}}, "without a valid target"),
        ({"folders": ["a\0b"]}, "is not the path of a file"),
        ({"folders": ["a//b"]}, "is not the path of a file"),
        ({"folders": [""]}, "is not the path of a file"),
        ({"folders": ["n" * 256]}, "is too long"),
        ({"folders": ["n/" * 2000 + "n"]}, "is too long"),
        ({"files": {"README.md": {"age": 1e300}}}, "age of 'README.md' is not a number of seconds"),
        ({"links": {f"l{number}": "x" for number in range(2_001)}}, "more than 2,000 links"),
    ],
)
def test_a_header_that_no_export_writes_is_refused(copy, victim, header, message):
    change_header(copy, **header)
    before = describe_tree(copy.parent)
    check_refused(copy, message)
    assert describe_tree(copy.parent) == before


def make_recording(
    files: dict[str, bytes],
    links: dict[str, str] | None = None,
    folders: tuple[str, ...] = (),
    modes: dict[str, int] | None = None,
) -> Recording:
    """Make a recording in memory, whose header nothing has checked."""
    known = {path: RecordedFile(mode=mode) for path, mode in (modes or {}).items()}
    events = load_recording(CORPUS / "picture").events
    return Recording(Header(files=known, folders=folders, links=links or {}), events, files)


def test_only_permissions_of_a_recorded_mode_are_used(tmp_path):
    modes = {"a": 0o4755, "b": 0o102640, "c": 999_999_999_999 << 12 | 0o600}
    files = dict.fromkeys(modes, b"x")
    write_files(make_recording(files, modes=modes), tmp_path / "work")
    found = {path: (tmp_path / "work" / path).stat().st_mode for path in modes}
    assert {path: stat.S_IMODE(mode) for path, mode in found.items()} == {
        "a": 0o755,
        "b": 0o640,
        "c": 0o600,
    }


def test_files_are_not_written_through_a_link_that_was_there_before(tmp_path, victim):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "shop").symlink_to(victim)
    before = describe_tree(victim)
    with pytest.raises(UsageError, match="cannot be created") as refused:
        write_files(make_recording({"shop/kept.txt": b"changed"}), tmp_path / "work")
    assert refused.value.code == E_STORE
    assert describe_tree(victim) == before


def test_a_link_that_turns_out_to_lead_outside_is_removed(tmp_path, victim):
    (tmp_path / "work").mkdir()
    files = ContainedFiles(tmp_path / "work")
    with pytest.raises(ToolError):
        files.make_links({"ok": "x", "a": "../victim"})
    # The first link leads out through the second one.
    with pytest.raises(ToolError):
        files.make_links({"l": "d/e/f/../../victim", "d/e/f": "../.."})
    # Only the folder shows where this link leads.
    (tmp_path / "work" / "there").symlink_to(victim)
    with pytest.raises(ToolError):
        files.make_links({"ok": "x", "a": "there/kept.txt"})
    files.make_links({"b": "b"})  # a loop leads nowhere
    assert sorted(describe_tree(tmp_path / "work")) == ["b", "there"]


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "hard link", "pipe"])
def test_an_edit_changes_nothing_through_what_a_command_made(tmp_path, victim, kind):
    work = tmp_path / "work"
    work.mkdir()
    path = "a/kept.txt" if kind == "link to a folder" else "a"
    if kind == "link to a file":
        (work / "a").symlink_to(victim / "kept.txt")
    elif kind == "link to a folder":
        (work / "a").symlink_to(victim)
    elif kind == "hard link":
        (work / "a").hardlink_to(victim / "kept.txt")
    else:
        os.mkfifo(work / "a")
    before = describe_tree(victim)
    files = ContainedFiles(work)
    objects = {"o": b"changed"}
    apply_edit(FileEdit(1, path, "o", 0o4777), files, objects)
    apply_edit(FileEdit(1, f"{path}/made", folder=True), files, objects)
    apply_edit(FileEdit(1, path), files, objects)
    assert describe_tree(victim) == before


def test_links_inside_of_the_folder_are_not_followed_either(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "kept.txt").write_text("kept\n")
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "file").symlink_to("real/kept.txt")
    before = describe_tree(tmp_path)
    files = ContainedFiles(tmp_path)
    for path in ("folder/kept.txt", "file"):
        apply_edit(FileEdit(1, path, "o"), files, {"o": b"changed"})
        apply_edit(FileEdit(1, path), files, {})
        with pytest.raises(ToolError):
            files.read(path, 100)
    apply_edit(FileEdit(1, "folder/made", folder=True), files, {})
    assert describe_tree(tmp_path) == before


def test_a_folder_that_was_swapped_for_a_link_is_not_used(tmp_path, victim):
    (tmp_path / "work").mkdir()
    files = ContainedFiles(tmp_path / "work")
    (tmp_path / "work").rmdir()
    (tmp_path / "work").symlink_to(victim)
    before = describe_tree(victim)
    with pytest.raises(ToolError):
        files.write("kept.txt", b"changed")
    with pytest.raises(ToolError):
        files.make_folder("made")
    assert describe_tree(victim) == before


def test_an_edit_changes_files_and_folders(tmp_path):
    files = ContainedFiles(tmp_path)
    objects = {"o": b"new", "e": b""}
    apply_edit(FileEdit(1, "~/a", "o", 0o600), files, objects)
    apply_edit(FileEdit(2, "~/b", "e"), files, objects)
    apply_edit(FileEdit(3, "c/d", folder=True), files, objects)
    apply_edit(FileEdit(4, "c", folder=True), files, objects)
    assert (tmp_path / "~" / "a").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "~" / "a").stat().st_mode) == 0o600
    apply_edit(FileEdit(5, "~/a"), files, objects)
    apply_edit(FileEdit(6, "c"), files, objects)  # it is not empty
    apply_edit(FileEdit(7, "c/d"), files, objects)
    apply_edit(FileEdit(8, "never", missing="too large"), files, objects)
    assert sorted(describe_tree(tmp_path)) == ["c", "~", "~/b"]


def is_accepted(function: Callable[..., object], *arguments: object) -> bool:
    """Return whether a function accepts a recording; all other errors than ``E_STORE`` are raised."""
    try:
        function(*arguments)
    except UsageError as error:
        if error.code != E_STORE:
            raise
        return False
    return True


def is_loop(link: Path) -> bool:
    """Return whether a link leads nowhere."""
    try:
        link.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


NAMES = ["a", "b", "..", ".", "", "~", "A", "a\n", "ü", "x" * 300, "\0", "c:", "a\\..\\b", "-rf"]
PATHS = st.one_of(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6).map("/".join),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map("/".join),
    st.text(max_size=8),
)
TARGETS = st.one_of(
    PATHS,
    st.lists(st.sampled_from(["..", "a", "b", "c", "."]), min_size=1, max_size=8).map("/".join),
)


@settings(
    max_examples=2 * settings.default.max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=st.dictionaries(PATHS, st.binary(max_size=3), max_size=4),
    folders=st.lists(PATHS, max_size=4),
    links=st.dictionaries(PATHS, TARGETS, max_size=5),
    modes=st.dictionaries(PATHS, st.integers(), max_size=3),
    edits=st.lists(
        st.tuples(PATHS, st.sampled_from(["", "o"]), st.integers(), st.booleans()), max_size=5
    ),
    outside=st.booleans(),
)
def test_nothing_outside_of_the_folder_changes(
    tmp_path_factory, files, folders, links, modes, edits, outside
):
    base = tmp_path_factory.mktemp("base")
    for folder in ("a", "b", "c/a/b"):
        (base / folder).mkdir(parents=True)
    (base / "a" / "b").write_text("kept\n")
    if outside:  # some links and paths are absolute
        links = {path: f"{base}/{target}" for path, target in links.items()}
        files = {f"{base}/{path}": data for path, data in files.items()}
    recording = make_recording(files, links, tuple(folders), modes)
    # Half of the depth of the generated links, so that many of them lead out.
    work = base / "c" / "a" / "work"
    before = describe_tree(base)
    is_accepted(write_files, recording, work)
    if work.exists():
        for path, content, mode, folder in edits:
            edit = FileEdit(1, path, content, mode, folder)
            apply_edit(edit, ContainedFiles(work), {"o": b"changed"})
        for path in work.rglob("*"):
            assert Path(os.path.realpath(path)).is_relative_to(work) or is_loop(path)
        shutil.rmtree(work)
    assert describe_tree(base) == before


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    header=st.fixed_dictionaries(
        {},
        optional={
            "folders": st.lists(PATHS, max_size=3),
            "links": st.dictionaries(PATHS, TARGETS, max_size=4),
            "digests": st.dictionaries(PATHS.map("before/{}".format), st.just("0"), max_size=3),
            "deleted": st.lists(PATHS, max_size=3),
        },
    )
)
def test_a_random_header_is_refused_or_its_files_can_be_written(tmp_path_factory, header):
    folder = tmp_path_factory.mktemp("recording")
    shutil.copyfile(CORPUS / "picture" / SESSION_FILE, folder / SESSION_FILE)
    change_header(folder, **header)
    if is_accepted(load_recording, folder):
        is_accepted(write_files, load_recording(folder), folder / "work")


# --- exporting ------------------------------------------------------------------------------------


async def test_an_export_contains_only_links_that_a_replay_accepts(tmp_path, victim):
    calls = use("read_file", path="linked/a.py") + use("list_directory", path=".")
    files = {"real/a.py": "x = 1\n"}
    links = {
        "linked": "real",
        "again": "linked/a.py",
        "out": str(victim),
        "relative": "../../victim",
        # Read as text, it stays inside.
        "deep/down": "../linked/../../../victim",
    }
    async with open_bench(
        "files", "guard", "store", answers=[calls, "Done."], files=files, folder=tmp_path / "b"
    ) as bench:
        for path, target in links.items():
            place = trio.Path(bench.workspace / path)
            await place.parent.mkdir(exist_ok=True)
            await place.symlink_to(target)
        await bench.run("Read.")
        events = list(bench.events)
        recording = await trio.to_thread.run_sync(make_recording_of, events, lambda name: None)
    assert recording.header.links == {"linked": "real", "again": "linked/a.py"}
    assert recording.before == {"real/a.py": b"x = 1\n"}
    assert {"out", "relative", "deep/down"} <= recording.header.left_out.keys()
    # The folder is listed with the links that are left out.
    recording, _ = await make_repeatable(recording)
    assert set(recording.header.from_log) == {"main/call-2"}
    save_recording(recording, tmp_path / "saved")
    outcome = await run_recording(load_recording(tmp_path / "saved"), tmp_path / "work")
    assert outcome.comparison.identical, describe(outcome.comparison)


def test_a_recording_is_saved_below_its_folder_only(tmp_path, victim):
    before = describe_tree(victim)
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "before").symlink_to(victim)
    with pytest.raises(ToolError):
        save_recording(make_recording({"kept.txt": b"changed"}), tmp_path / "saved")
    with pytest.raises(ToolError):
        save_recording(make_recording({"../../victim/kept.txt": b"changed"}), tmp_path / "new")
    assert describe_tree(victim) == before


@pytest.mark.parametrize("name", ["test_t.py", "t"])
async def test_no_test_is_written_through_a_link(tmp_path, victim, name):
    events = load_recording(CORPUS / "picture").events
    target = victim / "kept.txt" if name == "test_t.py" else victim
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(target)
    before = describe_tree(victim)
    with pytest.raises(UsageError, match="is a link") as refused:
        await export_test(events, "t", tmp_path / "out", overwrite=True)
    assert refused.value.code == E_BAD_ARGS
    assert describe_tree(victim) == before


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("MAX_CONTENTS_SIZE", "files have more than 0 bytes"),
        ("MAX_CONTENT_SIZE", "a file has more than 0 bytes"),
        ("MAX_CONTENTS", "more than 0 files"),
        ("MAX_FILE_SIZE", "log has more than 0 bytes"),
    ],
)
def test_a_recording_that_could_not_be_read_is_not_saved(tmp_path, monkeypatch, limit, message):
    recording = make_recording({"a": b"x"})
    monkeypatch.setattr(recordings, limit, 0)
    with pytest.raises(UsageError, match=message) as refused:
        save_recording(recording, tmp_path / "saved")
    assert refused.value.code == E_BAD_ARGS
    assert not (tmp_path / "saved").exists()


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [SESSION_FILE, "cassette.toml", "before/shop/cart.py"])
@pytest.mark.parametrize("kind", ["endless link", "link", "pipe", "folder"])
def test_only_regular_files_of_a_recording_are_read(copy, victim, name, kind):
    place = copy / name
    if place.exists():
        shutil.move(place, victim / "moved")
    else:
        (victim / "moved").write_text("format = 1\n")
    if kind == "endless link":
        place.symlink_to("/dev/zero")
    elif kind == "link":
        place.symlink_to(victim / "moved")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(UsageError) as refused:
        check_session(copy, copy.parent / "work")
    assert refused.value.code in (E_STORE, E_FILE_NOT_FOUND)
    assert not (copy.parent / "work").exists()


def test_a_linked_folder_of_a_recording_is_not_read(copy, victim):
    shutil.move(copy / "before", victim / "before")
    (copy / "before").symlink_to(victim / "before")
    check_refused(copy, "leads by a link to a place outside")


def test_files_of_a_recording_without_digests_are_not_read_through_links(copy, victim):
    (copy / "before" / "secret").symlink_to(victim / "kept.txt")
    (copy / "before" / "secrets").symlink_to(victim)
    change_header(copy)
    first, _, rest = (copy / SESSION_FILE).read_bytes().partition(b"\n")
    header = msgspec.json.decode(first)
    header["digests"] = {}
    (copy / SESSION_FILE).write_bytes(msgspec.json.encode(header) + b"\n" + rest)
    paths = load_recording(copy).before
    assert "shop/cart.py" in paths
    assert not any("secret" in path for path in paths)


def add_to_event(folder: Path, text: str) -> None:
    """Add a field to the third event of a recording."""
    file = folder / SESSION_FILE
    lines = file.read_text().split("\n")
    lines[3] = lines[3].removesuffix("}") + f',"added":{text}}}'
    file.write_text("\n".join(lines))


@pytest.mark.parametrize("depth", [101, 900, 50_000])
def test_deep_json_in_an_event_is_refused(copy, depth):
    add_to_event(copy, "[" * depth + "]" * depth)
    check_refused(copy, "damaged at line 4: it is nested more than 100 levels deep")


def test_deep_json_in_the_header_is_refused(copy):
    file = copy / SESSION_FILE
    file.write_text(file.read_text().replace("{", f'{{"added":{DEEP},', 1))
    check_refused(copy, "damaged at line 1: it is nested more than 100 levels deep")


@pytest.mark.parametrize("depth", [101, 900, 50_000])
async def test_deep_arguments_of_calls_are_replayed_without_an_error(copy, depth):
    # A model may have written them. They are a text in the event.
    file = copy / SESSION_FILE
    deep = '"arguments":"' + "[" * depth + "]" * depth + '"'
    text, count = re.subn(r'"arguments":"(?:[^"\\]|\\.)*"', deep, file.read_text())
    assert count
    file.write_text(text)
    outcome = await run_recording(load_recording(copy), copy.parent / "work")
    assert outcome.comparison.failures


def test_brackets_in_texts_are_not_counted(copy):
    add_to_event(copy, msgspec.json.encode('"\\' + "[{" * 500 + '\\"').decode())
    check_session(copy, copy.parent / "work")


def test_a_log_of_many_small_values_is_refused(copy):
    add_to_event(copy, "[" + '{"":0},' * 2_000_000 + "0]")
    check_refused(copy, "it has more than 2,000,000 values")


def test_a_log_that_is_too_large_is_refused(copy):
    with (copy / SESSION_FILE).open("ab") as file:
        file.truncate(10_000_000_000)
    check_refused(copy, "has more than 64,000,000 bytes")


def test_a_content_that_is_too_large_is_refused(copy):
    with (copy / "before" / "shop" / "cart.py").open("ab") as file:
        file.truncate(10_000_000_000)
    check_refused(copy, "has more than 4,000,000 bytes")


def test_contents_that_are_too_large_together_are_refused(copy, monkeypatch):
    monkeypatch.setattr(recordings, "MAX_CONTENTS_SIZE", 100)
    check_refused(copy, r"has more than \d+ bytes")


@pytest.mark.parametrize("at", ["1e30", "-1", "1e17"])
def test_a_time_that_no_clock_shows_is_refused(copy, at):
    file = copy / SESSION_FILE
    lines = file.read_text().split("\n")
    lines[2], count = re.subn(r'"at":[\d.]+', f'"at":{at}', lines[2])
    assert count == 1
    file.write_text("\n".join(lines))
    check_refused(copy, "damaged at line 3: ")


def test_a_log_whose_first_event_is_another_one_is_refused(copy):
    file = copy / SESSION_FILE
    lines = file.read_text().split("\n")
    lines[1] = lines[2].replace('"seq":2', '"seq":1')
    file.write_text("\n".join(lines))
    check_refused(copy, "damaged at line 2: the session is not opened")


@pytest.mark.parametrize(
    "text",
    [
        "format = 1\na = " + "[" * 5_000 + "]" * 5_000,
        "format = 1\n[[exchange]]\n[[exchange.answer]]\ncall = 'c'\n"
        "arguments = " + "{a=" * 1_000 + "1" + "}" * 1_000,
        "format = 1\n[[exchange]]\n[[exchange.answer]]\ntext = 'c'\nvendor = '" + DEEP + "'",
    ],
)
def test_a_deep_cassette_is_refused(text):
    with pytest.raises(UsageError) as refused:
        loads(text)
    assert refused.value.code == E_STORE


def test_a_cassette_of_many_small_values_is_refused():
    with pytest.raises(UsageError, match="more than 2,000,000 values") as refused:
        loads("format = 1\na = [" + "[]," * 2_000_001 + "]")
    assert refused.value.code == E_STORE


@pytest.mark.parametrize("kind", ["device", "pipe", "large"])
def test_a_cassette_is_a_regular_file(tmp_path, kind):
    path = tmp_path / "cassette.toml"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with path.open("wb") as file:
            file.truncate(read_limits.MAX_FILE_SIZE + 1)
    with pytest.raises(UsageError, match=r"not a regular file|more than 64,000,000 bytes"):
        load(path)


def test_a_large_file_of_a_replay_is_not_read(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate(10_000_000_000)
    with (tmp_path / "b").open("wb") as file:
        file.truncate(10_000_000_000)
    found = workspace_files.compare_files(tmp_path, {"a": b"x"}, {}, ())
    assert [each.title for each in found] == [
        "a cannot be compared",
        "b was created only in the replay",
    ]
