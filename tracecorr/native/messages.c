/* Messages of a HIP log to rows, by the tables that `tokens.py` makes of `messages.py`.
 *
 * The longest known text that a message begins with tells what it is; its fields are read by the template of that text,
 * by the keys of a packet's line, or as those of a HIP call. Texts that occur again and again (names of calls, kernels,
 * results) have codes: one without a code is told to the caller, who gives it one and calls again.
 */
#include "bytes.h"

/* Where the values of fields go: columns of all rows, lists, columns of packets from `PACKET_COLUMNS` on. */
enum { RING, SIGNAL, POINTER, STREAM, ARG, WORDS, SIZE_BYTES = WORDS, PACKET_INDEX, KERNARG_BYTES, SIGNED_END,
       TO_ARGS = SIGNED_END, NOWHERE, TO_WAITS, TO_WORDS, PACKET_COLUMNS };
enum { NAMES, KERNELS, RESULTS, GENERAL };                 /* tables of texts */
enum { TEXTS, STREAMS, GROUPED, COMPLAINTS, UNKNOWN_FORMS, PACKETS }; /* lists of rows */
enum { MAKES_STREAM = 1, IS_GIVEN_STREAM = 2, IS_PER_THREAD = 4, NAMES_FIRST = 8, NAMES_SECOND = 16, IS_WHOLE = 1 }; /* flags of texts */
enum { BUCKETS = 256, MOST_NAME = 64, MOST_GENERAL = 400, MOST_STARTS = 32, MOST_STREAM = 240, MOST_KEY = 32, MOST_WORD = 16 };
/* The runtime cuts messages at 4095 bytes; the colour in front of a call is part of them. */
enum { CUT_BYTES = 4095 - 6, FLAG_TORN = 4, FLAG_CUT = 8, HIP_LAYER = 0 };

/* Texts that have codes: by their hash, with a flag of each code. */
typedef struct {
    const u64 *keys;
    const i64 *codes;
    i64 mask;
    const i64 *marks;
} Texts;

/* What `messages.py` says, in numbers; literals are places in `bytes`. */
typedef struct {
    const u8 *bytes;
    const i64 *first_of, *following;              /* hash of 4 bytes -> the longest message, then the shorter ones */
    const i64 *prefix, *prefix_size, *kind, *layer, *name, *wording, *step_from, *step_to, *has_text; /* of each one */
    const i64 *field, *literal, *literal_size;    /* of each step of a template */
    const i64 *sink, *is_address, *also;          /* of each field; `also` is another one that takes the value */
    const u64 *key_hashes;                        /* keys in packets */
    const i64 *key_codes;
    i64 key_mask;
    const i64 *key_field, *key_count, *key_base;  /* first field, how many, base of numbers without `0x` */
    const i64 *command, *command_size, *behind, *behind_size, *command_kind, *command_name;
    i64 commands;                                 /* what may follow the kind of a command */
    const i64 *packet, *packet_size, *packet_name;
    i64 packets;                                  /* words before the header */
    i64 complete, shifted_copy, other_layer, other_packet, metadata_packet, torn_name, success, null_stream;
    i64 header, rptr, index, rocr, slot;          /* fields */
    i64 packet_columns;
} Messages;

/* Records, what is known of them, and the rows that they become. */
typedef struct {
    const Messages *about;
    const u8 *raw;
    i64 base;                                     /* offset in the file of `raw` */
    const Texts *tables;
    i64 count, record;                            /* how many, and which is next */
    const i64 *start, *end, *stamp, *thread, *message, *own_end, *at, *until;
    const u8 *flags;
    i64 table, text, text_end, answer;            /* a text without a code; its code in the next call, -1 = none yet */
    u64 key;                                      /* its hash */
    i64 names_full;
    i64 row;                                      /* next row */
    i64 *offset, *length, *row_stamp;
    u64 *words;                                   /* `WORDS` columns, `stride` apart, and signed ones behind them */
    i64 stride;
    i32 *row_thread, *row_name, *result, *kernel, *told_us;
    int8_t *row_kind, *row_layer;
    uint16_t *row_flags;
    u8 *is_rocr;
    i64 present;                                  /* bits of the columns that have a value */
    i64 *lists, *list_sizes;                      /* each list: rows, and behind them their records */
    i64 values_room, values;                      /* args and addresses: field (negative: an address), row, value */
    i64 *value_field, *value_row;
    u64 *value;
    u64 *packet_values;                           /* column by column, `count` apart */
    u8 *packet_has;
    i64 waits;
    i64 *wait_packet;
    u64 *wait_value;
} Reading;

