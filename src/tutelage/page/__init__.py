"""A trajectory as a page with a slider for time: one file that needs no network, no server and no installation.

    tu.page.save_page(theory, "theory.html")

`document.py` turns a trajectory into plain data (its schema is written there) and puts them, the vendored Plotly, and
`template.html`, `page.css` and `page.js`, which show them, into one text. The script knows nothing of where its data come
from: `tutelagePage.render(data)` draws, `tutelagePage.setTime(index)` moves.
"""

from tutelage.page.document import save_page, trajectory_page

__all__ = ["save_page", "trajectory_page"]
