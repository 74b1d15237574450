/* What is done with every line of a log: find lines, compare them with what was learned, read their numbers.
 *
 * Python learns (layouts, forms, shapes, hashes of texts); these functions apply what it learned to the lines of
 * a block. Each works on arrays of positions in the padded bytes of `parse.text.Text`: before the first and behind
 * the last byte of a block there is room to load whole words. Functions that are given the size of these bytes find
 * nothing at places outside of them; the others are given lines that are there. None of them allocates or keeps anything.
 */
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef int32_t i32;
typedef int64_t i64;
typedef uint64_t u64;

/* Checksum of this file, by which its caller knows that both are of one version. */
#ifndef SOURCE_CHECKSUM
#define SOURCE_CHECKSUM ""
#endif
const char source_checksum[] = SOURCE_CHECKSUM;

#define WORD_BYTES 8
#define BYTES 0x0101010101010101ULL

static inline u64 load(const u8 *p) {
    u64 word;
    memcpy(&word, p, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* Whether `size` bytes at a place, and a word that begins in them, lie in the padded bytes of a block. */
static inline int is_inside(i64 raw_size, i64 at, i64 size) {
    return at >= WORD_BYTES && size >= 0 && at + size <= raw_size - 2 * WORD_BYTES;
}

/* The first `size` bytes (0 to 8), the others zero. */
static inline u64 load_part(const u8 *p, i64 size) {
    return size <= 0 ? 0 : load(p) & (~0ULL >> (64 - 8 * size));
}

/* ---- hashes of texts, and tables from hashes to codes ---- */

static inline u64 fold(u64 a, u64 b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (u64)product ^ (u64)(product >> 64);
}

static inline u64 hash_text(const u8 *p, i64 size) {
    u64 hash = fold((u64)size ^ 0x9E3779B97F4A7C15ULL, 0xD6E8FEB86659FD93ULL);
    for (; size > 16; p += 16, size -= 16)
        hash = fold(load(p) ^ 0xA0761D6478BD642FULL, load(p + 8) ^ hash);
    u64 first = load_part(p, size < 8 ? size : 8), second = load_part(p + 8, size - 8);
    return fold(first ^ 0xA0761D6478BD642FULL, second ^ hash ^ 0xE7037ED1A0B428DBULL);
}

/* Open addressing; a key of zero marks a free place, so that no hash may be zero. */
static inline u64 key_of(u64 hash) { return hash ? hash : 1; }

/* Where a key is looked for first: the lowest bits of a product that is used as a hash tell little. */
static inline u64 place_of(u64 key) { return key ^ key >> 32; }

static inline i64 look_up(const u64 *keys, const i64 *codes, i64 mask, u64 hash) {
    u64 key = key_of(hash);
    for (u64 place = place_of(key);; place++) {
        u64 found = keys[place & mask];
        if (found == key)
            return codes[place & mask];
        if (!found)
            return -1;
    }
}

/* Put hashes with their codes into a table that has room for them; a hash that is there keeps its code. */
void table_add(u64 *keys, i64 *codes, i64 mask, i64 count, const u64 *hashes, const i64 *added) {
    for (i64 i = 0; i < count; i++) {
        u64 key = key_of(hashes[i]), place = place_of(key);
        while (keys[place & mask] && keys[place & mask] != key)
            place++;
        if (!keys[place & mask]) {
            keys[place & mask] = key;
            codes[place & mask] = added[i];
        }
    }
}

/* Set the codes of hashes, -1 = not known; return how many are not. */
i64 table_find(const u64 *keys, const i64 *codes, i64 mask, i64 count, const u64 *hashes, i64 *found) {
    i64 unknown = 0;
    for (i64 i = 0; i < count; i++) {
        found[i] = look_up(keys, codes, mask, hashes[i]);
        unknown += found[i] < 0;
    }
    return unknown;
}

static inline u64 hash_span(const u8 *raw, i64 raw_size, i64 at, i64 end) {
    i64 size = end > at && is_inside(raw_size, at, end - at) ? end - at : 0;
    return hash_text(size ? raw + at : raw, size);
}

/* Set the hash of the text between two places, of each row. */
void hash_spans(const u8 *raw, i64 raw_size, i64 count, const i64 *at, const i64 *end, u64 *hashes) {
    for (i64 i = 0; i < count; i++)
        hashes[i] = hash_span(raw, raw_size, at[i], end[i]);
}

/* Set the hashes and codes (-1 = not known) of texts; return how many are not known. */
i64 code_spans(const u64 *keys, const i64 *codes, i64 mask, const u8 *raw, i64 raw_size, i64 count, const i64 *at,
               const i64 *end, u64 *hashes, i64 *found) {
    hash_spans(raw, raw_size, count, at, end, hashes);
    return table_find(keys, codes, mask, count, hashes, found);
}

/* ---- lines ---- */

static inline i64 line_end(const u8 *raw, i64 start, i64 stop) {
    const u8 *found = memchr(raw + start, '\n', (size_t)(stop - start));
    return found ? found - raw : stop;
}

/* Set start and end of the lines of a block; return how many there are, -1 where there is no room for them. */
i64 find_lines(const u8 *raw, i64 start, i64 stop, i64 room, i64 *starts, i64 *ends) {
    i64 count = 0;
    while (start < stop) {
        i64 end = line_end(raw, start, stop);
        if (count == room)
            return -1;
        starts[count] = start;
        ends[count++] = end;
        start = end + 1;
    }
    return count;
}

/* Return how often ` us:` stands between two places. */
i64 count_units(const u8 *raw, i64 start, i64 stop) {
    enum { LANES = 32, TURNS = 255 };
    const u8 *p = raw + start, *last = raw + stop - 3;
    i64 count = 0;
    while (last - p >= LANES) {
        u8 lanes[LANES] = {0};
        for (int turn = 0; turn < TURNS && last - p >= LANES; turn++, p += LANES)
            for (int i = 0; i < LANES; i++)
                lanes[i] += (p[i] == ' ') & (p[i + 1] == 'u') & (p[i + 2] == 's') & (p[i + 3] == ':');
        for (int i = 0; i < LANES; i++)
            count += lanes[i];
    }
    for (; p < last; p++)
        count += !memcmp(p, " us:", 4);
    return count;
}

/* Return how often ` us:` stands in some spans. */
i64 count_units_in(const u8 *raw, i64 count, const i64 *start, const i64 *stop) {
    i64 found = 0;
    for (i64 i = 0; i < count; i++)
        found += count_units(raw, start[i], stop[i]);
    return found;
}

static inline int is_digit(u8 byte) { return byte >= '0' && byte <= '9'; }

/* Set how many times (` us:` behind five digits, in some releases with a `d` between) each line holds. */
void count_times(const u8 *raw, i64 count, const i64 *start, const i64 *end, i64 *times) {
    for (i64 i = 0; i < count; i++) {
        const u8 *p = raw + start[i], *stop = raw + end[i];
        times[i] = 0;
        for (; p < stop && (p = memchr(p, ':', (size_t)(stop - p))); p++) {
            const u8 *unit = p - 3;
            if (unit < raw + start[i] || memcmp(unit, " us", 3))
                continue;
            const u8 *digits = unit - (unit[-1] == 'd');
            times[i] += is_digit(digits[-1]) && is_digit(digits[-2]) && is_digit(digits[-3]) && is_digit(digits[-4]) &&
                        is_digit(digits[-5]);
        }
    }
}

/* Set where a text of two bytes begins first in the `size` bytes from each place; -1 = nowhere. */
void find_pairs(const u8 *raw, i64 raw_size, i64 count, const i64 *at, i64 size, u8 first, u8 second, i64 *places) {
    for (i64 i = 0; i < count; i++) {
        places[i] = -1;
        if (!is_inside(raw_size, at[i], size))
            continue;
        const u8 *p = raw + at[i], *stop = p + size - 1;
        while (p < stop && (p = memchr(p, first, (size_t)(stop - p)))) {
            if (p[1] == second) {
                places[i] = p - raw;
                break;
            }
            p++;
        }
    }
}

/* ---- numbers ---- */

static inline int is_decimal(u64 word) {
    return ((word & (0xF0 * BYTES)) | (((word + 0x06 * BYTES) & (0xF0 * BYTES)) >> 4)) == 0x33 * BYTES;
}

static inline u64 eight_decimal(u64 word) {
    word = (word & (0x0F * BYTES)) * 2561 >> 8;
    word = (word & 0x00FF00FF00FF00FFULL) * 6553601 >> 16;
    return (word & 0x0000FFFF0000FFFFULL) * 42949672960001ULL >> 32;
}

/* The word that ends before `stop`, of which only the last `digits` (at most 8) count: zeros are put before them. */
static inline u64 last_digits(const u8 *stop, i64 digits) {
    u64 drop = digits >= 8 ? 0 : ~0ULL >> (8 * digits);
    return (load(stop - 8) & ~drop) | (0x30 * BYTES & drop);
}

static inline int is_hexadecimal(u64 word) {
    u64 letter = (word >> 6) & BYTES, value = (word & (0x0F * BYTES)) + letter * 9;
    return value + 0x30 * BYTES + letter * 39 == (word | letter << 5) &&
           ((value + 0x06 * BYTES) & (0x10 * BYTES)) == letter << 4 && !(value & (0x10 * BYTES));
}

static inline u64 eight_hexadecimal(u64 word) {
    word = (word & (0x0F * BYTES)) + ((word >> 6) & BYTES) * 9;
    word = (word << 4 | word >> 8) & 0x00FF00FF00FF00FFULL;
    word = (word << 8 | word >> 16) & 0x0000FFFF0000FFFFULL;
    return (word << 16 | word >> 32) & 0xFFFFFFFFULL;
}

/* ---- lines that fit a layout ---- */

/* What a layout's prefix tells of a line. */
enum { FITS = 0, NO_FRONT = 1, NO_FORM = 2, NO_TIME = 3 };

typedef struct {
    i64 mark, digits, gap;      /* see `amdlog.layout.Layout` */
    const u64 *keys;            /* fronts: hash -> code */
    const i64 *codes;
    i64 mask;
    const i64 *threads, *slots; /* of each front */
    i64 slot_count;             /* forms: slot -> first form */
    const i64 *first_of;
    const i64 *following, *sizes, *whats, *skips; /* of each form */
    const u8 *literals;
    i64 literal_bytes;
} Layout;

static inline i64 find_form(const Layout *of, i64 slot, const u8 *message, i64 size) {
    i64 form = of->first_of[slot < of->slot_count ? slot : of->slot_count - 1];
    for (; form > 0; form = of->following[form])
        if (of->sizes[form] <= size &&
            !memcmp(of->literals + form * of->literal_bytes, message, (size_t)of->sizes[form]))
            return form;
    return 0;
}

static inline int read_time(const u8 *mark, i64 digits, i64 *time) {
    u64 low = last_digits(mark, digits < 8 ? digits : 8), high = 0x30 * BYTES;
    if (digits > 8)
        high = last_digits(mark - 8, digits - 8);
    *time = (i64)(eight_decimal(high) * 100000000 + eight_decimal(low));
    return is_decimal(low) && is_decimal(high);
}

static inline u64 hash_front(const Layout *of, const u8 *line) {
    u64 site = hash_text(line, of->mark - of->digits), thread = hash_text(line + of->mark, of->gap);
    return fold(site ^ 0x8EBC6AF09C88C6E3ULL, thread ^ load_part(line + of->mark + of->gap, 4));
}

typedef struct {
    u8 *status;
    u64 *front;
    i64 *thread, *slot, *time, *message, *what;
} Lines;

/* Read the prefix of a line, and find the form of its message; what the status does not ask for is not set.
 *
 * Where `given` is set, its thread and slot are known already; else its front tells them.
 */
static inline void match_line(const Layout *of, const u8 *raw, i64 raw_size, i64 start, i64 end, int given,
                              const Lines *to, i64 i) {
    i64 size = of->mark + of->gap, slot, form;
    if (!is_inside(raw_size, start, size + of->literal_bytes)) {
        to->status[i] = NO_TIME;
        return;
    }
    const u8 *line = raw + start;
    if (given) {
        slot = to->slot[i];
    } else {
        u64 front = hash_front(of, line);
        i64 code = look_up(of->keys, of->codes, of->mask, front);
        if (code < 0) {
            to->front[i] = front;
            to->status[i] = NO_FRONT;
            return;
        }
        to->thread[i] = of->threads[code];
        slot = of->slots[code];
    }
    if (!read_time(line + of->mark, of->digits, &to->time[i])) {
        to->status[i] = NO_TIME;
        return;
    }
    form = find_form(of, slot, line + size, end - start - size);
    if (!form) {
        to->slot[i] = slot;
        to->message[i] = start + size;
        to->status[i] = NO_FORM;
        return;
    }
    to->what[i] = of->whats[form];
    to->message[i] = start + size + of->skips[form];
    to->status[i] = FITS;
}

void match_lines(const Layout *of, const u8 *raw, i64 raw_size, i64 count, const i64 *start, const i64 *end, int given,
                 const Lines *to) {
    for (i64 i = 0; i < count; i++)
        match_line(of, raw, raw_size, start[i], end[i], given, to, i);
}

/* Find the lines of a block, and read those of one layout; return how many lines there are, -1 = no room for them.
 *
 * `ends` are before the newline, `bare` ones before a carriage return, too. `levels` counts the lines of each level.
 */
i64 scan_lines(const Layout *of, const u8 *raw, i64 raw_size, i64 start, i64 stop, i64 room, i64 *starts, i64 *ends,
               i64 *bare, i64 *levels, const Lines *to) {
    i64 count = 0;
    while (start < stop) {
        i64 end = line_end(raw, start, stop);
        if (count == room)
            return -1;
        starts[count] = start;
        ends[count] = end;
        bare[count] = end - (raw[end - 1] == '\r');
        levels[raw[start] == ':' && raw[start + 2] == ':' && is_digit(raw[start + 1]) ? raw[start + 1] - '0' : 10]++;
        match_line(of, raw, raw_size, start, bare[count], 0, to, count);
        count++;
        start = end + 1;
    }
    return count;
}

/* ---- texts of known shapes ---- */

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
void find_starts(const u8 *raw, i64 raw_size, i64 count, const i64 *at, const i64 *end, i64 tried, const i64 *skips, const i64 *which,
                 const i64 *sizes, const u8 *literals, i64 literal_bytes, i64 *split, i64 *found, i64 *hits) {
    for (i64 i = 0; i < count; i++) {
        found[i] = -1;
        split[i] = 0;
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

/* ---- what belongs together in the rows of a block; all rows are in the order of the file ---- */

enum { ENTER = 1, EXIT = 2, KERNARG = 5, SHADER = 6, PACKET = 7, COMMAND = 8, COPY = 9 }; /* `messages.Kind` */
enum { OPEN = -1, NO_EXIT = -2 };

typedef struct {
    i64 count, lanes;
    const i32 *lane, *name;
    const int8_t *kind;
    const i64 *offset, *stamp;
    const u8 *shared, *passed, *is_rocr;
} Rows;

static inline int is_call(int8_t kind) { return kind == ENTER || kind == EXIT; }

/* Join calls that nest, and list those that are left (`left`) and the joined ones with others inside (`outer`).
 *
 * `is_leaf` marks calls without an exit line: such a call ends where the next one of its lane begins, unless that is
 * its exit. `top`, `last` and `depth` have a place for each lane, `below` and `place` for each row.
 */
void pair_calls(const Rows *of, const u8 *is_leaf, i64 *partner, i64 *following, i64 *left, i64 *outer, i64 *counts,
                i64 *top, i64 *last, i64 *depth, i64 *below, i64 *place) {
    i64 lefts = 0, outers = 0;
    for (i64 lane = 0; lane < of->lanes; lane++) {
        top[lane] = last[lane] = -1;
        depth[lane] = 0;
    }
    for (i64 row = 0; row < of->count; row++) {
        partner[row] = OPEN;
        following[row] = -1;
        if (!is_call(of->kind[row]))
            continue;
        i64 lane = of->lane[row], before = last[lane];
        int is_exit = of->kind[row] == EXIT;
        if (before >= 0) {
            following[before] = row;
            if (is_leaf[before] && of->kind[before] == ENTER && !(is_exit && of->name[row] == of->name[before])) {
                partner[before] = NO_EXIT;
                if (!of->shared[before]) {
                    top[lane] = below[before];
                    depth[lane]--;
                }
            }
        }
        last[lane] = row;
        if (of->shared[row])
            continue;
        place[row] = depth[lane]++;
        i64 enter = top[lane];
        if (is_exit && enter >= 0 && of->kind[enter] == ENTER && of->name[enter] == of->name[row]) {
            partner[enter] = row;
            partner[row] = enter;
            top[lane] = below[enter];
            if (place[row] != place[enter] + 1)
                outer[outers++] = enter;
        } else {
            below[row] = enter;
            top[lane] = row;
        }
    }
    for (i64 row = 0; row < of->count; row++)
        if (is_call(of->kind[row]) && partner[row] == OPEN && !of->shared[row])
            left[lefts++] = row;
    counts[0] = lefts;
    counts[1] = outers;
}

/* Set depth and innermost enclosing call (-1 = none) of every row.
 *
 * A call encloses what follows up to its exit where that is at most `wait_bytes` behind it, else up to the next call's
 * line; `passed` ones enclose nothing. `top`, `last` and `open` have a place for each lane, `below` for each row.
 */
void nest_calls(const Rows *of, const i64 *partner, i64 wait_bytes, i64 *depth, i64 *parent, i64 *top, i64 *last,
                i64 *open, i64 *below) {
    for (i64 lane = 0; lane < of->lanes; lane++) {
        top[lane] = last[lane] = -1;
        open[lane] = 0;
    }
    for (i64 row = 0; row < of->count; row++) {
        i64 lane = of->lane[row];
        int is_enter = of->kind[row] == ENTER && !of->passed[row];
        if (is_call(of->kind[row])) {
            i64 ended[2] = {last[lane], of->kind[row] == EXIT ? partner[row] : -1};
            last[lane] = row;
            for (int i = 0; i < 2; i++) {
                i64 call = ended[i];
                if (call < 0 || of->kind[call] != ENTER || of->passed[call])
                    continue;
                int to_exit = !of->shared[call] && partner[call] >= 0 &&
                              of->offset[partner[call]] - of->offset[call] <= wait_bytes;
                if (to_exit == i && top[lane] >= 0) {
                    top[lane] = below[top[lane]];
                    open[lane]--;
                }
            }
        }
        depth[row] = open[lane];
        parent[row] = top[lane];
        if (is_enter) {
            below[row] = top[lane];
            top[lane] = row;
            open[lane]++;
        }
    }
}

typedef struct {
    i64 row, calls;
} Seen;

/* Set of each dispatch its ShaderName and KernargSegment, and of each packet and copy its command (-1 = none).
 *
 * Two rows belong together only where no call begins or ends between them, a name and its dispatch only where no
 * command does either. A name that is not known (`kernel` < 0), or that was moved in the file (printed behind its
 * dispatch, or before the command in front of it), is none. `waiting` marks what may belong to a packet behind the
 * last row. `calls` has a place for each lane, `seen` three.
 */
void fold_rows(const Rows *of, const u8 *is_dispatch, const i32 *kernel, i64 *shader, i64 *kernarg, i64 *command,
               u8 *waiting, i64 *calls, Seen *seen) {
    static const int8_t sources[2] = {SHADER, KERNARG};
    i64 *found[2] = {shader, kernarg};
    for (i64 lane = 0; lane < of->lanes; lane++) {
        calls[lane] = 0;
        for (int i = 0; i < 3; i++)
            seen[3 * lane + i].row = -1;
    }
    for (i64 row = 0; row < of->count; row++) {
        int8_t kind = of->kind[row];
        i64 lane = of->lane[row];
        shader[row] = kernarg[row] = command[row] = -1;
        waiting[row] = 0;
        if (is_call(kind))
            calls[lane]++;
        if (kind != SHADER && kind != KERNARG && kind != COMMAND && kind != PACKET && kind != COPY)
            continue;
        Seen now = {row, calls[lane]}, *last = seen + 3 * lane;
        for (int i = 0; i < 2; i++) {
            if (is_dispatch[row] && last[i].row >= 0 && of->kind[last[i].row] == sources[i] &&
                last[i].calls == now.calls)
                found[i][row] = last[i].row;
            if (kind == sources[i] || kind == COMMAND || is_dispatch[row])
                last[i] = now;
        }
        if (kind == COMMAND)
            last[2] = now;
        i64 begun = last[2].row >= 0 && last[2].calls == now.calls ? last[2].row : -1, name = shader[row];
        if ((kind == PACKET || kind == COPY) && !of->is_rocr[row])
            command[row] = begun;
        if (name < 0)
            continue;
        int is_moved = !of->shared[row] && (of->stamp[name] > of->stamp[row] ||
                                            (begun >= 0 && of->stamp[begun] > of->stamp[name]));
        if (is_moved || kernel[name] < 0)
            shader[row] = -1;
    }
    for (i64 lane = 0; lane < of->lanes; lane++)
        for (int i = 0; i < 3; i++) {
            Seen last = seen[3 * lane + i];
            if (last.row >= 0 && last.calls == calls[lane] && of->kind[last.row] == (i < 2 ? sources[i] : COMMAND))
                waiting[last.row] = 1;
        }
}

/* ---- records to rows, and rows to columns ---- */

typedef struct {
    const i64 *message, *kind, *name, *length, *succeeds, *layer; /* of each code of `amdlog.classify.Classifier` */
    i64 success;                                                  /* code of the result `hipSuccess` */
    i64 returned;   /* bytes behind the name of a call that returns success */
    i64 cut_length; /* messages of so many bytes were cut */
} Classes;

/* What else is to be read of a record, or is special. */
enum { ASK_RESULT = 1, IS_CUT = 2, IS_TOLD = 4 };

typedef struct {
    i64 *message, *length;
    int8_t *kind, *layer;
    i32 *name, *result;
    i64 *told_us;
    u8 *asks;
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

/* Set what the code of each record (`what`) says of its row; return which `asks` there are.
 *
 * Records lie between `start` and `end`, their messages between `at` and `stop`; of torn records these lie elsewhere.
 */
i64 describe_rows(const Classes *of, const u8 *raw, i64 count, const i64 *start, const i64 *first, const i64 *end,
                  const i64 *at, const i64 *stop, const i64 *what, const Described *to) {
    i64 all = 0;
    for (i64 i = 0; i < count; i++) {
        i64 code = what[i], kind = of->kind[code], behind = stop[i] - at[i] - of->length[code];
        int succeeds = of->succeeds[code] > 0 && behind >= of->returned;
        u8 asks = 0;
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
        to->message[i] = of->message[code];
        to->length[i] = end[i] - start[i];
        to->kind[i] = (int8_t)kind;
        to->layer[i] = (int8_t)of->layer[code];
        to->name[i] = (i32)of->name[code];
        to->result[i] = succeeds ? (i32)of->success : -1;
        to->asks[i] = asks;
        all |= asks;
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

static inline void mark(u8 *bits, i64 i) { bits[i >> 3] |= (u8)(1 << (i & 7)); }

/* Each of these sets the values of some rows (of `via[row]` where that is given, -1 = null), marks in `bits` those that
 * are not null, and returns how many are null. */
#define GATHER(NAME, FROM, TO, IS_NULL)                                                                               \
    i64 NAME(i64 count, const i64 *rows, const i64 *via, const FROM *from, FROM null, TO *to, u8 *bits) {             \
        i64 nulls = 0;                                                                                                \
        for (i64 i = 0; i < count; i++) {                                                                             \
            i64 row = via && rows[i] >= 0 ? via[rows[i]] : rows[i];                                                   \
            FROM value = row < 0 ? null : from[row];                                                                  \
            to[i] = (TO)value;                                                                                        \
            if (row < 0 || (IS_NULL))                                                                                 \
                nulls++;                                                                                              \
            else                                                                                                      \
                mark(bits, i);                                                                                        \
        }                                                                                                             \
        return nulls;                                                                                                 \
    }

GATHER(gather_i64, i64, i64, value == null)
GATHER(gather_u64, u64, u64, value == null)
GATHER(gather_u32, i64, uint32_t, value == null || value < 0 || value > UINT32_MAX)

/* Set the numbers of the texts of some rows by their codes; -1 = null. Return how many are null, -1 where a text has no
 * number yet. */
i64 gather_texts(i64 count, const i64 *rows, const i32 *codes, const i32 *numbers, i32 *to, u8 *bits) {
    i64 nulls = 0;
    for (i64 i = 0; i < count; i++) {
        i32 code = rows[i] < 0 ? -1 : codes[rows[i]];
        to[i] = code < 0 ? -1 : numbers[code];
        if (code < 0)
            nulls++;
        else if (to[i] < 0)
            return -1;
        else
            mark(bits, i);
    }
    return nulls;
}
