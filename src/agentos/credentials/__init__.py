"""The key pool: who may call which model with which key, and when."""
