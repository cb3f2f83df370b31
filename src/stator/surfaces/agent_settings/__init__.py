"""Recording switched on in other agents: their settings, changed so that they tell Stator what they do."""
