"""The warehouse's files beside a backup: where each lies in a copy, and what is put back."""
