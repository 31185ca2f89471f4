"""Arrow Flight SQL, on a port of its own: ADBC, the Arrow JDBC and ODBC drivers (`docs/clients.md`)."""
