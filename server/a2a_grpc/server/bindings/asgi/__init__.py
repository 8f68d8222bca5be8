"""What the two HTTP bindings share: listener, bodies, event streams, CORS, and the endpoints that belong to neither."""
