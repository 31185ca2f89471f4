"""Arrow Flight SQL, on a port of its own: ADBC, the Arrow JDBC and ODBC drivers (`docs/clients.md`)."""

from server.flight.door import FlightDoor as FlightDoor

__all__ = ["FlightDoor"]
