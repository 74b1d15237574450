/* What `link/` asks of all rows, which are in the order of their times. */
#include "columns.h"

/* Find the call of its group that begins where each row says (`begun`), among those around the call before it.
 *
 * `bits` tell, from bit `first_bit` on, which rows say so. `last` has a place for each group; `found`, which begins as
 * zeros, tells which rows have a `parent`; it is -2 where none is found, so many are returned.
 */
i64 find_parents(i64 count, const void *group, int width, const i64 *offset, const i64 *begun, const u8 *bits,
                 i64 first_bit, const u8 *is_call, i64 groups, i64 *last, i64 *parent, u8 *found) {
    i64 missed = 0;
    for (i64 number = 0; number < groups; number++)
        last[number] = -1;
    for (i64 row = 0; row < count; row++) {
        i64 *call = &last[group_of(group, width, row)], above = *call;
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

#define NONE INT64_MIN

/* A thread up to a moment. What waits for the next moment is a list: `after` of each row of it is the next one. */
typedef struct {
    i64 now, before, last;   /* its time, the last moment before that, and the last one of all */
    i64 waiting, behind;     /* rows of that time, and earlier ones (-1 = none) */
    i64 depth;               /* ends that are to come; the next one is the last of them */
} Moments;

static void tell(i64 *after, i64 *list, i64 moment) {
    while (*list >= 0) {
        i64 next = after[*list];
        after[*list] = moment;
        *list = next;
    }
}

static void pass_moment(Moments *of, i64 moment, i64 *after) {
    tell(after, &of->behind, moment);
    if (moment > of->now)
        tell(after, &of->waiting, moment);
    of->last = moment;
}

/* Let the time of a thread come to `to`, past the ends before it. */
static void advance(Moments *of, const i64 *ends, i64 to, i64 *after) {
    if (to == of->now)
        return;
    while (of->depth && ends[of->depth - 1] < to)
        pass_moment(of, ends[--of->depth], after);
    for (i64 row = of->waiting; row >= 0; row = of->waiting) {
        of->waiting = after[row];
        after[row] = of->behind;
        of->behind = row;
    }
    of->now = to;
    of->before = of->last;
}

/* Find the last moment of its thread before each asked row, and the first one after it; INT64_MIN where there is none.
 *
 * A line (`is_line`) is a moment, and so is its end, where it lasted (`bits`, from bit `first_bit` on). `at` never
 * falls, nor do the numbers of `asked` rows. `group` is the thread of each row, which has room for `most` ends at once.
 * Returns 0 where more of a thread are to come.
 */
i64 bracket_rows(i64 count, const void *group, int width, const i64 *at, const i64 *lasted, const u8 *bits,
                 i64 first_bit, const u8 *is_line, i64 asked_count, const i64 *asked, i64 threads, Moments *moments,
                 i64 most, i64 *ends, i64 *before, i64 *after) {
    for (i64 thread = 0; thread < threads; thread++)
        moments[thread] = (Moments){NONE, NONE, NONE, -1, -1, 0};
    for (i64 row = 0, next = 0; row < count; row++) {
        int is_asked = next < asked_count && asked[next] == row;
        if (!is_line[row] && !is_asked)
            continue;
        i64 thread = group_of(group, width, row);
        Moments *of = &moments[thread];
        i64 *own = ends + thread * most;
        advance(of, own, at[row], after);
        if (is_asked) {
            before[next] = of->before;
            after[next] = of->waiting;
            of->waiting = next++;
        }
        if (!is_line[row])
            continue;
        pass_moment(of, at[row], after);
        if (!is_set(bits, first_bit + row))
            continue;
        i64 end = (i64)((u64)at[row] + (u64)lasted[row]), place = of->depth;
        if (end < at[row])
            continue;
        if (place == most)
            return 0;
        for (; place && own[place - 1] < end; place--)
            own[place] = own[place - 1];
        own[place] = end;
        of->depth++;
    }
    for (i64 thread = 0; thread < threads; thread++) {
        Moments *of = &moments[thread];
        while (of->depth)
            pass_moment(of, ends[thread * most + --of->depth], after);
        tell(after, &of->behind, NONE);
        tell(after, &of->waiting, NONE);
    }
    return 1;
}

/* Where a row is marked, and so is one of its thread at the moment `after` it, take over what that one has.
 *
 * `group` and `at` are those of the asked rows; `moments` of the threads are written over.
 */
void span_batches(i64 count, const void *group, int width, const i64 *at, const u8 *marks, i64 threads,
                  Moments *moments, i64 *after) {
    for (i64 thread = 0; thread < threads; thread++)
        moments[thread] = (Moments){NONE, NONE, NONE, -1, -1, 0};
    for (i64 row = count - 1; row >= 0; row--) {
        if (!marks[row])
            continue;
        Moments *of = &moments[group_of(group, width, row)];
        if (of->now != NONE && (after[row] == of->now || at[row] == of->now))
            after[row] = of->last;
        of->now = at[row];
        of->last = after[row];
    }
}
