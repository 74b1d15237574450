"""Names of kernels: as ROCm prints them, and short."""

from __future__ import annotations

import re
from collections.abc import Sequence

from demangle import demangle

_TILE = re.compile(r"MT\d+x\d+x\d+")
_SUFFIX = re.compile(r"(?:\.kd|(?: \[clone [^\]]*\])| \(\.kd\))+$")
_ANONYMOUS = "(anonymous namespace)::"
_OPERATOR = re.compile(r"operator(?:\(\)|[^\w(\s]+)")
# Namespaces that only carry the version of a library.
_VERSION_NAMESPACE = re.compile(r"\b[A-Z]+_[0-9_]*NS::|\bTHRUST_[0-9_]+::")
_SOURCE_NAME = re.compile(r"([0-9]{1,4})(?=[^0-9])")
# Some kernels of libraries say nothing by themselves, but what they run stands in their template values.
_ALGORITHM = re.compile(r"([a-z_]+)_config_selector")
_FUNCTOR = re.compile(r"\w+(?=_kernel_cuda\b)|\bCUDAFunctor_\w+|\b\w+Functor\b")
_WRAPPERS = ("AUnaryFunctor", "BUnaryFunctor", "BinaryFunctor")
_LONGEST_DISPLAY = 64
_HEAD = 38  # of a name that is shortened in the middle


def demangle_name(name: str) -> str:
    """Return a kernel name as ROCm 6.4 and later print it; a name that is not mangled, or cut, stays as it is.

    >>> demangle_name("_Z4vaddPKfS0_Pfi")
    'vadd(float const*, float const*, float*, int)'
    >>> demangle_name("__amd_rocclr_copyBuffer")
    '__amd_rocclr_copyBuffer'
    """
    if not name.startswith("_Z"):
        return name
    bare = _SUFFIX.sub("", name)
    readable = demangle(bare, language="itanium", style="gnu")
    return name if readable == bare else _SUFFIX.sub("", readable)


def shorten_name(name: str) -> str:
    """Return a short name for a lane: without arguments and template values, Tensile kernels by their tile.

    A generic kernel is followed by what it runs.

    >>> shorten_name("gemm16(float const*, float const*, float*, int)")
    'gemm16'
    >>> shorten_name("Cijk_Ailk_Bljk_SB_MT64x64x32_MI32x32x1_SN_LDSB0")
    'Cijk_Ailk_Bljk_SB MT64x64x32'
    >>> shorten_name("void (anonymous namespace)::softmax<float, 4>(float*, int)")
    'softmax'
    >>> shorten_name("void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float> >(int)")
    'at::native::vectorized_elementwise_kernel MulFunctor'
    """
    tile = _TILE.search(name)
    if name.startswith("Cijk_") and tile:
        return f"{name[: tile.start()].rstrip('_')} {tile.group()}"[:_LONGEST_DISPLAY]
    if name.startswith("_Z"):
        short = _VERSION_NAMESPACE.sub("", _source_names(name) or name)
        return _fit(short, _what_it_runs(short, name))
    plain = _VERSION_NAMESPACE.sub("", _SUFFIX.sub("", name).replace(_ANONYMOUS, ""))
    words = _without_brackets(_OPERATOR.sub("operator", plain)).split()
    short = words[-1] if words else name
    if short.endswith("::operator") and f"{short}()" in plain:
        short += "()"
    return _fit(short, _what_it_runs(short, name))


def label_kernels(names: Sequence[str]) -> list[str]:
    """Return a short name for each kernel; of those that are alike, behind it, the values by which they differ.

    They are those of a template, or what is behind the tile of a Tensile kernel.

    If even these do not fit a lane, the names stay alike.

    >>> label_kernels(["void mul<float, 4>(float*)", "void mul<half, 4>(half*)", "add(int)"])
    ['mul<float, 4>', 'mul<half, 4>', 'add']
    """
    groups: dict[str, dict[str, None]] = {}
    shorts = [shorten_name(name) for name in names]
    for short, name in zip(shorts, names, strict=True):
        groups.setdefault(short, {})[name] = None
    labels = {name: label for short, alike in groups.items() for name, label in _tell_apart(short, list(alike)).items()}
    return [labels[name] for name in names]


