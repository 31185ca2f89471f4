"""Which files to compact and cluster, and the rewriting of them."""
