"""Neighbours of rows: the index and the graphs made from it."""