static inline int starts_with(const u8 *p, const u8 *end, const char *text, i64 size) {
    return end - p >= size && !memcmp(p, text, (size_t)size);
}
#define BEGINS(p, end, text) starts_with(p, end, text, (i64)sizeof text - 1)

static inline int is_word(u8 byte) { return is_digit(byte) || (u8)((byte | 0x20) - 'a') < 26 || byte == '_'; }
static inline int hex_digit(u8 byte) {
    return is_digit(byte) ? byte - '0' : (u8)((byte | 0x20) - 'a') < 6 ? (byte | 0x20) - 'a' + 10 : -1;
}

/* Read a number; return the place behind it, that of `p` where there is none. It must end before `end`.
 *
 * Numbers are hexadecimal behind `0x` (or a doubled one), else of `base`, `-` may stand before decimal ones; `(nil)` and
 * `<null>` are zero. Those of more than 64 bits are none.
 */
static const u8 *read_number(const u8 *p, const u8 *end, int base, u64 *value) {
    const u8 *at = p;
    u64 found = 0;
    int digit;
    if (at[0] == '0' && at[1] == 'x' && at[2] == '0' && at[3] == 'x')
        at += 2;
    if (at[0] == '0' && at[1] == 'x') {
        at += 2;
        base = 16;
    }
    int is_negative = at == p && *at == '-';
    if (is_negative)
        base = 10;
    const u8 *first = at += is_negative;
    if (base == 16)
        for (; (digit = hex_digit(*at)) >= 0; at++)
            found = found << 4 | (u64)digit;
    else
        for (; is_digit(*at); at++) {
            u64 next = found * 10 + (u64)(*at - '0');
            if (at - first >= 19 && (at - first > 19 || next / 10 != found))
                return p;
            found = next;
        }
    if (base == 16 && at - first > 16)
        return p;
    if (at == first) {
        found = 0;
        at = p + (!memcmp(p, "(nil)", 5) ? 5 : !memcmp(p, "<null>", 6) ? 6 : 0);
    }
    *value = is_negative ? 0 - found : found;
    return at <= end ? at : p;
}

/* Return the code of a text; -1 = it has none, and the caller is told of it. */
static i64 code_of(Reading *of, int table, const u8 *p, i64 size, u64 hash) {
    const Texts *texts = of->tables + table;
    i64 code = look_up(texts->keys, texts->codes, texts->mask, hash);
    if (code >= 0)
        return code;
    if (of->answer >= 0 && of->table == table && of->text == p - of->raw && of->text_end == of->text + size)
        return of->answer;
    of->table = table;
    of->text = p - of->raw;
    of->text_end = of->text + size;
    of->key = hash;
    return -1;
}

static inline i64 code_text(Reading *of, int table, const u8 *p, i64 size) {
    return code_of(of, table, p, size, hash_text(p, size > 0 ? size : 0));
}

/* ---- where values go ---- */

static inline void put_list(Reading *of, int list, i64 row) {
    i64 *to = of->lists + 2 * list * of->count + of->list_sizes[list]++;
    to[0] = row;
    to[of->count] = of->record;
}

static int put_value(Reading *of, i64 field, u64 value) {
    if (of->values == of->values_room)
        return NO_ROOM;
    of->value_field[of->values] = field;
    of->value_row[of->values] = of->row;
    of->value[of->values++] = value;
    return DONE;
}

