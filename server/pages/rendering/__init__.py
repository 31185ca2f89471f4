"""Values as people read them: numbers, statements, pictures."""
