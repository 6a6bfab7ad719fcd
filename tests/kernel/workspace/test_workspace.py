"""The workspace: what a path means, what it never reaches, and how files are read."""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from hilum.workspace import Locks, PathError, Workspace

E_FAILED, E_FILE_NOT_FOUND, E_PATH_TRAVERSAL = "E_FAILED", "E_FILE_NOT_FOUND", "E_PATH_TRAVERSAL"
SECRET = b"outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace folder with a file, and a secret beside it."""
    root = tmp_path / "proj"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print('hello')\n")
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "proj-evil").mkdir()
    (tmp_path / "proj-evil" / "main.py").write_bytes(SECRET)
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


def read(workspace: Workspace, path: str) -> bytes:
    with workspace.at(path) as place, place.open() as file:
        return file.read()


def write(workspace: Workspace, path: str, *, make: bool = True) -> None:
    with workspace.at(path, make=make) as place:
        os.close(
            os.open(
                place.name,
                os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK,
                dir_fd=place.folder,
            )
        )


# --- what a path means ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["src/main.py", "./src//main.py", "src/../src/main.py", "{root}/src/main.py"]
)
def test_inside_paths_mean_the_same_file(workspace: Workspace, root: Path, path: str) -> None:
    """Relative, untidy and absolute names of a file resolve to it."""
    assert workspace.resolve(path.format(root=root), must_exist=True) == root / "src" / "main.py"


def test_root_by_another_name(tmp_path: Path, root: Path) -> None:
    """A workspace opened through a link, and paths through that link, are the real folder."""
    (tmp_path / "alias").symlink_to(root)
    workspace = Workspace(tmp_path / "alias")
    assert workspace.root == root
    assert workspace.resolve(str(tmp_path / "alias" / "src")) == root / "src"
    assert workspace.resolve(str(tmp_path / "alias")) == root
    assert workspace.resolve(".") == root


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret.txt",
        "src/../../secret.txt",
        "missing/../../secret.txt",
        "/etc/passwd",
        "{root}-evil/main.py",
        "{root}/../secret.txt",
        "~/.ssh/id_rsa",
        "src/main.py\0.txt",
        "a/" * 3000,
    ],
)
@pytest.mark.parametrize("follow", [True, False])
def test_outside_paths_are_refused(
    workspace: Workspace, root: Path, path: str, follow: bool
) -> None:
    """What leads out is refused before anything is opened, however it is written."""
    with pytest.raises(PathError) as caught:
        workspace.resolve(path.format(root=root), follow=follow)
    assert caught.value.code == E_PATH_TRAVERSAL
    assert caught.value.hint


