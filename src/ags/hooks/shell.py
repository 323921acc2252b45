"""Reading a shell command: words, quotes, substitutions, lists. It runs and expands nothing.

The grammar is bash's, which sh's is part of. Where the two differ, both readings are kept.
"""

from __future__ import annotations

import re

from ags.hooks.syntax import (
    Assignment,
    Branches,
    Command,
    For,
    Function,
    Group,
    Here,
    Node,
    Parameter,
    Pipeline,
    Redirect,
    Repeat,
    Script,
    Step,
    Test,
    Text,
    Word,
)
from ags.hooks.words import Unreadable, WordReader

LONGEST = 1 << 18
MOST_STEPS = 2000

_RESERVED = re.compile(r"(?:[a-z]+|!|[{}]|\[\[)(?=[\s;&|()<>]|\Z)")
_REDIRECT = re.compile(r"(\d*)(<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)(?!\()|(&>>|&>)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?(\+?)=", re.ASCII)
_BLANK = re.compile(r"(?:[ \t\r\v\f]|\\\n)*")
_COMMENT = re.compile(r"#[^\n]*")
_OPERATOR = re.compile(r"&&|\|\||;(?!;|&)|&(?!>)|\n")
_EMPTY_PARENTHESES = re.compile(r"\([ \t]*\)")
_CASE_ENDS = (";;&", ";;", ";&")


def parse(text: str, depth: int = 0) -> Script:
    """The whole of a command line or script."""
    if len(text) > LONGEST:
        raise Unreadable("it is too long")
    reader = _Reader(text, depth)
    script = reader.script(())
    if reader.at < len(text):
        raise Unreadable(f"unexpected {text[reader.at]!r}")
    return script


