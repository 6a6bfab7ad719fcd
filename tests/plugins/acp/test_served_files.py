"""Files that hilum serves to a guest: the file that was judged, also if links are swapped in."""

import pytest
import trio
from hilum import hookimpl
from hilum_acp.guests.served_files import FileServer
from hilum_acp.json_rpc import RpcError


class SwappingEditor:
    """An editor that follows links; `during` runs between hilum's question and its read."""

    can_write_in_editor = False

    def __init__(self):
        self.during = lambda: None
        self.after = lambda: None
        self.reads = 0

    async def read_in_editor(self, path):
        self.reads += 1
        self.during()
        text = await trio.Path(path).read_text()
        self.after()
        return text

    async def write_in_editor(self, path, text):
        return False

    @hookimpl
    def open_session(self, session):
        return self


def swap_in(path, target):
    """Put a link in place of a file, which is kept under another name."""
    path.rename(path.with_name(f"{path.name}.kept"))
    path.symlink_to(target)


def swap_back(path):
    path.unlink()
    path.with_name(f"{path.name}.kept").rename(path)


@pytest.mark.parametrize("at", ["file", "folder"])
async def test_a_link_that_appears_after_the_judgement_is_not_followed(open_guest, tmp_path, at):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("private")
    files = {"folder/a.txt": "own", "secret/a.txt": "private"}
    async with open_guest("courteous", files=files) as guest:
        server = FileServer(guest.bench.session.agents["main"])
        path = server.resolve(str(guest.bench.workspace / "folder" / "a.txt"))
        assert await server.read_text(path) == "own"
        folder = guest.bench.workspace / "folder"
        for target in (guest.bench.workspace / "secret", tmp_path / "outside"):
            if at == "file":
                swap_in(folder / "a.txt", target / "a.txt")
            else:
                swap_in(folder, target)
            with pytest.raises(RpcError):
                await server.read_text(path)
            swap_back(folder / "a.txt" if at == "file" else folder)
        assert await server.read_text(path) == "own"


@pytest.mark.parametrize("at", ["file", "folder"])
async def test_an_editor_that_follows_a_swapped_link_serves_nothing(open_guest, tmp_path, at):
    """The link is there only while the editor reads."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("private")
    editor = SwappingEditor()
    files = {"folder/a.txt": "own"}
    async with open_guest("courteous", plugins=(editor,), files=files) as guest:
        server = FileServer(guest.bench.session.agents["main"])
        folder = guest.bench.workspace / "folder"
        path = server.resolve(str(folder / "a.txt"))
        assert await server.read_text(path) == "own"
        swapped, target = folder, tmp_path / "outside"
        if at == "file":
            swapped, target = folder / "a.txt", target / "a.txt"
        editor.during = lambda: swap_in(swapped, target)
        editor.after = lambda: swap_back(swapped)
        with pytest.raises(RpcError):
            await server.read_text(path)


async def test_a_link_that_was_there_before_is_resolved_and_judged(open_guest, tmp_path):
    (tmp_path / "config").mkdir(exist_ok=True)
    (tmp_path / "config" / "permissions.toml").write_text('deny = ["read_file(locked/**)"]\n')
    files = {"locked/a.txt": "private", "b.txt": "b\n"}
    async with open_guest("courteous", files=files) as guest:
        (guest.bench.workspace / "to_locked.txt").symlink_to("locked/a.txt")
        (guest.bench.workspace / "to_b.txt").symlink_to("b.txt")
        await guest.run(["read", "to_locked.txt"], ["read", "to_b.txt"])
        assert guest.said.startswith("read: E_DENIED")
        assert "private" not in guest.said
        assert guest.said.endswith("read: b\n\n")
