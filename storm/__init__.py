"""Faults that take longer than the tests may: `make storm` (docs/guide/more-than-one-machine.md)."""
