"""Checks an instance: applies the test patch to what the agent made, and runs both lists of tests.

This file becomes the ``verify.py`` of each instance, so it imports only the standard library.
"""

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

CASE = Path(__file__).parent
FILES = CASE / "files"
# The repository of the agent is not used: its settings could start programs.
GIT_ENVIRON = {
    "PATH": os.environ.get("PATH", os.defpath),
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Developer",
    "GIT_AUTHOR_EMAIL": "developer@example.com",
    "GIT_COMMITTER_NAME": "Developer",
    "GIT_COMMITTER_EMAIL": "developer@example.com",
}
PYTEST_LINE = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (.+?)(?: - .*)?$")
UNITTEST_LINE = re.compile(r"^(.+?) \.\.\. (ok|FAIL|ERROR|skipped|expected failure)")
MAX_PATCH = 1_000_000
# Files that decide which tests run, and how their results are reported.
TEST_SETTINGS = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini"})
# Files of which a part has this effect, with the names of that part.
PARTLY_TEST_SETTINGS = {"pyproject.toml": ("tool", "pytest"), "setup.cfg": ("tool:pytest",)}
# Modules in the workspace that would take the place of those that run the tests.
SHADOWED = frozenset({*sys.stdlib_module_names, "pytest", "_pytest", "pluggy", "iniconfig"})
IGNORED_FOLDERS = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__"})
# Exit codes of a shell whose command does not exist or cannot be run.
NOT_STARTED = (126, 127)


def run_git(folder: Path, tree: Path, *arguments: str, patch: str = "") -> str:
    """Run git with a repository outside the workspace, and return its output."""
    command = ["git", f"--git-dir={folder}", f"--work-tree={tree}", *arguments]
    done = subprocess.run(
        command, cwd=tree, env=GIT_ENVIRON, input=patch.encode(), capture_output=True, check=False
    )
    if done.returncode:
        # An exception: whether the agent is the reason is found out with the untouched files.
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"git {arguments[0]} failed: {lines[0] if lines else 'no reason'}")
    return done.stdout.decode(errors="replace")


def make_patch() -> str:
    """Return what the agent changed, as a patch."""
    with tempfile.TemporaryDirectory() as folder:
        git = Path(folder)
        run_git(git, FILES, "init", "-q")
        run_git(git, FILES, "add", "-A", "-f")
        run_git(git, FILES, "commit", "-q", "--allow-empty", "-m", "base")
        run_git(git, Path.cwd(), "add", "-A")
        options = ("--cached", "--binary", "--no-ext-diff", "--no-textconv", "--no-renames")
        return run_git(git, Path.cwd(), "diff", *options)


def apply_tests(patch: str) -> None:
    """Reset the files of the test patch, and apply it; what the agent did to them does not count."""
    with tempfile.TemporaryDirectory() as folder:
        git = Path(folder)
        run_git(git, Path.cwd(), "init", "-q")
        listed = run_git(git, Path.cwd(), "apply", "--numstat", "-z", "-", patch=patch)
        names = [each.split("\t", 2)[-1] for each in listed.split("\0") if each]
        workspace = Path.cwd().resolve()
        for name in names:
            target = Path(name)
            if not target.parent.resolve().is_relative_to(workspace):
                sys.stderr.write(f"{name} leads out of the workspace\n")
                raise SystemExit(1)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)
            original = FILES / name
            if original.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(original, target, follow_symlinks=False)
        run_git(git, Path.cwd(), "apply", "--whitespace=nowarn", "-", patch=patch)


