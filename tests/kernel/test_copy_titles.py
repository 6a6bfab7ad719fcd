"""Copies of sessions have titles that tell them apart."""

import pytest
from hilum.copy_titles import MAX_TITLE, name_copy


@pytest.mark.parametrize(
    ("title", "taken", "next_prompt", "expected"),
    [
        ("Mend add()", [], 0, "Mend add() (copy)"),
        ("Mend add()", ["Mend add() (copy)"], 0, "Mend add() (copy 2)"),
        ("Mend add() (copy 2)", ["Mend add() (copy)"], 0, "Mend add() (copy 2)"),
        ("Mend add() (copy)", [], 3, "Mend add() (from prompt 3)"),
        ("A", ["A (from prompt 3)"], 3, "A (from prompt 3, copy 2)"),
        ("A (from prompt 3, copy 2)", ["A (copy)"], 0, "A (copy 2)"),
        ("Explain x (copy of y)", [], 0, "Explain x (copy of y) (copy)"),
    ],
)
def test_a_copy_is_named_after_its_source(title, taken, next_prompt, expected):
    assert name_copy(title, taken, next_prompt=next_prompt) == expected


def test_a_long_title_is_shortened_before_its_mark():
    taken = {name_copy("word " * 16, [])}
    title = name_copy("word " * 16, taken)
    assert title.endswith("… (copy 2)")
    assert len(title) == MAX_TITLE


async def test_copies_and_rewound_sessions_are_named(bench):
    kit = await bench(answers=["One.", "Two."])
    await kit.run("First")
    before = kit.session.journal.last
    await kit.run("Second")
    fork = kit.kernel.fork
    copies = [
        await fork(kit.session.id),
        await fork(kit.session.id),
        await fork(kit.session.id, before),
        await fork(kit.session.id, before),
        await fork(kit.session.id, kit.session.journal.last),
    ]
    titles = [(await kit.kernel.store.info(copy)).title for copy in copies]
    assert titles == [
        "First (copy)",
        "First (copy 2)",
        "First (from prompt 2)",
        "First (from prompt 2, copy 2)",
        "First (copy 3)",
    ]


async def test_a_copy_of_an_unused_session_has_no_title(bench):
    kit = await bench()
    copy = await kit.kernel.fork(kit.session.id)
    assert (await kit.kernel.store.info(copy)).title == ""
