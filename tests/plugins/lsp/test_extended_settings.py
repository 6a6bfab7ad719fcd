"""Which files a configuration file extends, and which names a language reserves."""

import os
from pathlib import Path

import pytest
from hilum_lsp.extended_settings import list_extended
from hilum_lsp.keywords import is_keyword


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("tsconfig.json", '{"extends": "./base.json"}', ["base.json"]),
        ("tsconfig.json", '{"extends": "./base"}', ["base", "base.json"]),
        ("tsconfig.json", '{"extends": ["./a.json", "../b"]}', ["a.json", "../b", "../b.json"]),
        ("tsconfig.json", '{\n // "extends": "./old",\n "extends": "./new.json", /* x */\n}', ["new.json"]),
        ("tsconfig.json", '\ufeff{"extends": "./base.json",}', ["base.json"]),
        ("tsconfig.json", '{"compilerOptions": {"paths": {"a": ["./extends"]}}}', []),
        ("tsconfig.json", '{"extends": ["./a\\u0000.json", 7, null]}', []),
        ("tsconfig.json", "{broken", []),
        ("pyrightconfig.json", '{"extends": "conf/base.json"}', ["conf/base.json"]),
        ("ruff.toml", 'extend = "../ruff.toml"', ["../ruff.toml"]),
        ("pyproject.toml", '[tool.ruff]\nextend = "base.toml" # x', ["base.toml"]),
        ("package.json", '{"eslintConfig": {"extends": "./x.json"}}', []),
    ],
)  # fmt: skip
def test_the_files_that_a_configuration_extends(
    name: str, text: str, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = list_extended(str(tmp_path / name))
    wanted = [os.path.normpath(tmp_path / each) for each in expected]
    assert [each for each in found if each in wanted] == wanted
    assert bool(found) is bool(wanted)


def test_a_configuration_may_be_in_a_package(tmp_path: Path) -> None:
    inner = tmp_path / "node_modules/@tsconfig/node20"
    inner.mkdir(parents=True)
    (tmp_path / "app").mkdir()
    config = tmp_path / "app/tsconfig.json"
    for name in ("@tsconfig/node20", "@tsconfig/node20/tsconfig", "@tsconfig/node20/tsconfig.json"):
        config.write_text(f'{{"extends": "{name}"}}')
        assert str(inner / "tsconfig.json") in list_extended(str(config))


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tsconfig.json")
    assert list_extended(str(tmp_path / "tsconfig.json")) == []
    assert list_extended(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("suffix", "reserved", "free"),
    [
        (".c", "int static sizeof struct void unsigned return typedef restrict", "class new let self"),
        (".cpp", "int class template new this namespace constexpr operator co_await", "restrict let self"),
        (".hpp", "class virtual", "let"), (".h", "int class sizeof", "let"),
        (".py", "class async None __debug__", "match int let"), (".go", "func chan range", "class int"),
        (".rs", "fn impl abstract try yield gen", "class int"), (".js", "class let static enum await eval", "int struct"),
        (".ts", "class let interface string", "int struct"), (".tsx", "enum yield", "fn"),
    ],
)  # fmt: skip
def test_each_language_has_its_own_keywords(suffix: str, reserved: str, free: str) -> None:
    assert all(is_keyword(name, suffix) for name in reserved.split())
    assert not any(is_keyword(name, suffix) for name in free.split())
