"""The eleven operations, one use case a file, without a word of any binding."""
