"""Hooks: what is asked before and told after an agent uses a tool. All of it runs outside.

`call` reads what each agent sends, `guard` is our own judgement, `person` runs the executables of
the person, `channel` listens on `inside.sock`, and `inside/` is the little that lives there.
"""
