"""Links to instruments: framing, deadlines, tainted links."""
