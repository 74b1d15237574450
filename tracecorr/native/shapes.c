/* Texts of known shapes, and what lines have in common but for their numbers. */
#include "bytes.h"

enum { MOST_NUMBERS = 64 }; /* of one shape */

typedef struct {
    i64 key_count;
    const i64 *first_of;               /* key -> first shape, -1 = none */
    const i64 *following;              /* of each shape */
    const i64 *words_from, *words_to;  /* of each shape: its words */
    const u64 *keep, *literal;         /* of each word */
    const i64 *numbers_from, *numbers_to;
    const i64 *stop, *digits, *is_hex; /* of each number: byte behind it in the text */
    i64 before;                        /* bytes before a text that its first word begins */
    i64 most_bytes;
} Shapes;

/* Read the digits before `stop`; return whether all of them are digits. */
static inline int read_digits(const u8 *stop, i64 digits, i64 is_hex, u64 *value) {
    u64 low = last_digits(stop, digits < 8 ? digits : 8), high = 0x30 * BYTES;
    if (digits > 8)
        high = last_digits(stop - 8, digits - 8);
    if (is_hex) {
        *value = eight_hexadecimal(high) << 32 | eight_hexadecimal(low);
        return is_hexadecimal(low) && is_hexadecimal(high);
    }
    *value = eight_decimal(high) * 100000000 + eight_decimal(low);
    return is_decimal(low) && is_decimal(high);
}

static inline int has_literal(const Shapes *of, i64 shape, const u8 *text) {
    const u8 *p = text - of->before;
    for (i64 i = of->words_from[shape]; i < of->words_to[shape]; i++, p += WORD_BYTES)
        if ((load(p) & of->keep[i]) != of->literal[i])
            return 0;
    return 1;
}

/* Read the numbers of a text that has a shape; return whether it has it. */
static inline int read_numbers(const Shapes *of, i64 shape, const u8 *text, u64 *numbers) {
    i64 from = of->numbers_from[shape], to = of->numbers_to[shape];
    for (i64 i = from; i < to; i++)
        if (!read_digits(text + of->stop[i], of->digits[i], of->is_hex[i], &numbers[i - from]))
            return 0;
    return 1;
}

/* Return the shape of a text, -1 = none that is known, and set its numbers. */
static inline i64 find_shape(const Shapes *of, const u8 *raw, i64 raw_size, i64 kind, i64 at, i64 size, u64 *numbers) {
    if (kind < 0 || size < 0 || !is_inside(raw_size, at, of->most_bytes))
        return -1;
    i64 key = kind * of->most_bytes + (size < of->most_bytes ? size : of->most_bytes - 1);
    i64 found = of->first_of[key < of->key_count ? key : of->key_count - 1];
    while (found >= 0 && !(has_literal(of, found, raw + at) && read_numbers(of, found, raw + at, numbers)))
        found = of->following[found];
    return found;
}

/* Set the shape of each text (-1 = none that is known), and its numbers; return how many texts have no shape.
 *
 * `column` is that of each number, -1 = it is not wanted. Of column `c` there is room from `c * count` on. With `rows`,
 * they are lists, as long as `counts` says: the texts that have a number there, and in `values` the numbers. Without,
 * numbers stand at the place of their text, with `present` set there, and what lies between is left as it is.
 */
i64 read_shapes(const Shapes *of, const u8 *raw, i64 raw_size, i64 count, const i64 *kind, const i64 *at,
                const i64 *size, const i64 *column, i64 *shape, u64 *values, u8 *present, i64 *rows, i64 *counts) {
    i64 unknown = 0;
    u64 numbers[MOST_NUMBERS];
    for (i64 i = 0; i < count; i++) {
        fetch(raw, at, i, count, 0, 3);
        i64 found = shape[i] = find_shape(of, raw, raw_size, kind[i], at[i], size[i], numbers);
        if (found < 0) {
            unknown++;
            continue;
        }
        i64 from = of->numbers_from[found], to = of->numbers_to[found];
        for (i64 n = from; n < to; n++) {
            i64 of_column = column[n];
            if (of_column < 0)
                continue;
            i64 place = of_column * count + (rows ? counts[of_column]++ : i);
            values[place] = numbers[n - from];
            if (rows)
                rows[place] = i;
            else
                present[place] = 1;
        }
    }
    return unknown;
}

/* Set which text stands a number of bytes behind each place (-1 = none), and where; it ends before `end`.
 *
 * Tried are texts at distances (`skips`, `which`), in this order; `hits` counts the rows of each.
 */
void find_starts(const u8 *raw, i64 raw_size, i64 count, const i64 *at, const i64 *end, i64 tried, const i64 *skips,
                 const i64 *which, const i64 *sizes, const u8 *literals, i64 literal_bytes, i64 *split, i64 *found,
                 i64 *hits) {
    i64 first = tried ? skips[0] : 0;
    for (i64 i = 0; i < count; i++) {
        found[i] = -1;
        split[i] = 0;
        fetch(raw, at, i, count, first, 2);
        for (i64 turn = 0; turn < tried && found[i] < 0; turn++) {
            i64 text = which[turn], place = at[i] + skips[turn];
            if (!is_inside(raw_size, place, sizes[text]) || place + sizes[text] > end[i] ||
                memcmp(raw + place, literals + text * literal_bytes, (size_t)sizes[text]))
                continue;
            found[i] = text;
            split[i] = place;
            hits[turn]++;
        }
    }
}

/* Set of each row with a code (-1 = none) the values of that code, where it has them: those of field `f` stand from
 * `f * rooms` on, of row `i` at `f * count + i`; others are not touched. */
void spread_fields(i64 count, const i64 *code, i64 fields, i64 rooms, const u64 *from, const u8 *has, u64 *values,
                   u8 *present) {
    for (i64 f = 0; f < fields; f++, from += rooms, has += rooms, values += count, present += count)
        for (i64 i = 0; i < count; i++)
            if (code[i] >= 0 && has[code[i]]) {
                values[i] = from[code[i]];
                present[i] = 1;
            }
}