static inline void put_column(Reading *of, i64 column, u64 value) {
    if (column >= WORDS && (i64)value < -1)
        value = (u64)-1;
    of->words[column * of->stride + of->row] = value;
    of->present |= 1LL << column;
}

static inline void clear_columns(Reading *of) {
    for (i64 column = 0; column < SIGNED_END; column++)
        of->words[column * of->stride + of->row] = column < WORDS ? 0 : (u64)-1;
}

static int put_field(Reading *of, i64 field, u64 value) {
    const Messages *about = of->about;
    i64 sink = about->sink[field];
    int status = DONE;
    if (about->is_address[field])
        status = put_value(of, -1 - field, value);
    if (sink < SIGNED_END)
        put_column(of, sink, value);
    else if (sink == TO_ARGS && !status)
        status = put_value(of, field, value);
    if (about->also[field] >= 0 && !status)
        status = put_value(of, about->also[field], value);
    return status;
}

/* ---- messages by their templates ---- */

/* Return the message with the longest text that these bytes begin with; -1 = none. */
static i64 find_message(const Messages *about, const u8 *p, i64 size) {
    u64 hash = (load_part(p, 4) * 0x9E3779B1ULL & 0xFFFFFFFF) >> 24;
    i64 found = about->first_of[hash];
    while (found >= 0 && (about->prefix_size[found] > size ||
                          memcmp(p, about->bytes + about->prefix[found], (size_t)about->prefix_size[found])))
        found = about->following[found];
    return found;
}

/* Tell whether nothing but blanks is left. */
static inline int is_blank(const u8 *p, const u8 *end) {
    while (p < end && (*p == ' ' || *p == '\r'))
        p++;
    return p >= end;
}

/* Note that a record begins like a known message and goes on in an unknown way; of cut and torn ones nothing is said. */
static inline void put_unknown_form(Reading *of) {
    if (!of->row_flags[of->row])
        put_list(of, UNKNOWN_FORMS, of->row);
}

/* Read the fields of a message: wording after wording, each as far as its text goes; `rest` is what none has read. */
static int read_fields(Reading *of, i64 message, const u8 *p, const u8 *end, const u8 **rest) {
    const Messages *about = of->about;
    const u8 *starts[MOST_STARTS];
    *rest = p + about->prefix_size[message];
    int seen = 0, status = DONE, is_ended = 0;
    for (i64 wording = message; wording >= 0; wording = about->wording[wording]) {
        const u8 *at = p + about->prefix_size[message];
        i64 step = about->step_from[wording], last = about->step_to[wording];
        for (int before = seen; step < last && !status; step++) {
            u64 value;
            const u8 *stop = read_number(at, end, 10, &value);
            int is_told = 0;
            if (stop == at) {
                /* Other messages begin like the one of a command's end. */
                if (!is_ended && !is_blank(at, end) && message != about->complete)
                    put_unknown_form(of);
                return DONE;
            }
            for (int i = 0; i < before; i++)
                is_told |= starts[i] == at;
            if (!is_told)
                status = put_field(of, about->field[step], value);
            if (seen < MOST_STARTS)
                starts[seen++] = at;
            at = stop + about->literal_size[step];
            *rest = stop > *rest ? stop : *rest;
            is_ended |= is_blank(stop, end) ||
                        starts_with(about->bytes + about->literal[step],
                                    about->bytes + about->literal[step] + about->literal_size[step],
                                    (const char *)stop, end - stop);
            if (at > end || memcmp(stop, about->bytes + about->literal[step], (size_t)about->literal_size[step]))
                break;
            *rest = at > *rest ? at : *rest;
        }
        if (step == last || status)
            return status;
    }
    if (!is_ended)
        put_unknown_form(of);
    return DONE;
}

/* ---- packets and copies ---- */

