"""The Paimon REST catalog protocol: what any Paimon client speaks when it is given this server as its catalog."""
