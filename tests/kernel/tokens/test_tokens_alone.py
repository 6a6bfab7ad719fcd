"""The library without hilum: what a text weighs, and what a model's counts teach."""

import random
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from hilum.tokens import IMAGE, TokenCalibrator, compute_text_stats, estimate, join, opaque

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kernel-packages.md"
SECTION = PAGE.read_text().partition("## `hilum.tokens`")[2]


def test_the_example_in_the_page_runs(tmp_path):
    script = tmp_path / "example.py"
    script.write_text(SECTION.split("```python\n")[1].split("```")[0])
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before == 14
    assert 14 + 70 < after < 14 + 140


def test_the_base_is_four_characters_a_token_and_two_thirds_of_one_for_chinese():
    """Digits and capitals, as in tables and base64, are tokens of their own.

    Indentation is next to nothing.
    """
    assert estimate("a" * 4_000) == 1_001
    assert estimate("汉" * 4_000) == 2_601
    assert estimate(("a" * 4_000).encode()) == 1_001
    assert estimate("7" * 1_000) == estimate("K" * 1_000) == 1_001
    assert estimate("x" + " " * 400) < 30
    assert estimate("\udcff") == 1


def test_a_text_is_told_apart_from_what_only_looks_like_one():
    """Images and encrypted reasoning are long in base64 and have a price of their own.

    What is not there counts nothing.
    """
    image, sealed = b64encode(b"\xff" * 90_000), b"Zm9v" * 500
    piece = b'{"text":"hello","image":"' + image + b'","signature":"' + sealed + b'"}'
    plain, wide, images, reasoning = compute_text_stats(piece, [image, b"elsewhere"], [sealed])
    assert (wide, images, reasoning) == (0, IMAGE, 400)
    assert plain < 20
    assert opaque(
        {
            "signature": sealed.decode(),
            "id": "rs_1",
            "item": {"encrypted_content": "x" * 200, "n": 1},
        }
    ) == [
        sealed,
        b"x" * 200,
    ]


def test_the_next_request_is_the_last_count_and_what_came_since():
    """However wrong the base was: the count stands, only what is new is estimated."""
    asked = compute_text_stats("word " * 1_000)
    calibrator = TokenCalibrator().learn(asked, 3_000)
    assert calibrator.total(asked) == 3_000
    more = join(asked, compute_text_stats("word " * 100))
    assert calibrator.total(more) == pytest.approx(3_300, rel=0.01)
    assert calibrator.total(compute_text_stats("word " * 500)) == pytest.approx(1_500, rel=0.02), (
        "what a compaction takes away goes off it"
    )


def test_what_chinese_taught_does_not_change_code_and_the_other_way_round():
    code, chinese = "return self.value\n" * 200, "请先检查测试再修改代码。" * 100
    size = compute_text_stats(code)
    calibrator = TokenCalibrator().learn(size, 900)
    for text, count in ((chinese, 1_200), (code, 900), (chinese, 1_200), (code, 900)):
        size = join(size, compute_text_stats(text))
        calibrator = calibrator.learn(size, calibrator.counted + count)
    assert calibrator.text(code) == pytest.approx(900, rel=0.03)
    assert calibrator.text(chinese) == pytest.approx(1_200, rel=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_a_provider_may_count_leads_to_nonsense(seed):
    """Zeros, leaps and falls: factors and totals stay within their bounds, and sense comes back
    with it.
    """
    rng, size, calibrator = random.Random(seed), compute_text_stats("x" * 4_000), TokenCalibrator()
    for _ in range(50):
        calibrator = calibrator.learn(size, rng.choice((1, 10, 10**4, 10**9, sum(size))))
        assert all(0.2 <= factor <= 4 for factor in calibrator.factors)
        size = join(
            size, compute_text_stats(rng.choice(("word ", "汉字", "123 ")) * rng.randint(0, 2_000))
        )
        assert 0.3 * sum(size) - 1 <= calibrator.total(size) <= 4 * sum(size)
        assert 0.3 <= calibrator.factor <= 4
    for _ in range(20):
        calibrator = calibrator.learn(size, sum(size))
        size = join(size, compute_text_stats("word " * 1_000))
    assert calibrator.total(size) == pytest.approx(sum(size), rel=0.05)
