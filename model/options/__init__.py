"""Options of tables: each is declared once, with its type, default and sentence."""
