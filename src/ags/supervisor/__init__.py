"""One small process per run, which outlives the terminal, the browser and the server.

It holds the run's lock from before its birth (whoever creates the run hands the descriptor over),
so that no moment is left in which a run is nobody's.
"""
