/* What the timeline draws: records put in the order of their lanes, and merged into levels of detail. */
#include "bytes.h"

/* Of the bits of a style (`levels.py`): a merged record has this one if all of it has, the others if any of it has. */
enum { INFERRED = 1 };

/* Values of a column of arrow; without `bits` there are no nulls. */
typedef struct {
    const void *values;
    const u8 *bits;
    i64 first_bit;
} Column;

/* Rows that are drawn. Columns without values are null throughout. */
typedef struct {
    i64 count;
    const i32 *kind;
    Column start, end, lasted, event; /* 64 bits; without `end` a row ends when it has `lasted` from its `start` on */
    Column depth, flags;              /* 16 bits */
    const i32 *name;                  /* NULL = that of its kind */
} Drawn;

/* What the kind of a row tells: its lane, the number of lanes = none of them; its name and its style. */
typedef struct {
    const i32 *lane, *name;
    const u8 *style;
    uint16_t half_flags; /* rows with one of these flags have the style `half_style`, too */
    u8 half_style;
} Kinds;

enum { UNSORTED = 1, CROSSED = 2 };

typedef struct {
    i64 next;                 /* where its next record is put */
    i64 start, lasted, reach; /* of the last record; the latest end */
    i64 state;  /* UNSORTED: not by start, the longest first; CROSSED: a record begins before others end */
    i64 lowest; /* the depth of its upper row; -1 = its rows follow from something else, or it has one */
} Lane;

typedef struct {
    i64 *start, *end;
    i32 *event, *name;
    u8 *style, *row; /* `row` of lanes where depth tells it */
    i64 events;
    i32 *place; /* record of each of so many events; NULL = these rows are further pictures of events */
} Placed;

typedef struct {
    i64 bins;
    double scale;        /* bins per ns */
    const u8 *is_packet; /* of each lane, and of none */
    i64 *others, *packets;
} Minimap;

/* All bits where a row has a value, else none: which have one follows no order, so nothing branches on it. */
static inline i64 mask_of(const Column *of, i64 row) {
    i64 at = of->first_bit + row;
    return of->bits ? -(i64)(of->bits[at >> 3] >> (at & 7) & 1) : -1;
}

static inline i64 number_or(const Column *of, i64 row, i64 otherwise) {
    i64 mask = of->values ? mask_of(of, row) : 0;
    return of->values ? (((const i64 *)of->values)[row] & mask) | (otherwise & ~mask) : otherwise;
}

static inline i64 short_or(const Column *of, i64 row, i64 otherwise) {
    i64 mask = of->values ? mask_of(of, row) : 0;
    return of->values ? (((const uint16_t *)of->values)[row] & mask) | (otherwise & ~mask) : otherwise;
}

/* Times of damaged logs may be anything: sums of them wrap around. */
static inline i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
static inline i64 minus(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }

static inline i64 end_of(const Drawn *of, i64 row, i64 start) {
    if (of->end.values)
        return number_or(&of->end, row, start);
    i64 lasted = number_or(&of->lasted, row, 0);
    return plus(start, lasted & ~(lasted >> 63));
}

/* Count the rows of each lane (`counts`, and behind them those of none), find the lowest and the highest depth in it (a
 * row without one has -1), and when the first row of all begins and the last one ends (`span`). */
void survey_rows(const Drawn *of, const i32 *lane_of, i64 *counts, i64 *lowest, i64 *highest, i64 *span) {
    for (i64 row = 0; row < of->count; row++) {
        i64 lane = lane_of[of->kind[row]], start = number_or(&of->start, row, 0), end = end_of(of, row, start);
        i64 depth = short_or(&of->depth, row, -1);
        counts[lane]++;
        lowest[lane] = depth < lowest[lane] ? depth : lowest[lane];
        highest[lane] = depth > highest[lane] ? depth : highest[lane];
        span[0] = start < span[0] ? start : span[0];
        span[1] = end > span[1] ? end : span[1];
    }
}

static inline void count_bin(const Minimap *map, i64 start, i64 lane) {
    i64 bin = (i64)((double)start * map->scale);
    bin = bin < 0 ? 0 : bin < map->bins ? bin : map->bins - 1;
    ++*((map->is_packet[lane] ? map->packets : map->others) + bin);
}

/* Put rows where their lanes have room for them, each lane's in their order; times are counted from `zero` on.
 *
 * Rows are the places in their lane that follow from their depth, up to `deepest`. `map` counts what begins in each of
 * its bins; NULL = these rows are not counted.
 */
