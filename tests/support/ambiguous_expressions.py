"""Find regular expressions that may take exponential time.

An expression takes exponential time on some texts if one of its loops can match the same text in two
ways: ``(?:a*)+`` has twice as many ways to match for each further ``a``, and a matcher that backtracks
tries them all before it reports that a text does not match. ``find_ambiguous_loop`` looks for such a loop
in the automaton of an expression: Weideman et al., "Analyzing Matching Time Behavior of Backtracking
Regular Expression Matchers by Using Ambiguity of NFA" (2016).

The states of the automaton are the positions of the expression's characters (Glushkov). Looking ahead
and behind counts as matching nothing, and groups that do not backtrack (``(?>…)``, ``a*+``) as ordinary
characters, so that the result errs in both directions, but rarely.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

_parser: Any = re._parser  # type: ignore[attr-defined]
_CATEGORIES = {
    "CATEGORY_DIGIT": str.isdigit,
    "CATEGORY_NOT_DIGIT": lambda char: not char.isdigit(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda char: not char.isspace(),
    "CATEGORY_WORD": lambda char: char.isalnum() or char == "_",
    "CATEGORY_NOT_WORD": lambda char: not (char.isalnum() or char == "_"),
}
# Loops that repeat at most this often are written out; the others count as endless.
_MAX_COPIES = 3
# Loops with more positions than this are not examined.
_MAX_LOOP = 400
# As a plain number, because operations on a flag of `re` take longer than all others here.
_IGNORECASE = int(re.IGNORECASE)
_DOTALL = int(re.DOTALL)
# Characters that stand for all those that an expression does not name.
_USUAL = "a1 _\n\té中\x00"


@attrs.frozen
class _Part:
    """A part of an expression: the numbers of ways to begin, to end and to match nothing."""

    first: Counter[int]
    last: Counter[int]
    empty: int


@attrs.define
class _Automaton:
    """The positions of an expression's characters, and the ways from one to the next."""

    flags: int
    alphabet: str
    chars: list[frozenset[str]] = attrs.field(factory=list)
    groups: dict[int, frozenset[str]] = attrs.field(factory=dict)
    follow: defaultdict[int, Counter[int]] = attrs.field(factory=lambda: defaultdict(Counter))

    def build(self, items: Iterable[tuple[Any, Any]]) -> _Part:
        """Add the positions of consecutive items."""
        whole = _Part(Counter(), Counter(), 1)
        for operator, argument in items:
            whole = self._join(whole, self._build_item(str(operator), argument))
        return whole

    def _build_item(self, operator: str, argument: Any) -> _Part:
        match operator:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._add(self._find_chars(operator, argument))
            case "SUBPATTERN":
                begin = len(self.chars)
                flags = self.flags
                self.flags = (flags | argument[1]) & ~argument[2]
                part = self.build(argument[3])
                self.flags = flags
                self.groups[argument[0]] = frozenset().union(*self.chars[begin:])
                return part
            case "GROUPREF":
                return self._add(self.groups.get(argument, frozenset()))
            case "BRANCH":
                return self._unite([self.build(branch) for branch in argument[1]])
            case "GROUPREF_EXISTS":
                branches = [branch for branch in argument[1:] if branch is not None]
                return self._unite([self.build(branch) for branch in branches])
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(*argument)
            case "ATOMIC_GROUP" | "POSSESSIVE_REPEAT":
                return self._add(frozenset(self.alphabet))
        return _Part(Counter(), Counter(), 1)

    def _repeat(self, least: int, most: Any, items: Any) -> _Part:
        is_endless = most is _parser.MAXREPEAT or most > _MAX_COPIES
        whole = _Part(Counter(), Counter(), 1)
        for _ in range(min(least, _MAX_COPIES) if is_endless else least):
            whole = self._join(whole, self.build(items))
        if is_endless:
            body = self.build(items)
            self._connect(body.last, body.first)
            # The matcher leaves a loop whose body matched nothing.
            return self._join(whole, _Part(body.first, body.last, 1))
        # Each further copy begins where the one before it ended: `(a(a)?)?`.
        rest = _Part(Counter(), Counter(), 1)
        for _ in range(most - least):
            rest = self._join(self.build(items), rest)
            rest = _Part(rest.first, rest.last, 1)
        return self._join(whole, rest)

    def _add(self, chars: frozenset[str]) -> _Part:
        self.chars.append(chars)
        position = len(self.chars) - 1
        return _Part(Counter([position]), Counter([position]), 0)

    def _connect(self, ends: Mapping[int, int], beginnings: Mapping[int, int]) -> None:
        for end, ways in ends.items():
            for beginning, more in beginnings.items():
                self.follow[end][beginning] += ways * more

    def _join(self, left: _Part, right: _Part) -> _Part:
        self._connect(left.last, right.first)
        first = Counter(left.first)
        last = Counter(right.last)
        if left.empty:
            first.update(right.first)
        if right.empty:
            last.update(left.last)
        return _Part(first, last, min(left.empty * right.empty, 1))

    def _unite(self, parts: Iterable[_Part]) -> _Part:
        first: Counter[int] = Counter()
        last: Counter[int] = Counter()
        empty = 0
        for part in parts:
            first.update(part.first)
            last.update(part.last)
            empty = max(empty, part.empty)
        return _Part(first, last, empty)

    def _find_chars(self, operator: str, argument: Any) -> frozenset[str]:
        ignores_case = bool(self.flags & _IGNORECASE)
        if operator == "LITERAL" and not ignores_case:
            return frozenset(chr(argument)).intersection(self.alphabet)
        return frozenset(
            char
            for char in self.alphabet
            if self._matches(operator, argument, char)
            or (ignores_case and self._matches_other_case(operator, argument, char))
        )

    def _matches_other_case(self, operator: str, argument: Any, char: str) -> bool:
        return any(self._matches(operator, argument, each) for each in (char.lower(), char.upper()))

    def _matches(self, operator: str, argument: Any, char: str) -> bool:
        match operator:
            case "LITERAL":
                return ord(char) == argument if len(char) == 1 else False
            case "NOT_LITERAL":
                return char != chr(argument)
            case "ANY":
                return char != "\n" or bool(self.flags & _DOTALL)
            case "RANGE":
                return len(char) == 1 and argument[0] <= ord(char) <= argument[1]
            case "CATEGORY":
                return bool(_CATEGORIES[str(argument)](char))
        negated = any(str(each) == "NEGATE" for each, _ in argument)
        found = any(
            self._matches(str(each), value, char)
            for each, value in argument
            if str(each) != "NEGATE"
        )
        return found != negated

    def find_ambiguous_loop(self) -> str | None:
        """Return a text that a loop matches in two ways; ``None`` if there is none."""
        for loop in self._find_loops():
            if len(loop) <= _MAX_LOOP and (text := self._find_ambiguity(loop)) is not None:
                return text
        return None

    def _find_loops(self) -> Iterator[set[int]]:
        """Yield the sets of positions that can reach each other."""
        graph = {position: set(self.follow[position]) for position in range(len(self.chars))}
        yield from find_components(graph)

    def _find_ambiguity(self, loop: set[int]) -> str | None:
        """Return a text that leads from a position back to it in two ways."""
        for start in loop:
            # Pairs of positions that two ways with the same text reach, and the text.
            reached: dict[tuple[int, int, bool], str] = {(start, start, False): ""}
            waiting = [(start, start, False)]
            while waiting:
                one, other, parted = state = waiting.pop()
                for next_one, ways in self.follow[one].items():
                    if next_one not in loop:
                        continue
                    for next_other in self.follow[other]:
                        if next_other not in loop:
                            continue
                        common = self.chars[next_one] & self.chars[next_other]
                        if not common:
                            continue
                        now = parted or next_one != next_other or (one == other and ways > 1)
                        following = (next_one, next_other, now)
                        text = reached[state] + min(common)
                        if following == (start, start, True):
                            return text
                        if following not in reached:
                            reached[following] = text
                            waiting.append(following)
        return None


