"""The page in Chinese: no sentence of hilum's own is left in English."""

import re

import msgspec
from hilum_serve.phrase_table import PHRASES
from hilum_serve.phrases import find_parts

from .conftest import keep_screenshot, wait_until
from .samples import answer, approval, card, entry, prompt, result, started

PLACEHOLDER = re.compile(r"\{(\w+)[?!]?\}")
NAMES = re.compile(
    r"`[^`]*`|<\w+>|GET \S+|Authorization: Bearer TOKEN|--set \S+|--[a-z-]+|https?://|E_[A-Z_0-9]+"
    r"|hilum( \w+)*|export [A-Z_]+=…|openai/NAME|base URL"
)
"""What stays in every language: commands, addresses and codes, and the values of the sentences."""
ENGLISH = re.compile(r"[A-Za-z]{2,}(?:[ ,;:]+[A-Za-z]{2,}){2,}")
"""Three English words in a row."""


def read_english(text):
    return ENGLISH.findall(NAMES.sub("…", text))


def sample(sentence):
    """Return a sentence with a value for each of its names; the values are sentences if they must."""
    return PLACEHOLDER.sub(
        lambda place: "It ends every process." if place[0].endswith("!}") else f"<{place[1]}>",
        sentence,
    )


def parts_of(text):
    return msgspec.to_builtins(find_parts(text))


def notice(identity, text):
    facts = {"about": "error", "text": text, "code": "", "hint": "", "level": "warning"}
    return entry(identity, "notice", **facts, parts={"text": parts_of(text)})


def test_every_sentence_is_shown_in_chinese(server, open_session):
    texts = [sample(sentence) for _, sentence in PHRASES]
    server.entries = [prompt(0, "开始"), answer(1, "好")]
    page = open_session(language="zh")
    shown = page.evaluate(
        """async rows => {
            const loaded = performance.getEntriesByType('resource').map(each => each.name);
            const { translate } = await import(loaded.find(name => name.endsWith('strings.js')));
            return rows.map(([text, parts]) => translate(text, parts));
        }""",
        [[text, parts_of(text)] for text in texts],
    )
    assert [each for each in zip(texts, shown, strict=True) if read_english(each[1])] == []
    values = [set(re.findall(r"<\w+>", text)) for text in texts]
    assert values == [set(re.findall(r"<\w+>", text)) for text in shown]


def test_a_session_in_chinese_has_no_english_sentence(server, open_session):
    call = card(3, "bash", {"command": "rm -rf build"}, "waiting_for_approval")
    reason = "It permanently deletes data. (rm -rf build)"
    refusal = "The user rejected the call: 用 tox. Change your plan."
    refused = result(f"E_REJECTED: {refusal}", "E_REJECTED")
    error = "The run exceeded its time limit of 30 seconds."
    end = {"state": "timed_out", "code": "E_TIMEOUT", "error": error, "hint": "", "left": ""}
    server.entries = [
        prompt(0, "开始"),
        notice(
            1, "older messages were replaced by a summary as you asked (about 9,000 tokens before)"
        ),
        card(
            2,
            "bash",
            {"command": "x"},
            "failed",
            result=refused,
            parts={"result": parts_of(refusal)},
        ),
        call,
        entry(4, "outcome", end=end, unread=[], parts={"error": parts_of(error)}),
    ]
    server.state["waiting"] = [approval("a1", call, reason=reason, reason_parts=parts_of(reason))]
    server.state["started"] = [
        started(
            "1", "查看", activity="turn 2: thinking", activity_parts=parts_of("turn 2: thinking")
        )
    ]
    danger = "deletes build recursively"
    server.replies["facts a1"] = {
        "text": "rm -rf build",
        "covers": "every command `rm …`",
        "covers_parts": parts_of("every command `rm …`"),
        "dangers": [{"text": danger, "grave": True, "parts": parts_of(danger)}],
    }
    message = "This call is dangerous, so only this call can be allowed."
    hint = "Answer with remember = once."
    problem = {"code": "E_BAD_ARGS", "message": message, "hint": hint}
    problem |= {"message_parts": parts_of(message), "hint_parts": parts_of(hint)}
    server.replies["POST /approvals/a1"] = (400, problem)
    page = open_session("wide", language="zh", expected="status of 400")
    page.get_by_text("递归删除").wait_for()
    page.locator(".decision .accept").click()
    page.get_by_text("此调用有危险，因此只能允许这一次。").first.wait_for()
    keep_screenshot(page, "chinese")
    body = page.locator("body").inner_text()
    for words in ["永久删除数据", "用户拒绝了该调用", "时间限制", "按你的要求"]:
        assert words in body
    own = body.replace("Mend the calculator", "").replace("rm -rf build", "")
    assert read_english(own) == []


def test_the_same_session_in_english_shows_the_sentences(server, open_session):
    server.entries = [prompt(0, "Go"), notice(1, "the conversation could not be compacted")]
    page = open_session(language="en")
    wait_until(page, lambda: "could not be compacted" in page.locator(".note").inner_text())


def test_a_sentence_without_parts_or_of_a_newer_server_is_shown(server, open_session):
    unknown = notice(1, "something new")
    unknown["parts"] = {"text": [{"code": "something_new", "values": {}}]}
    server.entries = [prompt(0, "开始"), unknown, {**notice(2, "as it is"), "parts": {}}]
    page = open_session(language="zh")
    wait_until(page, lambda: page.locator(".note").count() == 2)
    assert "something new" in page.locator(".note").first.inner_text()
    assert "as it is" in page.locator(".note").last.inner_text()
