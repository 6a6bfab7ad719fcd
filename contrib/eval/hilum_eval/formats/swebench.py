"""Converts instances in the format of SWE-bench to cases, and writes predictions in its format.

An instance becomes a case folder: the files of the repository at the base commit, and a verifier that
applies the test patch and runs the tests. The repositories are local clones, because nothing is
downloaded. Everything in the file is taken as hostile: names of folders, commits and patches.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import attrs
import trio
import yaml
from hilum import UsageError
from hilum.errors import E_BAD_ARGS
from hilum.processes import Command, Completed, Warden

from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.case_reader import CASE_FILE, FILES, VERIFIER

INSTANCE_FILE = "instance.json"
MODEL_PATCH = "model_patch"
"""The check of an attempt that contains the patch that the agent made."""
DEFAULT_TEST_COMMAND = "python3 -m pytest -rA -q -p no:cacheprovider"
_VERIFIER = Path(__file__).parent / "swebench_verify.py"
_REPO = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
# The lines of a patch that name files.
_NAMED = re.compile(r"^(?:---|\+\+\+|rename (?:from|to)|copy (?:from|to)) (.+?)\t?$", re.MULTILINE)
_NEEDED = ("instance_id", "repo", "base_commit", "problem_statement", "test_patch")
_ID_CHARACTERS = re.compile(r"[^\w.-]", re.ASCII)


@attrs.frozen(kw_only=True)
class Instance:
    """A task of SWE-bench.

    Args:
        instance_id: Its published name.
        repo: The repository, as ``owner/name``.
        base_commit: The commit to begin with.
        problem_statement: The issue, which is the prompt.
        test_patch: The patch that adds the tests.
        fail_to_pass: Tests that fail before and must pass afterwards.
        pass_to_pass: Tests that must still pass.
        patch: The published solution; empty if there is none.
    """

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    patch: str = ""

    @property
    def case_id(self) -> str:
        """The id of the case: the published name without characters that a folder must not have."""
        return _ID_CHARACTERS.sub("__", self.instance_id).lstrip(".-") or "instance"


def read_instances(path: Path) -> list[Instance]:
    """Return the instances in a JSONL file.

    Raises:
        UsageError: The file cannot be read, or a line has a mistake; the message names it.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _error(f"{path} cannot be read: {error}") from None
    instances: dict[str, Instance] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            raise _error(f"{where}: is not valid JSON") from None
        instance = _read_instance(data, where)
        if instance.case_id in instances:
            raise _error(f"{where}: the instance {instance.instance_id!r} occurs twice")
        instances[instance.case_id] = instance
    if not instances:
        raise _error(f"{path} contains no instance")
    return list(instances.values())


def _read_instance(data: Any, where: str) -> Instance:
    if not isinstance(data, dict):
        raise _error(f"{where}: is not a JSON object")
    for name in _NEEDED:
        if not isinstance(data.get(name), str):
            raise _error(f"{where}: {name}: a text is needed")
    instance = Instance(
        **{name: data[name] for name in _NEEDED},
        fail_to_pass=_read_tests(data, "FAIL_TO_PASS", where),
        pass_to_pass=_read_tests(data, "PASS_TO_PASS", where),
        patch=data.get("patch") or "",
    )
    if not _REPO.fullmatch(instance.repo):
        raise _error(f"{where}: repo: {instance.repo!r} is not OWNER/NAME")
    if not _COMMIT.fullmatch(instance.base_commit):
        raise _error(f"{where}: base_commit: {instance.base_commit!r} is no commit")
    if not instance.fail_to_pass:
        raise _error(f"{where}: FAIL_TO_PASS: at least one test is needed")
    for name in ("test_patch", "patch"):
        wrong = find_bad_path(getattr(instance, name))
        if wrong:
            raise _error(f"{where}: {name}: the path {wrong!r} leads out of the repository")
    return instance


