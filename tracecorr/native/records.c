/* Lines of a HIP log to records: where each begins and ends, its time, thread and message; and the lines that are none.
 *
 * A record is `:LEVEL:FILE:LINE: TIME us: THREAD MESSAGE`. It may stand behind other text on its line, and several may
 * stand on one line.
 */
#include "bytes.h"

/* Checksum of the sources: the Python side refuses a library that was built of other ones. */
#ifndef SOURCE_CHECKSUM
#define SOURCE_CHECKSUM ""
#endif
const char source_checksum[] = SOURCE_CHECKSUM;

typedef struct {
    const u8 *raw;
    i64 at, stop; /* next line, end of the block */
    const u64 *thread_keys;
    const i64 *thread_codes;
    i64 thread_mask;
    const i64 *thread_sizes; /* of each code: bytes of the prefix, 0 = the text is none */
    i64 worst_level;         /* records up to this level are errors and warnings */
    i64 text, text_end;      /* a thread that has no code yet, and its hash */
    u64 key;
    i64 merge;               /* whether foreign lines far behind a record are counted together */
    i64 room, records;
    i64 *start, *end, *stamp, *thread, *message;
    u8 *flags;
    i64 used_bytes;
    i64 other_room, others, since_record;
    i64 *other_start, *other_end, *other_until, *other_lines;
    u8 *other_reason;
} Scan;

/* Of a line that is no record: blank, begins with a colon (Python looks at it), other text. */
enum { BLANK = 0, COLON = 1, OTHER_TEXT = 3 };
enum { MOST_BLANKS = 64, THREAD_BYTES = 48, SITE_BYTES = 200, NEAR_LINES = 64 };

/* Where the C library lets a program choose when it is loaded, the words of newer CPUs are compared, too. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef FOR_EACH_CPU
#define FOR_EACH_CPU
#endif

/* Return the first place of ` us:` between two places, -1 = none. */
FOR_EACH_CPU static i64 find_unit(const u8 *raw, i64 at, i64 stop) {
    enum { LANES = 32 };
    for (; at + 3 < stop; at += LANES) {
        const u8 *p = raw + at;
        u8 any = 0;
        for (int i = 0; i < LANES; i++)
            any |= (p[i] == ' ') & (p[i + 3] == ':');
        for (int i = 0; any && i < LANES; i++)
            if (!memcmp(p + i, " us:", 4))
                return at + i + 3 < stop ? at + i : -1;
    }
    return -1;
}

static inline int is_letter(u8 byte) { return (u8)((byte | 0x20) - 'a') < 26; }

/* Return whether a colon or a square bracket is among the bytes of a word. */
static inline int has_stop(u64 word) {
    u64 colon = word ^ ':' * BYTES, opening = word ^ '[' * BYTES, closing = word ^ ']' * BYTES, one = BYTES;
    return (((colon - one) & ~colon) | ((opening - one) & ~opening) | ((closing - one) & ~closing)) >> 7 & one ? 1 : 0;
}

/* Return where a record begins that has the end of its time's digits at `mark`, not before `low`; -1 = nowhere. */
static i64 find_site(const u8 *raw, i64 mark, i64 low, i64 *digits) {
    i64 at = mark, stop;
    while (at > low && mark - at < 16 && is_digit(raw[at - 1]))
        at--;
    *digits = mark - at;
    if (*digits < 5 || *digits > 15 || at - low < 3 || raw[at - 1] != ' ' || raw[at - 2] != ':')
        return -1;
    for (at -= 2; at > low && raw[at - 1] == ' ';)
        at--;
    for (stop = at; at > low && is_digit(raw[at - 1]);)
        at--;
    if (at == stop || at <= low || raw[at - 1] != ':')
        return -1;
    for (stop = --at; at - low >= WORD_BYTES && !has_stop(load(raw + at - WORD_BYTES)); at -= WORD_BYTES)
        if (stop - at > SITE_BYTES)
            return -1;
    while (at > low && raw[at - 1] != ':' && raw[at - 1] != '[' && raw[at - 1] != ']')
        at--;
    if (at <= low || raw[at - 1] != ':' || stop - at > SITE_BYTES)
        return -1;
    if (--at < low)
        return -1;
    if (at - 2 >= low && is_letter(raw[at - 1]) && raw[at - 2] == ':')
        at -= 2;
    if (at - 2 >= low && is_digit(raw[at - 1]) && raw[at - 2] == ':')
        at -= 2;
    return at;
}

