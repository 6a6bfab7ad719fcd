"""Workspaces of tasks, and the patches of what was changed in them."""

import os
import subprocess

import pytest
import trio
from hilum.processes import Warden
from hilum_dask.workspaces import TaskWorkspace, WorkspaceError


async def make(folder, change, repo="", ref="", files=None):
    """Create a workspace, change it, and return the patch and the number of its files."""
    environ = dict(os.environ) | {"GIT_CONFIG_GLOBAL": os.devnull}
    patch = folder / "x.patch"
    async with Warden() as warden:
        workspace = TaskWorkspace(folder / "work", warden, environ)
        with trio.fail_after(60):
            await workspace.create(str(repo), ref, files or {}, folder / "work")
            result = change(workspace.tree)
            count = await workspace.write_patch(patch)
    return (patch.read_bytes() if patch.exists() else b""), count, result


def git(folder, *arguments):
    """Run Git as a user would."""
    words = ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def edit(tree):
    """Change, add and delete files of the repository, also with commits."""
    (tree / "text.txt").write_text("three\n")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "the agent's own")
    (tree / "picture.bin").unlink()
    (tree / "new").mkdir()
    (tree / "new" / "file é.txt").write_text("new\n")
    (tree / "new" / "data.bin").write_bytes(bytes(reversed(range(256))))
    (tree / "script.sh").write_text("echo\n")
    (tree / "script.sh").chmod(0o755)
    (tree / "link").symlink_to("text.txt")


async def test_a_patch_has_all_changes_and_applies(tmp_path, repo):
    """Text, binary, new, deleted and executable files, and links; committed or not."""
    before = git(repo, "for-each-ref"), git(repo, "count-objects", "-v")
    patch, count, _ = await make(tmp_path, edit, repo)
    assert count == 6
    assert (git(repo, "for-each-ref"), git(repo, "count-objects", "-v")) == before
    assert git(repo, "status", "--porcelain") == ""
    (tmp_path / "x.patch").write_bytes(patch)
    git(repo, "apply", "--index", str(tmp_path / "x.patch"))
    assert (repo / "text.txt").read_text() == "three\n"
    assert not (repo / "picture.bin").exists()
    assert (repo / "new" / "data.bin").read_bytes() == bytes(reversed(range(256)))
    assert os.access(repo / "script.sh", os.X_OK)
    assert (repo / "link").is_symlink()


async def test_a_ref_and_files_are_what_the_patch_starts_from(tmp_path, repo):
    """Files that the task brings are not changes of the agent."""

    def change(tree):
        assert (tree / "text.txt").read_text() == "one\n"
        assert (tree / "in" / "put.txt").read_text() == "given"
        (tree / "out.txt").write_text("made")

    patch, count, _ = await make(tmp_path, change, repo, "first", {"in/put.txt": b"given"})
    assert count == 1
    assert b"out.txt" in patch
    assert b"put.txt" not in patch


@pytest.mark.parametrize("has_commit", [False, True])
async def test_files_of_a_repository_that_the_agent_made_are_in_the_patch(
    tmp_path, repo, has_commit
):
    """They are files like others; the agent's repository is in place again afterwards."""

    def change(tree):
        inner = tree / "new" / "project"
        inner.mkdir(parents=True)
        git(inner, "init", "-q")
        (inner / "main.py").write_text("print(1)\n")
        if has_commit:
            git(inner, "add", "-A")
            git(inner, "commit", "-qm", "inner")

    async with Warden() as warden:
        workspace = TaskWorkspace(tmp_path / "nested-work", warden, os.environ)
        await workspace.create(str(repo), "", {}, tmp_path)
        await trio.to_thread.run_sync(change, workspace.tree)
        assert await workspace.write_patch(tmp_path / "nested.patch") == 1
    assert (workspace.tree / "new/project/.git/HEAD").exists()
    git(repo, "apply", str(tmp_path / "nested.patch"))
    assert (repo / "new/project/main.py").read_text() == "print(1)\n"


async def test_an_unchanged_workspace_has_no_patch(tmp_path, repo):
    """Neither that of a repository, nor an empty one."""
    assert (await make(tmp_path, lambda tree: None, repo))[:2] == (b"", 0)
    assert (await make(tmp_path, lambda tree: None))[:2] == (b"", 0)


