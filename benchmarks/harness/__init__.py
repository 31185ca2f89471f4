"""What measurements run on: servers, clients, timing, the page they write."""
