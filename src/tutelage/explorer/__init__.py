"""`tutelage explore`: a local page on which every move of a control solves the theory again.

    settings   -> answer, exports      -> workers          -> server, launch -> explorer.js, tutelage.page
    what the      curve, rates, escape,   processes that      websocket,        controls; the same charts as on
    controls say  band, runs, files       can be stopped      files             a page that was saved

A page holds one websocket. It sends its settings; the answer comes in parts, the curve first. A newer request of the same
page cancels the older one, and a process that does not stop in time is replaced.
"""