async def test_a_folder_without_git_is_copied(tmp_path):
    """The original stays as it is."""
    source = tmp_path / "plain"
    source.mkdir()
    (source / "a.txt").write_text("a\n")
    patch, count, _ = await make(tmp_path, lambda tree: (tree / "a.txt").write_text("b\n"), source)
    assert (count, (source / "a.txt").read_text()) == (1, "a\n")
    assert b"-a\n+b\n" in patch


async def test_an_empty_workspace_has_a_patch_of_what_was_made(tmp_path):
    """Without any repository."""
    patch, count, _ = await make(tmp_path, lambda tree: (tree / "a.txt").write_text("b\n"))
    assert count == 1
    assert b"new file mode" in patch


async def test_a_url_is_cloned(tmp_path, repo):
    """A URL works on every machine."""
    change = lambda tree: (tree / "text.txt").write_text("x\n")  # noqa: E731
    _, count, _ = await make(tmp_path, change, f"file://{repo}", "first")
    assert count == 1


@pytest.mark.parametrize(
    ("source", "ref", "reason"),
    [
        ("missing", "", "There is no repository"),
        ("repo", "missing", "has no commit 'missing'"),
        ("plain", "main", "not the root of a Git repository"),
        ("file:///missing/repository", "", "git clone failed"),
    ],
)
async def test_what_does_not_exist_is_named(tmp_path, repo, source, ref, reason):
    """The repository, or the ref."""
    (tmp_path / "plain").mkdir()
    place = source if "://" in source else tmp_path / source
    with pytest.raises(WorkspaceError, match=reason):
        await make(tmp_path, lambda tree: None, place, ref)


async def test_no_program_that_the_agent_configured_runs(tmp_path, repo):
    """The patch is made outside of the sandbox."""
    mark = tmp_path / "ran"

    def attack(tree):
        program = tree / "evil.sh"
        program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
        program.chmod(0o755)
        inner = tree / "inner"
        inner.mkdir()
        git(inner, "init", "-q")
        (inner / "f").write_text("f")
        git(inner, "add", "f")
        git(inner, "commit", "-qm", "f")
        for place in (tree, inner):
            (place / ".gitattributes").write_text("* filter=evil diff=evil\n")
            for name in ("core.fsmonitor", "filter.evil.clean", "diff.evil.textconv"):
                git(place, "config", name, str(program))
            git(place, "config", "diff.evil.command", str(program))
            git(place, "config", "core.hooksPath", str(tree))
        (tree / "post-index-change").symlink_to("evil.sh")
        (inner / "f").write_text("g")

    _, count, _ = await make(tmp_path, attack, repo)
    assert count >= 3
    assert not mark.exists()


async def test_a_submodule_of_the_repository_runs_nothing(tmp_path, repo):
    """Git would run `git status` in a submodule that its index names."""
    inner = tmp_path / "inner"
    git(tmp_path, "clone", "-q", str(repo), str(inner))
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    git(repo, "commit", "-qm", "sub")
    mark = tmp_path / "ran"

    def attack(tree):
        git(tmp_path, "clone", "-q", str(inner), str(tree / "sub"))
        program = tree / "evil.sh"
        program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
        program.chmod(0o755)
        git(tree / "sub", "config", "core.fsmonitor", str(program))
        git(tree / "sub", "config", "filter.evil.clean", str(program))
        (tree / "sub" / ".gitattributes").write_text("* filter=evil\n")
        (tree / "sub" / "text.txt").write_text("changed\n")

    _, count, _ = await make(tmp_path, attack, repo)
    assert count >= 1
    assert not mark.exists()


async def test_read_only_folders_can_be_removed(tmp_path):
    """Package managers make such folders."""

    def protect(tree):
        (tree / "a").mkdir()
        (tree / "a" / "b").write_text("b")
        (tree / "a").chmod(0o500)

    environ = dict(os.environ)
    async with Warden() as warden:
        workspace = TaskWorkspace(tmp_path / "work", warden, environ)
        await workspace.create("", "", {}, tmp_path)
        protect(workspace.tree)
        await workspace.remove()
    assert not (tmp_path / "work").exists()
