"""The pages of one table or view."""
