"""Regular expressions as models write them, for both engines.

Models mix the dialects of Rust, Python and PCRE. A pattern is read once into tokens, and those are
written for ripgrep, for ``re`` over bytes and for ``re`` over text: both engines accept the same,
and it means the same. As in ripgrep a pattern stays within a line, unless it names the end of one
(``\\n``, ``[\\s\\S]``, ``(?s)``).
"""

from __future__ import annotations

import re

_META = frozenset("\\.+*?()|[]{}^$#&-~")
_POSIX = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9A-Fa-f",
    "word": r"\w",
    "space": r"\s",
    "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~",
}
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}
_NUMBER = re.compile(
    r"x\{([0-9A-Fa-f]+)\}|u\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})"
)
_FLAGS = re.compile(r"\(\?([a-zA-Z]+)\)")
_GROUP = re.compile(
    r"\(\?(?:(P?<(?=[A-Za-z_]))|(P=)|([:=!>]|<[=!])|([a-zA-Z]*(?:-[a-zA-Z]+)?):|(\())"
)
_REPEAT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_STRAY = "\udc80-\udcff"
"""Bytes that are no UTF-8, as Python carries them in a text: nothing but a literal finds them."""


class PatternError(ValueError):
    """A pattern that cannot be read. ``position`` is where, counted in characters."""

    def __init__(self, problem: str, position: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position


class Pattern:
    """A pattern, read.

    Args:
        source: As the model wrote it.
        literal: Whether it is a text to find and no expression.
        ignore_case: Whether upper and lower case are the same.

    Raises:
        PatternError: It is no regular expression.
    """

    def __init__(self, source: str, *, literal: bool = False, ignore_case: bool = False) -> None:
        self.source = source
        self.ignore_case = ignore_case
        self.multiline = self.dotall = False
        self.pcre = False
        """Whether ripgrep's own engine cannot do it: look-around, references, possessive
        repeats.
        """
        self._at, self._tokens = 0, []  # type: int, list[tuple[int, str, str]]
        if literal:
            for self._at, char in enumerate(source.replace("\r\n", "\n")):
                self._literal(char)
        else:
            self._flags()
            self._read()
            self._check()

    @property
    def flags(self) -> int:
        """The flags for ``re``."""
        return re.MULTILINE | (re.IGNORECASE if self.ignore_case else 0)

    def for_ripgrep(self) -> str:
        """Write it for ripgrep."""
        return "".join(self._write(kind, text, "rg") for _, kind, text in self._tokens)

    def for_bytes(self) -> str:
        """Write it for ``re`` over ASCII bytes.

        Empty where it names other characters, which these do not have.
        """
        text = self._for_re("bytes")
        return text if text.isascii() else ""

    def for_text(self) -> str:
        """Write it for ``re`` over text, decoded with ``surrogateescape``."""
        return self._for_re("text")

    def run(self) -> tuple[str, int]:
        """Return the class that each match begins with, and how often at least: what has no such
        run needs no search.
        """
        item, least, _ = self._begin("bytes")
        branches = any((kind, text) == ("text", "|") for _, kind, text in self._tokens)
        if item.isascii() and not branches and not self.multiline:
            return (item, least)
        return ("", 0)

    def _begin(self, target: str) -> tuple[str, int, int | None]:
        """Read the repeat of a class at the begin: what it is, how often at least, how often at
        most.
        """
        item, times = (
            *(self._write(kind, text, target) for _, kind, text in self._tokens[:2]),
            "",
            "",
        )[:2]
        found = re.fullmatch(r"\+|\{([1-9]\d*)(,?)(\d*)\}", times)
        if not found or not (item in (r"\d", r"\w") or item.startswith("[")):
            return "", 0, 0
        endless = times.endswith(("+", ",}"))
        return item, int(found[1] or 1), None if endless else int(found[3] or found[1])

    def _for_re(self, target: str) -> str:
        """Write it so that ``re`` need not try each character where a repeat of a class begins the
        pattern.
        """
        pieces = [self._write(kind, text, target) for _, kind, text in self._tokens]
        item, least, most = self._begin(target)
        if item == r"\w" and most is None and not self.multiline:
            pieces[0] = r"\b\w"  # a match from the middle of a word is one from its begin, too
        elif item:  # it looks fast for a class, but not for a repeat
            pieces[1] = f"{item}{{{least - 1},{'' if most is None else most - 1}}}"
        return "".join(pieces)

    # --- writing ----------------------------------------------------------------------------------

    def _write(self, kind: str, text: str, target: str) -> str:
        never = ("" if self.multiline else r"\n") + (_STRAY if target == "text" else "")
        if kind == "text":
            return text
        if kind == "newline":
            return r"(?:\r?\n)" if target == "rg" else r"\n"
        if kind == "dot":
            if target != "text":
                return "(?s:.)" if self.dotall else "."
            return f"[^{_STRAY}]" if self.dotall else rf"[^\n{_STRAY}]"
        if kind == "escape":
            if target == "rg" or not never or (text, never) == ("S", r"\n"):
                return f"\\{text}"
            return rf"[^\{text.swapcase()}{never}]"
        negated = kind == "not"
        if target == "rg" or not never:
            return f"[{'^' * negated}{text}]"
        if negated:
            return f"[^{text}{never}]"
        return f"(?:(?![{never}])[{text}])"

    # --- reading ----------------------------------------------------------------------------------

    def _add(self, kind: str, text: str, begin: int) -> None:
        self._tokens.append((begin, kind, text))

    def _literal(self, char: str, begin: int | None = None) -> None:
        if char == "\n":
            self.multiline = True
            self._add("newline", "", self._at if begin is None else begin)
        else:
            self._add("text", _plain(char), self._at if begin is None else begin)

    def _flags(self) -> None:
        """Take the flags at the beginning; elsewhere only groups may have some."""
        while found := _FLAGS.match(self.source, self._at):
            for flag in found[1]:
                self._flag(flag)
            self._at = found.end()

    def _flag(self, flag: str) -> None:
        if flag == "i":
            self.ignore_case = True
        elif flag == "s":
            self.dotall = self.multiline = True
        elif flag not in "mu":
            raise PatternError(f"the flag {flag!r} is not supported", self._at)

    def _read(self) -> None:
        repeated = False
        while self._at < len(self.source):
            begin = self._at
            char = self.source[self._at]
            self._at += 1
            quantifier = False
            if char == "\\":
                self._escape(begin)
            elif char == "[":
                self._class(begin)
            elif char == "(":
                self._group(begin)
            elif char == ".":
                self._add("dot", "", begin)
            elif char in "*+?{":
                quantifier = self._quantifier(char, begin)
                self.pcre |= quantifier and repeated and char == "+"
            elif char in "|)^$":
                self._add("text", char, begin)
            else:
                self._literal(char, begin)
            repeated = quantifier

    def _quantifier(self, char: str, begin: int) -> bool:
        if char == "{":
            found = _REPEAT.match(self.source, begin)
            if not found or not (found[1] or found[3]):
                self._literal(char, begin)  # the { of code
                return False
            self._at = found.end()
            char = f"{{{found[1] or 0}{found[2]}{found[3]}}}"
        self._add("text", char, begin)
        return True

    def _group(self, begin: int) -> None:
        if not self.source.startswith("?", self._at):
            self._add("text", "(", begin)
            return
        if self.source.startswith("?#", self._at):
            self._at = self._find(")", begin, "a comment") + 1
            return
        found = _GROUP.match(self.source, begin)
        if not found:
            if _FLAGS.match(self.source, begin):
                where = "; flags for all of it stand at its beginning"
            else:
                where = ""
            raise PatternError(f"an unknown kind of group{where}", begin)
        self._at = found.end()
        name, reference, plain, flags, condition = found.groups()
        self.pcre |= bool(reference or condition or (plain and plain != ":"))
        if name:
            self._add("text", "(?P<", begin)
        elif flags is not None:
            on, _, off = flags.partition("-")
            if "s" in on:
                self.dotall = self.multiline = True
            if set(on + off) - set("ims"):
                raise PatternError("flags of a group may be i, m and s", begin)
            on = "i" * ("i" in on)
            off = "i" * ("i" in off)
            self._add("text", f"(?{on}{'-' * bool(off)}{off}:", begin)
        else:
            self._add("text", found[0], begin)

    def _find(self, end: str, begin: int, what: str) -> int:
        at = self.source.find(end, self._at)
        if at < 0:
            raise PatternError(f"{what} is not closed", begin)
        return at

    def _escape(self, begin: int) -> None:
        char = self.source[self._at : self._at + 1]
        self._at += 1
        if not char:
            raise PatternError("a backslash at the end escapes nothing", begin)
        if char == "k" and self.source[self._at : self._at + 1] in ("<", "{"):
            end = self._find(">" if self.source[self._at] == "<" else "}", begin, "a reference")
            self._add("text", f"(?P={self.source[self._at + 1 : end]})", begin)
            self._at = end + 1
            self.pcre = True
        elif char in "dwbB":
            self._add("text", f"\\{char}", begin)
        elif char in "sDWS":
            self._add("escape", char, begin)
        elif char in "AzZ":
            self._add("text", "^" if char == "A" else "$", begin)
        elif char in "123456789":
            digits = re.compile(r"\d+").match(self.source, self._at - 1)
            self._at = digits.end() if digits else self._at
            self.pcre = True
            self._add("text", f"(?:\\{self.source[begin + 1 : self._at]})", begin)
        elif char == "r" and self.source.startswith("\\n", self._at):
            pass  # the line's end is one thing, however a file writes it
        else:
            self._at -= 1
            self._literal(self._character(begin), begin)

    def _character(self, begin: int) -> str:
        """Read the rest of an escape that stands for one character."""
        found = _NUMBER.match(self.source, self._at)
        if found:
            self._at = found.end()
            try:
                return chr(int(next(filter(None, found.groups())), 16))
            except (ValueError, OverflowError):
                raise PatternError("there is no such character", begin) from None
        char = self.source[self._at : self._at + 1]
        self._at += 1
        if char in "pP":
            raise PatternError(
                f"\\{char} (Unicode classes) is not supported; use \\w or a class such as [A-Z]",
                begin,
            )
        if char in _SIMPLE:
            return _SIMPLE[char]
        if not char or char.isalnum():
            raise PatternError(f"the escape \\{char} is unknown", begin)
        return char

    def _class(self, begin: int) -> None:
        negated = self.source.startswith("^", self._at)
        self._at += negated
        items: list[str] = []
        guarded = False
        first = True
        while first or not self.source.startswith("]", self._at):
            if self._at >= len(self.source):
                raise PatternError("a class [ is not closed", begin)
            first = False
            item, low = self._item(begin)
            following = self.source[self._at : self._at + 2]
            if low and following[:1] == "-" and following not in ("-", "-]"):
                self._at += 1
                end, high = self._item(begin)
                if not high or high < low:
                    raise PatternError("a range of a class is upside down, or has no end", begin)
                item = f"{item}-{end}"
                guarded = guarded or low <= "\n" <= high
            elif low == "\n":
                self.multiline |= not negated
            items.append(item)
        self._at += 1
        wide = {r"\s", r"\S", r"\w", r"\W", r"\d", r"\D"} & set(items)
        if not negated and any({f"\\{c}", f"\\{c.upper()}"} <= wide for c in "swd"):
            self.multiline = True  # any character at all
        guarded |= bool(wide & {r"\s", r"\S", r"\W", r"\D"})
        text = "".join(items)
        self._add(
            "not" if negated else "in" if guarded else "text",
            text if negated or guarded else f"[{text}]",
            begin,
        )

    def _item(self, begin: int) -> tuple[str, str]:
        """Read one item of a class: as it is written, and the character if it is one."""
        char = self.source[self._at : self._at + 1]
        if char == "[" and (found := re.compile(r"\[:(\w+):\]").match(self.source, self._at)):
            if found[1] not in _POSIX:
                raise PatternError(f"the class [:{found[1]}:] is unknown", self._at)
            self._at = found.end()
            return _POSIX[found[1]], ""
        self._at += 1
        if char == "\\":
            char = self.source[self._at : self._at + 1]
            if char and char in "swdSWD":
                self._at += 1
                return f"\\{char}", ""
            if char == "b":
                self._at += 1
                return r"\x08", "\b"
            char = self._character(begin)
        return _plain(char), char

    # --- judging ----------------------------------------------------------------------------------

    def _check(self) -> None:
        """Let ``re`` judge, whichever engine will search."""
        try:
            re.compile(
                "".join(self._write(kind, text, "text") for _, kind, text in self._tokens),
                self.flags,
            )
        except re.error as error:
            at = error.pos or 0
            position = 0
            for begin, kind, text in self._tokens:
                position = begin
                at -= len(self._write(kind, text, "text"))
                if at < 0:
                    break
            raise PatternError(error.msg, position) from None
        except (OverflowError, RecursionError):
            raise PatternError("it is too big or too deep", 0) from None


def _plain(char: str) -> str:
    """Write a character that stands for itself, in a class or outside."""
    if char < " " or char == "\x7f":
        return f"\\x{ord(char):02x}"
    return f"\\{char}" if char in _META else char
