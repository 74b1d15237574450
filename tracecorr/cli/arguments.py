"""What the argument parser cannot do by itself: options with many values, flags in any place."""

from __future__ import annotations

from collections.abc import Iterator

# Options of `import` that take every word up to the next option: `--amd-log *.log`.
_GREEDY = ("--amd-log", "--ftrace", "--hqd", "--rocprof")


def expand_greedy(words: list[str]) -> list[str]:
    """Return `words` of the verb `import` with `--amd-log A B` written as `--amd-log A --amd-log B`.

    The verb has no positional arguments, so a word after such an option can mean nothing else.
    """
    if not words or words[0] != "import":
        return words
    return [words[0], *_repeat_options(words[1:])]


def _repeat_options(words: list[str]) -> Iterator[str]:
    option, values = "", 0
    for word in words:
        if word.startswith("-") and word != "-":
            option, values = (word if word in _GREEDY else ""), 0
        elif option:
            values += 1
            if values > 1:
                yield option
        yield word


def take_flag(words: list[str], flag: str) -> tuple[list[str], bool]:
    """Return `words` without `flag`, and whether it was there; words after `--` are not looked at."""
    end = words.index("--") if "--" in words else len(words)
    head = [word for word in words[:end] if word != flag]
    return head + words[end:], len(head) < end
