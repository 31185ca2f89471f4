"""HTTP: connections wait in an event loop, threads serve complete requests (`docs/decisions/http-server.md`)."""
