"""Digests of what every estimator answers for fixed seeds: they change only where a change is meant to be seen."""
