"""Tasks in Redis: keys, scripts, pipelining, and the log that every replica follows."""
