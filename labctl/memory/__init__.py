"""What a program takes of a board's memory: sections and symbols of ELF files, link maps, bounds of the stack.

Files in, numbers out: nothing here builds, runs or prints.
"""
