"""Pages that are one file and need no network, no server and no installation.

    tu.page.trajectory_page(theory).save("theory.html")
    tu.page.standalone(lr=0.3).save("explorer.html")

The first page shows a trajectory and has a slider for time. The second one is the
explorer: it has sliders for everything, and the theory is solved in the browser.

`document.py` puts plain data, the vendored Plotly, and `template.html`, `page.css` and
`page.js`, which show them, into one text. `controls.py` is the table of the explorer's
controls, `settings.py` their values as a problem, `presets.py` named values.
`explorer.js` (with `aside.html`, `explorer.css`, `formulas.js`, `code.js`) builds them
and asks for the curve: the server of `tutelage explore`, or `local.js`, which calls
`theory.js`.
"""

from tutelage.page.document import standalone, trajectory_page

__all__ = ["standalone", "trajectory_page"]
