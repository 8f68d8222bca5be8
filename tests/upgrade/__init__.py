"""A rolling upgrade as Kubernetes does it, with real processes and an Envoy in front, under load."""
