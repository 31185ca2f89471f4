"""The one commit core: prepared, decided in Postgres, published."""