/* Return the end of the time's digits of a record of ROCm 3.5, which prints no unit: ` :3:FILE :LINE : TIME: `. */
static i64 find_time_without_unit(const u8 *raw, i64 at, i64 end, i64 *digits) {
    while (at < end && raw[at] == ' ')
        at++;
    if (raw[at] != ':' || !is_digit(raw[at + 1]) || raw[at + 2] != ':')
        return -1;
    i64 name = at += 3;
    while (at - name < 60 && (is_letter(raw[at]) || raw[at] == '_' || raw[at] == '.'))
        at++;
    if (at == name)
        return -1;
    while (raw[at] == ' ')
        at++;
    if (raw[at] != ':' || !is_digit(raw[at + 1]))
        return -1;
    while (is_digit(raw[++at]))
        ;
    while (raw[at] == ' ')
        at++;
    if (raw[at] != ':' || raw[at + 1] != ' ')
        return -1;
    i64 first = at += 2;
    while (at - first < 16 && is_digit(raw[at]))
        at++;
    *digits = at - first;
    return *digits >= 9 && *digits <= 15 && raw[at] == ':' && raw[at + 1] == ' ' && at + 1 < end ? at : -1;
}

static inline i64 read_time(const u8 *mark, i64 digits) {
    u64 high = digits > 8 ? eight_decimal(last_digits(mark - 8, digits - 8)) : 0;
    return (i64)(high * 100000000 + eight_decimal(last_digits(mark, digits < 8 ? digits : 8)));
}

/* Return the place behind a colour, and the blanks behind it. */
static i64 skip_colour(const u8 *raw, i64 at, i64 end) {
    int escape = !memcmp(raw + at, "\x1b[", 2) ? 2 : !memcmp(raw + at, "^[[", 3) ? 3 : 0;
    if (escape || !memcmp(raw + at, "\xe2\x86\x90[", 4)) {
        i64 stop = at + 8;
        while (at < stop && raw[at] != 'm' && raw[at] != '\n')
            at++;
        at++;
    }
    at = at < end ? at : end;
    for (i64 most = at + MOST_BLANKS; at < end && at < most && raw[at] == ' ';)
        at++;
    return at;
}

/* Put the record that begins at `start` and has its time before `mark` into its row; `end` is that of its piece. */
static int put_record(Scan *of, i64 start, i64 mark, i64 digits, i64 end, int is_torn) {
    static const char rocr[] = "[***rocr***] ";
    const u8 *raw = of->raw;
    i64 i = of->records, at = mark + (raw[mark] == ':' ? 1 : 4 + (raw[mark] == 'd')), stop, code = 0;
    if (i == of->room)
        return NO_ROOM;
    end -= raw[end - 1] == '\r';
    for (i64 most = at + MOST_BLANKS; at < end && at < most && raw[at] == ' ';)
        at++;
    if (at < end && (raw[at] == '[' || is_digit(raw[at]))) {
        i64 most = at + THREAD_BYTES < end ? at + THREAD_BYTES + 1 : end;
        const u8 *bracket = memchr(raw + at, ']', (size_t)(most - at));
        if (bracket) {
            stop = bracket - raw;
            u64 key = key_of(hash_text(raw + at, stop - at));
            code = look_up(of->thread_keys, of->thread_codes, of->thread_mask, key);
            if (code < 0) {
                of->key = key;
                of->text = at;
                of->text_end = stop;
                return NEW_TEXT;
            }
            at += of->thread_sizes[code];
        }
    }
    for (i64 most = at + MOST_BLANKS; at < end && at < most && (raw[at] == ' ' || raw[at] == '!' || raw[at] == '\t');)
        at++;
    int is_rocr = !memcmp(raw + at, rocr, sizeof rocr - 1);
    int level = raw[start] == ':' && raw[start + 2] == ':' && (u8)(raw[start + 1] - '0') <= of->worst_level;
    at = skip_colour(raw, at + is_rocr * ((i64)sizeof rocr - 1), end);
    of->start[i] = start;
    of->end[i] = end;
    of->stamp[i] = read_time(raw + mark, digits) * 1000;
    of->thread[i] = code;
    of->message[i] = at < end ? at : end;
    of->flags[i] = (u8)(is_torn * IS_TORN | is_rocr * IS_ROCR | level * IS_COMPLAINT);
    of->records++;
    of->since_record = 0;
    return DONE;
}

