/* What `link/` asks of all rows, which are in the order of their times. */
#include "bytes.h"

static inline int is_set(const u8 *bits, i64 at) {
    return !bits || (bits[at >> 3] >> (at & 7) & 1);
}

/* Find the call of its group that begins where each row says (`begun`), among those around the call before it.
 *
 * `bits` tell, from bit `first_bit` on, which rows say so. `last` has a place for each group; `found`, which begins as
 * zeros, tells which rows have a `parent`; it is -2 where none is found, so many are returned.
 */
i64 find_parents(i64 count, const uint32_t *group, const i64 *offset, const i64 *begun, const u8 *bits,
                 i64 first_bit, const u8 *is_call, i64 groups, i64 *last, i64 *parent, u8 *found) {
    i64 missed = 0;
    for (i64 number = 0; number < groups; number++)
        last[number] = -1;
    for (i64 row = 0; row < count; row++) {
        i64 *call = &last[group[row]], above = *call;
        if (is_call[row])
            *call = row;
        parent[row] = -1;
        if (!is_set(bits, first_bit + row))
            continue;
        while (above >= 0 && offset[above] > begun[row])
            above = parent[above];
        if (above >= 0 && offset[above] == begun[row]) {
            parent[row] = above;
            found[row >> 3] |= (u8)(1 << (row & 7));
        } else {
            parent[row] = -2;
            missed++;
        }
    }
    return missed;
}

/* Find the outermost row around each one (`root`): itself where nothing encloses it.
 *
 * `bits` tell, from bit `first_bit` on, which rows have a `parent`. Where `named` is given, `found`, which begins as
 * zeros, tells of which rows the root is one of these; so many are returned.
 */
i64 find_roots(i64 count, const i64 *parent, const u8 *bits, i64 first_bit, const u8 *named, i64 *root, u8 *found) {
    i64 hits = 0;
    for (i64 row = 0; row < count; row++) {
        i64 top = row;
        /* What encloses a row stands in front of it as a rule, and then its root is known. No way up is longer. */
        for (i64 steps = 0; steps < count && is_set(bits, first_bit + top); steps++) {
            i64 above = parent[top];
            if (above < 0 || above >= count)
                break;
            top = above < row ? root[above] : above;
            if (above < row)
                break;
        }
        root[row] = top;
        if (named && named[top]) {
            found[row >> 3] |= (u8)(1 << (row & 7));
            hits++;
        }
    }
    return hits;
}