/* Return the name of the packet before its header; it stands in the last 16 bytes before `p`. */
static i64 name_packet(const Messages *about, const u8 *p) {
    const u8 *low = p - 16;
    while (p > low && (p[-1] == ' ' || (p[-1] >= '\t' && p[-1] <= '\r')))
        p--;
    for (i64 i = 0; i < about->packets; i++)
        if (p - low >= about->packet_size[i] &&
            !memcmp(p - about->packet_size[i], about->bytes + about->packet[i], (size_t)about->packet_size[i]))
            return about->packet_name[i];
    return about->other_packet;
}

typedef struct {
    i64 name;      /* of the packet, -1 = its line ends before the header */
    u64 rptr;
    int has_rptr;
} Packet;

/* Tell whether the word at `p` is the first of the line that describes a packet's metadata. */
static int is_of_metadata(const u8 *p) {
    static const char before[] = "Metadata Packet [";
    return !memcmp(p - (sizeof before - 1), before, sizeof before - 1);
}

/* Read a word of letters, digits and slashes as the value of a field; a text without a code asks for one. */
static int put_word(Reading *of, i64 field, const u8 *p, const u8 *end) {
    i64 size = 0;
    while (p + size < end && size < MOST_WORD && (is_word(p[size]) || p[size] == '/'))
        size++;
    i64 code = size ? code_text(of, RESULTS, p, size) : 0;
    return !size ? DONE : code < 0 ? NEW_TEXT : put_value(of, field, (u64)code);
}

static int put_packet_field(Reading *of, i64 field, u64 value, Packet *packet) {
    i64 sink = of->about->sink[field], number = of->list_sizes[PACKETS];
    if (field == of->about->rptr) {
        packet->rptr = value;
        packet->has_rptr = 1;
    }
    if (sink < SIGNED_END) {
        put_column(of, sink, value);
    } else if (sink == TO_WAITS) {
        if (of->waits == of->values_room)
            return NO_ROOM;
        of->wait_packet[of->waits] = number;
        of->wait_value[of->waits++] = value;
    } else if (sink == TO_ARGS || sink == TO_WORDS) {
        return sink == TO_ARGS ? put_value(of, field, value) : DONE;
    } else {
        i64 place = (sink - PACKET_COLUMNS) * of->count + number;
        of->packet_values[place] = value;
        of->packet_has[place] = 1;
    }
    return DONE;
}

/* Read `key=value` fields by their keys, wherever they stand. */
static int read_packet(Reading *of, const u8 *p, const u8 *end, int is_shifted, Packet *packet) {
    const Messages *about = of->about;
    for (const u8 *sign = p; sign < end && (sign = memchr(sign, '=', (size_t)(end - sign))); sign++) {
        const u8 *stop = sign - (sign > p && sign[-1] == ' '), *word = stop;
        while (word > p && stop - word < MOST_KEY && is_word(word[-1]))
            word--;
        i64 key = look_up(about->key_hashes, about->key_codes, about->key_mask, hash_text(word, stop - word));
        if (key < 0)
            continue;
        const u8 *at = sign + 1 + (sign[1] == ' ');
        at += *at == '[';
        i64 field = about->key_field[key];
        if (field == about->header)
            packet->name = name_packet(about, word);
        else if (field == about->index && is_of_metadata(word))
            packet->name = about->metadata_packet;
        if (about->sink[field] == TO_WORDS) {
            int status = put_word(of, field, at, end);
            if (status)
                return status;
            continue;
        }
        for (i64 last = field + about->key_count[key]; field < last; field++) {
            u64 value;
            const u8 *behind = read_number(at, end, (int)about->key_base[key], &value);
            if (behind == at)
                break;
            i64 sink = about->sink[field];
            /* ROCm 5.4 gives this format one argument too few: these stand for other things. */
            if (!(is_shifted && (sink == SIGNAL || sink == SIZE_BYTES || sink == TO_WAITS)) &&
                put_packet_field(of, field, value, packet))
                return NO_ROOM;
            at = behind + (*behind == ',');
            at += *at == ' ';
        }
    }
    return DONE;
}

