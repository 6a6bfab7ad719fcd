"""The small version of tests/benchmarks/edits.py: slips over files of this repository, and none of
them goes wrong.
"""

import importlib.util
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hilum_files import Edit, EditError, apply_edit
from hypothesis import given
from hypothesis import strategies as st

REPOSITORY = Path(__file__).resolve().parents[3]
BENCHMARK = REPOSITORY / "tests" / "benchmarks" / "edits.py"
ROOTS = ("contrib", "docs", "kernel", "plugins", "tests")


@pytest.fixture(scope="module")
def slips() -> ModuleType:
    """The benchmark as a module."""
    spec = importlib.util.spec_from_file_location("edit_slips_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_slips_over_real_files(slips: ModuleType) -> None:
    """No edit is wrong, what can be recovered safely is, and what must be refused is.

    The files are this repository's: the same on every machine.
    """
    rng = random.Random(20261120)
    cases = slips.gather(
        rng, 120, roots=[str(REPOSITORY / name) for name in ROOTS], repository=False
    )
    results = slips.measure(rng, cases, 40)
    wrong = [
        (name, case)
        for name, (_, _, _, bad) in results.items()
        for case in bad
        if case.kind in ("wrong", "changed")
    ]
    assert not wrong, wrong[0]
    right = sum(counts["right"] for group, counts, _, _ in results.values() if group == "apply")
    tried = sum(counts.total() for group, counts, _, _ in results.values() if group == "apply")
    assert tried > 500
    assert right >= 0.95 * tried
    assert all(
        counts["right"] == 0 for group, counts, _, _ in results.values() if group == "refuse"
    )


def test_big_files_are_edited_in_time(slips: ModuleType, trials: Callable[[int, int], int]) -> None:
    """Fifty thousand lines, alike or all changed, take at most 2 s on average, and fewer lines
    proportionally less.
    """
    size = trials(4_000, 50_000)
    begun = time.process_time()
    names = [name for name, _ in slips.worst(size)]
    assert (time.process_time() - begun) / len(names) < 2 * size / 50_000


LINE = st.sampled_from(
    ["", " ", "a", "b", "  a", "\tb", "if x:", '"q  q"', "a b", "“a”", "1", "x = 1", "}", "a\\nb"]
)
LINES = st.lists(LINE, min_size=1, max_size=6)
ENDS = st.sampled_from(["\n", "\r\n"])


def outcome(content: str, old: str, new: str) -> Edit | EditError:
    """The edit, or why not."""
    try:
        return apply_edit(content, old, new)
    except EditError as error:
        return error


@given(LINES, LINES, LINES, LINES, ENDS)
def test_what_is_outside_of_the_place_never_changes(
    before: list[str], old: list[str], new: list[str], after: list[str], end: str
) -> None:
    """Whatever is asked, the lines around keep their bytes.

    And what is there twice is never edited.
    """
    content = end.join(["START", *before, *old, *after, "END"])
    edit = outcome(content, "\n".join(old), "\n".join(new))
    if isinstance(edit, EditError):
        assert edit.code in ("E_NOT_FOUND", "E_MULTIPLE_MATCHES", "E_BAD_ARGS")
        assert edit.count == (len(edit.lines) if edit.code == "E_MULTIPLE_MATCHES" else 0)
        return
    lines, made = content.split(end), edit.content.split(end)
    assert made[: edit.removed.start - 1] == lines[: edit.removed.start - 1]
    assert made[edit.added.stop - 1 :] == lines[edit.removed.stop - 1 :]
    if edit.match == "exact" and "\n".join(old).strip():
        assert content.replace(end, "\n").count("\n".join(old)) == 1


@given(st.text(max_size=30), st.text(max_size=10), st.text(max_size=10))
def test_any_text_gives_an_edit_or_a_refusal(content: str, old: str, new: str) -> None:
    """No text makes it fail otherwise."""
    edit = outcome(content + old, old, new)
    assert edit.message if isinstance(edit, EditError) else isinstance(edit.content, str)
