"""The bodies of the loops: pure functions, state in → state and report out."""