def _read_tests(data: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    value = data.get(name, [])
    # The published files contain the list as a text.
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _error(f"{where}: {name}: a list of tests is needed")
    return tuple(value)


def find_bad_path(patch: str) -> str:
    """Return a path of a patch that leads out of the repository or into its ``.git``; or nothing."""
    names: list[str] = _NAMED.findall(patch)
    for name in names:
        bare = name.strip().strip('"')
        if bare == "/dev/null":
            continue
        parts = bare.replace("\\", "/").split("/")
        if bare.startswith("/") or ".." in parts or ".git" in {part.lower() for part in parts}:
            return bare
    return ""


async def convert(
    instances: Sequence[Instance],
    repos: Path,
    suite: Path,
    *,
    setup: Sequence[str] = (),
    test_command: str = DEFAULT_TEST_COMMAND,
    timeout: float = 1800.0,
) -> None:
    """Write the instances as a suite of cases.

    Args:
        instances: The instances.
        repos: The folder with the clones: ``owner/name``, ``owner__name`` or ``name``, also as
            mirrors that end with ``.git``.
        suite: The folder for the cases, which is replaced.
        setup: Commands that prepare each workspace.
        test_command: The command that runs tests; the files of the tests are appended.
        timeout: Time limit of an agent, in seconds.

    Raises:
        UsageError: A clone or a commit is missing, or a patch cannot be applied.
    """
    partial = suite.with_name(f"{suite.name}.part")
    await trio.to_thread.run_sync(_clear, partial)
    async with Warden() as warden:
        for instance in instances:
            folder = partial / instance.case_id
            (folder / FILES).mkdir(parents=True)
            clone = _find_clone(instance, repos)
            await _check_out(warden, clone, instance, folder)
            steps = await _make_steps(warden, instance, folder) if instance.patch else []
            _write_case(instance, folder, steps, setup, test_command, timeout)
    await trio.to_thread.run_sync(_clear, suite)
    shutil.rmtree(suite)
    partial.rename(suite)


def _clear(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _find_clone(instance: Instance, repos: Path) -> Path:
    owner, _, name = instance.repo.partition("/")
    for candidate in (f"{owner}/{name}", f"{owner}__{name}", name):
        for ending in ("", ".git"):
            path = repos / f"{candidate}{ending}"
            if (path / ".git").exists() or (path / "HEAD").is_file():
                return path
    raise UsageError(
        f"There is no clone of {instance.repo} in {repos}.",
        code=E_BAD_ARGS,
        hint=f"Clone it to {repos / f'{owner}__{name}'}, or pass another folder: --repos DIR.",
    )


async def _check_out(warden: Warden, clone: Path, instance: Instance, folder: Path) -> None:
    """Write the files of the base commit, without touching the clone."""
    index = {"GIT_INDEX_FILE": str(folder / "index")}
    prefix = f"--prefix={folder / FILES}/"
    commit = f"{instance.base_commit}^{{tree}}"
    for arguments in (("read-tree", commit), ("checkout-index", "-a", "-f", prefix)):
        done = await _run_git(warden, arguments, clone, index)
        if done.returncode:
            raise UsageError(
                f"{instance.instance_id}: the commit {instance.base_commit} cannot be checked out"
                f" from {clone}: {done.stderr.decode(errors='replace').strip()}.",
                code=E_BAD_ARGS,
                hint="Fetch the whole history of the repository.",
            )
    (folder / "index").unlink()


async def _make_steps(warden: Warden, instance: Instance, folder: Path) -> list[dict[str, Any]]:
    """Return the published solution as known steps, for the simulated model and ``check``."""
    solved = folder / "solved"
    shutil.copytree(folder / FILES, solved, symlinks=True)
    try:
        await _run_git(warden, ("init", "-q"), solved)
        await _run_git(warden, ("add", "-A", "-f"), solved)
        patch = instance.patch.encode()
        done = await _run_git(warden, ("apply", "--whitespace=nowarn", "-"), solved, input=patch)
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip()
            raise _error(f"{instance.instance_id}: patch cannot be applied: {reason}")
        await _run_git(warden, ("add", "-A", "-N"), solved)
        listed = await _run_git(warden, ("diff", "--name-only", "-z", "--no-renames"), solved)
        steps: list[dict[str, Any]] = []
        for name in filter(None, listed.stdout.decode().split("\0")):
            path = solved / name
            if path.is_file() and not path.is_symlink():
                steps.append({"write": {"path": name, "content": path.read_text("utf-8")}})
            else:
                steps.append({"run": {"command": f"rm -f -- {quote(name)}"}})
        return [*steps, {"say": "The issue is solved."}]
    except UnicodeDecodeError:
        return []  # the solution contains a binary file
    finally:
        shutil.rmtree(solved)


def _write_case(
    instance: Instance,
    folder: Path,
    steps: Sequence[Mapping[str, Any]],
    setup: Sequence[str],
    test_command: str,
    timeout: float,
) -> None:
    turn: dict[str, Any] = {"prompt": instance.problem_statement or "Solve the issue."}
    if steps:
        turn["steps"] = list(steps)
    data = {
        "id": instance.case_id,
        "title": f"{instance.repo}: {instance.instance_id}"[:100],
        "dimensions": ["planning"],
        "expected_turns": max(50, len(steps)),
        "timeout": timeout,
        "verify_timeout": timeout,
        "thresholds": {"completion": 10, "efficiency": 0, "recovery": 0},
        "setup": list(setup),
        "turns": [turn],
        "tags": ["swebench"],
    }
    (folder / CASE_FILE).write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    described = {**attrs.asdict(instance), "test_command": test_command}
    (folder / INSTANCE_FILE).write_text(json.dumps(described))
    shutil.copyfile(_VERIFIER, folder / VERIFIER)


async def _run_git(
    warden: Warden,
    arguments: Sequence[str],
    folder: Path,
    environ: Mapping[str, str] | None = None,
    input: bytes = b"",
) -> Completed:
    fixed = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    env = {"PATH": os.environ.get("PATH", os.defpath), **fixed, **(environ or {})}
    # Clones of other users are common in shared folders.
    argv = ("git", "-c", "safe.directory=*", *arguments)
    return await warden.run(Command(argv, str(folder), env), input=input, limit=50_000_000)


def write_predictions(
    path: Path, arm: Arm, attempts: Iterable[Attempt], names: Mapping[str, str]
) -> None:
    """Write the patches of an arm in the published format of predictions: the first attempt of each.

    Args:
        path: The file.
        arm: The arm.
        attempts: All attempts.
        names: The names of the instances by the ids of the cases.
    """
    model = arm.model or f"simulated/{Path(arm.profile).stem}"
    name = model if arm.agent == "hilum" else f"{arm.name}/{model}"
    lines = []
    for attempt in attempts:
        if attempt.arm != arm.name or attempt.repeat or attempt.case not in names:
            continue
        patch = str(attempt.checks.get(MODEL_PATCH, ""))
        line = {
            "instance_id": names[attempt.case],
            "model_name_or_path": name,
            "model_patch": patch,
        }
        lines.append(json.dumps(line))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _error(message: str) -> UsageError:
    return UsageError(
        f"{message}.", code=E_BAD_ARGS, hint="docs/eval-agents.md describes the format."
    )
