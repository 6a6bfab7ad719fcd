"""What the user reads after the sandbox refused a write of a command that they typed."""

import subprocess

import hilum_guard
import pytest
from hilum import Confinement
from hilum.testing import open_bench


@pytest.fixture
def repository(tmp_path):
    """A Git repository."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


@pytest.fixture
async def confinement(repository):
    """The service of a session in a Git repository."""
    async with open_bench(hilum_guard, workspace=repository) as bench:
        service = bench.session.plugin(Confinement)
        assert service is not None
        if not service.describe_confinement():
            pytest.skip("there is no sandbox on this system")
        # The sandbox finds the protected paths before the first command.
        await bench.session.processes.run(["true"])
        yield service


@pytest.mark.parametrize(
    "output",
    [
        "bash: line 1: .git/hooks/pre-commit: Read-only file system\n",
        "cp: cannot create regular file '.git/hooks/x': Permission denied",
    ],
)
async def test_a_protected_path_is_named(confinement, output):
    text = confinement.explain_refusal(output)
    assert text.startswith("The sandbox protects .git/hooks from commands, because Git")
    assert "in another terminal" in text


@pytest.mark.parametrize(
    "output",
    [
        "fatal: renaming '.git/hooks/x' failed: Invalid cross-device link\n",
        "Error: EXDEV: cross-device link not permitted, rename 'a' -> '.git/hooks/x'",
    ],
)
async def test_a_rename_across_mounts_is_explained(confinement, output):
    text = confinement.explain_refusal(output)
    assert "cannot be renamed into or out of the folder of .git/hooks" in text
    assert "`mv`, which copies it" in text


async def test_a_folder_outside_is_explained(confinement):
    text = confinement.explain_refusal("touch: cannot touch '/usr/x': Read-only file system")
    assert text.startswith("The sandbox lets commands write only to this project")
    assert "guard.writable" in text


@pytest.mark.parametrize(
    "output", ["", "ls: cannot access 'x': No such file", "cat: /etc/shadow: Permission denied"]
)
async def test_other_failures_are_not_blamed_on_the_sandbox(confinement, output):
    assert confinement.explain_refusal(output) == ""


async def test_without_a_sandbox_nothing_is_explained(tmp_path):
    settings = {"guard.sandbox": "off"}
    async with open_bench(hilum_guard, workspace=tmp_path, settings=settings) as bench:
        service = bench.session.plugin(Confinement)
        assert service.explain_refusal("touch: cannot touch 'x': Read-only file system") == ""
