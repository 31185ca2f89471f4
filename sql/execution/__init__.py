"""What running a statement needs and gives: session, settings, results, progress, spool."""
