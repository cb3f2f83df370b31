"""The reading service: what a store holds, as JSON over HTTP on loopback."""
