"""Reading tables: files become columns, columns become numbers."""
