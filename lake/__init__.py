"""Where catalog and table meet: what SQL and REST both call."""
