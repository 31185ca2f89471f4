"""The parts of the parser: types, tables, and all other statements."""
