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

/* Set the shape of each text (-1 = none that is known), and its numbers: that of column `c` of text `i` at
 * `c * count + i`, with `present` set there, and counted in `counts`. Return how many texts have no shape.
 *
 * `column` is that of each number, -1 = it is not wanted.
 */
i64 read_shapes(const Shapes *of, const u8 *raw, i64 raw_size, i64 count, const i64 *kind, const i64 *at,
                const i64 *size, const i64 *column, i64 *shape, u64 *values, u8 *present, i64 *counts) {
    i64 unknown = 0;
    u64 numbers[MOST_NUMBERS];
    for (i64 i = 0; i < count; i++) {
        i64 found = -1;
        fetch(raw, at, i, count, 3);
        if (kind[i] >= 0 && size[i] >= 0 && is_inside(raw_size, at[i], of->most_bytes)) {
            i64 key = kind[i] * of->most_bytes + (size[i] < of->most_bytes ? size[i] : of->most_bytes - 1);
            const u8 *text = raw + at[i];
            found = of->first_of[key < of->key_count ? key : of->key_count - 1];
            while (found >= 0 && !(has_literal(of, found, text) && read_numbers(of, found, text, numbers)))
                found = of->following[found];
        }
        shape[i] = found;
        if (found < 0) {
            unknown++;
            continue;
        }
        i64 from = of->numbers_from[found], to = of->numbers_to[found];
        for (i64 n = from; n < to; n++)
            if (column[n] >= 0) {
                values[column[n] * count + i] = numbers[n - from];
                present[column[n] * count + i] = 1;
                counts[column[n]]++;
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
        fetch(raw + first, at, i, count, 1);
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
