"""The kernel's trace: armed, drained and left as it was found."""
