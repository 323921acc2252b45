"""How the host speaks to a run at work: `runs/<id>/control.sock`, and the terminals behind it.

`server.Control` is the supervisor's side and `client` everybody else's; `wire` is what goes over
it. A terminal lives in a `hub.Hub` and outlives whoever looks at it.
"""