/* Put a line, or what stands before a record on its line, to those that are no record. */
static int put_other(Scan *of, i64 start, i64 end, i64 until, int merge) {
    i64 i = of->others, at = start;
    while (at < end && (of->raw[at] == ' ' || of->raw[at] == '\r' || of->raw[at] == '\t'))
        at++;
    u8 reason = at == end ? BLANK : of->raw[at] == ':' ? COLON : OTHER_TEXT;
    if (merge && reason != COLON && of->since_record++ > NEAR_LINES && reason == of->other_reason[i - 1]) {
        of->other_end[i - 1] = end;
        of->other_until[i - 1] = until;
        of->other_lines[i - 1]++;
        return DONE;
    }
    if (i == of->other_room)
        return NO_ROOM;
    of->other_start[i] = start;
    of->other_end[i] = end;
    of->other_until[i] = until;
    of->other_lines[i] = 1;
    of->other_reason[i] = reason;
    of->others++;
    return DONE;
}

static int read_line(Scan *of, i64 start, i64 end, i64 until) {
    i64 low = start, begun = -1, mark = 0, digits = 0, first = find_unit(of->raw, start, end);
    for (i64 unit = first; unit >= 0; unit = find_unit(of->raw, unit + 4, end)) {
        i64 width, stop = unit - (unit > low && of->raw[unit - 1] == 'd'), site = find_site(of->raw, stop, low, &width);
        if (site < 0)
            continue;
        int status = DONE;
        if (begun >= 0)
            status = put_record(of, begun, mark, digits, site, 1);
        else if (site > start)
            status = put_other(of, start, site, site, 0);
        if (status)
            return status;
        begun = site;
        mark = stop;
        digits = width;
        low = unit + 4;
    }
    if (begun < 0) {
        begun = start;
        mark = first < 0 ? find_time_without_unit(of->raw, start, end, &digits) : -1;
        if (mark < 0)
            return put_other(of, start, end, until, of->merge != 0);
    }
    return put_record(of, begun, mark, digits, end, 0);
}

/* Read lines up to the end of a block; return why not all are read.
 *
 * Of a line that cannot be read to its end nothing is kept: the caller gives the thread a code, or more room, and
 * calls again.
 */
i64 scan_records(Scan *of) {
    while (of->at < of->stop) {
        const u8 *found = memchr(of->raw + of->at, '\n', (size_t)(of->stop - of->at));
        i64 end = found ? found - of->raw : of->stop, until = end + (found != NULL);
        i64 records = of->records, others = of->others, since = of->since_record;
        int status = read_line(of, of->at, end, until);
        if (status) {
            of->records = records;
            of->others = others;
            of->since_record = since;
            return status;
        }
        if (of->records > records)
            of->used_bytes += until - of->start[records];
        of->at = until;
    }
    return DONE;
}