class _Reader(WordReader):
    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text, depth)
        self._awaited: list[tuple[Here, str, bool, bool]] = []

    # Lists and pipelines

    def script(self, until: tuple[str, ...]) -> Script:
        self.deeper(1)
        steps: list[Step] = []
        while self._more_lines() and not self._ends(until):
            start = self.at
            node = self._pipeline()
            steps.append(Step(node, self._operator()))
            if len(steps) > MOST_STEPS:
                raise Unreadable("it is too long")
            if self.at == start:
                raise Unreadable(f"unexpected {self.text[start]!r}")
        self.deeper(-1)
        return tuple(steps)

    def _more_lines(self) -> bool:
        """Past blanks, comments and line ends."""
        while True:
            self._blank()
            if self.look("\n"):
                self._line_end()
            elif self.look("#"):
                self.take(_COMMENT)
            else:
                return self.at < len(self.text)

    def _ends(self, until: tuple[str, ...]) -> bool:
        word = self._reserved()
        return any(word == end if end.isalpha() or end == "}" else self.look(end) for end in until)

    def _operator(self) -> str:
        self._blank()
        if self.look("#"):
            self.take(_COMMENT)
        if self.look("\n"):
            self._line_end()
            return ";"
        return self.take(_OPERATOR)

    def _line_end(self) -> None:
        self.at += 1
        awaited, self._awaited = self._awaited, []
        for here, end, strip, literal in awaited:
            body = self._here_body(end, strip)
            here.word = (Text(body, True),) if literal else self.another(body).within("")

    def _here_body(self, end: str, strip: bool) -> str:
        lines = []
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            line, self.at = self.text[self.at : stop], min(stop + 1, len(self.text))
            line = line.lstrip("\t") if strip else line
            if line == end:
                break
            lines.append(line + "\n")
        return "".join(lines)

    def _pipeline(self) -> Node:
        while self._reserved() in ("!", "time"):
            self.take(_RESERVED)
            self._blank()
            while self.look("-p"):
                self.at += 2
                self._blank()
        parts = [self._command()]
        self._blank()
        while self.look("|") and not self.look("||"):
            self.at += 2 if self.look("|&") else 1
            if not self._more_lines():
                raise Unreadable("a pipe leads nowhere")
            parts.append(self._command())
            self._blank()
        return parts[0] if len(parts) == 1 else Pipeline(tuple(parts))

    # Commands

    def _command(self) -> Node:
        word = self._reserved()
        if word in _COMPOUND:
            self.take(_RESERVED)
            node: Node = _COMPOUND[word](self)
        elif self.look("(("):
            node = self._double_parentheses()
        elif self.look("("):
            node = self._parentheses()
        else:
            return self._simple()
        redirects = self._redirects()
        return Group((Step(node, ""),), False, redirects) if redirects else node

    def _simple(self) -> Node:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._blank()
            if redirect := self._redirect():
                redirects.append(redirect)
            elif not (word := self.word(first=not words)):
                break
            elif not words and (made := self._assignment(word)):
                assignments.append(made)
            else:
                words.append(word)
                if function := self._function_after(words):
                    return function
        if not (words or assignments or redirects):
            raise Unreadable("a command is missing")
        return Command(tuple(assignments), tuple(words), tuple(redirects))

    def _assignment(self, word: Word) -> Assignment | None:
        first = word[0]
        if not isinstance(first, Text) or first.quoted:
            return None
        found = _ASSIGNMENT.match(first.text)
        if found is None:
            return None
        rest = (Text(first.text[found.end() :], False), *word[1:])
        if len(first.text) == found.end() and len(word) == 1 and self.look("("):
            return Assignment(found[1], self._array(), bool(found[2]), True)
        return Assignment(found[1], (rest,), bool(found[2]), element="[" in found[0])

    def _array(self) -> tuple[Word, ...]:
        self.at += 1
        words = []
        while self._more_lines() and (word := self.word()):
            words.append(word)
        self.expect(")")
        return tuple(words)

    def _function_after(self, words: list[Word]) -> Node | None:
        name = words[0][0]
        self._blank()
        if len(words) > 1 or not isinstance(name, Text) or not self.take(_EMPTY_PARENTHESES):
            return None
        return self._function_body(name.text)

    def _function_body(self, name: str) -> Node:
        self._more_lines()
        self.deeper(1)
        body = self._command()
        self.deeper(-1)
        return Function(name, (Step(body, ""),))

    def _function(self) -> Node:
        self._blank()
        name = self.plain_word()
        self._blank()
        if self.look("("):
            self.at += 1
            self._blank()
            self.expect(")")
        return self._function_body(name)

    def _parentheses(self) -> Node:
        self.at += 1
        script = self.script((")",))
        self.expect(")")
        return Group(script, True)

    def _double_parentheses(self) -> Node:
        """Arithmetic in bash; in other shells, a group in a group."""
        inner = self.arithmetic()
        if inner is None:
            return self._parentheses()
        words = (self.another(inner).within(""),)
        try:
            return Branches((parse(inner, self.depth + 1), (Step(Test(words), ""),)))
        except Unreadable:
            return Test(words)

    def _braces(self) -> Node:
        script = self.script(("}",))
        self.expect("}")
        return Group(script, False)

    def _if(self) -> Node:
        branches = []
        before: Script = ()
        while True:
            before = (*before, *self.script(("then",)))
            self.expect("then")
            branches.append((*before, *self.script(("elif", "else", "fi"))))
            word = self.take(_RESERVED)
            if word == "else":
                branches.append((*before, *self.script(("fi",))))
                self.expect("fi")
                return Branches(tuple(branches))
            if word == "fi":
                return Branches((*branches, before))
            if word != "elif":
                raise Unreadable("fi is missing")

    def _while(self) -> Node:
        test = self.script(("do",))
        return Repeat((*test, *self._do()))

    def _do(self) -> Script:
        self._more_lines()
        if self._reserved() == "{":
            self.take(_RESERVED)
            script = self.script(("}",))
            self.expect("}")
            return script
        self.expect("do")
        script = self.script(("done",))
        self.expect("done")
        return script

    def _for(self) -> Node:
        self._blank()
        if self.look("(("):
            words: tuple[Word, ...] = (_Reader(self.arithmetic() or "", self.depth + 1).within(""),)
            self._separator()
            return Repeat(((Step(Test(words), "")), *self._do()))
        name = self.name()
        self._more_lines()
        words = ((Parameter("@", "", None, True),),)
        if self._reserved() == "in":
            self.take(_RESERVED)
            words = self._words()
        self._separator()
        return For(name, words, self._do())

    def _words(self) -> tuple[Word, ...]:
        words = []
        self._blank()
        while word := self.word():
            words.append(word)
            self._blank()
        return tuple(words)

    def _separator(self) -> None:
        self._blank()
        if self.look(";"):
            self.at += 1

    def _case(self) -> Node:
        self._blank()
        subject = self.word()
        self._more_lines()
        self.expect("in")
        branches: list[Script] = [(Step(Test((subject,)), ""),)]
        while self._more_lines() and self._reserved() != "esac":
            branches.append(self._case_branch())
        self.expect("esac")
        return Branches(tuple(branches))

    def _case_branch(self) -> Script:
        if self.look("("):
            self.at += 1
        patterns = list(self._words())
        while self.look("|"):
            self.at += 1
            patterns.extend(self._words())
        self.expect(")")
        script = self.script((*_CASE_ENDS, "esac"))
        end = next((end for end in _CASE_ENDS if self.look(end)), "")
        self.at += len(end)
        return (Step(Test(tuple(patterns)), ""), *script)

    def _test(self) -> Node:
        words: list[Word] = []
        while self._more_lines():
            word = self.word()
            if word == (Text("]]", False),):
                return Test(tuple(words))
            if word:
                words.append(word)
            else:
                self.at += 1
        raise Unreadable("[[ is not closed")

    def _coproc(self) -> Node:
        self._blank()
        return self._command()

    # Redirections

    def _redirects(self) -> tuple[Redirect, ...]:
        found = []
        self._blank()
        while redirect := self._redirect():
            found.append(redirect)
            self._blank()
        return tuple(found)

    def _redirect(self) -> Redirect | None:
        found = _REDIRECT.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        operator = found[2] or found[3]
        self._blank()
        target = self.word()
        if not target:
            raise Unreadable("a redirection leads nowhere")
        here = Here(target)
        if operator in ("<<", "<<-"):
            end = "".join(piece.text for piece in target if isinstance(piece, Text))
            literal = any(isinstance(piece, Text) and piece.quoted for piece in target)
            self._awaited.append((here, end, operator == "<<-", literal))
            here.word = ()
        return Redirect(operator, here)

    def _blank(self) -> None:
        self.take(_BLANK)

    def _reserved(self) -> str:
        found = _RESERVED.match(self.text, self.at)
        return found[0] if found else ""

    def expect(self, text: str) -> None:
        self._more_lines()
        if not self.look(text):
            raise Unreadable(f"{text} is missing")
        self.at += len(text)


_COMPOUND = {
    "if": _Reader._if,
    "while": _Reader._while,
    "until": _Reader._while,
    "for": _Reader._for,
    "select": _Reader._for,
    "case": _Reader._case,
    "function": _Reader._function,
    "coproc": _Reader._coproc,
    "{": _Reader._braces,
    "[[": _Reader._test,
}
