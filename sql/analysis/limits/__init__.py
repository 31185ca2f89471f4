"""What a query may ask of Spark: values, patterns and plans are judged by their text, and guarded where that does not tell."""
