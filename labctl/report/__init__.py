"""Results as a person or a program reads them: tables, JSON rows, figures."""
