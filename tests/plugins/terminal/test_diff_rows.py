"""Unified diffs as rows: what is read from a diff, and what is seen of it."""

import difflib
import random
import textwrap

from hilum_terminal.diff_rows import changed_words, diff_rows, parse_diff
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells
from hilum_view import count_changes

from .screens import WIDTHS, find_faults, hostile_text, plain, screen

EDIT = """\
--- a/src/a.py
+++ b/src/a.py
@@ -9,4 +9,5 @@ def total(items):
     count = 0
-    return count + 1
+    return count + 2
+    # never reached

 end
@@ -40,1 +41,1 @@
-old name
\\ No newline at end of file
+new name
"""


def show(diff: str, width: int = 80, **more) -> str:
    rows = diff_rows(diff, width=width, theme=PLAIN, **more)
    assert not find_faults(rows, width)
    return plain(rows)


def test_an_edit_has_numbers_signs_and_counts():
    assert show(EDIT) == screen("""
        src/a.py  +3 −2
             ⋮ def total(items):
           9       count = 0
          10 -     return count + 1
          10 +     return count + 2
          11 +     # never reached
          12
          13   end
             ⋮
          40 - old name
             (no newline at the end of the file)
          41 + new name
        """)


def test_a_narrow_terminal_has_no_numbers():
    without_numbers = screen("""
        src/a.py  +3 −2
        ⋮ def total(items):
              count = 0
        -     return count + 1
        +     return count + 2
        +     # never reached

          end
        ⋮
        - old name
        (no newline at the end of the file)
        + new name
        """)
    assert show(EDIT, 59) == without_numbers
    assert show(EDIT, 120, numbers=False) == without_numbers


def test_rows_beyond_the_limit_are_counted():
    assert show(EDIT, max_rows=4, hint="ctrl-o") == screen("""
        src/a.py  +3 −2
             ⋮ def total(items):
           9       count = 0
        … 9 more rows (ctrl-o)
        """)
    assert show(EDIT, max_rows=11).endswith("… 2 more rows")
    assert show(EDIT, max_rows=12) == show(EDIT)
    assert show(EDIT, max_rows=1) == "… 12 more rows"


def test_long_lines_are_wrapped_but_cut_where_rows_are_counted():
    diff = "@@ -1 +1 @@\n-" + "a" * 20 + "\n+" + "日本" * 6 + "\n"
    assert show(diff, 20, header=False) == screen("""
        - aaaaaaaaaaaaaaaaaa
        - aa
        + 日本日本日本日本日
        + 本日本
        """)
    assert show(diff, 20, header=False, max_rows=5) == screen("""
        - aaaaaaaaaaaaaaaaa…
        + 日本日本日本日本…
        """)


def test_changes_that_would_be_invisible_are_shown():
    """Tabs, trailing blanks, and the ends of lines."""
    diff = (
        "@@ -1,5 +1,5 @@\n-\tx = 1\n+    x = 1\n y\n-trailing  \n+trailing\n-end\r\n+end\n a\tb\n"
    )
    assert show(diff) == screen("""
        changes  +3 −3
           1 - →   x = 1
           1 +     x = 1
           2   y
           3 - trailing··
           3 + trailing
           4 - end␍
           4 + end
           5   a   b
        """)


def test_carriage_returns_of_a_whole_file_are_not_a_change():
    assert "␍" not in show("@@ -1,2 +1,2 @@\n-old\r\n+new\r\n same\r\n")


def test_files_of_git():
    diff = textwrap.dedent("""\
        diff --git a/new.py b/new.py
        new file mode 100644
        index 0000000..e69de29
        --- /dev/null
        +++ b/new.py
        @@ -0,0 +1 @@
        +one
        diff --git a/old.py b/old.py
        deleted file mode 100644
        --- a/old.py
        +++ /dev/null
        @@ -1 +0,0 @@
        --- a comment of SQL
        diff --git a/x.py b/y.py
        similarity index 100%
        rename from x.py
        rename to y.py
        diff --git a/logo.png b/logo.png
        index 1..2 100644
        Binary files a/logo.png and b/logo.png differ
        """)
    assert show(diff, 59) == screen("""
        new.py  +1 −0  new file
        + one
        old.py  +0 −1  deleted
        - -- a comment of SQL
        y.py  renamed from x.py
        logo.png  binary, not shown
        """)


def test_text_that_is_no_diff_is_shown_as_it_is():
    assert show("hello\n@@ what @@\n", header=False) == "       hello\n       @@ what @@"
    assert show("") == ""


def test_a_hunk_that_is_shorter_than_its_header_says_ends_with_the_next_header():
    diff = "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n-a\n+b\n@@ -20 +20 @@\n-c\n+d\n"
    assert show(diff, 59) == "x  +2 −2\n- a\n+ b\n⋮\n- c\n+ d"
    assert count_changes(diff) == (2, 2)


