"""The words that readers see: the field's words, one for each concept."""

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator

from tests.lint.findings import PACKAGE, ROOT, Finding
from tests.lint.pages import PAGES, without_code
from tests.lint.reference import commands, groups, help_of, value_of

# what to write instead, and the pattern of what not to write
EVERYWHERE = {
    "not supported, raises InputError": r"\brefus(e|es|ed|ing|al|als)\b",
    "custom": r"\bone's own\b|\bof (its|their|your|my|our) own\b",
    "identical, symmetric or equal": r"\balike\b",
    "next to, compared with": r"\bbeside\b",
    "compare with": r"\b(hold|holds|held|holding)\b[^.;:]{0,50}\bagainst\b",
    "error bars that include ...": r"\bhonest\b",
    "fix": r"\bmend(s|ed|ing)?\b",
    "specified, distinguished": r"\btold\b",
    "finally": r"\bin the end\b",
    "function": r"\bverbs?\b",
    "architecture": r"\bhouse\b",
    "is not a": r"(?<!there )\bis no (?!longer|more|less|need)",
    "the software does not speak": r"\bha(s|ve) a say\b|\bspeaks? of\b|\bknows? nothing\b|\banswers? to\b",
    "escape from a plateau": r"\bleav(e|es|ing) (the|a|its|this|that|their) plateaus?\b|\bunits part\b",
    "the initial condition": r"\bstart (decides|never)\b|\bstart or noise decides\b|\brandom starts?\b|\bnoise decides\b",
    "American spelling": r"colour|behaviour|favour|neighbour|\banalyse\b|normalis|optimis(e|ation)|labelled|modelling|\bcentre\b"
    r"|\bgrey\b|\blearnt\b|whilst|\btowards\b",
}
MESSAGES = EVERYWHERE | {
    "student units": r"\bstudents\b",
    "the initial condition, or Start": r"(?-i:\b([Aa]|[Tt]he|[Tt]his|same) start\b)",
    "result": r"\banswer(s|ed)?\b",
    "analysis": r"\bquestions?\b",
    "message": r"\bsentences?\b",
}
ALLOWED = {  # texts that are right as they are
    "src/tutelage/page/document.py": ("beside",),  # the name of a CSS class
}


def check() -> Iterator[Finding]:
    yield from check_pages()
    yield from check_messages()
    yield from check_command_line()
    yield from check_docstrings()


def check_pages() -> Iterator[Finding]:
    for page in PAGES:
        for line, words, instead in wrong_words(
            without_code(page.read_text()), EVERYWHERE
        ):
            yield Finding(page, line, f"{words!r}: write {instead}")


def check_messages() -> Iterator[Finding]:
    """Strings of several words; those of papers use the words of their paper."""
    for file in sorted(PACKAGE.rglob("*.py")):
        allowed = ALLOWED.get(str(file.relative_to(ROOT)), ())
        for line, text in messages(ast.parse(file.read_text())):
            if " " not in text.strip():
                continue
            for _, words, instead in wrong_words(text, MESSAGES):
                if words not in allowed:
                    yield Finding(
                        file, line, f"{words!r} in a message: write {instead}"
                    )


def check_command_line() -> Iterator[Finding]:
    file = PACKAGE / "cli" / "commands.py"
    for command in commands():
        for _, words, instead in wrong_words(help_of(command), MESSAGES):
            yield Finding(
                file, 1, f"{words!r} in the help of {command}: write {instead}"
            )


def check_docstrings() -> Iterator[Finding]:
    """Of the library; those of single papers follow the words of their paper."""
    for names in groups().values():
        for name in names:
            if name.startswith(("tutelage_papers", "checks")):
                continue
            text = (value_of(name).__doc__ or "").split(">>>")[0]
            for _, words, instead in wrong_words(text, EVERYWHERE):
                message = f"{words!r} in the docstring of {name}: write {instead}"
                yield Finding(PACKAGE / "__init__.pyi", 1, message)


def wrong_words(text: str, banned: dict[str, str]) -> list[tuple[int, str, str]]:
    """(line, words, what to write instead) for every banned pattern in a text."""
    words = list(re.finditer(r"\S+", text))
    joined = " ".join(word[0] for word in words)
    begins = []
    position = 0
    for word in words:
        begins.append(position)
        position += len(word[0]) + 1
    found = []
    for instead, pattern in banned.items():
        for match in re.finditer(pattern, joined, re.IGNORECASE):
            first_word = words[bisect_right(begins, match.start()) - 1]
            line = text.count("\n", 0, first_word.start()) + 1
            found.append((line, match[0], instead))
    return found


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of strings and f-strings that are not docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    skipped = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, documented)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        ):
            skipped.add(id(node.body[0].value))
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            constants = [part for part in node.values if isinstance(part, ast.Constant)]
            yield node.lineno, "…".join(str(part.value) for part in constants)
            continue
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in skipped:
            yield node.lineno, node.value
