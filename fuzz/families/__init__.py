"""One module for each family: what is drawn, and the laws that its answers obey."""
