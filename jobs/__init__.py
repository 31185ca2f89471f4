"""Streaming INSERTs that outlive the session that started them."""
