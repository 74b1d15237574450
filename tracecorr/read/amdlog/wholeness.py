"""Which messages are whole: the forms that the runtime prints, to their last byte."""

from __future__ import annotations

import re

# Process and thread of a prefix, behind the time.
THREAD = re.compile(
    rb"\[pid:(\d+) *tid: ?(?:0x)? *([0-9a-fA-F]+)\]"
    rb"|(\d+) *: \[(?:tid:)?(0x)?([0-9a-fA-F]+)\]"
    rb"|\[(?:tid:)?(?:0x)?([0-9a-fA-F]{6,16})\]"
)
# Colours, also as a paste shows them.
_ANSI = re.compile("(?:\x1b|\\^\\[|\u2190)\\[[0-9;]*m".encode())
_NUMBER = rb"(?:0x[0-9a-f]+|-?\d+)"
_KEYS = (
    rb"setup|grid|workgroup|cluster_count|cluster_size|private_seg_size|group_seg_size|kernel_obj|kernarg_address"
    rb"|completion_signal|correlation_id|rptr|wptr|dep_signal|signal|value|mask|cond"
)
_LIST = rb"\[" + _NUMBER + rb"(?:,? " + _NUMBER + rb")*\]"
_FRONT = (
    rb"(?:SWq=0x[0-9a-f]+, )?HWq=0x[0-9a-f]+, (?:(?:id|priority|virtual_pipe_id)=\d+, )*"
    rb"(?:Dispatch|Barrier-?AND|Barrier-?OR|BarrierValue) Header = 0x[0-9a-f]+ "
    rb"(?:AmdFormat = 0x[0-9a-f]+ )?\(type=\d+, barrier=\d+, acquire=\d+, release=\d+\)"
)
_PAIRS = rb"(?:,? (?:" + _KEYS + rb")(?: ?= ?|: )(?:" + _NUMBER + rb"|" + _LIST + rb"|EQ|NE|LT|GTE))*"
_PACKET = re.compile(_FRONT + _PAIRS)
_NEW_KEY = re.compile(rb",? ?\w+ ?[=:]")
# Of ROCm 4.5 to 7.2. Any word would fit what a torn line has lost of it.
_COMMAND_KINDS = (
    rb"(?:Internal)?Marker|KernelExecution|NativeKernel|Copy(?:DeviceToHost|HostToDevice|DeviceToDevice)(?:2D)?"
    rb"|Fill(?:Buffer|Image)|Task|(?:Read|Write|Copy)Image|CopyImageToBuffer|CopyBufferToImage|Map(?:Buffer|Image)"
    rb"|UnmapMemObject|MigrateMemObjects|User|Barrier|Svm(?:Free|Memcpy|MemFill|Map|Unmap)|Stream(?:Wait|Write)"
    rb"|Unknown command kind"
)
_WITH_KNOWN_END = (
    re.compile(_FRONT + _PAIRS + rb"[, ]+(?:completion_signal=0x[0-9a-f]+|rptr=\d+, wptr=\d+)"),
    re.compile(
        rb"HSA (?:Async )?Copy (?:on )?(?:(?:copy_engine|dst|src|size|forceSDMA|engineType|wait_event)="
        + _NUMBER
        + rb", |engineOp=[\w/]+, )+completion_signal=0x[0-9a-f]+(?:, engine(?:Type=\d+|Op=[\w/]+))?"
    ),
    re.compile(rb"Command \((?:" + _COMMAND_KINDS + rb")\) enqueued: 0x[0-9a-f]+ to queue: 0x[0-9a-f]+"),
    re.compile(rb"Created SWq=0x[0-9a-f]+ to map on HWq=0x[0-9a-f]+ with size \d+ with priority \d, cooperative: [01]"),
    re.compile(
        rb"Created SWq=0x[0-9a-f]+ HWq=0x[0-9a-f]+ size \d+ priority \d cooperative [01] flags 0x[0-9a-f]+ "
        rb"device_mem_ring_buf [01](?: CU mask 0x(?:[0-9a-f]{8})+)?"
    ),
    re.compile(
        rb"[Nn]umber of allocated hardware queues with low priority: \d+, with normal priority: \d+, "
        rb"with high priority: \d+, maximum per priority is: \d+"
    ),
)
_HAS_KNOWN_END = re.compile(
    rb"SWq=|HWq=|HSA (?:Async )?Copy (?!Using|staged)|Command \(|Created SWq=|[Nn]umber of allocated hardware queues"
)
_CALL = re.compile(rb"\w+ \( ")
_CALL_END = re.compile(rb" \)\s*$")
_EXIT = re.compile(rb"\w+: Returned hip\w+ :.*")
# Behind these nothing of a call's line is missing: the colour's end, and the unit of its duration.
_LINE_END = re.compile(rb"(?:\x1b\[0m|: duration: \d+d? us) *")
# A call's name, or what is left of it, without the text that makes it an enter or an exit.
_CUT_NAME = re.compile(rb"_{0,2}i?hip(?!\w*: Returned hip\w+ :|\w* \( )")
_SHADER = re.compile(rb"(?:Graph )?(?:ShaderName|shader name) : ")
_DEVICE = re.compile(rb", device id : \d+$")
# What may stand behind the arguments of a demangled name.
_NAME_END = re.compile(rb"\)(?: ?(?:const|volatile|noexcept|&&?|\[clone [^\]]*\]|\[abi:\w+\]|\(\.[\w.]+\)|\.[\w.]+))*$")
_NO_ARGUMENTS = (b"(anonymous namespace)", b"operator()")
_TEXT_IN_NUMBER = re.compile(rb"\b0x[0-9a-f]+(?!h\b)[g-zG-Z_]")
_BRACKET = re.compile(rb"[\[\](){}]")
_PAIRS_OF_BRACKETS = ((b"(", b")"), (b"[", b"]"), (b"{", b"}"))


