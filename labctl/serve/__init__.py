"""Campaigns on a local web page: read-only, escaped, and nothing on it is fetched from elsewhere."""
