"""A figure may have a page of its own beside the drawing.

The gallery links to it, and it is never older than its data.
"""

from papers.tests.toys import toy

from tutelage_papers import replicate
from tutelage_papers.gallery import gallery


def slope_in_words(data):
    return f"<p>the slope is {float(data['slope']):g}</p>"


def test_written_beside_the_drawing_once(tmp_path):
    first = replicate(toy(page=slope_in_words), tmp_path)
    assert first.files["html"] == tmp_path / "toy-1.html"
    assert first.files["html"].read_text() == "<p>the slope is 2</p>"
    first.files["html"].write_text("kept")
    assert (
        replicate(toy(page=slope_in_words), tmp_path).files["html"].read_text()
        == "kept"
    )


def test_never_older_than_its_data(tmp_path):
    replicate(toy(page=slope_in_words), tmp_path)
    again = replicate(toy(slope=5.0, page=slope_in_words), tmp_path)
    assert again.files["html"].read_text() == "<p>the slope is 5</p>"
    gone = replicate(toy(slope=6.0), tmp_path)
    assert "html" not in gone.files
    assert not (tmp_path / "toy-1.html").exists()


def test_linked_from_the_gallery(tmp_path):
    results = [
        replicate(toy(name, page=page), tmp_path, formats=("svg",))
        for name, page in (("a-1", slope_in_words), ("a-2", None))
    ]
    text = gallery(results)
    assert text.count('<a href="a-1.html">') == 1
    assert "a-2.html" not in text
