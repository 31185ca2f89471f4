"""The pages a person visits: server-rendered, readable without scripts, and every action on them a statement it shows."""
