"""Record and read what really happens between a HIP call and AMD GPU hardware."""

__version__ = "0.1.0"
