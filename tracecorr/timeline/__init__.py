"""What the timeline draws, kept in the capture (`views/`): lanes, drawn records, and their levels of detail."""
