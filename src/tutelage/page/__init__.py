"""Pages that are one file and need no network, no server and no installation: a trajectory, or the explorer.

    tu.page.save_page(theory, "theory.html")              a slider for time
    tu.page.save_standalone("explorer.html", lr=0.3)      sliders for everything; the theory is solved in the browser

`document.py` puts plain data, the vendored Plotly, and `template.html`, `page.css` and `page.js`, which show them, into one
text. `settings.py` is the table of the explorer's controls. `explorer.js` (with `aside.html`, `explorer.css`, `formulas.js`)
builds them and asks for the curve: the server of `tutelage explore`, or `local.js`, which calls `theory.js`.
"""

from tutelage.page.document import save_page, save_standalone, standalone, trajectory_page

__all__ = ["save_page", "save_standalone", "standalone", "trajectory_page"]
