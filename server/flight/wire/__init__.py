"""Flight's messages: protobuf, schemas, rows received and sent."""
