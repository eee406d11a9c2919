"""What a person sees: lines, progress, summary."""
