"""A project's settings narrow what costs money, time or privacy, and never widen it.

What is ignored is reported.
"""

import json
import runpy
from pathlib import Path

import pytest
from hilum.settings import App, Info, members, section, setting
from hypothesis import given
from hypothesis import strategies as st


@section("cost")
class Cost:
    """Settings of each kind."""

    turns: int = setting(default=25, project="lower", help="Turns.")
    tokens: int | None = setting(default=None, project="lower", help="Tokens.")
    seconds: float = setting(default=10.0, project="lower", help="Seconds.")
    search: bool = setting(default=True, project="lower", help="Search.")
    robots: bool = setting(default=True, project="higher", help="Robots.")
    model: str = setting(default="", project="user", help="Model.")
    fallback: list[str] = setting(factory=list, project="user", help="Fallback.")
    roles: dict[str, str] = setting(factory=dict, project="user", help="Roles.")


APP = App("probe")


def load(tmp_path, user, project, **more):
    """Read what a user's and a project's file say."""
    for folder, text in ((tmp_path / "user", user), (tmp_path / "project" / ".probe", project)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.toml").write_text(text)
    environ = {"PROBE_CONFIG": str(tmp_path / "user")}
    return APP.load([Cost], workspace=tmp_path / "project", environ=environ, **more)


@pytest.mark.parametrize(
    ("key", "user", "project", "holds", "ignored"),
    [
        ("turns", None, 5, 5, False),
        ("turns", None, 500, 25, True),
        ("turns", 50, 40, 40, False),
        ("turns", 10, 20, 10, True),
        ("turns", 10, 10, 10, False),
        ("tokens", None, 1000, 1000, False),
        ("tokens", 1000, 1001, 1000, True),
        ("seconds", None, float("inf"), 10.0, True),
        ("seconds", None, float("nan"), 10.0, True),
        ("search", None, False, False, False),
        ("search", False, True, False, True),
        ("robots", None, False, True, True),
        ("robots", False, True, True, False),
        ("model", None, "dear/model", "", True),
        ("model", "my/model", "dear/model", "my/model", True),
        ("fallback", ["a/b"], ["dear/model", "x/y"], ["a/b"], True),
        ("fallback", ["a/b"], [], ["a/b"], True),
    ],
)
def test_a_project_narrows_and_never_widens(tmp_path, key, user, project, holds, ignored):
    """The message names file, key and value, and says how to use it all the same."""
    mine = "" if user is None else f"[cost]\n{key} = {json.dumps(user)}\n"
    text = str(project) if isinstance(project, float) else json.dumps(project)
    found = load(tmp_path, mine, f"[cost]\n{key} = {text}\n")
    assert getattr(found.get(Cost), key) == holds
    assert len(found.ignored) == ignored
    for sentence in found.ignored:
        assert str(tmp_path / "project" / ".probe" / "settings.toml") in sentence
        assert f"put `cost.{key} = " in sentence


def test_tables_are_ignored_key_by_key(tmp_path):
    """The user's role stays, and the project's new one is not added."""
    found = load(
        tmp_path, '[cost.roles]\nfast = "a/b"\n', '[cost.roles]\nfast = "x/y"\ndefault = "x/z"\n'
    )
    assert found.get(Cost).roles == {"fast": "a/b"}
    assert len(found.ignored) == 2


def test_what_is_ignored_counts_neither_as_a_mistake_nor_as_a_source(tmp_path):
    """The command line and the environment are the user's: they may widen."""
    found = load(tmp_path, "", "[cost]\nturns = 500\n", overrides={"cost.turns": 400})
    assert found.problems == []
    assert found.get(Cost).turns == 400
    row = next(
        row
        for row in load(tmp_path, "", "[cost]\nturns = 500\n").explained
        if row.key == "cost.turns"
    )
    assert (row.value, row.source) == (25, "default")


@given(user=st.one_of(st.none(), st.integers(1, 100)), project=st.integers(1, 100))
def test_the_lower_of_both_holds(tmp_path_factory, user, project):
    """For every pair of limits."""
    mine = "" if user is None else f"[cost]\nturns = {user}\n"
    found = load(tmp_path_factory.getbasetemp(), mine, f"[cost]\nturns = {project}\n")
    assert found.get(Cost).turns == min(25 if user is None else user, project)


# What a project may set as it likes: it costs nothing and opens nothing. Whoever adds a setting
# decides it here.
FREE = frozenset(
    """agents.by_name context.timeout context.git_timeout context.search_timeout lint.after_edit lint.background
    lint.timeout lint.off lsp.off plan.remind_after search.timeout shell.when_late""".split()
)


def test_every_setting_of_the_program_is_classified():
    """Only those of the list above are a project's to set freely."""
    pages = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "make_settings.py"))
    found = set()

    def walk(path, kind, info):
        inside = members(kind, ["NAME"], info)
        if inside:
            for name, (inner, own) in inside.items():
                walk(f"{path}.{name}".strip("."), inner, own)
        elif info.project is True and not info.secret:
            found.add(path)

    for _, cls in pages["sections"]():
        walk(cls.__section__, cls, Info())
    assert found == FREE
