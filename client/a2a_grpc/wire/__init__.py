"""What both sides of a call must agree on: errors, service parameters, JSON, HTTP routes. Nothing here imports grpc."""
