"""What a statement's tree tells before anything runs: tables, predicates, bounds, and what is allowed."""