def test_refusal_does_not_tell_where_a_link_leads(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """The message names the link, and nothing of what is outside."""
    (root / "notes.txt").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to(tmp_path)
    (root / "missing").symlink_to(tmp_path / "secret-missing")
    for path in ("notes.txt", "folder/secret.txt", "missing"):
        with pytest.raises(PathError, match=f"'{path}' leads by a link") as caught:
            workspace.resolve(path)
        shown = str(caught.value).replace(f"'{path}'", "").replace(str(root), "")
        assert "secret" not in shown
        assert str(tmp_path) not in shown
    with pytest.raises(PathError, match=r"'\.\./secret\.txt' is outside"):
        workspace.resolve("../secret.txt")


@pytest.mark.parametrize("use", ["read", "write"])
def test_links_out_are_refused(workspace: Workspace, root: Path, tmp_path: Path, use: str) -> None:
    """Links to a file and to a folder outside are neither read nor written through, chained or
    not.
    """
    (root / "file").symlink_to(tmp_path / "secret.txt")
    (root / "folder").symlink_to("..")
    (root / "chain").symlink_to("file")
    for path in ("file", "chain", "folder/secret.txt", "folder/new.txt"):
        with pytest.raises(PathError) as caught:
            write(workspace, path) if use == "write" else read(workspace, path)
        assert caught.value.code == E_PATH_TRAVERSAL
    assert (tmp_path / "secret.txt").read_bytes() == SECRET
    assert not (tmp_path / "new.txt").exists()


async def test_links_inside_are_followed(workspace: Workspace, root: Path) -> None:
    """Relative, absolute and folder links that stay inside work."""
    (root / "relative").symlink_to("src/main.py")
    (root / "absolute").symlink_to(root / "src" / "main.py")
    (root / "code").symlink_to("src")
    for path in ("relative", "absolute", "code/main.py"):
        assert await workspace.read_text(path) == "print('hello')\n"


def test_link_loops_are_told(workspace: Workspace, root: Path) -> None:
    """A link to itself is an error of its own, not a hang."""
    (root / "loop").symlink_to("loop")
    with pytest.raises(PathError, match="symbolic links"):
        read(workspace, "loop")


@pytest.mark.parametrize(
    "path", ["loop/../out/secret.txt", "loop/../out", "missing/../loop/../out/secret.txt"]
)
@pytest.mark.parametrize("follow", [True, False])
def test_loop_hides_no_link_out(workspace: Workspace, root: Path, path: str, follow: bool) -> None:
    """Behind a link to itself, which nothing resolves, a link out is not taken for a folder
    inside.
    """
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("..")
    with pytest.raises(PathError, match="symbolic links"):
        workspace.resolve(path, follow=follow)


def test_proc_is_no_part_of_a_workspace(root: Path, tmp_path: Path) -> None:
    """Its links count as what they show, and its files, this process's memory among them, are
    refused even below ``/``.
    """
    (root / "cwd").symlink_to("/proc/self/cwd")
    (root / "fd").symlink_to("/proc/self/fd")
    held = os.open(tmp_path / "secret.txt", os.O_RDONLY)
    try:
        for path in (
            "/proc/self/root/etc/passwd",
            "cwd/README.md",
            f"fd/{held}",
            f"/dev/fd/{held}",
            "/proc/self/environ",
        ):
            with pytest.raises(PathError):
                read(Workspace(root), path)
        for path in (
            "/proc/self/environ",
            "/proc/1/status",
            "proc/self/mem",
            "/proc/self",
            f"{root}/fd",
            "/proc",
        ):
            with pytest.raises(PathError):
                Workspace("/").resolve(path)
        assert read(Workspace("/"), f"{root}/src/main.py") == b"print('hello')\n"
    finally:
        os.close(held)


def test_follow_false_means_the_link_itself(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    """A link that leads out can still be named, to delete it; ``..`` is never taken for a name."""
    (root / "out").symlink_to(tmp_path / "secret.txt")
    with workspace.at("out", follow=False) as place:
        assert place.path == root / "out"
        os.unlink(place.name, dir_fd=place.folder)
    assert (tmp_path / "secret.txt").exists()
    assert workspace.resolve("src/..", follow=False) == root


def test_relative(workspace: Workspace, root: Path) -> None:
    """Paths are shown relative to the root, those outside as they are."""
    assert workspace.relative(root / "src" / "main.py") == "src/main.py"
    assert workspace.relative(root) == "."
    assert workspace.relative("src/main.py") == "src/main.py"
    assert workspace.relative("/etc/passwd") == "/etc/passwd"


def test_folder_named_as_the_home_is_shown_as_itself(workspace: Workspace, root: Path) -> None:
    """A path that is shown means the same file when it comes back."""
    (root / "~").mkdir()
    (root / "~" / "file").touch()
    assert workspace.resolve(workspace.relative(root / "~" / "file")) == root / "~" / "file"


# --- use ------------------------------------------------------------------------------------------


async def test_missing_files_are_told(workspace: Workspace) -> None:
    """A file that is not there, for reading or by name alone, has a code and a hint."""
    with pytest.raises(PathError, match=r"no 'src/mian\.py'") as caught:
        await workspace.read_text("src/mian.py")
    assert (caught.value.code, bool(caught.value.hint)) == (E_FILE_NOT_FOUND, True)
    with pytest.raises(PathError, match="no 'zzz'"):
        workspace.resolve("zzz", must_exist=True)
    assert workspace.resolve("zzz").name == "zzz"


async def test_read_text(workspace: Workspace, root: Path) -> None:
    """A byte order mark is left out and CRLF stays."""
    (root / "win.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    assert await workspace.read_text("win.txt") == "a\r\nb\r\n"


async def test_binary_and_other_encodings_are_told(workspace: Workspace, root: Path) -> None:
    """Bytes that are no UTF-8 text are refused, each kind by name."""
    (root / "image.png").write_bytes(b"\x89PNG\0\0")
    (root / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    with pytest.raises(PathError, match="binary file of 6 bytes"):
        await workspace.read_text("image.png")
    with pytest.raises(PathError, match=r"not UTF-8 text \(byte 3\)"):
        await workspace.read_text("latin.txt")


async def test_read_bytes_is_bounded(workspace: Workspace, root: Path) -> None:
    """A file longer than the limit is refused, one of exactly the limit is read."""
    (root / "data").write_bytes(b"x" * 100)
    assert len(await workspace.read_bytes("data", limit=100)) == 100
    with pytest.raises(PathError, match="more than 99 bytes"):
        await workspace.read_bytes("data", limit=99)


async def test_special_files_have_no_content(workspace: Workspace, root: Path) -> None:
    """Folders, pipes, sockets and devices are refused at once."""
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(root / "socket"))
    paths = [".", "src", "pipe", "socket"]
    if os.geteuid() == 0:
        os.mknod(root / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
        paths.append("zero")
    with trio.fail_after(60):
        for path in paths:
            with pytest.raises(
                PathError,
                match="Is a directory" if path in (".", "src") else "is a pipe, socket or",
            ):
                await workspace.read_bytes(path)


async def test_hard_links_are_files(workspace: Workspace, root: Path, tmp_path: Path) -> None:
    """One is read like any file; a file renamed over it leaves what its other names show."""
    os.link(tmp_path / "secret.txt", root / "hard")
    assert await workspace.read_bytes("hard") == SECRET
    write(workspace, "new")
    with workspace.at("hard") as place:
        os.replace("new", place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    assert await workspace.read_bytes("hard") == b""
    assert (tmp_path / "secret.txt").read_bytes() == SECRET


async def test_file_as_a_folder(workspace: Workspace) -> None:
    """A file named as if it were a folder is an error in words."""
    with pytest.raises(PathError, match="Not a directory"):
        await workspace.read_bytes("src/main.py/x")


def test_folders_are_made_or_not(workspace: Workspace, root: Path) -> None:
    """Missing folders are made only where that is asked for."""
    with workspace.at("a/b/c.txt", make=True) as place:
        assert place.name == "c.txt"
    assert (root / "a/b").is_dir()
    with pytest.raises(PathError) as caught, workspace.at("d/e.txt"):
        pass
    assert caught.value.code == E_FILE_NOT_FOUND


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A workspace whose folder may not be written, seen by a user who is not root."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "locked").mkdir()
        (root / "locked" / "secret").write_text("x")
        (root / "locked" / "secret").chmod(0o600)
        user = os.geteuid()
        (root / "locked").chmod(0o755 if user == 0 else 0o555)
        if user == 0:
            os.seteuid(65534)
        yield root
        os.seteuid(user)
        (root / "locked").chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another user")
def test_missing_permissions_are_told(closed_folder: Path) -> None:
    """What the system refuses becomes a sentence with the reason."""
    workspace = Workspace(closed_folder)
    for use in (
        lambda: write(workspace, "locked/new"),
        lambda: write(workspace, "locked/a/b"),
        lambda: read(workspace, "locked/secret"),
    ):
        with pytest.raises(PathError, match="Permission denied") as caught:
            use()
        assert caught.value.code == E_FAILED


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a folder of another user")
def test_folders_on_the_way_need_not_be_readable() -> None:
    """Those that others may pass through and not list are passed.

    Those that may not be passed are refused.
    """
    with tempfile.TemporaryDirectory() as name:
        project = Path(name) / "home" / "project"
        (project / "passed").mkdir(parents=True)
        (project / "passed" / "src").mkdir()
        (project / "passed" / "src" / "file").write_text("x")
        (project / "closed" / "src").mkdir(parents=True)
        for path in (Path(name), *Path(name).rglob("*")):  # whatever the umask is
            path.chmod(0o755)
        project.parent.chmod(0o711)
        (project / "passed").chmod(0o711)
        (project / "closed").chmod(0o700)
        os.seteuid(65534)
        try:
            assert read(Workspace(project), "passed/src/file") == b"x"
            with pytest.raises(PathError, match="Permission denied"):
                Workspace(project).resolve("closed/src")
        finally:
            os.seteuid(0)


def test_odd_names(workspace: Workspace, root: Path) -> None:
    """Names with newlines, Unicode and bytes that are no text work, and errors about them can be
    encoded.
    """
    for name in ("a\nb", "dürüm 🥙.txt", "-rf", "\udcff"):
        (root / name).write_bytes(b"x")
        assert read(workspace, name) == b"x"
    with pytest.raises(PathError, match="File name too long"):
        read(workspace, "x" * 300)
    with pytest.raises(PathError) as caught:
        workspace.resolve("missing\udcff\n", must_exist=True)
    assert str(caught.value).encode()


def test_nothing_is_left_open(workspace: Workspace, root: Path, open_files) -> None:
    """Successes and failures alike give all descriptors back."""
    os.mkfifo(root / "src" / "pipe")
    before = open_files()
    for path in ("src/main.py", "src", "../x", "src/pipe", "src/main.py/x"):
        for use in (read, write):
            try:
                use(workspace, path)
            except PathError:
                pass
    assert not open_files() - before


def test_without_openat(
    workspace: Workspace, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where folders cannot be held open, as on Windows, the same calls work on whole paths and are
    checked before.
    """
    monkeypatch.setattr("hilum.workspace._HAS_OPENAT", False)
    write(workspace, "a/b.txt")
    assert read(workspace, "a/b.txt") == b""
    (root / "out").symlink_to(tmp_path)
    for path in ("out/secret.txt", "../secret.txt"):
        with pytest.raises(PathError):
            read(workspace, path)
    with pytest.raises(PathError, match=r"no 'a/c\.txt'"):
        read(workspace, "a/c.txt")


async def test_two_names_of_one_file_have_one_lock(workspace: Workspace, root: Path) -> None:
    """Links, dots and absolute paths.

    A path that leads out has one, too, and whoever uses it is told.
    """
    (root / "link").symlink_to("src")
    locks = Locks(workspace)
    names = ["src/main.py", "./src/../src/main.py", str(root / "src" / "main.py"), "link/main.py"]
    (lock,) = locks.of(names)
    assert all(locks.of([name]) == [lock] for name in names)
    assert lock not in locks.of(["src/other.py", "../secret.txt"])


async def test_locks_are_given_in_one_order_and_kept_as_long_as_they_are_used(
    workspace: Workspace,
) -> None:
    """So tasks that take several cannot wait for each other in a circle, and a long session holds
    no heap of them.
    """
    locks = Locks(workspace)
    held = locks.of(["b", "a"])
    assert locks.of(["a", "b"]) == held
    known = [id(lock) for lock in held]
    del held
    assert len(locks._held) == 0
    assert len(known) == 2


@pytest.mark.parametrize(
    "path",
    [
        "plain",
        "folder",
        "folder/inner",
        "folder/../plain",
        "folder/..",
        ".",
        "missing",
        "missing/inner",
        "plain/inner",
        "to_folder/inner",
        "to_folder/missing",
        "to_file",
        "to_folder",
        "dangling",
        "loop",
        "out",
        "out/inner",
        "~/x",
        "/etc/passwd",
        "/proc/self/environ",
    ],
)
def test_one_resolution_serves_both_forms_of_a_path_that_is_no_link(tmp_path, path) -> None:
    """Where it gives a path, following the last link or not gives the same."""
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "plain").write_text("x")
    (root / "folder" / "inner").write_text("x")
    for name, target in (
        ("to_file", "plain"),
        ("to_folder", "folder"),
        ("dangling", "nowhere"),
        ("loop", "loop"),
        ("out", "/etc"),
    ):
        (root / name).symlink_to(target)
    workspace = Workspace(root)

    def resolve(follow: bool) -> Path | str:
        try:
            return workspace.resolve(path, follow=follow)
        except PathError as error:
            return error.code

    try:
        found = workspace.resolve_without_link(path)
    except PathError:
        assert isinstance(resolve(follow=False), str)
        return
    if found is None:
        assert (root / path).is_symlink()
    else:
        assert resolve(follow=True) == resolve(follow=False) == found


@pytest.mark.parametrize("path", ["/proc/self/environ", "//proc/self/environ", "/proc", "//proc"])
@pytest.mark.parametrize("follow", [True, False])
def test_processes_stay_outside_even_if_everything_is_inside(path: str, follow: bool) -> None:
    """However the path is spelled, and although every path is below the root."""
    with pytest.raises(PathError):
        Workspace("/").resolve(path, follow=follow)


def test_a_root_of_which_another_name_begins_the_same_is_not_its_root(workspace: Workspace) -> None:
    """``proj-evil`` begins with ``proj``, and is beside it."""
    with pytest.raises(PathError):
        workspace.resolve(f"{workspace.root}-evil/main.py")