void place_rows(const Drawn *drawn, const Kinds *kinds, i64 zero, i64 lanes, Lane *each, i64 deepest,
                const Placed *placed, const Minimap *map) {
    /* Copies: what is written cannot change them. */
    const Drawn rows = *drawn, *of = &rows;
    const Placed columns = *placed, *to = &columns;
    for (i64 row = 0; row < of->count; row++) {
        i64 kind = of->kind[row], number = kinds->lane[kind], first = number_or(&of->start, row, 0);
        i64 start = minus(first, zero), end = minus(end_of(of, row, first), zero), lasted = minus(end, start);
        if (map)
            count_bin(map, start, number);
        if (number == lanes)
            continue;
        Lane *lane = &each[number];
        i64 at = lane->next++, event = number_or(&of->event, row, -1);
        int is_half = (short_or(&of->flags, row, 0) & kinds->half_flags) != 0;
        to->start[at] = start;
        to->end[at] = end;
        to->event[at] = (i32)event;
        to->name[at] = of->name ? of->name[row] : kinds->name[kind];
        to->style[at] = kinds->style[kind] | (is_half ? kinds->half_style : 0);
        if (lane->lowest >= 0) {
            i64 below = short_or(&of->depth, row, -1) - lane->lowest;
            to->row[at] = (u8)(below < deepest ? below : deepest);
        }
        if (to->place && event >= 0 && event < to->events)
            to->place[event] = (i32)at;
        lane->state |= (start < lane->start) | ((start == lane->start) & (lasted > lane->lasted)) ? UNSORTED : 0;
        lane->state |= start < lane->reach ? CROSSED : 0;
        lane->start = start;
        lane->lasted = lasted;
        lane->reach = end > lane->reach ? end : lane->reach;
    }
}

/* Count how much later each of some times is than the one before it: 0 = not at all, n = below 2**n ns. */
void count_gaps(i64 count, const i64 *start, i64 *gaps) {
    for (i64 row = 1; row < count; row++) {
        i64 gap = minus(start[row], start[row - 1]);
        gaps[gap > 0 ? 64 - __builtin_clzll((u64)gap) : 0]++;
    }
}

/* Tell the tracks in which a record ends before the one in front of it does. */
void find_tangled(i64 tracks, const i64 *begin, const i64 *end, u8 *tangled) {
    for (i64 track = 0; track < tracks; track++) {
        int falls = 0;
        for (i64 row = begin[track] + 1; row < begin[track + 1]; row++)
            falls |= end[row] < end[row - 1];
        tangled[track] = (u8)falls;
    }
}

/* Records track by track, each by start, in columns. Of single things (without `busy`, `count` and `longest`) these
 * follow from the others; `is_counter` tells the tracks whose names are values. */
typedef struct {
    i64 tracks;
    i64 *begin; /* of each track, and behind the last one */
    i64 *start, *end;
    i32 *event, *name;
    u8 *style;
    i64 *busy, *longest;
    i32 *count;
    const u8 *is_counter;
} Tracks;

typedef struct {
    i64 start, end, busy, longest;
    i32 count, event, name;
    u8 style;
} Record;

static inline Record record_at(const Tracks *of, i64 row, int is_counter) {
    Record it = {of->start[row], of->end[row], 0, 0, 1, of->event[row], of->name[row], of->style[row]};
    it.busy = of->busy ? of->busy[row] : minus(it.end, it.start);
    it.longest = of->longest ? of->longest[row] : is_counter ? it.name : it.busy;
    it.count = of->count ? of->count[row] : 1;
    return it;
}

static inline void add_record(Record *to, const Record *it) {
    u8 all = to->style & it->style, any = to->style | it->style;
    to->style = (u8)((all & INFERRED) | (any & ~INFERRED));
    to->end = it->end > to->end ? it->end : to->end;
    to->busy = plus(to->busy, it->busy);
    to->count += it->count;
    if (it->longest > to->longest) {
        to->longest = it->longest;
        to->event = it->event;
        to->name = it->name;
    }
}

static inline void put_record(const Tracks *to, i64 at, const Record *it) {
    to->start[at] = it->start;
    to->end[at] = it->end;
    to->event[at] = it->event;
    to->name[at] = it->name;
    to->style[at] = it->style;
    to->busy[at] = it->busy;
    to->longest[at] = it->longest;
    to->count[at] = it->count;
}

/* Merge neighbours of a track that begin in the same bin and are shorter than it; return how many records are left.
 *
 * There is room for `most` in `to`; -1 = that is too little.
 */
i64 merge_records(const Tracks *of, i64 bin_ns, i64 most, const Tracks *to) {
    i64 told = 0;
    for (i64 track = 0; track < of->tracks; track++) {
        Record open = {0};
        i64 row = of->begin[track], stop = of->begin[track + 1], bin = 0;
        int is_counter = of->is_counter && of->is_counter[track], was_long = 1;
        to->begin[track] = told;
        for (; row < stop; row++) {
            Record it = record_at(of, row, is_counter);
            int is_long = minus(it.end, it.start) >= bin_ns;
            if (!is_long && !was_long && (u64)minus(it.start, bin) < (u64)bin_ns) {
                add_record(&open, &it);
                continue;
            }
            if (row > of->begin[track])
                put_record(to, told++, &open);
            if (told == most)
                return -1;
            open = it;
            was_long = is_long;
            bin = minus(it.start, (it.start % bin_ns + bin_ns) % bin_ns);
        }
        if (row > of->begin[track])
            put_record(to, told++, &open);
    }
    to->begin[of->tracks] = told;
    return told;
}
