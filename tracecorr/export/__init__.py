"""Export a capture to other tools: Perfetto, Chrome's trace viewer, tables for notebooks and spreadsheets."""
