"""Links to instruments: what a driver may ask of one, and how bytes become replies."""
