"""Tables for a report: rows of results chosen, grouped and laid out; as CSV, JSON, Markdown, LaTeX, HTML or text."""
