"""What an agent is told: the brief, the doses, and how recorded text is quoted in them. Pure."""