def has_known_end(message: bytes) -> bool:
    """Tell whether the message is of a kind of which the last field is known: packets, copies, commands."""
    return bool(_HAS_KNOWN_END.match(message))


def is_with_known_end(message: bytes) -> bool:
    """Tell whether a message of such a kind is there to its last byte."""
    return any(whole.fullmatch(message) for whole in _WITH_KNOWN_END)


def is_call(message: bytes) -> bool:
    """Tell whether the message begins like an entered call."""
    return bool(_CALL.match(message))


def is_whole_call(message: bytes) -> bool:
    """Tell whether an entered call is there to the end of its arguments."""
    return bool(_CALL.match(message) and _CALL_END.search(_ANSI.sub(b"", message)))


def is_exit(message: bytes) -> bool:
    """Tell whether the message is a call's exit with its result."""
    return bool(_EXIT.fullmatch(message))


def is_ended(message: bytes) -> bool:
    """Tell whether a message without a line end shows that it is there to its last byte."""
    return any(found.end() == len(message) for found in _LINE_END.finditer(message))


def is_cut_name(message: bytes) -> bool:
    """Tell whether the message begins with (a part of) a call's name, but is neither enter nor exit."""
    return bool(_CUT_NAME.match(message))


def shader_of(message: bytes) -> bytes | None:
    """Return the kernel's name in a ShaderName message; None for other messages."""
    found = _SHADER.match(message)
    return _DEVICE.sub(b"", message[found.end() :]).strip() if found else None


def _is_one_word(name: bytes) -> bool:
    """Tell whether a kernel's name is one word, mangled or without arguments: its end cannot be told."""
    return not re.search(rb"[ (,]", name)


def is_whole_kernel(name: bytes) -> bool:
    """Tell whether a kernel's name, mangled or not, is not cut apart.

    A name without arguments is one word; of such a name the end cannot be told.
    """
    if _is_one_word(name):
        return bool(name)
    known_end = _NAME_END.search(name) and not name.endswith(_NO_ARGUMENTS)
    return bool(known_end) and not name.startswith(b"_Z") and open_brackets(name) == 0


def open_brackets(text: bytes) -> int:
    """Return how many round, square or curly brackets are open at the end of a text; negative = more were closed."""
    if not _BRACKET.search(text):
        return 0
    text = _ANSI.sub(b"", text)
    counts = [text.count(first) - text.count(last) for first, last in _PAIRS_OF_BRACKETS]
    return next((count for count in counts if count), 0)


def is_surely_cut(message: bytes) -> bool:
    """Tell whether a message of any kind misses a part: a bracket is open, or text stands in a hexadecimal number.

    The runtime prints a single `h` behind some numbers.
    """
    return open_brackets(message) > 0 or bool(_TEXT_IN_NUMBER.search(message))


def sure_of_packet(message: bytes) -> bytes | None:
    """Return what is sure of a packet's first half; None where it may be a wording that is not known here."""
    found = _PACKET.match(message)
    if not found or _NEW_KEY.match(message, found.end()):
        return None
    return found[0]
