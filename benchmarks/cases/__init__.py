"""One file per family; each registers its cases when imported, and every file here is imported."""
