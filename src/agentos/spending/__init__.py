"""The money of a run: what calls may cost, what they cost, and whether the next one fits the budget."""
