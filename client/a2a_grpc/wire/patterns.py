r"""Regular expressions of schemas, matched in time that grows with the text and not with its possible readings.

A schema comes from somebody else, and so may the data. An expression such as `(a+)+$` keeps a matcher that tries one
reading after the other busy for years. This one follows all readings at once (Thompson), and counts its steps.

The dialect is that of JSON Schema (ECMA-262) without what cannot be matched so: backreferences and looking around; and
without classes of Unicode properties (`\p{…}`).
"""

from collections.abc import Callable
from typing import Final, NamedTuple

MAX_INSTRUCTIONS: Final = 5_000
"""`{n,m}` repeats what stands before it so often."""
_MAX_DEPTH: Final = 50
_MAX_COUNT: Final = 10_000
_DIGITS: Final = 6

_Ranges = tuple[tuple[int, int], ...]
_LAST: Final = 0x10FFFF
_DIGIT: Final[_Ranges] = ((48, 57),)
_WORD: Final[_Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Final[_Ranges] = (
    (9, 13),
    (32, 32),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
_LINE_END: Final[_Ranges] = ((10, 10), (13, 13), (0x2028, 0x2029))
_CONTROL: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}


class PatternError(ValueError):
    """An expression that is none, or one that this module does not match."""


class _Instruction(NamedTuple):
    """One of: a character in `ranges`; a fork to `first` and `second`; an assertion; the end (`first` < 0)."""

    ranges: _Ranges | None = None
    assertion: str = ""
    first: int = -1
    second: int = -1


class Pattern:
    """An expression that is ready to be looked for."""

    def __init__(self, text: str) -> None:
        """Raises: PatternError."""
        self.text = text
        self._program: list[_Instruction] = []
        parser = _Parser(text, self._program)
        parser.whole()
        self._program.append(_Instruction())
        self.size = len(self._program)
        """What it takes of memory, and of time for each character at worst."""

    def found_in(self, text: str, spend: Callable[[int], None]) -> bool:
        """Whether it matches anywhere in `text`; `spend` is told of the steps, and may raise to end them."""
        waiting: list[int] = []
        for at in range(len(text) + 1):
            waiting.append(0)
            found, reading, steps = self._follow(waiting, text, at)
            spend(2 + steps)
            if found:
                return True
            if at == len(text):
                return False
            code = ord(text[at])
            waiting = [state + 1 for state in reading if any(low <= code <= high for low, high in self._ranges(state))]
        return False

    def _ranges(self, state: int) -> _Ranges:
        return self._program[state].ranges or ()

    def _follow(self, begin: list[int], text: str, at: int) -> tuple[bool, list[int], int]:
        """Whether the end is reached without another character, what waits for one, and how many states were seen."""
        seen, reading, stack = set[int](), list[int](), list(begin)
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            instruction = self._program[state]
            if instruction.ranges is not None:
                reading.append(state)
            elif instruction.assertion:
                if _holds(instruction.assertion, text, at):
                    stack.append(state + 1)
            elif instruction.first < 0:
                return True, reading, len(seen)
            else:
                stack.append(instruction.first)
                if instruction.second >= 0:
                    stack.append(instruction.second)
        return False, reading, len(seen)


def _holds(assertion: str, text: str, at: int) -> bool:
    if assertion == "^":
        return at == 0
    if assertion == "$":
        return at == len(text)
    before = at > 0 and _is_word(text[at - 1])
    after = at < len(text) and _is_word(text[at])
    return (before != after) == (assertion == "b")


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


class _Parser:
    """Reads an expression and writes its program as it goes."""

    def __init__(self, text: str, program: list[_Instruction]) -> None:
        self._text = text
        self._program = program
        self._at = 0
        self._depth = 0

    def whole(self) -> None:
        self._alternatives()
        if self._at < len(self._text):
            raise self._wrong("a ) without a (")

    def _alternatives(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._wrong("its groups stand too deep in each other")
        ends: list[int] = []
        while True:
            fork = len(self._program)
            self._emit(_Instruction(first=fork + 1))
            self._sequence()
            if self._peek() != "|":
                break
            self._at += 1
            ends.append(len(self._program))
            self._emit(_Instruction(first=0))
            self._program[fork] = _Instruction(first=fork + 1, second=len(self._program))
        for end in ends:
            self._program[end] = _Instruction(first=len(self._program))
        self._depth -= 1

    def _sequence(self) -> None:
        while self._peek() not in {"", "|", ")"}:
            start = len(self._program)
            can_repeat = self._atom()
            low, high = self._quantifier()
            if (low, high) == (1, 1):
                continue
            if not can_repeat:
                raise self._wrong("nothing to repeat")
            body = self._program[start:]
            del self._program[start:]
            self._repeat(body, start, low, high)

    def _repeat(self, body: list[_Instruction], start: int, low: int, high: int | None) -> None:
        """Write `body`, which was written at `start`, as often as it may come."""

        def once() -> None:
            by = len(self._program) - start
            for ranges, assertion, first, second in body:
                first_moved, second_moved = (to + by if to >= 0 else to for to in (first, second))
                self._emit(_Instruction(ranges, assertion, first_moved, second_moved))

        for _ in range(low):
            once()
        if high is None:
            fork = len(self._program)
            self._emit(_Instruction(first=0))
            once()
            self._emit(_Instruction(first=fork))
            self._program[fork] = _Instruction(first=fork + 1, second=len(self._program))
            return
        forks: list[int] = []
        for _ in range(high - low):
            forks.append(len(self._program))
            self._emit(_Instruction(first=0))
            once()
        for fork in forks:
            self._program[fork] = _Instruction(first=fork + 1, second=len(self._program))

    def _quantifier(self) -> tuple[int, int | None]:
        low: int
        high: int | None
        match self._peek():
            case "*":
                low, high = 0, None
            case "+":
                low, high = 1, None
            case "?":
                low, high = 0, 1
            case "{":
                low, high = self._counts()
            case _:
                return 1, 1
        self._at += 1
        if self._peek() == "?":
            # What is found first does not matter where the question is whether.
            self._at += 1
        if self._peek() in {"*", "+", "?", "{"}:
            raise self._wrong("two quantifiers after each other")
        return low, high

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        low, comma, high = self._text[self._at + 1 : max(end, 0)].partition(",")
        numbers = [low, *([high] if high else [])]
        if end < 0 or not all(number.isascii() and number.isdigit() and len(number) <= _DIGITS for number in numbers):
            raise self._wrong("a { that counts nothing; write \\{")
        least = int(low)
        most = (int(high) if high else None) if comma else least
        if (most is not None and most < least) or max(least, most or 0) > _MAX_COUNT:
            raise self._wrong(f"it counts to less than it begins with, or beyond {_MAX_COUNT}")
        self._at = end
        return least, most

    def _atom(self) -> bool:
        """Read one thing; whether it can be repeated."""
        character = self._next()
        match character:
            case "(":
                self._group()
            case "[":
                self._emit(_Instruction(ranges=self._class()))
            case ".":
                self._emit(_Instruction(ranges=_without(_LINE_END)))
            case "^" | "$":
                self._emit(_Instruction(assertion=character))
                return False
            case "\\" if self._peek() in {"b", "B"}:
                self._emit(_Instruction(assertion=self._next()))
                return False
            case "\\":
                self._emit(_Instruction(ranges=self._escape()))
            case "*" | "+" | "?" | "{":
                raise self._wrong("nothing to repeat")
            case _:
                self._emit(_Instruction(ranges=((ord(character), ord(character)),)))
        return True

    def _group(self) -> None:
        if self._peek() == "?":
            self._at += 1
            kind = self._next()
            if kind == "<" and self._peek() not in {"=", "!"}:
                end = self._text.find(">", self._at)
                if end < 0:
                    raise self._wrong("a group's name without an end")
                self._at = end + 1
            elif kind != ":":
                raise self._wrong("it looks around ( (?=, (?!, (?<=, (?<! ), which is not supported")
        self._alternatives()
        if self._next() != ")":
            raise self._wrong("a ( without a )")

    def _escape(self, *, in_class: bool = False) -> _Ranges:
        letter = self._next()
        known = {"d": _DIGIT, "w": _WORD, "s": _SPACE}.get(letter.lower())
        if known is not None:
            return known if letter.islower() else _without(known)
        if letter in _CONTROL:
            return _one(_CONTROL[letter])
        if letter == "b" and in_class:
            return _one(8)
        if letter == "c" and self._peek().isascii() and self._peek().isalpha():
            return _one(ord(self._next()) % 32)
        if letter in {"x", "u"}:
            return _one(self._hexadecimal(letter))
        if letter in {"p", "P", "k"} or letter.isdigit():
            raise self._wrong(f"\\{letter}, which is not supported")
        if letter.isalnum():
            raise self._wrong(f"\\{letter}, which means nothing")
        return _one(ord(letter))

    def _hexadecimal(self, letter: str) -> int:
        if letter == "u" and self._peek() == "{":
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1 : max(end, 0)]
            self._at = end + 1
        else:
            length = 2 if letter == "x" else 4
            digits = self._text[self._at : self._at + length].rjust(length, "-")
            self._at += length
        if not digits or len(digits) > _DIGITS or set(digits) - set("0123456789abcdefABCDEF"):
            raise self._wrong(f"\\{letter} without its digits")
        return min(int(digits, 16), _LAST)

    def _class(self) -> _Ranges:
        negated = self._peek() == "^"
        self._at += negated
        found: list[tuple[int, int]] = []
        while self._peek() != "]":
            low = self._class_item()
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._at += 1
                high = self._class_item()
                if len(low) != 1 or len(high) != 1 or low[0][0] > high[0][1]:
                    raise self._wrong("a range of characters that is none")
                found.append((low[0][0], high[0][1]))
            else:
                found += low
        self._at += 1
        return _without(tuple(found)) if negated else tuple(found)

    def _class_item(self) -> _Ranges:
        character = self._next()
        return self._escape(in_class=True) if character == "\\" else _one(ord(character))

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        if self._at >= len(self._text):
            raise self._wrong("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _emit(self, instruction: _Instruction) -> None:
        if len(self._program) >= MAX_INSTRUCTIONS:
            raise self._wrong("its counts make it too large")
        self._program.append(instruction)

    def _wrong(self, why: str) -> PatternError:
        return PatternError(f"the pattern {self._text[:100]!r} cannot be used: {why}")


def _one(code: int) -> _Ranges:
    return ((code, code),)


def _without(ranges: _Ranges) -> _Ranges:
    """All other characters."""
    left: list[tuple[int, int]] = []
    begin = 0
    for low, high in sorted(ranges):
        if begin < low:
            left.append((begin, low - 1))
        begin = max(begin, high + 1)
    if begin <= _LAST:
        left.append((begin, _LAST))
    return tuple(left)
