"""Callers, what they may do, quotas and the audit."""