/* Take a packet's index that is behind the read index of the same line for its slot in the ring.
 *
 * The development branch of 2026 (rocvirtual.cpp) prints as wptr of a graph's packets where in the ring they lie: their
 * index without the rounds before. Indexes of 32 bits fall where they begin anew.
 */
static int split_slot(Reading *of, const Packet *packet) {
    u64 *index = of->words + PACKET_INDEX * of->stride + of->row, read = packet->rptr;
    if (!packet->has_rptr || (i64)*index < 0 || *index >= read)
        return DONE;
    if (read < 1ULL << 32 && read - *index >= 1ULL << 31)
        return DONE;
    int status = put_value(of, of->about->slot, *index);
    *index = (u64)-1;
    return status;
}

/* ---- commands and calls ---- */

/* Read what follows the kind of a command: enqueued, or taken by the queue's thread; return whether it is known. */
static int read_command(Reading *of, const u8 *p, const u8 *end, i64 *name, i64 *kind, int *status) {
    const Messages *about = of->about;
    const u8 *start = p + sizeof "Command (" - 1, *stop = start;
    while (stop < start + MOST_NAME && *stop != ')' && *stop != '\n')
        stop++;
    for (i64 i = 0; i < about->commands && stop < end; i++) {
        const char *behind = (const char *)about->bytes + about->behind[i];
        if (!starts_with(stop, end, (const char *)about->bytes + about->command[i], about->command_size[i]))
            continue;
        const u8 *at = stop + about->command_size[i];
        u64 value;
        const u8 *last = read_number(at, end, 10, &value);
        int is_enqueued = about->command_name[i] < 0;
        if (is_enqueued && (*name = code_text(of, NAMES, start, stop - start)) < 0) {
            *status = NEW_TEXT;
            return 1;
        }
        if (last == at || (!is_enqueued && !starts_with(last, end, behind, about->behind_size[i]))) {
            if (is_enqueued)
                return 1;
            continue;
        }
        *kind = about->command_kind[i];
        put_column(of, POINTER, value);
        if (!is_enqueued) {
            *name = about->command_name[i];
            return 1;
        }
        if (starts_with(last, end, behind, about->behind_size[i])) {
            at = last + about->behind_size[i];
            if (read_number(at, end, 10, &value) != at)
                put_column(of, STREAM, value);
        }
        return 1;
    }
    return 0;
}

/* Return the duration that an exit line tells behind `start` at its end (`: duration: 31 us`), -1 = none.
 *
 * It is the difference of the stamps of the call's two lines, to the microsecond (HIP 5.7 to 7.2). HIP 6.3 prints a `d`
 * behind the number (`: duration: 31d us`), as it does behind its stamps.
 */
static i64 read_duration(const u8 *start, const u8 *end) {
    static const char before[] = ": duration: ", unit[] = " us";
    i64 size = sizeof before - 1, told = 0, digits = 0, scale = 1;
    const u8 *last = end - (sizeof unit - 1);
    if (last < start + size || memcmp(last, unit, sizeof unit - 1))
        return -1;
    last -= last[-1] == 'd';
    for (; digits < 8 && is_digit(last[-1]); digits++, scale *= 10)
        told += (*--last - '0') * scale;
    return digits > 0 && digits < 8 && last - size >= start && !memcmp(last - size, before, (size_t)size) ? told : -1;
}

/* Read the stream that a call is given, where the release says what is one (`stream:0x..`, up to 7.1).
 *
 * The null stream gets the handle that HIP has for it; functions that are compiled for a default stream per thread mean
 * another one by it. A handle with the separators of a locale goes to a list.
 */
static void read_given_stream(Reading *of, const u8 *p, const u8 *end, int is_per_thread) {
    static const char before[] = " stream";
    const u8 *stop = end - p > MOST_STREAM ? p + MOST_STREAM : end, *sign = p;
    while (sign < stop && (sign = memchr(sign, ':', (size_t)(stop - sign))) && (sign == p || sign[-1] != 'm'))
        sign++;
    if (!sign || sign >= stop || sign - p < 1 || memcmp(sign - (sizeof before - 1), before, sizeof before - 1))
        return;
    u64 value = 0;
    const u8 *last = read_number(sign + 1, end, 10, &value);
    if (last > sign + 1 && (BEGINS(last, last + 2, ", ") || BEGINS(last, last + 2, " )")))
        put_column(of, STREAM, value ? value : is_per_thread ? 0 : (u64)of->about->null_stream);
    else if (*last == ',')
        put_list(of, GROUPED, of->row);
}

