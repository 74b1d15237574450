/* Columns of large frames: which rows have a value, and numbers of any width. */
#ifndef COLUMNS_H
#define COLUMNS_H
#include "bytes.h"

static inline int is_set(const u8 *bits, i64 at) {
    return !bits || (bits[at >> 3] >> (at & 7) & 1);
}

/* Numbers of one, two, four or eight bytes. */
static inline u64 number_at(const void *numbers, int width, i64 row) {
    return width == 1   ? ((const u8 *)numbers)[row]
           : width == 2 ? ((const uint16_t *)numbers)[row]
           : width == 4 ? ((const uint32_t *)numbers)[row]
                        : ((const u64 *)numbers)[row];
}

static inline i64 group_of(const void *group, int width, i64 row) {
    return (i64)number_at(group, width, row);
}

#endif
