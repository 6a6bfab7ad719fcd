"""The files of the page: texts in both languages, vendored libraries, weight, and no inline code."""

import gzip
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import hilum_serve

PAGE = Path(str(files(hilum_serve) / "page"))
MODULES = sorted(PAGE.glob("*.js"))
MAX_WEIGHT = 250_000
# Texts whose keys are composed from states that the server names.
COMPOSED = re.compile(
    r"^(agent|todo|state|policy|risk|scope|setting|connection|protocol|decided|find_in|file|undo)_"
    r"|^(context|timeline)_|^budget_(session|day|agent|plugin)$"
    r"|^session_(closed|forbidden|gone)(_text)?$"
)
ROW = re.compile(r"^  \['(\w+)', '((?:[^'\\]|\\.)*)', '((?:[^'\\]|\\.)*)'\],$", re.M)


def read_texts():
    return {key: (english, chinese) for key, english, chinese in ROW.findall(read("strings.js"))}


def read(name):
    return (PAGE / name).read_text(encoding="utf-8")


def test_each_text_is_in_both_languages_with_the_same_values():
    rows = re.findall(r"^  \['", read("strings.js"), re.M)
    texts = read_texts()
    assert len(texts) == len(rows) > 200, "a key occurs twice, or a row has another form"
    for key, (english, chinese) in texts.items():
        assert english.strip(), key
        assert chinese.strip(), key
        values = [set(re.findall(r"\{(\w+)\}", text)) for text in (english, chinese)]
        assert values[0] == values[1], key
        is_word = key in ("export_json",) or not re.search(r"[a-z]{4}", english)
        assert is_word or re.search(r"[\u4e00-\u9fff]", chinese), f"{key} is not translated"


def test_each_text_is_used_and_each_used_text_exists():
    texts = read_texts()
    used = set()
    for module in MODULES:
        if module.name == "strings.js":
            continue
        source = module.read_text(encoding="utf-8")
        called = set(re.findall(r"\bt\('(\w+)'", source))
        assert called <= texts.keys(), f"{module.name}: {called - texts.keys()}"
        used |= set(re.findall(r"'(\w+)'", source)) & texts.keys()
    unused = {key for key in texts if key not in used and not COMPOSED.match(key)}
    assert unused == set()


def test_states_of_the_server_have_texts():
    texts = read_texts()
    for state in (
        "pending",
        "in_progress",
        "completed",
        "failed",
        "blocked",
        "skipped",
        "cancelled",
    ):
        assert f"todo_{state}" in texts
    for risk in ("read", "write", "execute", "network"):
        assert f"risk_{risk}" in texts
    for policy in ("ask_first", "auto", "readonly"):
        assert f"policy_{policy}" in texts


def test_vendored_files_are_those_of_the_manifest_with_their_licences():
    vendor = PAGE / "vendor"
    listed = {}
    for package in json.loads(read("vendor/manifest.json")):
        assert package["version"]
        assert any(name.endswith("LICENSE") for name in package["files"]), package["package"]
        listed.update(package["files"])
    found = {
        path.relative_to(vendor).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vendor.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert found == listed


def test_the_page_weighs_less_than_250_kilobytes():
    weight = 0
    for path in PAGE.rglob("*"):
        if path.is_file() and path.suffix in (".js", ".css", ".html", ".svg"):
            weight += len(gzip.compress(path.read_bytes(), 9))
    assert weight < MAX_WEIGHT, f"{weight:,} bytes"


def test_the_document_has_no_inline_code_and_loads_all_modules_at_once():
    document = read("index.html")
    assert not re.search(r"<script(?![^>]*\bsrc=)", document)
    assert not re.search(r"\son\w+=|\sstyle=|<style", document)
    assert "crossorigin" not in document
    loaded = set(re.findall(r'href="page/([\w./-]+\.js)"', document))
    late = {"theme.js", "diff_worker.js"}
    assert {module.name for module in MODULES} - late == {
        name for name in loaded if "/" not in name
    }
    for name in loaded:
        assert (PAGE / name).is_file(), name


def test_only_one_module_makes_markup():
    for module in MODULES:
        source = module.read_text(encoding="utf-8")
        for forbidden in (
            "innerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ):
            assert forbidden not in source, f"{module.name}: {forbidden}"
        if module.name != "safe_html.js":
            assert "createPolicy" not in source, module.name
            assert "DOMPurify" not in source, module.name