/* Read what a call records, waits for or writes: the event or address that is its first or second argument.
 *
 * Some releases print what it is before it (`event:0x..`).
 */
static void read_subject(Reading *of, const u8 *p, const u8 *end, int is_second) {
    const u8 *stop = end - p > MOST_STREAM ? p + MOST_STREAM : end, *at = p + sizeof " ( " - 1, *last;
    u64 value = 0;
    if (is_second && (!(at = memchr(at, ',', (size_t)(stop - at))) || (at += 2) >= stop))
        return;
    while (at < stop && *at >= 'a' && *at <= 'z')
        at++;
    at += at < stop && *at == ':';
    last = read_number(at, end, 10, &value);
    if (last > at && (BEGINS(last, end, ", ") || BEGINS(last, end, " )")))
        put_column(of, ARG, value);
}

/* Return kind of a HIP call's line, and how long its name is; `OTHER` = it is none. */
static i64 find_call(const u8 *p, const u8 *end, i64 *size) {
    i64 most = end - p < MOST_NAME ? end - p : MOST_NAME, n = 0;
    if (!is_word(*p) || is_digit(*p))
        return OTHER;
    while (n < most && p[n] != ' ' && p[n] != ':')
        n++;
    *size = n;
    return BEGINS(p + n, end, " ( ") ? ENTER : BEGINS(p + n, end, ": Returned ") ? EXIT : OTHER;
}

/* Read the result of a call; return -1 where it has no code yet. Some old releases print nothing behind it: there a
 * part of a result must not pass for one. */
static i64 read_result(Reading *of, const u8 *p, const u8 *end, i64 *result) {
    const u8 *start = p + sizeof ": Returned " - 1, *stop = start;
    *result = -1;
    if (BEGINS(start, end, "hipSuccess :")) {
        *result = of->about->success;
        return DONE;
    }
    while (stop < end && stop < start + MOST_NAME && *stop != ' ' && *stop != ':')
        stop++;
    if (start >= end)
        return DONE;
    i64 code = code_text(of, RESULTS, start, stop - start);
    if (code >= 0 && (BEGINS(stop, end, " :") || of->tables[RESULTS].marks[code]))
        *result = code;
    return code < 0 ? NEW_TEXT : DONE;
}

/* ---- messages without a template ---- */

/* Return the size of a number or address in a text, 0 = none begins here: `general_name` says the same of texts. */
static i64 measure_variable(const u8 *first, const u8 *p, const u8 *end) {
    i64 n = 0;
    if (BEGINS(p, end, "(nil)"))
        return 5;
    if (end - p > 2 && p[0] == '0' && p[1] == 'x' && hex_digit(p[2]) >= 0) {
        for (n = 3; p + n < end && hex_digit(p[n]) >= 0;)
            n++;
        return n + (p + n < end && p[n] == 'h');
    }
    if (p == first || !is_word(p[-1])) {
        while (p + n < end && hex_digit(p[n]) >= 0 && (p[n] < 'A' || p[n] > 'F'))
            n++;
        if (n >= 6 && n <= 16 && (p + n == end || !is_word(p[n])))
            return n;
    }
    for (n = 0; p + n < end && is_digit(p[n]);)
        n++;
    return n;
}

