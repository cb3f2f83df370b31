"""The window: what a model is shown, in each provider's dialect, and how it is shortened."""
