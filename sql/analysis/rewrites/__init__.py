"""What Spark does otherwise than Flink, written so that it does the same."""
