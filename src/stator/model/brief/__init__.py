"""What an agent is given: the brief, the doses, and how recorded text is quoted in them. Pure."""