def _tell_apart(short: str, names: list[str]) -> dict[str, str]:
    """Return name -> label of kernels with the same short name."""
    tensile = short.startswith("Cijk_")
    begin, comma, end = (" ", " ", "") if tensile else ("<", ", ", ">")
    values = [_TILE.split(name)[-1].strip("_").split("_") if tensile else _template_values(name) for name in names]
    same_size = len({len(one) for one in values}) == 1
    differing = [n for n in range(len(values[0])) if len({one[n] for one in values}) > 1] if same_size else []
    for chosen in (values, [[one[n] for n in differing] for one in values]):
        labels = [f"{short}{begin}{comma.join(one)}{end}" if one else short for one in chosen]
        if len(set(labels)) == len(names) > 1 and max(map(len, labels)) <= _LONGEST_DISPLAY:
            return dict(zip(names, labels, strict=True))
    return dict.fromkeys(names, short)


def _template_values(name: str) -> list[str]:
    """Return the template values of a demangled function, the outer ones; empty = none."""
    depth = rounds = 0
    starts: list[int] = []
    ends: list[int] = []
    for at, character in enumerate(_OPERATOR.sub(lambda found: "_" * len(found[0]), name)):
        if character == "(" and depth == rounds == 0 and ends and ends[-1] == at:
            return [part.strip() for part in _split_values(name[starts[-1] + 1 : at - 1])]
        rounds += character == "("
        if rounds == 0 and character == "<":
            starts += [at] if depth == 0 else []
            depth += 1
        elif rounds == 0 and character == ">" and depth:
            depth -= 1
            ends += [at + 1] if depth == 0 else []
        rounds -= character == ")" and rounds > 0
    return []


def _split_values(text: str) -> list[str]:
    """Return what commas outside of all brackets part."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<({") - (character in ">)}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _fit(short: str, inner: str = "") -> str:
    """Return a name that fits a lane: without namespaces, then shortened in the middle, as many differ at the end."""
    behind = f" {inner}" if inner else ""
    while len(short + behind) > _LONGEST_DISPLAY and "::" in short:
        short = short.partition("::")[2]
    whole = short + behind
    return whole if len(whole) <= _LONGEST_DISPLAY else f"{whole[:_HEAD]}..{whole[_HEAD + 2 - _LONGEST_DISPLAY :]}"


def _what_it_runs(short: str, name: str) -> str:
    """Return the algorithm of a kernel of rocPRIM, the functor of an elementwise kernel of PyTorch; else nothing."""
    if short.endswith("::trampoline_kernel"):
        found = _ALGORITHM.search(name)
        return found[1] if found else ""
    if short.startswith("at::native::") and "elementwise_kernel" in short:
        functors: list[str] = _FUNCTOR.findall(name)
        return next((one for one in functors if one not in _WRAPPERS), "")
    return ""


def _source_names(mangled: str) -> str:
    """Return the names that a mangled name begins with; empty = none."""
    names, at = [], 3 if mangled.startswith("_ZN") else 2
    while size := _SOURCE_NAME.match(mangled, at):
        at = size.end() + int(size[1])
        names.append(mangled[size.end() : at])
    return "::".join(one for one in names if not one.startswith("_GLOBAL__N"))


def _without_brackets(name: str) -> str:
    """Return a demangled name up to its arguments, without template values, lambdas and `decltype(..)`."""
    kept, depth, rounds = "", 0, 0
    for character in name:
        if character == "(" and depth == rounds == 0 and not kept.endswith("decltype"):
            break
        # Inside of round brackets `<` and `>` may compare.
        rounds += character == "("
        depth += rounds == 0 and character in "<{"
        if depth == rounds == 0:
            kept += character
        depth -= rounds == 0 and character in ">}" and depth > 0
        rounds -= character == ")" and rounds > 0
    return kept
