"""The nouns: identifiers, types, schemas, snapshots, predicates, options, errors. Frozen values, no I/O."""
