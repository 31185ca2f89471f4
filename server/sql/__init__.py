"""SQL and rows over HTTP."""
