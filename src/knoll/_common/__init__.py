"""What several families share: the iteration loop, blocks of rows, rescaling, unique rows, seeding, LAPACK."""
