/* Lines of a block: where they are, and which of them begin like others before them. */
#include "bytes.h"

/* Checksum of the sources, by which their caller knows that both are of one version. */
#ifndef SOURCE_CHECKSUM
#define SOURCE_CHECKSUM ""
#endif
const char source_checksum[] = SOURCE_CHECKSUM;

/* ---- tables from hashes to codes ---- */

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
    for (i64 i = 0; i < count; i++) {
        fetch(raw, at, i, count, 0, 6);
        hashes[i] = hash_span(raw, raw_size, at[i], end[i]);
    }
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

/* Where the C library lets a program choose when it is loaded, the words of newer CPUs are compared, too. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef FOR_EACH_CPU
#define FOR_EACH_CPU
#endif

/* Return how often ` us:` stands between two places; set `*holes` where a NUL begins there. */
FOR_EACH_CPU static i64 count_units(const u8 *raw, i64 start, i64 stop, i64 *holes) {
    enum { LANES = 32, TURNS = 255 };
    const u8 *p = raw + start, *last = raw + stop - 3;
    i64 count = 0;
    while (last - p >= LANES) {
        u8 lanes[LANES] = {0}, zeros[LANES] = {0};
        for (int turn = 0; turn < TURNS && last - p >= LANES; turn++, p += LANES)
            for (int i = 0; i < LANES; i++) {
                lanes[i] += (p[i] == ' ') & (p[i + 1] == 'u') & (p[i + 2] == 's') & (p[i + 3] == ':');
                zeros[i] |= p[i] == 0;
            }
        for (int i = 0; i < LANES; i++) {
            count += lanes[i];
            *holes |= zeros[i];
        }
    }
    for (; p < raw + stop; p++) {
        count += p < last && !memcmp(p, " us:", 4);
        *holes |= *p == 0;
    }
    return count;
}

/* Return how often ` us:` stands in some spans. */
i64 count_units_in(const u8 *raw, i64 count, const i64 *start, const i64 *stop) {
    i64 found = 0, holes = 0;
    for (i64 i = 0; i < count; i++)
        found += count_units(raw, start[i], stop[i], &holes);
    return found;
}

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

/* Set where two bytes stand first in the first `most` bytes of texts; -1 = nowhere. */
void find_pairs(const u8 *raw, i64 raw_size, i64 count, const i64 *at, const i64 *end, i64 most, u8 first, u8 second,
                i64 *places) {
    for (i64 i = 0; i < count; i++) {
        places[i] = -1;
        fetch(raw, at, i, count, 0, 4);
        if (end[i] <= at[i] || !is_inside(raw_size, at[i], end[i] - at[i]))
            continue;
        const u8 *p = raw + at[i], *stop = p + (end[i] - at[i] < most ? end[i] - at[i] : most) - 1;
        while (p < stop && (p = memchr(p, first, (size_t)(stop - p)))) {
            if (p[1] == second) {
                places[i] = p - raw;
                break;
            }
            p++;
        }
    }
}

/* ---- lines that fit a layout ---- */

/* Of a form, as many bytes are compared at most; `LITERAL_BYTES` in `lines.py`. */
enum { LITERAL_BYTES = 64 };

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
    const u8 *literals;                           /* of each form, `LITERAL_BYTES` apart */
} Layout;

/* Whether two texts of up to `LITERAL_BYTES` are equal; of both so many bytes can be read.
 *
 * All of these are compared: sizes follow no order, and nothing here branches on them.
 */
static inline int is_same(const u8 *one, const u8 *other, i64 size) {
    static const u64 kept[2 * LITERAL_BYTES / WORD_BYTES] = {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL};
    const u8 *keep = (const u8 *)kept + LITERAL_BYTES - size;
    u64 differs = 0;
    for (int i = 0; i < LITERAL_BYTES; i += WORD_BYTES)
        differs |= (load(one + i) ^ load(other + i)) & load(keep + i);
    return !differs;
}

static inline i64 find_form(const Layout *of, i64 slot, const u8 *message, i64 size) {
    i64 form = of->first_of[slot < of->slot_count ? slot : of->slot_count - 1];
    for (; form > 0; form = of->following[form])
        if (of->sizes[form] <= size && is_same(of->literals + form * LITERAL_BYTES, message, of->sizes[form]))
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
    if (!is_inside(raw_size, start, size + LITERAL_BYTES)) {
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

/* What a block holds: lines of each level (the last one: of none), how often ` us:`, and whether NULs. */
typedef struct {
    i64 levels[11], units, holes;
} Counts;

/* Find the lines of a block, and read those of one layout; return how many lines there are, -1 = no room for them.
 *
 * `ends` are before the newline, `bare` ones before a carriage return, too.
 */
i64 scan_lines(const Layout *of, const u8 *raw, i64 raw_size, i64 start, i64 stop, i64 room, i64 *starts, i64 *ends,
               i64 *bare, Counts *counts, const Lines *to) {
    enum { STEP = 1 << 16 }; /* bytes that the cache still holds when their lines are read */
    i64 count = 0, counted = start;
    while (start < stop) {
        i64 end = line_end(raw, start, stop);
        for (; counted <= end && counted < stop; counted += STEP)
            counts->units += count_units(raw, counted, counted + STEP + 3 < stop ? counted + STEP + 3 : stop,
                                         &counts->holes);
        if (count == room)
            return -1;
        starts[count] = start;
        ends[count] = end;
        bare[count] = end - (raw[end - 1] == '\r');
        int has_level = raw[start] == ':' && raw[start + 2] == ':' && is_digit(raw[start + 1]);
        counts->levels[has_level ? raw[start + 1] - '0' : 10]++;
        match_line(of, raw, raw_size, start, bare[count], 0, to, count);
        count++;
        start = end + 1;
    }
    return count;
}
