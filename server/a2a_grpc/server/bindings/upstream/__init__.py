"""A remote a2a-grpc as a Handler: what the gateway on its own has in place of a pipeline."""
