"""How good is the recommendation of `knoll.compare`? Labelled sets, made here, and a table beside scikit-learn."""
