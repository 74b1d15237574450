/* Rows of a HIP log to columns of its tables. */
#include "bytes.h"

typedef struct {
    const int8_t *kind;
    const i64 *partner, *stamp;
    const i32 *told_us;
    const u64 *stream;
    const uint16_t *flags;
    i64 step_ns; /* a told duration may differ from that between the stamps by so much */
    uint16_t enter_only, exit_only, span_told, span_differs;
} CallRows;

/* Set of some rows the row of their exit (`leave`, -1 = none), the same where it has a duration (`span`), stream and
 * flags. */
void end_calls(const CallRows *of, i64 count, const i64 *rows, i64 *leave, i64 *span, u64 *stream, uint16_t *flags) {
    for (i64 i = 0; i < count; i++) {
        i64 row = rows[i], exit = -1;
        leave[i] = span[i] = -1;
        stream[i] = of->stream[row];
        flags[i] = of->flags[row];
        if (!is_call(of->kind[row]))
            continue;
        exit = of->partner[row];
        if (exit < 0) {
            int is_orphan = of->kind[row] == EXIT;
            flags[i] |= is_orphan ? of->exit_only : of->enter_only;
            leave[i] = is_orphan ? row : -1;
            continue;
        }
        leave[i] = span[i] = exit;
        flags[i] |= of->flags[exit];
        if (of->stream[exit])
            stream[i] = of->stream[exit];
        if (of->told_us[exit] < 0)
            continue;
        i64 differs = of->stamp[exit] - of->stamp[row] - 1000LL * of->told_us[exit];
        flags[i] |= differs >= -of->step_ns && differs <= of->step_ns ? of->span_told : of->span_differs;
    }
}

static inline i64 at_least_0(i64 number) { return number & ~(number >> 63); }

/* Each of these sets the values of some rows (of `via[row]` where that is given, -1 = null), a bit in `bits` of those
 * that are not null, and returns how many are null. Which are follows no order: nothing here branches on it. Eight bits
 * are put together before they are written: else each row would wait for the byte of the one before it. */
#define GATHER(NAME, FROM, TO, IS_NULL)                                                                               \
    i64 NAME(i64 count, const i64 *rows, const i64 *via, const FROM *from, FROM null, TO *to, u8 *bits) {             \
        i64 nulls = 0;                                                                                                \
        for (i64 first = 0; first < count; first += 8) {                                                              \
            i64 turns = count - first < 8 ? count - first : 8;                                                        \
            int valid = 0;                                                                                            \
            for (int i = 0; i < turns; i++) {                                                                         \
                i64 row = rows[first + i];                                                                            \
                if (via)                                                                                              \
                    row = via[at_least_0(row)] | row >> 63;                                                           \
                FROM value = *(row < 0 ? &null : from + row);                                                         \
                int is_null = (row < 0) | (IS_NULL);                                                                  \
                to[first + i] = (TO)value;                                                                            \
                nulls += is_null;                                                                                     \
                valid |= !is_null << i;                                                                               \
            }                                                                                                         \
            bits[first >> 3] = (u8)valid;                                                                             \
        }                                                                                                             \
        return nulls;                                                                                                 \
    }

i64 gather_i64(i64 count, const i64 *rows, const i64 *via, const i64 *from, i64 null, i64 *to, u8 *bits);
i64 gather_u64(i64 count, const i64 *rows, const i64 *via, const u64 *from, u64 null, u64 *to, u8 *bits);
i64 gather_u32(i64 count, const i64 *rows, const i64 *via, const i64 *from, i64 null, uint32_t *to, u8 *bits);
GATHER(gather_i64, i64, i64, value == null)
GATHER(gather_u64, u64, u64, value == null)
GATHER(gather_u32, i64, uint32_t, (value == null) | (value < 0) | (value > UINT32_MAX))

/* Set the numbers of the texts of some rows by their codes; -1 = null. Return how many are null, -1 where a text has no
 * number yet. There is at least one number. */
i64 gather_texts(i64 count, const i64 *rows, const i32 *codes, const i32 *numbers, i32 *to, u8 *bits) {
    i64 nulls = 0, unknown = 0;
    for (i64 first = 0; first < count; first += 8) {
        i64 turns = count - first < 8 ? count - first : 8;
        int valid = 0;
        for (int i = 0; i < turns; i++) {
            i64 row = rows[first + i];
            i64 code = codes[at_least_0(row)] | row >> 63, number = numbers[at_least_0(code)];
            int is_null = code < 0;
            to[first + i] = (i32)(number | code >> 63);
            nulls += is_null;
            unknown |= !is_null & (number < 0);
            valid |= !is_null << i;
        }
        bits[first >> 3] = (u8)valid;
    }
    return unknown ? -1 : nulls;
}
