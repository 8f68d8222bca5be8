"""The gRPC binding (specification section 10), with health, reflection and the card service beside it."""
