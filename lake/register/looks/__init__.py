"""How files are looked at for what they should be, several at once."""
