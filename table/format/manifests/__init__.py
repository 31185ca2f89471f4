"""Manifests and manifest lists: records, Avro, columns."""
