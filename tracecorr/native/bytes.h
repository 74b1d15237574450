/* What all C files share: words of bytes, hashes of texts and tables from hashes to codes, numbers, kinds of rows.
 *
 * Functions that read a log work on the padded bytes of `read.text.Text`: before the first and behind the last byte of
 * a block there is room to load whole words. No function allocates or keeps anything.
 */
#ifndef TRACECORR_BYTES_H
#define TRACECORR_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are read as little-endian numbers, as on all machines that ROCm has run on"
#endif

typedef uint8_t u8;
typedef int32_t i32;
typedef int64_t i64;
typedef uint64_t u64;

#define WORD_BYTES 8
#define BYTES 0x0101010101010101ULL

static inline u64 load(const u8 *p) {
    u64 word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* Whether `size` bytes at a place, and a word that begins in them, lie in the padded bytes of a block. */
static inline int is_inside(i64 raw_size, i64 at, i64 size) {
    return at >= WORD_BYTES && size >= 0 && at + size <= raw_size - 2 * WORD_BYTES;
}

/* A block is larger than the caches near to a core, and its texts lie apart: what is read so many rows on is asked for.
 *
 * Of the place of that row, and `from` bytes on, some lines of the cache are, wherever it lies; nothing is read of them
 * here. Compilers drop calls that do nothing else, unless they are inlined first.
 */
enum { AHEAD = 16, CACHE_LINE = 64 };

__attribute__((always_inline)) static inline void fetch(const u8 *raw, const i64 *at, i64 row, i64 count, i64 from,
                                                        int lines) {
    uintptr_t place = (uintptr_t)raw + (uintptr_t)at[row + AHEAD < count ? row + AHEAD : row] + (uintptr_t)from;
    for (int i = 0; i < lines; i++)
        __builtin_prefetch((const void *)(place + (uintptr_t)(i * CACHE_LINE)));
}

/* The first `size` bytes (0 to 8), the others zero. */
static inline u64 load_part(const u8 *p, i64 size) {
    return size <= 0 ? 0 : load(p) & (~0ULL >> (64 - 8 * size));
}

/* ---- hashes of texts, and tables from hashes to codes ---- */

static inline u64 fold(u64 a, u64 b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (u64)product ^ (u64)(product >> 64);
}

static inline u64 hash_text(const u8 *p, i64 size) {
    u64 hash = fold((u64)size ^ 0x9E3779B97F4A7C15ULL, 0xD6E8FEB86659FD93ULL);
    if (size > 64) {
        /* Four sums side by side: none of them waits for the product of another. */
        u64 lanes[4] = {hash, hash, hash, hash};
        for (; size > 64; p += 64, size -= 64)
            for (int i = 0; i < 4; i++)
                lanes[i] = fold(load(p + 16 * i) ^ 0xA0761D6478BD642FULL, load(p + 16 * i + 8) ^ lanes[i]);
        hash = fold(lanes[0] ^ 0xE7037ED1A0B428DBULL, lanes[1]) ^ fold(lanes[2] ^ 0x8EBC6AF09C88C6E3ULL, lanes[3]);
    }
    for (; size > 16; p += 16, size -= 16)
        hash = fold(load(p) ^ 0xA0761D6478BD642FULL, load(p + 8) ^ hash);
    u64 first = load_part(p, size < 8 ? size : 8), second = load_part(p + 8, size - 8);
    return fold(first ^ 0xA0761D6478BD642FULL, second ^ hash ^ 0xE7037ED1A0B428DBULL);
}

/* Open addressing; a key of zero marks a free place, so that no hash may be zero. */
static inline u64 key_of(u64 hash) { return hash ? hash : 1; }

/* Where a key is looked for first: the lowest bits of a product that is used as a hash tell little. */
static inline u64 place_of(u64 key) { return key ^ key >> 32; }

static inline i64 look_up(const u64 *keys, const i64 *codes, i64 mask, u64 hash) {
    u64 key = key_of(hash);
    for (u64 place = place_of(key);; place++) {
        u64 found = keys[place & mask];
        if (found == key)
            return codes[place & mask];
        if (!found)
            return -1;
    }
}

/* ---- numbers ---- */

static inline int is_digit(u8 byte) { return byte >= '0' && byte <= '9'; }

static inline int is_decimal(u64 word) {
    return ((word & (0xF0 * BYTES)) | (((word + 0x06 * BYTES) & (0xF0 * BYTES)) >> 4)) == 0x33 * BYTES;
}

static inline u64 eight_decimal(u64 word) {
    word = (word & (0x0F * BYTES)) * 2561 >> 8;
    word = (word & 0x00FF00FF00FF00FFULL) * 6553601 >> 16;
    return (word & 0x0000FFFF0000FFFFULL) * 42949672960001ULL >> 32;
}

/* The word that ends before `stop`, of which only the last `digits` (at most 8) count: zeros are put before them. */
static inline u64 last_digits(const u8 *stop, i64 digits) {
    u64 drop = digits >= 8 ? 0 : ~0ULL >> (8 * digits);
    return (load(stop - 8) & ~drop) | (0x30 * BYTES & drop);
}

static inline int is_hexadecimal(u64 word) {
    u64 letter = (word >> 6) & BYTES, value = (word & (0x0F * BYTES)) + letter * 9;
    return value + 0x30 * BYTES + letter * 39 == (word | letter << 5) &&
           ((value + 0x06 * BYTES) & (0x10 * BYTES)) == letter << 4 && !(value & (0x10 * BYTES));
}

static inline u64 eight_hexadecimal(u64 word) {
    word = (word & (0x0F * BYTES)) + ((word >> 6) & BYTES) * 9;
    word = (word << 4 | word >> 8) & 0x00FF00FF00FF00FFULL;
    word = (word << 8 | word >> 16) & 0x0000FFFF0000FFFFULL;
    return (word << 16 | word >> 32) & 0xFFFFFFFFULL;
}

/* ---- what rows are ---- */

enum { OTHER, ENTER, EXIT, ROW, FOLDED, KERNARG, SHADER, PACKET, COMMAND, COPY, TEXT }; /* `messages.Kind` */
enum { OPEN = -1, NO_EXIT = -2 };

/* Why a function returns that reads many lines: a text has no code yet, an array is full. */
enum { DONE = 0, NEW_TEXT = 1, NO_ROOM = 2 };
/* Flags of records; the caller sets `IS_INCOMPLETE` where a part of a torn record is missing. */
enum { IS_TORN = 1, IS_ROCR = 2, IS_COMPLAINT = 4, IS_INCOMPLETE = 8 };

static inline int is_call(int8_t kind) { return kind == ENTER || kind == EXIT; }

#endif