def restore_test_settings(solution: str) -> list[str]:
    """Restore what decides how tests run, and remove modules in the place of those of the tests.

    Args:
        solution: The published solution; the files that it changes are left alone.

    Returns:
        The files that were restored or removed.
    """
    found: list[str] = []
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if name not in IGNORED_FOLDERS]
        for name in names:
            path = os.path.normpath(os.path.join(folder, name))
            if name in TEST_SETTINGS and not is_same(Path(path), FILES / path):
                found.append(path)
            if name in PARTLY_TEST_SETTINGS and not has_same_part(Path(path), FILES / path):
                found.append(path)
    for original in FILES.rglob("*"):
        relative = original.relative_to(FILES)
        deciding = TEST_SETTINGS | PARTLY_TEST_SETTINGS.keys()
        if original.name in deciding and not os.path.lexists(relative):
            found.append(str(relative))
    for name in os.listdir("."):
        if name.partition(".")[0] in SHADOWED and not os.path.lexists(FILES / name):
            found.append(name)
    changed = sorted(path for path in set(found) if f" b/{path}\n" not in solution)
    for name in changed:
        target = Path(name)
        if not target.parent.resolve().is_relative_to(Path.cwd().resolve()):
            continue  # a folder became a link that leads out of the workspace
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        if (FILES / name).is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(FILES / name, target, follow_symlinks=False)
    return changed


def is_same(path: Path, original: Path) -> bool:
    """Return whether two regular files have the same content."""
    if path.is_symlink() or not path.is_file() or not original.is_file():
        return False
    return path.read_bytes() == original.read_bytes()


def has_same_part(path: Path, original: Path) -> bool:
    """Return whether two files have the same options of pytest."""
    if is_same(path, original):
        return True
    if path.is_symlink() or not path.is_file():
        return False
    try:
        return read_part(path) == read_part(original)
    except (OSError, ValueError, configparser.Error):
        # What pytest makes of a file that cannot be read is unknown.
        return False


def read_part(path: Path) -> object:
    """Return the options of pytest in a file; ``None`` if there are none.

    Raises:
        ValueError: The file is not TOML or not text.
        configparser.Error: The file is not in the format of ``setup.cfg``.
    """
    if not path.exists():
        return None
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        part: object = tomllib.loads(text)
        for name in PARTLY_TEST_SETTINGS[path.name]:
            part = part.get(name) if isinstance(part, dict) else None
        return part
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    [section] = PARTLY_TEST_SETTINGS[path.name]
    return dict(parser[section]) if parser.has_section(section) else None


def run_tests(command: str, tests: list[str]) -> dict[str, bool]:
    """Return whether tests passed, by name."""
    files = dict.fromkeys(test.partition("::")[0] for test in tests if "::" in test)
    done = subprocess.run(
        ["/bin/sh", "-c", f'{command} "$@"', "sh", *files],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    lines = output.strip().splitlines()
    if done.returncode in NOT_STARTED:
        raise RuntimeError(f"the test command cannot be started: {lines[-1] if lines else command}")
    passed: dict[str, bool] = {}
    for line in lines:
        found = PYTEST_LINE.match(line)
        if found:
            passed[found[2]] = found[1] in ("PASSED", "XFAIL")
            continue
        found = UNITTEST_LINE.match(line)
        if found:
            passed[found[1]] = found[2] in ("ok", "expected failure")
    if not passed and done.returncode:
        last = lines[-1] if lines else "it wrote nothing"
        raise RuntimeError(f"the test command reported no test: {last}")
    return passed


def main() -> None:
    """Print the verdict."""
    instance = json.loads((CASE / "instance.json").read_text("utf-8"))
    patch = make_patch()
    restored = restore_test_settings(instance["patch"])
    apply_tests(instance["test_patch"])
    lists = {name: instance[name] for name in ("fail_to_pass", "pass_to_pass")}
    passed = run_tests(instance["test_command"], [*lists["fail_to_pass"], *lists["pass_to_pass"]])
    checks: dict[str, object] = {}
    failed: list[str] = []
    for name, tests in lists.items():
        good = [test for test in tests if passed.get(test)]
        checks[name] = f"{len(good)} of {len(tests)}"
        failed += [test for test in tests if test not in good]
    if restored:
        checks["restored"] = restored
    checks["model_patch"] = patch if len(patch) <= MAX_PATCH else ""
    reason = f"not passed: {', '.join(failed[:5])}" if failed else ""
    verdict = {"completion": 0 if failed else 10, "reason": reason, "checks": checks}
    print(json.dumps(verdict))


if __name__ == "__main__":
    main()
