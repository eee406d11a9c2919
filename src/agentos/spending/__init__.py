"""The money of a run: what calls may cost, what they did cost, and whether the next one fits the budget."""
