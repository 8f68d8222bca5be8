"""The gRPC binding and the upstream, over real sockets."""
