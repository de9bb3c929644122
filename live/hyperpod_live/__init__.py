"""What talks to AWS or to a cluster; no other stage does."""
