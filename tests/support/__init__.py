"""What tests share: real store servers, real replicas, and waiting without sleeping."""
