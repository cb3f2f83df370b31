"""What a store must do for callers that reach it over a wire, and a store that loses answers to test them with."""
