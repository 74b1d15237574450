/* Lines of a block, and codes of texts in them by their hashes. */
#include "bytes.h"

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
