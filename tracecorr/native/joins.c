/* What belongs together in the rows of a block; all rows are in the order of the file. */
#include "bytes.h"

typedef struct {
    i64 count, lanes;
    const i32 *lane, *name;
    const int8_t *kind;
    const i64 *offset, *stamp;
    const u8 *shared, *passed, *is_rocr;
} Rows;

/* Set the lane of each row, that which its thread's key is in now (`lane_now`), and the last time of each key (`last`).
 *
 * Rows of ROCr have another clock: their times are left out. `told` is the least time, the latest one (`last`) before
 * these rows of their keys, and how far a time lies behind an earlier one at most; nothing is told of no time.
 */
void set_lanes(i64 count, const i32 *thread, const i64 *key_of, const i64 *lane_now, const i64 *stamp,
               const u8 *is_rocr, const i64 *before, i64 *last, i32 *lane, i64 *told) {
    i64 least = INT64_MAX, latest = INT64_MIN, newest = INT64_MIN, behind = 0;
    for (i64 row = 0; row < count; row++) {
        i64 key = key_of[thread[row]], time = stamp[row];
        lane[row] = (i32)lane_now[key];
        if (is_rocr[row])
            continue;
        newest = time > newest ? time : newest;
        i64 distance = (i64)((u64)newest - (u64)time);
        behind = distance > behind ? distance : behind;
        least = time < least ? time : least;
        latest = before[key] > latest ? before[key] : latest;
        last[key] = time;
    }
    told[0] = least;
    told[1] = latest;
    told[2] = behind;
}

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
 * dispatch, or before the command in front of it), is none. A dispatch takes over the kernel of its name, a packet the
 * pointer of its command. `waiting` marks what may belong to a packet behind the last row. `calls` has a place for each
 * lane, `seen` three.
 */
void fold_rows(const Rows *of, const u8 *is_dispatch, i32 *kernel, u64 *pointer, i64 *shader, i64 *kernarg,
               i64 *command, u8 *waiting, i64 *calls, Seen *seen) {
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
    for (i64 row = 0; row < of->count; row++) {
        if (shader[row] >= 0)
            kernel[row] = kernel[shader[row]];
        if (command[row] >= 0)
            pointer[row] = pointer[command[row]];
    }
}

/* List the rows that become events; return how many.
 *
 * `is_simple` tells of each kind whether its rows do whatever is beside them; `is_done` ones did so in an earlier
 * block. Names of kernels that no dispatch took are events, exits that no call took, and calls; `is_last` tells that
 * no exit can come any more. What is `held` waits. `folded` has a place for each row.
 */
i64 list_events(const Rows *of, const u8 *is_simple, const u8 *is_done, const i64 *partner, const i64 *shader,
                const u8 *waiting, const u8 *held, int is_last, u8 *folded, i64 *rows) {
    i64 count = 0;
    memset(folded, 0, (size_t)of->count);
    for (i64 row = 0; row < of->count; row++)
        if (shader[row] >= 0)
            folded[shader[row]] = 1;
    for (i64 row = 0; row < of->count; row++) {
        int8_t kind = of->kind[row];
        /* Kinds follow no order: nothing here branches on them. */
        int is_event = is_simple[kind] & !is_done[row];
        is_event |= (kind == SHADER) & !folded[row] & !waiting[row];
        is_event |= (kind == EXIT) & (partner[row] == NO_EXIT);
        is_event |= (kind == ENTER) & (is_last | (partner[row] != OPEN));
        rows[count] = row;
        count += is_event & !held[row];
    }
    return count;
}
