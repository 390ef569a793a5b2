"""Campaigns: a plan of many captures, worked through unattended, its journal, and what can be made from them."""
