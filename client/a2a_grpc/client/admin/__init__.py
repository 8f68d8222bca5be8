"""The commands for operators, which call the administration service of a replica."""
