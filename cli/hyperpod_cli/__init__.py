"""The `hpf` command."""
