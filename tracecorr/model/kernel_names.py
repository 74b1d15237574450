"""Names of kernels: as ROCm prints them, and short."""

from __future__ import annotations

import re

from demangle import demangle

_TILE = re.compile(r"MT\d+x\d+x\d+")
_CLONE = re.compile(r"( \[clone [^\]]*\])+$")
_ANONYMOUS = "(anonymous namespace)::"
_OPERATOR = re.compile(r"operator(?:\(\)|[^\w(\s]+)")
_LONGEST_DISPLAY = 64


def demangle_name(name: str) -> str:
    """Return a kernel name as ROCm 6.4 and later print it; a name that is not mangled, or cut, stays as it is.

    >>> demangle_name("_Z4vaddPKfS0_Pfi")
    'vadd(float const*, float const*, float*, int)'
    >>> demangle_name("__amd_rocclr_copyBuffer")
    '__amd_rocclr_copyBuffer'
    """
    if not name.startswith("_Z"):
        return name
    return _CLONE.sub("", demangle(name, language="itanium", style="gnu"))


def shorten_name(name: str) -> str:
    """Return a short name for a lane: without arguments and template values, Tensile kernels by their tile.

    >>> shorten_name("gemm16(float const*, float const*, float*, int)")
    'gemm16'
    >>> shorten_name("Cijk_Ailk_Bljk_SB_MT64x64x32_MI32x32x1_SN_LDSB0")
    'Cijk_Ailk_Bljk_SB MT64x64x32'
    >>> shorten_name("void (anonymous namespace)::softmax<float, 4>(float*, int)")
    'softmax'
    """
    tile = _TILE.search(name)
    if name.startswith("Cijk_") and tile:
        return f"{name[: tile.start()].rstrip('_')} {tile.group()}"
    plain = _without_brackets(_OPERATOR.sub("operator", name.removesuffix(".kd").replace(_ANONYMOUS, "")))
    words = plain.split()
    short = words[-1] if words else name
    while len(short) > _LONGEST_DISPLAY and "::" in short:
        short = short.partition("::")[2]
    return short[:_LONGEST_DISPLAY]


def _without_brackets(name: str) -> str:
    """Return a demangled name up to its arguments, without template values and lambdas."""
    kept, depth = [], 0
    for character in name:
        if character == "(" and depth == 0:
            break
        depth += character in "<{"
        if depth == 0:
            kept.append(character)
        depth -= character in ">}" and depth > 0
    return "".join(kept)
