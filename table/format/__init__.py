"""The files of a table: layout, snapshots, schemas, manifests, and how rows lie in data files."""
