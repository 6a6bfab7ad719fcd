"""One key of a TOML file is changed, and nothing else; what cannot be done safely is refused."""

import os
import random
import threading
import tomllib
from pathlib import Path

import pytest
from hilum import StoreError
from hilum.settings import ChangeError, change

FORMS = [  # before, key, value, after
    # no file, an empty one, and tables that are not there yet
    (None, "model", "x", 'model = "x"\n'),
    ("", "plugins.block", ["a"], '[plugins]\nblock = ["a"]\n'),
    ("# mine\nturns = 3 # three\n", "plugins.block", [], "# mine\nturns = 3 # three\n\n[plugins]\nblock = []\n"),
    ("turns = 3", "a.b.c", 1.5, "turns = 3\n[a.b]\nc = 1.5\n"),
    ("[a]\nx = 1\n\n# about z\n[z]\n", "a.b.c", 1, "[a]\nx = 1\n\n# about z\n[z]\n\n[a.b]\nc = 1\n"),
    ("[a.b]\nx = 1\n", "a.c", 1, "[a.b]\nx = 1\n\n[a]\nc = 1\n"),
    ("turns = 3\n", "a.b", {"c": "x"}, 'turns = 3\n\n[a.b]\nc = "x"\n'),
    # a new key: first in its table, and above the comment of the next one
    ("[a] # here\n# none\n[z]\ny = 5\n", "a.b", 1, "[a] # here\nb = 1\n# none\n[z]\ny = 5\n"),
    ("[a]\nx = 1\n\n# about z\n[z]\n", "a.b", "é\n\"'", "[a]\nb = \"é\\n\\\"'\"\nx = 1\n\n# about z\n[z]\n"),
    ("turns = 3\n\n# about z\n[z]\n", "model", "x", 'turns = 3\n\nmodel = "x"\n\n# about z\n[z]\n'),
    ("turns = 3\n", "model", "x", 'turns = 3\nmodel = "x"\n'),
    ("x = [\n  [1],\n]\n", "y", 2, "x = [\n  [1],\n]\ny = 2\n"),
    ("x = '''\n[a]\n'''\n[a]\n", "a.b", 1, "x = '''\n[a]\n'''\n[a]\nb = 1\n"),
    ("a.b = 1\nz = 2\n", "a.c", 3, "a.b = 1\na.c = 3\nz = 2\n"),
    ("[ a ]\nx = 1\n", "a.b", 2, "[ a ]\nx = 1\nb = 2\n"),
    # an old key: only its value changes
    ("a = 1 # one\n", "a", True, "a = true # one\n"),
    ("[a]\nb = [ 1,2 ]  # two\nc=3\n", "a.b", [3, "x"], '[a]\nb = [3, "x"]  # two\nc=3\n'),
    ('b = [\n  "x",\n]\n', "b", ["x", "y"], 'b = ["x", "y"]\n'),
    ("a = '''x\ny # no comment''' # one\nb = 1\n", "a", "z", 'a = "z" # one\nb = 1\n'),
    ("a.b = 'x'\n", "a.b", "y", 'a.b = "y"\n'),
    ("'a b' = 1\n", "a b", 2, "'a b' = 2\n"),
    ("[a]\r\nb = 1\r\n", "a.b", 2, "[a]\r\nb = 2\r\n"),
    ("\ufeffa = 1\n", "a", 2, "\ufeffa = 2\n"),
    ("\ufeff[a]\n", "a.b", 2, "\ufeff[a]\nb = 2\n"),
    ("b = ['#']\n", "b", ["#", "x"], 'b = ["#", "x"]\n'),
    # removed
    ("# one\na = 1\n# two\nb = 2\n", "a", None, "# one\n# two\nb = 2\n"),
    ("[a]\nb = [\n1,\n]\n\n# about z\n[z]\n", "a.b", None, "[a]\n\n# about z\n[z]\n"),
    ("a.b = 1\nz = 2\n", "a.b", None, "z = 2\n"),
    # nothing to do
    ("b = [ # all\n1 ]\n", "b", [1], "b = [ # all\n1 ]\n"),
    ("a = 1\n", "b.c", None, "a = 1\n"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "key", "value", "after"), FORMS)
