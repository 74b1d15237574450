/* Columns of large frames: which rows have a value, numbers of any width, places among sorted ones. */
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

/* Return the first place of sorted keys that are not less than a wanted one; from `at` on it is searched both ways. */
static inline i64 search_from(const i64 *keys, i64 size, i64 wanted, i64 at) {
    i64 low = at, high = at, step = 1;
    while (high < size && keys[high] < wanted) {
        low = high + 1;
        high = size - high > step ? high + step : size;
        step *= 2;
    }
    if (high == at)
        while (low > 0 && keys[low - 1] >= wanted) {
            high = low - 1;
            low = low > step ? low - step : 0;
            step *= 2;
        }
    while (low < high) {
        i64 middle = low + (high - low) / 2;
        if (keys[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
