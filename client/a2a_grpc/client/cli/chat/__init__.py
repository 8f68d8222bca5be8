"""`a2a-grpc chat`: a conversation with an agent, on a terminal or through pipes."""
