"""The form of every refusal:

one line, one sentence (a short fix may follow), what was given, what is allowed.
"""

import re

from tutelage import InputError

FORBIDDEN = (
    "Traceback",
    "<class",
    "object at 0x",
    "Error:",
    "Traced<",
    "NoneType",
    "dtype(",
)


def require_form(text: str, *mentions: str) -> None:
    """Assert the form of a message, and that it names what the reader needs to find the mistake."""
    assert text == text.strip(), text
    assert "\n" not in text, text
    assert text.endswith("."), text
    assert len(text) < 420, text
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z(])", text)
    assert len(sentences) <= 2, sentences
    assert ";" in sentences[0] or ":" in sentences[0], (
        f"the given value and the rule are not set apart: {text}"
    )
    for word in FORBIDDEN:
        assert word not in text, text
    for mention in mentions:
        assert mention in text, f"{mention!r} is missing: {text}"


def require_refusal(error: BaseException, *mentions: str) -> None:
    """Assert that an exception is a refusal in the library's own words."""
    assert isinstance(error, InputError)
    assert isinstance(error, ValueError)
    require_form(str(error), *mentions)