def test_only_the_one_key_changes(tmp_path, before, key, value, after):
    """Byte for byte: comments, order, blank lines, line ends and quotes of the rest stay."""
    path = tmp_path / "settings.toml"
    if before is not None:
        path.write_bytes(before.encode())
    assert change(path, key, value) == path
    assert path.read_bytes().decode() == after
    assert os.listdir(tmp_path) == ["settings.toml"]


REFUSED = [  # text, key, value, reason
    ("b = [\n  1, # one\n]\n", "b", [2], "b contains comments"),
    ("[t]\nx = 1 # one\n", "t", None, "t contains comments"),
    ("[t]\nx = 1\n# about z\n[z]\n", "t", None, "t contains comments"),
    ("a = {b = 1}\n", "a.c", 1, "a is an inline table"),
    ("a = {b = 1}\n", "a.b", 1.0, "a is an inline table"),
    ("a = 'x'\n", "a", ["x"], "a is of another kind"),
    ("[a]\nb = 1\n", "a", 2, "a is of another kind"),
    ("a = 1\n", "a.b", 2, "the parent of a.b is not a table"),
    ("[[a]]\nx = 1\n", "a.b", 2, "the parent of a.b is not a table"),
    ("a.b = 1\nz = 2\n", "a.c", {"x": 1}, "its form is unusual"),
    ("a = \n", "b", 2, "not valid TOML"),
    (f"a = {'9' * 5000}\n", "b", 2, "a number is too long"),
    ("a = 1\n", "b", [None], "None"),
    ("a = 1\n", "b", object(), "object"),
    ("a = 1\n", "b", "\ud800", "surrogates not allowed"),
    (f"[a{'.a' * 5000}]\n", "a", {"b": 1}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "value", "reason"), REFUSED)
def test_what_cannot_be_done_safely_is_refused(tmp_path, text, key, value, reason):
    """With the reason, and the file as it was."""
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(ChangeError) as caught:
        change(path, key, value)
    assert str(caught.value).startswith(f"{path} cannot be changed safely: ")
    assert reason in caught.value.reason
    assert path.read_text() == text
    assert os.listdir(tmp_path) == ["settings.toml"]


def test_a_function_makes_the_new_value_of_the_old_one(tmp_path):
    """It sees None where there is none; what it cannot take refuses the change."""
    path = tmp_path / "settings.toml"
    change(path, "a.b", lambda old: [*(old or []), "x"])
    change(path, "a.b", lambda old: [*(old or []), "y"])
    assert tomllib.loads(path.read_text()) == {"a": {"b": ["x", "y"]}}
    with pytest.raises(ChangeError, match="can only concatenate"):
        change(path, "a.b", lambda old: old + "x")


def test_changes_at_the_same_time_lose_nothing(tmp_path):
    """Each sees what the one before wrote."""
    path = tmp_path / "settings.toml"

    def add(number: int) -> None:
        change(path, "numbers", lambda old: [*(old or []), number])

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(tomllib.loads(path.read_text())["numbers"]) == list(range(12))


