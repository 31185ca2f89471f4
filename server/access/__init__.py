"""Who calls: tokens, OpenID Connect, TLS, CORS, the visitor of the pages."""
