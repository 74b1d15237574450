/* Records to rows, and rows to columns. */
#include "bytes.h"

typedef struct {
    const i64 *kind, *name, *length, *succeeds, *layer; /* of each code of `amdlog.classify.Classifier` */
    const i64 *subjects;                                /* of each code: one bit for each list that its rows are put to */
    i64 success;                                        /* code of the result `hipSuccess` */
    i64 cut_length; /* messages of so many bytes were cut */
    i64 level;      /* records of levels up to it, errors and warnings, are put to a list, too; -1 = none */
    i64 complaints; /* which one */
    i64 base;       /* offset in the file of the first of the bytes */
} Classes;

/* What else is to be read of a record, or is special. */
enum { ASK_RESULT = 1, IS_CUT = 2, IS_TOLD = 4 };

typedef struct {
    i64 *offset, *length;
    int8_t *kind, *layer;
    i32 *name, *result;
    i64 *told_us;
    u8 *asks;
    i64 *listed, *counts; /* of each subject: its rows, with room for all, and how many there are */
} Described;

/* Return the duration that an exit line tells behind `start` at its end (`: duration: 31 us`), -1 = none.
 *
 * It is the difference of the stamps of the call's two lines, to the microsecond (HIP 5.7 to 7.2). HIP 6.3 prints a `d`
 * behind the number (`: duration: 31d us`), as it does behind its stamps.
 */
static inline i64 read_duration(const u8 *start, const u8 *end) {
    static const char before[] = ": duration: ", unit[] = " us";
    i64 size = sizeof before - 1, told = 0, digits = 0, scale = 1;
    const u8 *last = end - (sizeof unit - 1);
    if (last < start + size || memcmp(last, unit, sizeof unit - 1))
        return -1;
    last -= last[-1] == 'd';
    for (; digits < 8 && is_digit(last[-1]); digits++, scale *= 10)
        told += (*--last - '0') * scale;
    return digits > 0 && digits < 8 && last - size >= start && !memcmp(last - size, before, (size_t)size) ? told : -1;
}

/* Whether a record begins with `:LEVEL:`, the level a digit and at most `most`. */
static inline int is_of_level(const u8 *record, i64 most) {
    return (u8)(record[1] - '0') <= most && record[0] == ':' && record[2] == ':';
}

static inline void put_to_list(const Described *to, i64 count, i64 list, i64 row) {
    to->listed[list * count + to->counts[list]++] = row;
}

/* Set what the code of each record (`what`) says of its row; return which `asks` there are.
 *
 * A code that was learned from a line that was cut does not tell that a call returned success; its text does.
 * Records lie between `start` and `end`, their messages between `at` and `stop`; of torn records these lie elsewhere.
 */
i64 describe_rows(const Classes *of, const u8 *raw, i64 count, const i64 *start, const i64 *first, const i64 *end,
                  const i64 *at, const i64 *stop, const i64 *what, const Described *to) {
    static const char returned[] = ": Returned hipSuccess :";
    i64 all = 0;
    for (i64 i = 0; i < count; i++) {
        i64 code = what[i], kind = of->kind[code], behind = stop[i] - at[i] - of->length[code];
        int succeeds = behind >= (i64)sizeof returned - 1 &&
                       (of->succeeds[code] > 0 ||
                        (kind == EXIT && !memcmp(raw + at[i] + of->length[code], returned, sizeof returned - 1)));
        u8 asks = 0;
        if (of->level >= 0)
            fetch(raw, start, i, count, 0, 1);
        fetch(raw, stop, i, count, -CACHE_LINE / 2, 2);
        to->told_us[i] = -1;
        if (kind == EXIT) {
            if (!succeeds)
                asks |= ASK_RESULT;
            to->told_us[i] = read_duration(raw + at[i] + of->length[code], raw + stop[i]);
            if (to->told_us[i] >= 0)
                asks |= IS_TOLD;
        }
        if (end[i] - first[i] >= of->cut_length)
            asks |= IS_CUT;
        to->offset[i] = of->base + start[i];
        to->length[i] = end[i] - start[i];
        to->kind[i] = (int8_t)kind;
        to->layer[i] = (int8_t)of->layer[code];
        to->name[i] = (i32)of->name[code];
        to->result[i] = succeeds ? (i32)of->success : -1;
        to->asks[i] = asks;
        all |= asks;
        for (u64 left = (u64)of->subjects[code]; left; left &= left - 1)
            put_to_list(to, count, __builtin_ctzll(left), i);
        if (of->level >= 0 && is_of_level(raw + start[i], of->level))
            put_to_list(to, count, of->complaints, i);
    }
    return all;
}

typedef struct {
    const int8_t *kind;
    const i64 *partner, *stamp, *told_us;
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
        i64 differs = of->stamp[exit] - of->stamp[row] - 1000 * of->told_us[exit];
        flags[i] |= differs >= -of->step_ns && differs <= of->step_ns ? of->span_told : of->span_differs;
    }
}

/* Copy the rows of some columns of 8 bytes that are kept, most of them; return how many are. */
i64 keep_rows(const u8 *kept, i64 count, i64 columns, const u64 *const *from, u64 *const *to) {
    i64 taken = 0;
    for (i64 row = 0; row < count;) {
        const u8 *stop = kept[row] ? memchr(kept + row, 0, (size_t)(count - row)) : NULL;
        i64 run = !kept[row] ? 0 : stop ? stop - kept - row : count - row;
        for (i64 column = 0; run && column < columns; column++)
            memcpy(to[column] + taken, from[column] + row, (size_t)run * sizeof(u64));
        taken += run;
        row += run + 1;
    }
    return taken;
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
