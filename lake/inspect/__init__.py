"""What pages and system tables read."""
