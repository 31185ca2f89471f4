"""Work and its shares: jobs, queues, quotas, limits, handles."""
