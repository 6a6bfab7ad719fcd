"""Confirmations of proposals: a doubtful answer is no confirmation."""

from hilum import AssistantMessage, Text, UserMessage
from hilum_agents.consent import confirmed, is_yes

YES = [
    "yes", "Yes, please.", "ok", "OK!", "do it", "yes, do 1", "apply all", "Apply all of them and run the tests", "go ahead",
    "Go ahead with 1 and 3", "please do 2", "1 and 2", "1, 2", "#2", "all of them", "both", "the first one",
    "okay, but only the first", "just do it", "make the changes", "confirmed", "sounds good", "proceed", "continue",
    "take the first", "start with 1", "do the first and the third", "implement proposal 2", "looks good, go ahead",
    "let's do the first", "carry out all", "yeah", "sure, proposal 1", "好的", "确认", "执行第一个", "按第一个改",
    "全部", "就这样做", "开始吧", "继续", "做吧", "第一个和第三个", "可以，都做", "同意",
]  # fmt: skip
NO = [
    "", " ", "no", "Make a proposal for module b", "but first show me more", "just explain proposal 2", "only explain 2",
    "take a look at b.py", "start over with module b", "continue analysing b.py", "Do you think 1 is good?",
    "go through b.py", "do a review of b.py", "do more analysis", "the first one is risky", "2 is unclear", "both look risky",
    "yes but what about the tests", "okta is the login we use", "don't", "why the first one?", "make another proposal",
    "goodness, that is a lot", "improve a.py", "第二个是什么意思", "继续分析 b.py", "先解释第一个", "不要",
    "开始之前解释一下", "做一个新的提案", "按性能排序再提一次", "可以吗",
]  # fmt: skip


def test_a_yes_is_a_yes():
    assert [words for words in YES if not is_yes(words)] == []


def test_other_texts_do_not_confirm():
    assert [words for words in NO if is_yes(words)] == []


def test_a_long_answer_is_read_by_its_beginning():
    """No repeated text makes the check slow; a test that takes minutes has failed."""
    assert is_yes("yes, do 1. " + "And mind the callers. " * 10_000)
    assert not is_yes("1, " * 10_000)
    for piece in ("yes ", "1, ", "the first and ", "please", "all of ", "第一个和", "好", " \n"):
        assert not is_yes(piece * 20_000 + "x")


def test_only_the_users_own_yes_accepts_proposals():
    """A yes in text that another program wrote confirms nothing."""
    proposal = AssistantMessage((Text("1. Rename it.", "model"),))
    for parts, accepted in (
        ((Text("yes"),), True),
        ((Text("yes"), Text("<stdin>\nno\n</stdin>", "piped")), True),
        ((Text("yes", "piped"),), False),
        ((Text("what is this?"), Text("yes", "piped")), False),
    ):
        messages = [UserMessage((Text("Look."),)), proposal, UserMessage(parts)]
        assert confirmed(messages, lambda message: True) is accepted, parts
