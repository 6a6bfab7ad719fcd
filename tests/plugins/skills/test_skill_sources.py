"""What a user may write for a source, and what is refused."""

import os

import pytest
from hilum import UsageError
from hilum_skills import parse_source
from hypothesis import given
from hypothesis import strategies as st

GOOD = {
    "owner/name": ("https://github.com/owner/name.git", "", ""),
    "owner/name@v1.0": ("https://github.com/owner/name.git", "v1.0", ""),
    "owner/name@feature/x": ("https://github.com/owner/name.git", "feature/x", ""),
    "owner/name/skills/pdf@main": ("https://github.com/owner/name.git", "main", "skills/pdf"),
    "owner/na.me.git": ("https://github.com/owner/na.me.git", "", ""),
    "https://git.example.com/a/b/c.git": ("https://git.example.com/a/b/c.git", "", ""),
    "https://Example.com:8443/a.git@v2#docs/x": ("https://example.com:8443/a.git", "v2", "docs/x"),
    "https://github.com/owner/name/tree/main/skills/pdf": (
        "https://github.com/owner/name",
        "main",
        "skills/pdf",
    ),
    "https://gitlab.com/owner/name/-/tree/v1": ("https://gitlab.com/owner/name", "v1", ""),
    "ssh://git@example.com:2222/~user/x.git@dev": (
        "ssh://git@example.com:2222/~user/x.git",
        "dev",
        "",
    ),
    "git@github.com:owner/name.git@v1#skills": (
        "ssh://git@github.com/owner/name.git",
        "v1",
        "skills",
    ),
    "file:///srv/git/x.git#a%20b": ("file:///srv/git/x.git", "", "a b"),
    "http://127.0.0.1:8000/x.git": ("http://127.0.0.1:8000/x.git", "", ""),
    "http://localhost/x.git": ("http://localhost/x.git", "", ""),
}


@pytest.mark.parametrize("text", GOOD)
def test_repositories_are_read_as_address_ref_and_path(text):
    source = parse_source(f"  {text} ")
    assert source.kind == "git"
    assert (source.where, source.ref, source.path) == GOOD[text]
    assert source.text == text


def test_folders_are_read_as_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    for text, where in {
        "./a": f"{os.getcwd()}/a",
        "../b": f"{os.path.dirname(os.getcwd())}/b",
        "/c/": "/c",
        "~/d": "/home/me/d",
    }.items():
        source = parse_source(text)
        assert (source.kind, source.where, source.text) == ("folder", where, where)


REFUSED = [
    # Nothing, options, programs.
    *(
        "",
        " ",
        "name",
        "-u./x",
        "--upload-pack=touch x",
        "--upload-pack=x/y",
        "ext::sh -c touch% x",
        "fd::17",
        "-owner/name",
    ),
    *(
        "owner/name@--upload-pack=x",
        "owner/name@-b",
        "ssh://-oProxyCommand=x/y",
        "ssh://-oProxyCommand=touch@host/x",
    ),
    *(
        "ssh://host/-x",
        "git@-host:x/y",
        "-git@host:x/y",
        "https://host/x.git@-x",
        "https://host/--x",
    ),
    # Ways out, names that are none.
    *(
        "owner/name@a..b",
        "owner/name@",
        "owner/name@x y",
        "owner/name@x.lock",
        "owner/name/../x",
        "owner/name/./x",
        "owner/..",
    ),
    *(
        "owner/name/.git/x",
        "https://host/../x",
        "https://host/%2e%2e/x",
        "https://host/a/%2e%2e/x",
        "https://host/x.git#../../etc",
    ),
    *(
        "https://host/x.git#a/.git/b",
        "https://host/x.git@a@{1}",
        "owner/a\x00b",
        "https://host/x\ny",
        "a" * 2000 + "/b",
    ),
    # Passwords, other protocols, addresses that are none.
    *(
        "https://user:password@host/x.git",
        "https://token@host/x.git",
        "http://example.com/x.git",
        "git://host/x.git",
    ),
    *(
        "ftp://host/x",
        "ext://x/y",
        "https:///x",
        "https://host/",
        "file://host/x",
        "https://host/x?y=z",
        "https://ho st/x",
    ),
    *("https://host:99999/x", "https://[::1/x"),
]


def test_what_could_be_an_option_a_program_or_a_way_out_is_refused():
    for text in REFUSED:
        with pytest.raises(UsageError) as caught:
            parse_source(text)
        assert caught.value.code == "E_BAD_ARGS", text
        assert "For example: owner/name" in caught.value.hint, text


@given(st.text() | st.from_regex(r"\A(https?|ssh|file|ext)?(:|::|://)?[-@a-z:/#.~%?]{0,40}\Z"))
def test_whatever_is_written_gives_a_source_that_git_takes_for_an_address_or_is_refused(text):
    try:
        source = parse_source(text)
    except UsageError:
        return
    assert not source.where.startswith("-")
    assert not source.ref.startswith("-")
    assert ".." not in source.path.split("/")
    if source.kind == "git":
        assert source.where.partition("://")[0] in ("https", "ssh", "file", "http")
        host = source.where.partition("://")[2].partition("/")[0].rpartition("@")[2]
        assert not host.startswith("-")
        assert "::" not in source.where or "[" in host


def test_one_address_has_one_folder_whatever_the_ref_and_the_path():
    keys = {
        parse_source(text).key
        for text in (
            "owner/name",
            "owner/name@v1",
            "owner/name/a/b",
            "https://github.com/owner/name#x",
        )
    }
    assert len(keys) == 1
    assert keys.pop().startswith("github-com-owner-name-")
    assert parse_source("owner/name").key != parse_source("owner/name2").key


@pytest.mark.parametrize(
    "text",
    ["https://me:s3cret@host/x.git", "https://s3cret@host/x.git", "https://host/x?token=s3cret", "git://a:s3cret@host/x",
     "https://me:s3cret@host:99999/x", "http://me:s3cret@example.com/x", "https://me:s3cr3t?s3cret/x@host/y#z"],
)  # fmt: skip
def test_a_refusal_shows_no_password(text):
    with pytest.raises(UsageError) as told:
        parse_source(text)
    assert "s3cret" not in str(told.value)
    assert "***" in told.value.message
