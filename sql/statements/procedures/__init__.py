"""The procedures of `CALL sys.…`."""
