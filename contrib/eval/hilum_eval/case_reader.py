"""Reads cases and suites of cases from folders."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import yaml
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

from hilum_eval.case import Case, Say
from hilum_eval.converter import structure

CASE_FILE = "case.yaml"
FILES = "files"
VERIFIER = "verify.py"
# Folders beside a case that change neither its task nor its verification.
_NOT_PART_OF_CASE = frozenset({"misses", "__pycache__"})
_SUITE = Path(__file__).parent / "suite"


def read_suite(folder: Path | None = None) -> list[Case]:
    """Return the cases of a suite, ordered by their ids.

    Args:
        folder: A folder whose sub-folders are cases; the built-in suite by default.

    Raises:
        UsageError: The folder does not exist or contains no case, or a case has a mistake.
    """
    folder = folder or _SUITE
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {folder}.",
            code=E_BAD_ARGS,
            hint="Pass a folder of cases, or create one with `hilum eval init DIR`.",
        )
    cases = [read_case(path.parent) for path in sorted(folder.glob(f"*/{CASE_FILE}"))]
    if not cases:
        raise UsageError(
            f"{folder} contains no case.",
            code=E_BAD_ARGS,
            hint=f"A case is a sub-folder with the file {CASE_FILE}.",
        )
    by_id: dict[str, Case] = {}
    for case in cases:
        if case.id in by_id:
            raise UsageError(
                f"{case.folder / CASE_FILE}: id: {case.id!r} is also the id of"
                f" {by_id[case.id].folder}.",
                code=E_BAD_ARGS,
                hint="Give each case an id of its own.",
            )
        by_id[case.id] = case
    return sorted(cases, key=lambda case: case.id)


def list_case_folders(folder: Path) -> list[Path]:
    """Return folders that contain a case and all other cases of its suite, and nothing else.

    Args:
        folder: The folder of the case.
    """
    neighbours = list(folder.parent.iterdir())
    cases = [path for path in neighbours if (path / CASE_FILE).is_file()]
    return [folder.parent] if len(cases) == len(neighbours) else cases


def read_case(folder: Path) -> Case:
    """Return the case in a folder.

    Raises:
        UsageError: The file ``case.yaml`` cannot be read, or has a mistake; the message names the
            file and the key.
    """
    path = folder / CASE_FILE
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            code=E_BAD_ARGS,
            hint="A case is a folder with this file.",
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{path} is not valid YAML: {reason}.", code=E_BAD_ARGS, hint="Correct the file."
        ) from None
    if isinstance(data, dict) and "folder" in data:
        # A field of a case, but no key of its file.
        raise UsageError(
            f"{path}: unknown key 'folder'.",
            code=E_BAD_ARGS,
            hint="docs/eval.md describes the files.",
        )
    case = attrs.evolve(structure(data, Case, str(path)), folder=folder.resolve())
    problem = _find_problem(case)
    if problem:
        raise UsageError(
            f"{path}: {problem}.", code=E_BAD_ARGS, hint="docs/eval.md describes the files."
        )
    return case


def compute_digest(case: Case) -> str:
    """Return a digest of everything in the folder of a case that can change its results.

    Raises:
        OSError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for path in _list_files(case.folder):
        name = path.relative_to(case.folder).as_posix()
        if path.is_symlink():
            content = os.fsencode(os.readlink(path))
        else:
            content = path.read_bytes()
        executable = os.access(path, os.X_OK)
        digest.update(f"{name}\0{executable}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _list_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _NOT_PART_OF_CASE:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _list_files(path)
        elif path.is_symlink() or path.is_file():
            yield path
        else:
            # Reading a named pipe would wait for ever.
            raise OSError(errno.EINVAL, "Neither a file, a folder nor a link", str(path))


def _find_problem(case: Case) -> str:
    """Return what is wrong with a case whose fields have the right types; empty if nothing."""
    if not case.id or set(case.id) - _ID_CHARACTERS:
        return f"id: {case.id!r} must consist of letters, digits, '-', '_' and '.'"
    if not case.turns:
        return "turns: at least one prompt is needed"
    if not case.dimensions:
        return "dimensions: at least one is needed"
    if case.expected_turns < 1:
        return f"expected_turns: {case.expected_turns} must be at least 1"
    for name in ("timeout", "verify_timeout"):
        # Neither negative nor NaN or infinite, for which no time limit can be set.
        if not 0 < getattr(case, name) < math.inf:
            return f"{name}: must be a number of seconds, more than 0"
    for number, turn in enumerate(case.turns):
        if not turn.prompt.strip():
            return f"turns[{number}].prompt: is empty"
        if turn.steps and not isinstance(turn.steps[-1], Say):
            return f"turns[{number}].steps: the last step must be `say`"
    for number, decision in enumerate(case.decisions):
        try:
            re.compile(decision.when)
        except re.error as error:
            return f"decisions[{number}].when: is no regular expression ({error})"
    if not case.verify and not (case.folder / VERIFIER).is_file():
        return f"verify: neither this command nor the file {VERIFIER} exists"
    return ""


_ID_CHARACTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """A YAML loader that rejects a key that a mapping has twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        """Return a mapping.

        Raises:
            yaml.YAMLError: The mapping has a key twice.
        """
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen and isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key_node.value!r} occurs twice", key_node.start_mark
                )
            if isinstance(key_node, yaml.ScalarNode):
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)  # type: ignore[no-any-return]