def test_a_new_file_is_for_the_user_only_and_an_old_one_keeps_its_mode(tmp_path):
    """Settings may hold keys."""
    path = tmp_path / "config" / "app" / "settings.toml"
    change(path, "a", 1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    change(path, "a", 2)
    assert path.stat().st_mode & 0o777 == 0o644


def test_of_a_link_the_file_that_it_leads_to_is_changed(tmp_path):
    """Also where that is not there yet."""
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    link.symlink_to(real)
    for value in (1, 2):
        assert change(link, "a", value) == real
        assert link.is_symlink()
        assert real.read_text() == f"a = {value}\n"


def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path):
    """A pipe, a folder, and a file where the folder should be."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for name in ("pipe", "folder", "file/settings.toml"):
        with pytest.raises(ChangeError):
            change(tmp_path / name, "a", 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_only_be_read_stays(tmp_path):
    """Replacing it would go round that."""
    path = tmp_path / "settings.toml"
    path.write_text("a = 1\n")
    path.chmod(0o400)
    with pytest.raises(ChangeError, match="Permission denied"):
        change(path, "a", 2)
    assert path.read_text() == "a = 1\n"


def test_a_full_disk_leaves_the_old_file(tmp_path):
    """Nothing is half written, and nothing lies about."""
    import resource
    import signal

    path = tmp_path / "settings.toml"
    path.write_text("a = 1\n")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(StoreError, match=r"File too large\. It is unchanged\."):
            change(path, "a", "x" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert path.read_text() == "a = 1\n"
    assert os.listdir(tmp_path) == ["settings.toml"]


PIECES = [
    "a = 1\n", "b = 'x' # why\n", "# note\n", "\n", "l = [1,\n 2]\n", "m = '''\n[t]\n'''\n", "t.x = 1\n", "i = {x = 1}\n",
    "[t]\n", "[t.u] # deep\n", "[z]\n", "[[rows]]\n", "c.d.e = 2\n", "  s = \"#\"\n", "[t.u.v]\n",
]  # fmt: skip
KEYS = [
    "a",
    "b",
    "l",
    "t.x",
    "t.u.x",
    "t.u",
    "z.a",
    "i.x",
    "c.d.e",
    "c.d.f",
    "rows",
    "new",
    "new.x.y",
    "t.u.v.w",
]
VALUES = [None, 7, "seven", ["s", 7], {"k": 7}]


def test_whatever_the_file_looks_like_the_rest_stays(tmp_path: Path):
    """Random files of odd pieces: each change is either refused, or right with every comment still
    there.
    """
    chance, path, done = random.Random(5), tmp_path / "settings.toml", 0
    for _ in range(400):
        text = "".join(chance.choices(PIECES, k=chance.randrange(1, 8)))
        key, value = chance.choice(KEYS), chance.choice(VALUES)
        try:
            before = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            continue
        path.write_text(text)
        try:
            change(path, key, value)
        except ChangeError:
            assert path.read_text() == text
            continue
        done += 1
        after = path.read_text()
        for comment in ("# note", "# why", "# deep"):
            lost = text.count(comment) - after.count(comment)
            assert lost <= (value is None and text != after and comment != "# note"), (
                text,
                key,
                value,
                after,
            )
        assert flat(tomllib.loads(after), key) == flat(before, key), (text, key, value, after)
        found = tomllib.loads(after)
        for part in key.split("."):
            found = (found or {}).get(part)
        assert found == value or (value is None and not found), (text, key, value, after)
    assert done > 100


def flat(data: object, without: str, at: str = "") -> dict[str, object]:
    """All values by dotted key, without those of one key."""
    if at == without:
        return {}
    if not isinstance(data, dict):
        return {at: data}
    return {
        k: v
        for name, inner in data.items()
        for k, v in flat(inner, without, f"{at}.{name}".strip(".")).items()
    }


def test_a_key_may_be_given_in_parts_where_one_has_a_dot_in_it(tmp_path: Path) -> None:
    """As a path as the name of a table has."""
    path = change(tmp_path / "x.toml", ["workspace", "/home/me/a.b", "allow"], ["x"])
    assert tomllib.loads(path.read_text()) == {"workspace": {"/home/me/a.b": {"allow": ["x"]}}}
    change(path, ("workspace", "/home/me/a.b", "allow"), lambda old: [*old, "y"])
    assert tomllib.loads(path.read_text())["workspace"]["/home/me/a.b"]["allow"] == ["x", "y"]


def test_a_boolean_is_changed_and_removed(tmp_path):
    """The library that edits gives it without its text, unlike all other values."""
    path = tmp_path / "settings.toml"
    for value in (True, False, None):
        change(path, "a.b", value)
        assert tomllib.loads(path.read_text()).get("a", {}).get("b") is value
