"""The library without hilum: what a text weighs, and what a model's counts teach."""

import random
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from hilum_tokens import IMAGE, Gauge, estimate, join, opaque, weigh

README = Path(__file__).resolve().parents[3] / "plugins" / "tokens" / "README.md"


def test_the_readme_runs(tmp_path):
    script = tmp_path / "readme.py"
    script.write_text(README.read_text().split("```python\n")[1].split("```")[0])
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
    plain, wide, images, reasoning = weigh(piece, [image, b"elsewhere"], [sealed])
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
    asked = weigh("word " * 1_000)
    gauge = Gauge().learn(asked, 3_000)
    assert gauge.total(asked) == 3_000
    more = join(asked, weigh("word " * 100))
    assert gauge.total(more) == pytest.approx(3_300, rel=0.01)
    assert gauge.total(weigh("word " * 500)) == pytest.approx(1_500, rel=0.02), (
        "what a trim takes away goes off it"
    )


def test_what_chinese_taught_does_not_change_code_and_the_other_way_round():
    code, chinese = "return self.value\n" * 200, "请先检查测试再修改代码。" * 100
    size = weigh(code)
    gauge = Gauge().learn(size, 900)
    for text, count in ((chinese, 1_200), (code, 900), (chinese, 1_200), (code, 900)):
        size = join(size, weigh(text))
        gauge = gauge.learn(size, gauge.counted + count)
    assert gauge.text(code) == pytest.approx(900, rel=0.03)
    assert gauge.text(chinese) == pytest.approx(1_200, rel=0.03)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_a_provider_may_count_leads_to_nonsense(seed):
    """Zeros, leaps and falls: factors and totals stay within their bounds, and sense comes back
    with it.
    """
    rng, size, gauge = random.Random(seed), weigh("x" * 4_000), Gauge()
    for _ in range(50):
        gauge = gauge.learn(size, rng.choice((1, 10, 10**4, 10**9, sum(size))))
        assert all(0.2 <= factor <= 4 for factor in gauge.factors)
        size = join(size, weigh(rng.choice(("word ", "汉字", "123 ")) * rng.randint(0, 2_000)))
        assert 0.3 * sum(size) - 1 <= gauge.total(size) <= 4 * sum(size)
        assert 0.3 <= gauge.factor <= 4
    for _ in range(20):
        gauge = gauge.learn(size, sum(size))
        size = join(size, weigh("word " * 1_000))
    assert gauge.total(size) == pytest.approx(sum(size), rel=0.05)
