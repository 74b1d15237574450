"""Kernel names: demangled as later releases print them, and short ones for lanes."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracecorr.link.events import list_kernels
from tracecorr.model.kernel_names import demangle_name, label_kernels, shorten_name
from tracecorr.model.schema import CAT

ELEMENTWISE = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13AUnaryFunctorIfffNS0_15binary_internal10MulFunctorIfEEEE"
    "St5arrayIPcLm2EEEEviT0_T1_"
)
# As the log of a later release prints it.
ELEMENTWISE_PRINTED = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, at::native::"
    "binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int, at::native::AUnaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul>)"
)


def test_a_mangled_name_reads_as_later_releases_print_it() -> None:
    assert demangle_name(ELEMENTWISE) == ELEMENTWISE_PRINTED


@pytest.mark.parametrize("name", ["_Z", "_Z999x", ELEMENTWISE[:60], "_ZN_ZN_ZN", "hipcc \u00e9", "", "_Z" + "N" * 5000])
def test_what_cannot_be_demangled_stays(name: str) -> None:
    assert demangle_name(name) == name


@given(st.text(max_size=80))
def test_any_text_has_a_short_name(name: str) -> None:
    assert len(shorten_name("_Z" + name)) <= 64
    assert shorten_name(demangle_name("_Z" + name)) is not None


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (ELEMENTWISE_PRINTED, "at::native::vectorized_elementwise_kernel MulFunctor"),
        (
            "void at::native::elementwise_kernel<4, at::native::direct_copy_kernel_cuda(int)::{lambda()#3}>(int)",
            "at::native::elementwise_kernel direct_copy",
        ),
        (
            "void at::native::elementwise_kernel<at::native::BinaryFunctor<float, at::CUDAFunctor_add<float> > >()",
            "at::native::elementwise_kernel CUDAFunctor_add",
        ),
        (
            "void rocprim::ROCPRIM_304000_NS::detail::trampoline_kernel<rocprim::ROCPRIM_304000_NS::default_config, "
            "rocprim::ROCPRIM_304000_NS::detail::reduce_config_selector<int> >(int)",
            "rocprim::detail::trampoline_kernel reduce",
        ),
        (
            "_ZN7rocprim17ROCPRIM_304000_NS6detail17trampoline_kernelINS0_14default_configENS1_22reduce_config_selectorI?",
            "rocprim::detail::trampoline_kernel reduce",
        ),
        ("_ZN2at6native12_GLOBAL__N_16kernelE?", "at::native::kernel"),
        ("_Z3fooILi3EEv?", "foo"),
        ("decltype(auto) foo::bar<int>(int)", "foo::bar"),
        ("std::enable_if<((x)>(3)), void>::type foo<int>(void (*)(std::less<int>))", "foo"),
        ("ns::A::operator()(int) const [clone .kd]", "ns::A::operator()"),
        ("__amd_rocclr_fillBufferAligned", "__amd_rocclr_fillBufferAligned"),
        ("triton_poi_fused_0.kd", "triton_poi_fused_0"),
        ("void a::{lambda(int)#1}::b<(c)1>(int)", "a::::b"),
        ("x" * 89 + "y", "x" * 38 + ".." + "x" * 23 + "y"),
        ("void " + "deep::" * 20 + "f<int>()", "deep::" * 10 + "f"),
    ],
)
def test_a_short_name_tells_kernels_apart(name: str, short: str) -> None:
    assert shorten_name(name) == short


def test_the_table_keeps_the_original() -> None:
    events = pl.DataFrame({"event": [0, 1, 2], "kernel": [ELEMENTWISE, None, "gemm16(float*)"]}).cast({"kernel": CAT})
    table, keys = list_kernels(events)
    assert table.rows() == [
        (0, ELEMENTWISE_PRINTED, ELEMENTWISE, "at::native::vectorized_elementwise_kernel MulFunctor"),
        (1, "gemm16(float*)", None, "gemm16"),
    ]
    assert keys.rows() == [(0, 0), (2, 1)]


def test_a_kernel_that_is_printed_mangled_and_demangled_is_one() -> None:
    """HIP 6.4.3 prints mangled what a graph launches, and demangled what a call launches."""
    printed = [ELEMENTWISE_PRINTED, "gemm16(float*)", ELEMENTWISE, ELEMENTWISE_PRINTED]
    table, keys = list_kernels(pl.DataFrame({"event": range(4), "kernel": printed}).cast({"kernel": CAT}))
    assert table.select("kernel", "name", "mangled").rows() == [
        (0, ELEMENTWISE_PRINTED, ELEMENTWISE),
        (1, "gemm16(float*)", None),
    ]
    assert keys["kernel_id"].to_list() == [0, 1, 0, 0]


def test_of_two_mangled_names_that_read_the_same_a_demangled_one_is_neither() -> None:
    """A function of the file (`_ZL`) reads as one that others see."""
    printed = ["_Z3addPf", "_ZL3addPf", "add(float*)", "_ZL3addPf"]
    table, keys = list_kernels(pl.DataFrame({"event": range(4), "kernel": printed}).cast({"kernel": CAT}))
    assert table["mangled"].to_list() == ["_Z3addPf", "_ZL3addPf", None]
    assert keys["kernel_id"].to_list() == [0, 1, 2, 1]


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["void mul<float, 4>(float*)", "void mul<half, 4>(half*)"], ["mul<float, 4>", "mul<half, 4>"]),
        (["void f<(kind)8, a<1, 2> >(int)", "void f<(kind)8, a<1, 3> >(int)"],
         ["f<(kind)8, a<1, 2>>", "f<(kind)8, a<1, 3>>"]),
        # What does not fit is told by the values that differ.
        ([f"void f<{'x' * 60}, {n}, true>(int)" for n in (1, 2)], ["f<1>", "f<2>"]),
        ([f"void f<{'x' * 61}{n}>(int)" for n in (1, 2)], ["f", "f"]),
        (["f(int)", "void f<1>(int)"], ["f", "f<1>"]),
        (["void f<1>(int)", "void f<1>(int)", "void g<2>(int)"], ["f", "f", "g"]),
        (["void f<&(op_silu(float)), 1>(int)", "void f<&(op_add(float)), 1>(int)"],
         ["f<&(op_silu(float)), 1>", "f<&(op_add(float)), 1>"]),
        # Tensile kernels of one tile.
        ([f"Cijk_Ailk_Bljk_SB_MT8x8x8_{'X' * 60}_SU{n}_WGM{n + 1}" for n in (0, 32)],
         ["Cijk_Ailk_Bljk_SB MT8x8x8 SU0 WGM1", "Cijk_Ailk_Bljk_SB MT8x8x8 SU32 WGM33"]),
        (["x::A<1>::run(int)", "x::A<2>::run(int)"], ["x::A::run", "x::A::run"]),
    ],
)  # fmt: skip
def test_values_tell_kernels_of_one_name_apart(names: list[str], labels: list[str]) -> None:
    assert label_kernels(names) == labels


@given(st.lists(st.text(alphabet="f<>(), ab:_Z1", max_size=40), max_size=6))
def test_any_names_have_labels_that_fit(names: list[str]) -> None:
    assert all(len(label) <= 64 for label in label_kernels(names))