/* Return the code of the name of a message: texts that differ in their numbers only have one. */
static i64 code_general(Reading *of, const u8 *p, const u8 *end) {
    u8 text[MOST_GENERAL + 2 * WORD_BYTES] = {0};
    i64 size = 0, is_plain = 1;
    if (end - p > MOST_GENERAL)
        end = p + MOST_GENERAL;
    if (end < p)
        end = p;
    for (const u8 *at = p; at < end; size++) {
        i64 n = measure_variable(p, at, end);
        text[size] = n ? '#' : *at;
        is_plain &= *at < 0x80;
        at += n ? n : 1;
    }
    /* Beyond ASCII other things are words and digits. */
    u64 hash = is_plain ? hash_text(text, size) : ~hash_text(p, end - p);
    return code_of(of, GENERAL, p, end - p, hash);
}

/* ---- rows ---- */

static int read_kernel(Reading *of, i64 message, const u8 *p, const u8 *end) {
    i64 row = of->row, size = end - p - of->about->prefix_size[message];
    i64 code = code_text(of, KERNELS, p + of->about->prefix_size[message], size > 0 ? size : 0);
    if (code < 0)
        return NEW_TEXT;
    /* Of a name that was cut apart nothing is sure; one that reached the runtime's limit is its beginning. */
    int is_whole = of->tables[KERNELS].marks[code] & IS_WHOLE || of->row_flags[row] & FLAG_CUT;
    of->kernel[row] = is_whole ? (i32)code : -1;
    of->row_flags[row] |= is_whole ? 0 : FLAG_TORN;
    return DONE;
}

static int read_call(Reading *of, i64 kind, i64 code, i64 size, const u8 *p, const u8 *end) {
    i64 marks = of->tables[NAMES].marks[code];
    i64 row = of->row, result = -1;
    if (kind == EXIT) {
        of->told_us[row] = (i32)read_duration(p + size, end);
        of->present |= (i64)(of->told_us[row] >= 0) << SIGNED_END;
        if (read_result(of, p + size, end, &result))
            return NEW_TEXT;
        of->result[row] = (i32)result;
    } else if (marks & IS_GIVEN_STREAM) {
        read_given_stream(of, p, end, marks & IS_PER_THREAD);
    }
    if (kind == ENTER && marks & (NAMES_FIRST | NAMES_SECOND))
        read_subject(of, p + size, end, marks & NAMES_SECOND);
    if (marks & MAKES_STREAM)
        put_list(of, STREAMS, row);
    return DONE;
}

/* Read what a record of a known message holds; set its kind to `OTHER` where it is another one that begins like it. */
static int read_known(Reading *of, i64 message, i64 *kind, i64 *name, const u8 *p, const u8 *end) {
    const Messages *about = of->about;
    int status = DONE, is_rocr = of->flags[of->record] & IS_ROCR, has_steps;
    i64 waits = of->waits, values = of->values;
    const u8 *rest = p;
    Packet packet = {.name = -1};
    switch (*kind) {
    case COMMAND:
        if (!memcmp(p + 1, "ommand (", 8)) {
            if (!read_command(of, p, end, name, kind, &status)) {
                *kind = OTHER;
                put_unknown_form(of);
            }
            return status;
        }
        break;
    case SHADER:
        return read_kernel(of, message, p, end);
    case PACKET:
    case COPY:
        status = read_packet(of, p, end, message == about->shifted_copy, &packet);
        if (status)
            return status;
        if (*kind == PACKET && (packet.name < 0 || packet.name == about->metadata_packet)) {
            /* A line that was cut before its header is no packet that could be counted; what goes with one is none. */
            for (i64 column = 0; column < about->packet_columns; column++)
                of->packet_has[column * of->count + of->list_sizes[PACKETS]] = 0;
            of->waits = waits;
            *kind = packet.name < 0 ? OTHER : ROW;
            if (packet.name >= 0) {
                *name = packet.name;
                return DONE;
            }
            clear_columns(of);
            of->values = values;
            put_unknown_form(of);
            return DONE;
        }
        if (about->has_text[message])
            put_list(of, TEXTS, of->row);
        if (*kind == PACKET) {
            *name = packet.name;
            if (*name == about->other_packet)
                put_unknown_form(of);
            status = is_rocr ? put_value(of, about->rocr, 1) : split_slot(of, &packet);
        }
        put_list(of, PACKETS, of->row);
        return status;
    }
    has_steps = about->step_from[message] < about->step_to[message] || about->wording[message] >= 0;
    if (has_steps)
        status = read_fields(of, message, p, end, &rest);
    while (has_steps && rest < end && *rest == ' ')
        rest++;
    if (*kind == TEXT && !status && (!has_steps || rest < end))
        put_list(of, TEXTS, of->row);
    /* Other messages that begin like it (`Command creation ..`) name no command. */
    if (message == about->complete && !of->words[POINTER * of->stride + of->row])
        *kind = OTHER;
    return status;
}

