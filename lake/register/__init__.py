"""How tables become this catalog's, and how what lies there is brought to what this version writes."""