def test_words_are_marked_where_lines_are_similar():
    # (old line, new line, changed parts of the old one, changed parts of the new one)
    cases = [
        ("return a + 1", "return a + 2", ["1"], ["2"]),
        ("call(first, second)", "call(first, third)", ["second"], ["third"]),
        ("x = old_name", "x = new_name", ["old"], ["new"]),
        ("a b c d e f", "a d e f", [" b c"], []),
        ("totally different", "nothing in common here", [], []),
        ("same", "same", [], []),
        ("", "added", [], []),
        ("x" * 501, "y" * 501, [], []),
    ]
    wrong = []
    for old, new, old_parts, new_parts in cases:
        old_spans, new_spans = changed_words(old, new)
        found = [old[start:end] for start, end in old_spans]
        found_new = [new[start:end] for start, end in new_spans]
        if (found, found_new) != (old_parts, new_parts):
            wrong.append(f"{old!r} → {new!r}: {found} {found_new}")
    assert not wrong


def test_words_of_a_line_are_compared_with_the_line_that_replaces_it():
    """Also where more lines were added than removed."""
    diff = "@@ -1 +1,3 @@\n-value = compute(1)\n+# a comment\n+\n+value = compute(2)\n"
    rows = diff_rows(diff, width=80, theme=Theme("256"), header=False)
    marked = [row for row in rows if Theme("256").code("added_word") in row]
    assert [plain([row]) for row in marked] == ["   3 + value = compute(2)"]
    # The most similar line, not the first one that is similar.
    diff = "@@ -1 +1,2 @@\n-f(a, b, c, d)\n+f(a, b, x, y)\n+f(a, b, c, e)\n"
    rows = diff_rows(diff, width=80, theme=Theme("256"), header=False)
    marked = [row for row in rows if Theme("256").code("added_word") in row]
    assert [plain([row]) for row in marked] == ["   2 + f(a, b, c, e)"]


def test_colors():
    theme = Theme("256")
    rows = diff_rows(EDIT, width=80, theme=theme, numbers=False)
    added, removed = theme.code("added"), theme.code("removed")
    word = theme.code("removed_word")
    assert (
        rows[3] == f"\x1b[{removed}m-     return count + \x1b[{word}m1\x1b[0m\x1b[{removed}m\x1b[0m"
    )
    assert rows[5] == f"\x1b[{added}m+     # never reached\x1b[0m"
    assert rows[2] == "\x1b[2m      count = 0\x1b[0m"
    assert (
        diff_rows(EDIT, width=80, theme=Theme("none"), numbers=False)[5] == "+     # never reached"
    )


def test_every_row_fits_for_hostile_texts():
    generator = random.Random(14)
    faults = []
    for _ in range(150):
        old = hostile_text(generator)
        new = hostile_text(generator)
        lines = list(difflib.unified_diff(old.split("\n"), new.split("\n"), old, new, lineterm=""))
        body = lines[3:]
        if generator.random() < 0.3:
            generator.shuffle(body)
        diff = "\n".join(lines[:3] + body) if generator.random() < 0.7 else old + new
        width = generator.choice(WIDTHS)
        max_rows = generator.choice((0, 1, 12))
        theme = generator.choice((PLAIN, Theme("256")))
        rows = diff_rows(diff, width=width, theme=theme, max_rows=max_rows)
        faults += find_faults(rows, width)
        if max_rows and len(rows) > max_rows:
            faults.append(f"{len(rows)} rows of {max_rows}")
    assert not faults


def test_random_edits_are_counted_and_complete():
    generator = random.Random(7)
    for _ in range(60):
        old = generator.choices(["a", "-- b", "++ c", "", " d"], k=generator.randrange(0, 30))
        new = [line for line in old if generator.random() < 0.8]
        new += generator.choices(["-- b", "@@ -1 +1 @@", "e"], k=generator.randrange(0, 4))
        diff = "\n".join(difflib.unified_diff(old, new, "a/x", "b/x", lineterm=""))
        files = parse_diff(diff)
        kinds = [line.kind for file in files for line in file.lines]
        assert count_changes(diff) == (kinds.count("added"), kinds.count("removed"))
        assert kinds.count("added") - kinds.count("removed") == len(new) - len(old)


def test_huge_diffs_and_lines_have_a_bounded_cost():
    """Counted in comparisons and characters; a clock would depend on the machine."""
    removed = "".join(f"-line {number} of the old file\n" for number in range(5_000))
    added = "".join(f"+line {number} of the new file\n" for number in range(5_100))
    theme = Theme("256")
    rows = diff_rows(f"@@ -1,5000 +1,5100 @@\n{removed}{added}", width=80, theme=theme)
    assert len(rows) == 10_101
    assert sum(theme.code("added_word") in row for row in rows) == 200
    (row,) = diff_rows(
        "@@ -1,0 +1 @@\n+" + "x" * 1_000_000, width=80, theme=PLAIN, header=False, max_rows=2
    )
    assert cells(row) == 80
    rows = diff_rows("@@ -1,0 +1 @@\n+" + "é" * 1_000_000, width=80, theme=PLAIN, header=False)
    assert len(rows) < 200
    assert plain(rows).endswith("… (990,000 more characters)")


def test_the_unchanged_lines_can_be_left_out():
    diff = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n@@ -9,2 +9,2 @@\n nine\n-ten\n+10\n"
    rows = diff_rows(diff, width=70, theme=PLAIN, header=False, context=False)
    text = "\n".join(rows)
    assert "2 - two" in text
    assert "10 + 10" in text
    assert "one" not in text
    assert "nine" not in text
