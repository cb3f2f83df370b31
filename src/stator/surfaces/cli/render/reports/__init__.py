"""What `import`, `copy`, `push` and `pull` say of what came and went."""
