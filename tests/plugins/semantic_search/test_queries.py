"""Which words of a question are searched, and how chunks are ranked by them."""

import pytest
from hilum_semantic_search.query import MAX_ROWS, MAX_WORDS, find_words, make_expression, stem
from hilum_semantic_search.ranking import rank_again
from hilum_semantic_search.store import Found, WordCounts


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Where is the code that retries a request?", ["retries", "request"]),
        ("parse_HTTPHeader", ["parse", "http", "header", "parsehttpheader"]),
        ("what does it do", ["what", "does", "it", "do"]),
        ("sha256", ["sha", "256"]),
        ("重试请求", ["retry", "request", "重试", "试请", "请求"]),
        ("正则表达式", ["regular", "expression", "regex", "正则", "则表", "表达", "达式"]),
        ('" OR * NEAR(a) -x ^', ["near"]),
        ("?!", []),
    ],
)
def test_words_of_a_question(question, words):
    assert find_words(question) == words


def test_a_long_question_is_cut():
    assert len(find_words(" ".join(f"word{chr(97 + n % 26)}x{n}" for n in range(500)))) == MAX_WORDS


def test_words_in_most_chunks_are_left_out_beyond_a_limit():
    counts = {"rare": 3, "common": MAX_ROWS, "seldom": 20, "missing": 0}
    assert make_expression(counts) == '"rare" OR "seldom"'
    # At least two words remain, however common they are.
    assert make_expression({"a": MAX_ROWS, "b": MAX_ROWS}) == '"a" OR "b"'
    assert make_expression({"missing": 0}) == ""


@pytest.mark.parametrize(
    "words",
    [("retry", "retries", "retrying"), ("stop", "stopped", "stopping"), ("parse", "parser")],
)
def test_forms_of_a_word_have_one_stem(words):
    assert len({stem(word) for word in words}) == 1


def test_a_symbol_with_the_words_of_the_question_comes_first():
    def found(symbol, lines=20, kind="function"):
        return Found(b"a.py", 1, lines, kind, symbol, b"", 10.0)

    counts = WordCounts(1000, {"retries": 5, "request": 100})
    ranked = rank_again(
        [
            found("other", kind="module"),
            found("short", lines=1),
            found("send"),
            found("sendRequest"),
            found("retry_loop"),
        ],
        counts,
    )
    assert [each.symbol for each in ranked] == [
        "retry_loop",
        "sendRequest",
        "send",
        "other",
        "short",
    ]
