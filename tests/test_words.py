"""The words that readers see: pages, messages and command-line help use the field's words, one for each concept."""

import ast
import re
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import tutelage as tu

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from _site.reference import commands, groups, help_of  # noqa: E402

PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "generated" not in page.parts),
]
SOURCES = sorted((ROOT / "src" / "tutelage").rglob("*.py"))

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


def prose(text):
    """A page without code, formulas and addresses."""
    return re.sub(
        r"^```.*?^```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|^    .*?$", "", text, flags=re.MULTILINE | re.DOTALL
    )


def wrong_words(text, banned):
    """(the words, what to write instead) for every banned pattern in a text."""
    text = " ".join(text.split())
    return [
        (match[0], instead) for instead, pattern in banned.items() for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


def messages(tree):
    """(line, text) of what a user can see: strings and f-strings of several words that are not docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    skipped = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):  # from the outside to the inside
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield node.lineno, "…".join(part.value for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_the_words_of_the_field(page):
    assert wrong_words(prose(page.read_text()), EVERYWHERE) == []


def test_messages_use_the_words_of_the_field():
    found = []
    for file in SOURCES:
        name = str(file.relative_to(ROOT))
        for line, text in messages(ast.parse(file.read_text())) if "papers" not in file.parts else ():
            if " " in text.strip():
                found += [
                    (f"{name}:{line}", *wrong)
                    for wrong in wrong_words(text, MESSAGES)
                    if wrong[0] not in ALLOWED.get(name, ())
                ]
    assert found == []


def test_command_line_help_uses_the_words_of_the_field():
    assert [(command, wrong) for command in commands() for wrong in wrong_words(help_of(command), MESSAGES)] == []


@pytest.mark.parametrize(
    "text",
    [
        "Momentum is refused with a sentence.",
        "an activation of one's own",
        "all students look alike",
        "It holds the theory against twenty networks.",
        "noise has a say in it",
        "the theory, with honest error bars",
        "what is learned in the end",
        "the colour of a curve",
    ],
)
def test_a_banned_word_is_found(text):
    """A negative control, for pages and for messages."""
    assert wrong_words(prose(text), EVERYWHERE) != []
    code = f'def f():\n    """{text}"""\n    raise InputError(f"x is {{x}}; {text}")\n'
    found = [text for _, text in messages(ast.parse(code))]
    assert len(found) == 1, "the message, and not the docstring"
    assert wrong_words(found[0], MESSAGES) != []


def test_code_and_names_are_not_prose():
    assert wrong_words(prose("`start / noise` and $house$\n\n```python\nrefused = 1\n```\n"), EVERYWHERE) == []
    assert wrong_words("there is no file; it is no longer there", EVERYWHERE) == []


def test_docstrings_of_public_functions_use_the_words_of_the_field():
    """Of the library; those of single papers follow the words of their paper."""
    names = [name for group in groups().values() for name in group if not name.startswith(("papers", "checks"))]
    texts = {name: (attrgetter(name)(tu).__doc__ or "").split(">>>")[0] for name in names}
    assert {name: wrong for name, text in texts.items() if (wrong := wrong_words(text, EVERYWHERE))} == {}