def find_components(graph: Mapping[int, set[int]]) -> Iterator[set[int]]:
    """Yield the strongly connected components of a graph that contain a loop (Kosaraju)."""
    order: list[int] = []
    seen: set[int] = set()
    for root in graph:
        stack = [(root, iter(graph[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            node, rest = stack[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(graph[following])))
    backward: defaultdict[int, set[int]] = defaultdict(set)
    for node, followers in graph.items():
        for each in followers:
            backward[each].add(node)
    assigned: set[int] = set()
    for root in reversed(order):
        if root in assigned:
            continue
        component = {root}
        waiting = [root]
        while waiting:
            for each in backward[waiting.pop()] - assigned - component:
                component.add(each)
                waiting.append(each)
        assigned |= component
        if len(component) > 1 or root in graph[root]:
            yield component


def find_ambiguous_loop(pattern: str, flags: int = 0) -> str | None:
    """Return a text that a loop of an expression matches in two ways; ``None`` if there is none."""
    if not any(char in pattern for char in "*+{"):
        return None
    parsed = _parser.parse(pattern, flags)
    literals = {char for char in pattern if char.isprintable()}
    alphabet = "".join(sorted(literals | set(_USUAL)))
    automaton = _Automaton(int(parsed.state.flags), alphabet)
    automaton.build(parsed)
    return automaton.find_ambiguous_loop()
