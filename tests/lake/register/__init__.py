"""What becomes this catalog's, and what is brought to this version."""