static void clear_row(Reading *of, i64 i) {
    i64 row = of->row;
    of->offset[row] = of->base + of->start[i];
    of->length[row] = of->end[i] - of->start[i];
    of->row_stamp[row] = of->stamp[i];
    of->row_thread[row] = (i32)of->thread[i];
    of->is_rocr[row] = (of->flags[i] & IS_ROCR) > 0;
    of->row_flags[row] = (uint16_t)((of->flags[i] & IS_TORN ? FLAG_TORN : 0) |
                                    (of->end[i] - of->message[i] >= CUT_BYTES ? FLAG_CUT : 0));
    of->told_us[row] = of->result[row] = of->kernel[row] = -1;
    clear_columns(of);
}

static int read_record(Reading *of, i64 i) {
    const Messages *about = of->about;
    const u8 *p = of->raw + of->at[i], *end = of->raw + of->until[i], *told = p, *told_end = end;
    i64 row = of->row, size = 0, name, kind, message;
    int status = DONE, is_rocr = of->flags[i] & IS_ROCR;
    if (p >= end) {
        /* Nothing is sure of this message but what it is. */
        told = of->raw + of->message[i];
        told_end = of->raw + of->own_end[i];
    }
    clear_row(of, i);
    message = find_message(about, told, told_end - told);
    if (message >= 0) {
        kind = about->kind[message];
        name = about->name[message];
        of->row_layer[row] = (int8_t)about->layer[message];
        if (kind == FOLDED)
            return DONE;
        status = read_known(of, message, &kind, &name, p, end);
    } else {
        kind = is_rocr ? OTHER : find_call(told, told_end, &size);
        if (kind != OTHER && (name = code_text(of, NAMES, told, size)) >= 0) {
            of->row_layer[row] = HIP_LAYER;
            status = read_call(of, kind, name, size, p, end);
        } else if (kind != OTHER && !of->names_full) {
            return NEW_TEXT;
        } else if (of->flags[i] & IS_INCOMPLETE) {
            kind = ROW;
            name = about->torn_name;
            of->row_layer[row] = (int8_t)about->other_layer;
        } else {
            kind = OTHER;
        }
    }
    if (status)
        return status;
    if (kind == OTHER) {
        kind = ROW;
        name = code_general(of, p, end);
        of->row_layer[row] = (int8_t)about->other_layer;
        if (name < 0)
            return NEW_TEXT;
    }
    of->row_kind[row] = (int8_t)kind;
    of->row_name[row] = (i32)name;
    if (of->flags[i] & IS_COMPLAINT)
        put_list(of, COMPLAINTS, row);
    of->row++;
    return DONE;
}

/* Read records from `record` on; return why not all are read. Of a record that cannot be read nothing is kept. */
i64 read_messages(Reading *of) {
    enum { LISTS = PACKETS + 1 };
    for (; of->record < of->count; of->record++) {
        i64 values = of->values, waits = of->waits, sizes[LISTS];
        memcpy(sizes, of->list_sizes, sizeof sizes);
        fetch(of->raw, of->at, of->record, of->count, 0, 2);
        int status = read_record(of, of->record);
        if (status) {
            of->values = values;
            of->waits = waits;
            memcpy(of->list_sizes, sizes, sizeof sizes);
            return status;
        }
        of->answer = -1;
    }
    return DONE;
}
