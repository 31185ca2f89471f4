"""How tables become this catalog's, what of them is damaged or lost, and what brings it back."""
