"""Repositories of principals, logins, grants, policies, quotas and the audit log."""
