"""The protocol's JSON as records, and back."""
