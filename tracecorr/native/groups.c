/* Rows of large frames: groups of them, and where they are. */
#include "columns.h"

/* So many calls may be open at once; a thread with more of them is not sure. */
#define DEPTH 16

typedef struct {
    i64 offset, depth;
    i64 end_offset[DEPTH], end[DEPTH];
} Thread;

static inline void set_group(void *group, int width, i64 row, uint32_t number) {
    if (width == 1)
        ((u8 *)group)[row] = (u8)number;
    else if (width == 2)
        ((uint16_t *)group)[row] = (uint16_t)number;
    else
        ((uint32_t *)group)[row] = number;
}

/* What makes a group: a value, and twice the number of an earlier group, plus one where there is no value. */
typedef struct {
    u64 value;
    uint32_t before, number; /* the number of the group, plus one */
} Slot;

static inline Slot *find_slot(Slot *slots, i64 mask, u64 value, uint32_t before) {
    u64 hash = (value ^ before * 0xd6e8feb86659fd93ULL) * 0x9e3779b97f4a7c15ULL;
    i64 at = (i64)(hash >> 32) & mask;
    while (slots[at].number && (slots[at].value != value || slots[at].before != before))
        at = (at + 1) & mask;
    return &slots[at];
}

static inline __attribute__((always_inline)) i64
part_rows(i64 count, void *group, int group_width, const void *values, int width, const u8 *bits, i64 first_bit,
          i64 from, i64 *told, i64 most, Slot *slots, i64 mask, i64 *first, uint32_t *before) {
    i64 groups = *told;
    i64 row = from;
    for (; row < count; row++) {
        int is_null = !is_set(bits, first_bit + row);
        u64 value = is_null ? 0 : number_at(values, width, row);
        uint32_t key = (uint32_t)group_of(group, group_width, row) << 1 | (uint32_t)is_null;
        Slot *slot = find_slot(slots, mask, value, key);
        if (!slot->number) {
            if (groups == most)
                break;
            first[groups] = row;
            before[groups] = key;
            *slot = (Slot){value, key, (uint32_t)++groups};
        }
        set_group(group, group_width, row, slot->number - 1);
    }
    *told = groups;
    return row;
}

/* Part groups (`group`, in place) by the value that each row has, which is null where `bits` tell none.
 *
 * They are numbered in the order of their first rows, which are listed (`first`). What is done up to row `from` is
 * there already: `groups` of them. At the first row that needs more than `most` it stops, and returns how far it came;
 * `told` are so many groups. `slots`, which begin as zeros, are a power of two and more than `most`; `before` has, as
 * `first`, a place for each group. A number of `most - 1` fits into `group_width` bytes: one, two or four.
 */
i64 number_values(i64 count, void *group, int group_width, const void *values, int width, const u8 *bits, i64 first_bit,
                  i64 from, i64 groups, i64 most, Slot *slots, i64 mask, i64 *first, uint32_t *before, i64 *told) {
    for (i64 number = 0; number < groups; number++) {
        u64 value = before[number] & 1 ? 0 : number_at(values, width, first[number]);
        *find_slot(slots, mask, value, before[number]) = (Slot){value, before[number], (uint32_t)number + 1};
    }
    /* Most groups are few, and of categories or threads: nothing in their loop asks how wide anything is. */
    i64 row = group_width == 1 && width == 4
                  ? part_rows(count, group, 1, values, 4, bits, first_bit, from, &groups, most, slots, mask, first,
                              before)
                  : part_rows(count, group, group_width, values, width, bits, first_bit, from, &groups, most, slots,
                              mask, first, before);
    *told = groups;
    return row;
}

static inline int is_before(const i64 *at, const uint16_t *file, const i64 *offset, i64 one, i64 other) {
    return at[one] != at[other]       ? at[one] < at[other]
           : file[one] != file[other] ? file[one] < file[other]
                                      : offset[one] < offset[other];
}

/* Find the last row of its group at or before each wanted key, or the first one at or behind it (`forward`).
 *
 * Rows have a `group` and sorted `keys`, wanted ones a group (`own`) and, in the order that `order` lists, sorted keys;
 * without `order` they are sorted themselves. One with the same key is one of these if `exact`. Those that are not
 * `asked` find none. `last` has a place for each group; `bits`, which begin as zeros, tell which find one (`found`).
 * Returns how many do.
 */
i64 find_near(i64 count, const void *own, int width, const i64 *wanted, const i64 *order, const u8 *asked, i64 size,
              const void *group, const i64 *keys, int forward, int exact, i64 groups, i64 *last, uint32_t *found,
              u8 *bits) {
    i64 place = forward ? size - 1 : 0, hits = 0;
    for (i64 number = 0; number < groups; number++)
        last[number] = -1;
    for (i64 turn = 0; turn < count; turn++) {
        i64 at = forward ? count - 1 - turn : turn, row = order ? order[at] : at, key = wanted[row];
        if (forward)
            for (; place >= 0 && (keys[place] > key || (exact && keys[place] == key)); place--)
                last[group_of(group, width, place)] = place;
        else
            for (; place < size && (keys[place] < key || (exact && keys[place] == key)); place++)
                last[group_of(group, width, place)] = place;
        i64 near = last[group_of(own, width, row)];
        found[row] = 0;
        if (near < 0 || !asked[row])
            continue;
        found[row] = (uint32_t)near;
        bits[row >> 3] |= (u8)(1 << (row & 7));
        hits++;
    }
    return hits;
}

static inline __attribute__((always_inline)) void
place_each(i64 count, const uint32_t *rows, const u8 *values, size_t width, const u8 *bits, i64 first_bit, u8 *out,
           u8 *out_bits) {
    for (i64 at = 0; at < count; at++) {
        if (!is_set(bits, first_bit + at))
            continue;
        memcpy(out + rows[at] * width, values + (size_t)at * width, width);
        out_bits[rows[at] >> 3] |= (u8)(1 << (rows[at] & 7));
    }
}

/* Write values of one, two, four or eight bytes to their rows of a column (`out`).
 *
 * It begins as zeros, as do the bits that tell where it has a value. `bits` tell, from bit `first_bit` on, which values
 * there are.
 */
void place_values(i64 count, const uint32_t *rows, const u8 *values, int width, const u8 *bits, i64 first_bit, u8 *out,
                  u8 *out_bits) {
    if (width == 1)
        place_each(count, rows, values, 1, bits, first_bit, out, out_bits);
    else if (width == 2)
        place_each(count, rows, values, 2, bits, first_bit, out, out_bits);
    else if (width == 4)
        place_each(count, rows, values, 4, bits, first_bit, out, out_bits);
    else
        place_each(count, rows, values, 8, bits, first_bit, out, out_bits);
}

/* Find the row that each wanted key names, the first of several; return how many name one.
 *
 * Sorted `keys` have their `rows`. Keys below zero name none. `bits`, which begin as zeros, tell which do.
 */
i64 find_rows(i64 count, const i64 *wanted, i64 size, const i64 *keys, const i64 *rows, i64 *found, u8 *bits) {
    i64 place = 0, hits = 0;
    for (i64 row = 0; row < count; row++) {
        found[row] = 0;
        if (wanted[row] < 0)
            continue;
        place = search_from(keys, size, wanted[row], place);
        if (place == size || keys[place] != wanted[row])
            continue;
        found[row] = rows[place];
        bits[row >> 3] |= (u8)(1 << (row & 7));
        hits++;
    }
    return hits;
}
