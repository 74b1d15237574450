/* Columns of categories: their codes to numbers that do not depend on what else the process has seen. */
#include "bytes.h"

/* Number the codes of some rows in the order of their first rows (`to`, `listed`); return how many there are.
 *
 * Where `bits`, from bit `first_bit` on, tell no value the number is 0. `most` is the highest code; `number` has a
 * place for each up to it, which begin as -1, and one behind them, which is 0: that of rows without a value. `listed`
 * has `most + 1` places.
 */
i64 number_codes(i64 count, const uint32_t *codes, const u8 *bits, i64 first_bit, i64 most, i32 *number,
                 uint32_t *listed, i32 *to) {
    i32 told = 0;
    for (i64 row = 0; row < count; row++) {
        /* Which rows have none follows no order: nothing here branches on it. */
        i64 at = first_bit + row, code = codes[row], none = most + 1;
        i64 has_value = (bits ? bits[at >> 3] >> (at & 7) & 1 : 1) & (code <= most);
        i64 place = none + ((code - none) & -has_value);
        if (number[place] < 0) {
            listed[told] = (uint32_t)code;
            number[place] = told++;
        }
        to[row] = number[place];
    }
    return told;
}
