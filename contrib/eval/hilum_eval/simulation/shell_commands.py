"""The steps of a case as commands, for agents whose only tool is a shell.

A careful model writes them: an edit fails if its text is not in the file exactly once.
"""

from __future__ import annotations

from shlex import quote

_EDIT = """\
python3 - <<'EOF'
path = {path!r}
old = {old!r}
new = {new!r}
with open(path) as file:
    text = file.read()
assert text.count(old) == 1, f"old text occurs {{text.count(old)}} times in {{path}}"
with open(path, "w") as file:
    file.write(text.replace(old, new))
EOF"""
_WRITE = """\
python3 - <<'EOF'
import pathlib
path = pathlib.Path({path!r})
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text({content!r})
EOF"""


def read(path: str, first: int = 0, last: int = 0) -> str:
    """Return the command that shows a file, or lines of it, with their numbers."""
    if not first and not last:
        return f"cat -n {quote(path)}"
    end = last or "$"
    return f"nl -ba {quote(path)} | sed -n '{max(first, 1)},{end}p'"


def edit(path: str, old: str, new: str) -> str:
    """Return the command that replaces a text that occurs once in a file."""
    return _EDIT.format(path=path, old=old, new=new)


def write(path: str, content: str) -> str:
    """Return the command that writes a file, with its folders."""
    return _WRITE.format(path=path, content=content)


def search(pattern: str, folder: str = ".") -> str:
    """Return the command that searches the contents of files."""
    # Perl's expressions are the closest to those of Python and ripgrep.
    return f"grep -rnP --exclude-dir=.git -e {quote(pattern)} {quote(folder)}"


def find(name: str) -> str:
    """Return the command that finds files by name."""
    return f"find . -name {quote(name)} -not -path './.git/*'"
