"""What is typed at a question of an agent's."""

import msgspec
import pytest
from hilum import UsageError
from hilum_cli.questions import describe, read
from hilum_view import Question

OPTIONS = ("first", "second", "third")
ONE = Question(id="q", agent="main", call_id="c", question="Which?", options=OPTIONS)
MANY = Question(
    id="q", agent="helper\x1b", call_id="c", question="Which?", options=OPTIONS, multiple=True
)
FREE = Question(id="q", agent="main", call_id="c", question="Why?")


@pytest.mark.parametrize(
    ("asked", "typed", "answers"),
    [
        (ONE, "2\n", ("second",)),
        (ONE, " 3 ", ("third",)),
        (ONE, "\n", ("first",)),
        (ONE, "\x04", ()),
        (ONE, "second, but quickly\n", ("second, but quickly",)),
        (ONE, "2nd\n", ("2nd",)),
        (ONE, "-1\n", ("-1",)),
        (MANY, "1,3\n", ("first", "third")),
        (MANY, "3 1 \n", ("third", "first")),
        (MANY, "\n", ("first",)),
        (FREE, "7\n", ("7",)),
        (FREE, "\n", ()),
        (FREE, "\x04", ()),
    ],
)
def test_what_is_typed_is_numbers_or_a_text(asked, typed, answers):
    assert read(asked, typed) == answers


@pytest.mark.parametrize("typed", ["0", "4", "1,4", "999"])
def test_a_number_that_no_option_has_is_asked_for_again(typed):
    with pytest.raises(UsageError, match="from 1 to 3"):
        read(MANY, typed)


def test_a_question_says_who_asks_and_what_can_be_typed():
    assert describe(ONE, "5 min", 200) == (
        "\n── The agent asks:\n   Which?\n   1. first\n   2. second\n   3. third\n"
        "Type a number, or an answer of your own. Enter, or no answer in 5 min, takes 1."
    )
    assert "The agent helper\\x1b asks" in describe(MANY, "1 s", 200)
    assert describe(msgspec.structs.replace(ONE, call_id=""), "1 s", 200).startswith(
        "\n── hilum asks:"
    )
    assert "one or more numbers (1,2)" in describe(MANY, "1 s", 200)
    assert describe(FREE, "9 s", 200).endswith(
        "Enter, or no answer in 9 s, leaves it to the agent."
    )
