"""A seeded random search for wrong answers: tables of all shapes and magnitudes, laws and oracles (``make fuzz``)."""
