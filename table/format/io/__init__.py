"""Files and directories of a store, synced, guarded, and with every storage error translated."""
