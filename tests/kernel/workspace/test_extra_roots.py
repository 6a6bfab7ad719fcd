"""Extra roots: folders besides the workspace whose files may be used."""

import os
from pathlib import Path

import pytest
from hilum.workspace import PathError, Workspace


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """``proj``, ``notes`` and ``other``, with a file ``file`` in each that holds the folder's
    name.
    """
    for name in ("proj", "notes", "notes-evil", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    return tmp_path


@pytest.fixture
def workspace(folders: Path) -> Workspace:
    return Workspace(folders / "proj", extra=[folders / "notes"])


async def test_files_below_every_root_are_used(workspace: Workspace, folders: Path) -> None:
    """Relative paths mean the first root; an absolute one, or one with .., may be below any."""
    assert await workspace.read_text("file") == "proj"
    for path in (f"{folders}/notes/file", "../notes/file", f"{folders}/proj/../notes/./file"):
        assert await workspace.read_text(path) == "notes"
    with workspace.at(f"{folders}/notes/a/b/new", make=True) as place:
        os.mkdir(place.name, dir_fd=place.folder)
    assert (folders / "notes" / "a" / "b" / "new").is_dir()
    with workspace.at(folders / "notes") as place:
        assert (place.name, "file" in os.listdir(place.folder)) == (".", True)


@pytest.mark.parametrize(
    "path", ["{}/other/file", "{}/notes-evil/file", "../notes/../other/file", "{}", "{}/notes/.."]
)
def test_other_folders_stay_outside(workspace: Workspace, folders: Path, path: str) -> None:
    """The refusal names every root."""
    with pytest.raises(PathError, match=r"outside the workspace .*proj' and .*notes'\.") as caught:
        workspace.resolve(path.format(folders))
    assert caught.value.code == "E_PATH_TRAVERSAL"


async def test_links_lead_from_root_to_root_and_no_further(
    workspace: Workspace, folders: Path
) -> None:
    """What a link means counts, not where it stands."""
    (folders / "proj" / "in").symlink_to(folders / "notes")
    (folders / "notes" / "out").symlink_to(folders / "other")
    assert await workspace.read_text("in/file") == "notes"
    with pytest.raises(PathError, match="outside"):
        await workspace.read_text("in/out/file")


def test_shown_paths_come_back(workspace: Workspace, folders: Path) -> None:
    """Below the first root a path is shown relative, below another one absolute.

    Both mean the same file again.
    """
    for real, shown in (
        (folders / "proj" / "file", "file"),
        (folders / "notes" / "file", f"{folders}/notes/file"),
    ):
        assert workspace.relative(real) == shown
        assert workspace.resolve(shown) == real


def test_roots_are_resolved(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be relative to the first, below the home folder, links, one in another, or the same
    twice.
    """
    monkeypatch.setenv("HOME", str(folders))
    (folders / "alias").symlink_to(folders / "notes")
    extra = ["../other", "~/notes", str(folders / "alias"), "sub", "."]
    assert Workspace("~/proj", extra).roots == tuple(
        folders / n for n in ("proj", "other", "notes", "proj/sub")
    )
    assert Workspace(folders / "proj").roots == (folders / "proj",)


def test_one_extra_root_as_a_text_is_one(folders: Path) -> None:
    """It is not taken letter by letter, of which the first opens everything."""
    assert Workspace(folders / "proj", str(folders / "notes")).roots == (
        folders / "proj",
        folders / "notes",
    )


def test_roots_that_are_no_folders_are_told_at_use(folders: Path) -> None:
    """A missing one, a file and a loop open nothing and break nothing.

    What is no path at all is told at once.
    """
    (folders / "loop").symlink_to("loop")
    workspace = Workspace(folders / "proj", ["../missing", "../other/file", "../loop"])
    for path in ("../missing/x", "../other/file", "../loop/x", "../loop"):
        with pytest.raises(PathError), workspace.at(path, make=True) as place, place.open():
            pass
    assert not (folders / "missing").exists()
    with pytest.raises(PathError, match="not a path"):
        Workspace(folders / "proj", ["a\0b"])
