"""The timeline in the browser: a Dash page around one canvas, fed by a binary route."""
