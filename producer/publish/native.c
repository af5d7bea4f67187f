/* Rows of a binlog event straight to Kafka records, for the types that rows are mostly made of.

   `Rows.changes`, the mapper, `record_key` and the converter's `to_bytes` define the output; producer/publish/codegen.py does the same in Python. This
   code reports no errors in rows: a row that does not fit, whose key changes, or that holds something unknown to this code, is left to the
   row-at-a-time path, which can read it or says what is wrong. All reads stay within the event, whatever it holds. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Raised when the values passed between Python and this code change: cdcbus.producer.publish.native then refuses older builds. */
#define INTERFACE 3

typedef enum { INTEGER, DOUBLE, DECIMAL, YEAR, DATE, TIME, DATETIME, TIMESTAMP, ENUM, UTF8, BYTES, READ, KINDS } Kind;
typedef enum { FIRST, SECOND, OLD, ROW, IS_LAST, PLACEHOLDERS } Placeholder;
/* The result of a step: NOT_MINE leaves the row to the row-at-a-time path; with FAILED a Python exception is set. */
typedef enum { DONE, NOT_MINE, FAILED } Outcome;

#define TRY(step) \
    do { \
        Outcome outcome_ = (step); \
        if (outcome_ != DONE) \
            return outcome_; \
    } while (0)

/* A column: `size` of its value in bytes, or of the length before it; `digits` of a fraction, or all of a DECIMAL's; `scale` of a
   DECIMAL; `member` is `"name":`, empty if the column is not written. `texts` and `json_texts`: for ENUM a tuple of labels, for BYTES the text of each byte, 256 entries of
   a length and up to 7 bytes. `read` is a Python reader. All objects live as long as the plan. */
typedef struct {
    Kind kind;
    int size, digits, scale, is_signed, is_key, is_shown;
    PyObject *member, *json_texts, *texts, *read;
} Column;

/* A cell in a row image: its bytes, or its text if a reader has read it. */
typedef struct {
    int is_null;
    const uint8_t *at;
    Py_ssize_t size;
    PyObject *text;
} Cell;

typedef struct {
    Py_ssize_t count;
    int *columns;
} Image;

typedef struct {
    PyObject_HEAD
    Py_ssize_t columns_count, key_count, placeholders_count;
    Column *columns;
    Image first, second;
    int is_update, has_readers;
    int *key;  /* columns of the record key */
    PyObject *key_text;  /* what stands before them, as bytes: the whole key if it has no columns */
    int *placeholders;
    PyObject *owner;  /* keeps the columns' objects alive */
    PyObject *constants;  /* members appended to each image, as bytes */
} Plan;

/* ---- what is written ---- */

typedef struct {
    char *start, *at, *end;
} Text;

static Outcome need(Text *text, Py_ssize_t bytes) {
    if (text->end - text->at >= bytes)
        return DONE;
    Py_ssize_t used = text->at - text->start, size = (text->end - text->start) * 2;
    if (bytes > PY_SSIZE_T_MAX / 4 || used > PY_SSIZE_T_MAX / 4)
        return PyErr_NoMemory(), FAILED;
    if (size < used + bytes)
        size = used + bytes;
    char *start = PyMem_Realloc(text->start, (size_t)size);
    if (start == NULL)
        return PyErr_NoMemory(), FAILED;
    text->start = start;
    text->at = start + used;
    text->end = start + size;
    return DONE;
}

static Outcome put(Text *text, const char *bytes, Py_ssize_t count) {
    TRY(need(text, count));
    memcpy(text->at, bytes, (size_t)count);
    text->at += count;
    return DONE;
}

static Outcome put_bytes(Text *text, PyObject *bytes) {
    char *start;
    Py_ssize_t count;
    return PyBytes_AsStringAndSize(bytes, &start, &count) < 0 ? FAILED : put(text, start, count);
}

static Outcome put_character(Text *text, char character) {
    return put(text, &character, 1);
}

/* A number with at least `width` digits. Needs room for 20, or for `width`. */
static void put_digits(Text *text, uint64_t number, int width) {
    char digits[20];
    int at = 20;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    for (int zeros = width - (20 - at); zeros > 0; zeros--)
        *text->at++ = '0';
    memcpy(text->at, digits + at, (size_t)(20 - at));
    text->at += 20 - at;
}

static void put_two(Text *text, unsigned number) {
    *text->at++ = (char)('0' + number / 10);
    *text->at++ = (char)('0' + number % 10);
}

/* The number of bytes of the character that begins with a non-ASCII byte; 0 if it is not UTF-8, by Python's rules. */
static int utf8_size(const uint8_t *at, Py_ssize_t left) {
#define FOLLOWS(i) ((at[i] & 0xC0) == 0x80)
    uint8_t lead = at[0];
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    if (lead < 0xE0)
        return left >= 2 && FOLLOWS(1) ? 2 : 0;
    if (lead < 0xF0) {
        if (left < 3 || !FOLLOWS(1) || !FOLLOWS(2) || (lead == 0xE0 && at[1] < 0xA0) || (lead == 0xED && at[1] >= 0xA0))
            return 0;
        return 3;
    }
    if (left < 4 || !FOLLOWS(1) || !FOLLOWS(2) || !FOLLOWS(3) || (lead == 0xF0 && at[1] < 0x90) || (lead == 0xF4 && at[1] >= 0x90))
        return 0;
    return 4;
#undef FOLLOWS
}

static int is_plain(uint8_t byte) {
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

/* Whether all of eight bytes are plain. */
static int are_plain(uint64_t eight) {
    const uint64_t ones = 0x0101010101010101u, highs = ones * 0x80;
    uint64_t quote = eight ^ ones * '"', backslash = eight ^ ones * '\\';
    return !((eight | (eight - ones * 0x20) | (quote - ones) | (backslash - ones)) & highs);
}

static void put_escaped(Text *text, uint8_t byte) {
    static const char hex[] = "0123456789abcdef";
    char letter = byte == '"' || byte == '\\' ? (char)byte
                  : byte == '\n'              ? 'n'
                  : byte == '\r'              ? 'r'
                  : byte == '\t'              ? 't'
                  : byte == '\f'              ? 'f'
                  : byte == '\b'              ? 'b'
                                              : 0;
    *text->at++ = '\\';
    if (letter) {
        *text->at++ = letter;
        return;
    }
    memcpy(text->at, "u00", 3);
    text->at[3] = hex[byte >> 4];
    text->at[4] = hex[byte & 15];
    text->at += 5;
}

/* Writes UTF-8, with JSON's escapes if it goes into a JSON text. */
static Outcome put_utf8(Text *text, const uint8_t *at, Py_ssize_t count, int is_json) {
    const uint8_t *end = at + count;
    while (at < end) {
        const uint8_t *until = end - at > 1024 ? at + 1024 : end;
        TRY(need(text, (until - at) * 6 + 8));
        while (at < until) {
            uint64_t eight;
            if (until - at >= 8 && (memcpy(&eight, at, 8), are_plain(eight))) {
                memcpy(text->at, at, 8);
                text->at += 8;
                at += 8;
            } else if (*at < 0x80) {
                if (is_json && !is_plain(*at))
                    put_escaped(text, *at);
                else
                    *text->at++ = (char)*at;
                at++;
            } else {
                int size = utf8_size(at, end - at);
                if (!size)
                    return NOT_MINE;
                memcpy(text->at, at, (size_t)size);
                text->at += size;
                at += size;
            }
        }
    }
    return DONE;
}

static Outcome put_by_table(Text *text, const uint8_t *at, Py_ssize_t count, PyObject *table) {
    const char *characters = PyBytes_AsString(table);
    if (characters == NULL)
        return FAILED;
    const uint8_t *end = at + count;
    while (at < end) {
        const uint8_t *until = end - at > 1024 ? at + 1024 : end;
        TRY(need(text, (until - at) * 7 + 8));
        for (; at < until; at++) {
            const char *character = characters + 8 * *at;
            memcpy(text->at, character + 1, 7);
            text->at += character[0];
        }
    }
    return DONE;
}

/* ---- cells ---- */

static uint64_t little(const uint8_t *at, int size) {
    uint64_t number = 0;
    for (int i = size - 1; i >= 0; i--)
        number = number << 8 | at[i];
    return number;
}

static uint64_t big(const uint8_t *at, int size) {
    uint64_t number = 0;
    for (int i = 0; i < size; i++)
        number = number << 8 | at[i];
    return number;
}

static const uint64_t POWERS[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
static const int DECIMAL_BYTES[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};

static void put_integer(Text *text, const uint8_t *at, const Column *column) {
    uint64_t number = little(at, column->size), sign = (uint64_t)1 << (8 * column->size - 1);
    if (column->is_signed && number & sign) {
        *text->at++ = '-';
        number = (sign << 1) - number; /* of 8 bytes, the sign shifted out is 0, as it should be */
    }
    put_digits(text, number, 1);
}

static Outcome put_double(Text *text, const uint8_t *at) {
    uint64_t bits = little(at, 8);
    double number;
    memcpy(&number, &bits, 8);
    char *shortest = PyOS_double_to_string(number, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (shortest == NULL)
        return FAILED;
    Outcome outcome = put(text, shortest, (Py_ssize_t)strlen(shortest));
    PyMem_Free(shortest);
    return outcome;
}

/* One group of digits in a DECIMAL's bytes; all bytes of a negative number are inverted. */
static uint64_t group(const uint8_t **at, int width, uint8_t invert) {
    uint64_t number = 0;
    for (int i = 0; i < DECIMAL_BYTES[width]; i++)
        number = number << 8 | (uint8_t)(*(*at)++ ^ invert);
    return number;
}

static void put_decimal(Text *text, const uint8_t *raw, const Column *column) {
    uint8_t bytes[32];
    memcpy(bytes, raw, (size_t)column->size);
    uint8_t invert = bytes[0] & 0x80 ? 0 : 0xFF;
    bytes[0] ^= 0x80;
    const uint8_t *at = bytes;
    int whole = column->digits - column->scale, has_digits = 0;
    if (invert)
        *text->at++ = '-';
    for (int left = whole; left > 0;) {
        int width = left % 9 ? left % 9 : 9;
        uint64_t number = group(&at, width, invert);
        if (has_digits || number)
            put_digits(text, number, has_digits ? width : 1);
        has_digits |= number != 0;
        left -= width;
    }
    if (!has_digits)
        *text->at++ = '0';
    if (column->scale)
        *text->at++ = '.';
    for (int left = column->scale; left > 0;) {
        int width = left < 9 ? left : 9;
        put_digits(text, group(&at, width, invert), width);
        left -= width;
    }
}

/* Writes `.` and the digits of a fraction, which is stored with an even number of digits. */
static Outcome put_fraction(Text *text, uint64_t fraction, int digits) {
    if (!digits)
        return DONE;
    if (fraction >= POWERS[(digits + 1) / 2 * 2])
        return NOT_MINE;
    *text->at++ = '.';
    put_digits(text, digits % 2 ? fraction / 10 : fraction, digits);
    return DONE;
}

static void put_day(Text *text, unsigned year, unsigned month, unsigned day) {
    put_digits(text, year, 4);
    *text->at++ = '-';
    put_two(text, month);
    *text->at++ = '-';
    put_two(text, day);
}

static void put_clock(Text *text, unsigned hour, unsigned minute, unsigned second) {
    put_digits(text, hour, 2);
    *text->at++ = ':';
    put_two(text, minute);
    *text->at++ = ':';
    put_two(text, second);
}

static Outcome put_time(Text *text, const uint8_t *at, const Column *column) {
    int extra = column->size - 3;
    uint64_t packed = big(at, column->size), zero = (uint64_t)0x800000 << (8 * extra);
    uint64_t magnitude = packed < zero ? zero - packed : packed - zero;
    unsigned clock = (unsigned)(magnitude >> (8 * extra));
    if (packed < zero)
        *text->at++ = '-';
    put_clock(text, clock >> 12 & 0x3FF, clock >> 6 & 63, clock & 63);
    return put_fraction(text, magnitude & (((uint64_t)1 << (8 * extra)) - 1), column->digits);
}

static Outcome put_datetime(Text *text, const uint8_t *at, const Column *column) {
    uint64_t packed = big(at, 5);
    if (packed < 0x8000000000u)
        return NOT_MINE;
    packed -= 0x8000000000u;
    unsigned day = (unsigned)(packed >> 17), clock = (unsigned)(packed & 0x1FFFF);
    put_day(text, (day >> 5) / 13, (day >> 5) % 13, day & 31);
    *text->at++ = ' ';
    put_clock(text, clock >> 12, clock >> 6 & 63, clock & 63);
    return put_fraction(text, big(at + 5, column->size - 5), column->digits);
}

static Outcome put_timestamp(Text *text, const uint8_t *at, const Column *column) {
    uint32_t seconds = (uint32_t)big(at, 4);
    if (seconds) {
        /* Days since 1970 as a date of the Gregorian calendar, in years that begin in March, in eras of 400 years. */
        uint32_t days = seconds / 86400 + 719468, clock = seconds % 86400;
        uint32_t era = days / 146097, of_era = days % 146097;
        uint32_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
        uint32_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        uint32_t march = (5 * of_year + 2) / 153, month = march < 10 ? march + 3 : march - 9;
        put_day(text, year_of_era + era * 400 + (month <= 2), month, of_year - (153 * march + 2) / 5 + 1);
        *text->at++ = ' ';
        put_clock(text, clock / 3600, clock / 60 % 60, clock % 60);
    } else {
        memcpy(text->at, "0000-00-00 00:00:00", 19);
        text->at += 19;
    }
    return put_fraction(text, big(at + 4, column->size - 4), column->digits);
}

static Outcome put_label(Text *text, const uint8_t *at, const Column *column, PyObject *labels) {
    Py_ssize_t index = (Py_ssize_t)little(at, column->size);
    return index < PyTuple_Size(labels) ? put_bytes(text, PyTuple_GetItem(labels, index)) : NOT_MINE;
}

/* A cell's text. */
static Outcome put_text(Text *text, const Cell *cell, const Column *column, int is_json) {
    if (column->kind < ENUM)
        TRY(need(text, 96)); /* the longest: a sign, a point and 65 digits, or one more for each nine that no server writes */
    unsigned packed;
    switch (column->kind) {
    case INTEGER:
        return put_integer(text, cell->at, column), DONE;
    case DOUBLE:
        return put_double(text, cell->at);
    case DECIMAL:
        return put_decimal(text, cell->at, column), DONE;
    case YEAR:
        return put_digits(text, cell->at[0] ? 1900 + cell->at[0] : 0, 4), DONE;
    case DATE:
        packed = (unsigned)little(cell->at, 3);
        return put_day(text, packed >> 9, packed >> 5 & 15, packed & 31), DONE;
    case TIME:
        return put_time(text, cell->at, column);
    case DATETIME:
        return put_datetime(text, cell->at, column);
    case TIMESTAMP:
        return put_timestamp(text, cell->at, column);
    case ENUM:
        return put_label(text, cell->at, column, is_json ? column->json_texts : column->texts);
    case UTF8:
        return put_utf8(text, cell->at, cell->size, is_json);
    case BYTES:
        return put_by_table(text, cell->at, cell->size, is_json ? column->json_texts : column->texts);
    default: {
        Py_ssize_t size;
        const char *utf8 = PyUnicode_AsUTF8AndSize(cell->text, &size);
        return utf8 == NULL ? FAILED : put_utf8(text, (const uint8_t *)utf8, size, is_json);
    }
    }
}

static Outcome put_cell(Text *text, const Cell *cell, const Column *column) {
    if (cell->is_null)
        return put(text, "null", 4);
    TRY(put_character(text, '"'));
    TRY(put_text(text, cell, column, 1));
    return put_character(text, '"');
}

/* ---- row images ---- */

/* A cell that a Python reader reads. Errors of the reader, as for bytes that it cannot read, are passed on. */
static Outcome read_cell(const Column *column, PyObject *body, Py_ssize_t *at, Cell *cell) {
    PyObject *found = PyObject_CallFunction(column->read, "On", body, *at), *text, *next;
    if (found == NULL)
        return FAILED;
    Outcome outcome = FAILED;
    if (PyTuple_Check(found) && PyTuple_Size(found) == 2) {
        text = PyTuple_GetItem(found, 0);
        next = PyTuple_GetItem(found, 1);
        if (PyUnicode_Check(text) && PyLong_Check(next)) {
            *at = PyLong_AsSsize_t(next);
            cell->text = Py_NewRef(text);
            outcome = *at == -1 && PyErr_Occurred() ? FAILED : DONE;
        }
    }
    if (outcome == FAILED && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a reader gives a text and a place");
    Py_DECREF(found);
    return outcome;
}

/* Reads the cells of the image that starts at `at`, by the number of their column, and moves `at` after it. */
static Outcome read_image(
    const Plan *plan, const Image *image, Cell *cells, PyObject *body, const uint8_t *start, Py_ssize_t size, Py_ssize_t *at
) {
    Py_ssize_t nulls = *at, here = *at;
    if (size - here < (image->count + 7) / 8)
        return NOT_MINE;
    here += (image->count + 7) / 8;
    for (Py_ssize_t i = 0; i < image->count; i++) {
        const Column *column = &plan->columns[image->columns[i]];
        Cell *cell = &cells[image->columns[i]];
        cell->is_null = start[nulls + (i >> 3)] >> (i & 7) & 1;
        if (cell->is_null)
            continue;
        if (column->kind == READ) {
            TRY(read_cell(column, body, &here, cell));
            if (here < *at || here > size)
                return NOT_MINE;
            continue;
        }
        if (size - here < column->size)
            return NOT_MINE;
        cell->at = start + here;
        cell->size = column->size;
        here += column->size;
        if (column->kind == UTF8 || column->kind == BYTES) {
            uint64_t length = little(cell->at, column->size);
            if (length > (uint64_t)(size - here))
                return NOT_MINE;
            cell->at = start + here;
            cell->size = (Py_ssize_t)length;
            here += cell->size;
        }
    }
    *at = here;
    return DONE;
}

static void forget(const Plan *plan, Cell *cells) {
    for (Py_ssize_t i = 0; i < 2 * plan->columns_count; i++)
        Py_CLEAR(cells[i].text);
}

/* Whether two cells, neither NULL, hold the same bytes: then they have the same text. */
static int are_same(const Cell *one, const Cell *other) {
    if (one->text != NULL)
        return PyUnicode_Compare(one->text, other->text) == 0;
    return one->size == other->size && memcmp(one->at, other->at, (size_t)one->size) == 0;
}

static int key_changes(const Plan *plan, const Cell *first, const Cell *second) {
    for (Py_ssize_t i = 0; i < plan->columns_count; i++)
        if (plan->columns[i].is_key)
            if (first[i].is_null != second[i].is_null || (!first[i].is_null && !are_same(&first[i], &second[i])))
                return 1;
    return 0;
}

/* ---- records ---- */

static Outcome put_member(const Plan *plan, Text *text, const Cell *cells, int number) {
    TRY(put_bytes(text, plan->columns[number].member));
    return put_cell(text, &cells[number], &plan->columns[number]);
}

static Outcome put_object(const Plan *plan, Text *text, const Image *image, const Cell *cells) {
    char before = '{';
    for (Py_ssize_t i = 0; i < image->count; i++) {
        if (!plan->columns[image->columns[i]].is_shown)
            continue;
        TRY(put_character(text, before));
        TRY(put_member(plan, text, cells, image->columns[i]));
        before = ',';
    }
    if (plan->constants != NULL) {
        TRY(put_character(text, before));
        TRY(put_bytes(text, plan->constants));
        before = ',';
    }
    return before == ',' ? put_character(text, '}') : put(text, "{}", 2);
}

/* Writes the members of the first image that the second lacks or has another text for: equal bytes are equal texts, different bytes may be. `has` says which
   columns the second image has. */
static Outcome put_old(const Plan *plan, Text *text, const Cell *first, const Cell *second, const char *has) {
    TRY(put_character(text, '{'));
    int is_any = 0;
    for (Py_ssize_t i = 0; i < plan->first.count; i++) {
        int number = plan->first.columns[i];
        const Column *column = &plan->columns[number];
        const Cell *before = &first[number], *after = &second[number];
        if (column->is_key || !column->is_shown)
            continue;
        int is_both = has[number] && before->is_null == after->is_null;
        if (is_both && (before->is_null || are_same(before, after)))
            continue;
        Py_ssize_t at = text->at - text->start;
        if (is_any)
            TRY(put_character(text, ','));
        TRY(put_bytes(text, column->member));
        Py_ssize_t from = text->at - text->start;
        TRY(put_cell(text, before, column));
        if (is_both) {
            Py_ssize_t to = text->at - text->start;
            TRY(put_cell(text, after, column));
            Py_ssize_t size = text->at - text->start - to;
            text->at = text->start + to;
            if (size == to - from && memcmp(text->start + from, text->start + to, (size_t)size) == 0) {
                text->at = text->start + at;
                continue;
            }
        }
        is_any = 1;
    }
    return put_character(text, '}');
}

static int is_image(int placeholder) {
    return placeholder == FIRST || placeholder == SECOND || placeholder == OLD;
}

static Outcome put_key(const Plan *plan, Text *text, const Cell *first, const Cell *second, const char *has) {
    TRY(put_bytes(text, plan->key_text));
    for (Py_ssize_t i = 0; i < plan->key_count; i++) {
        int number = plan->key[i];
        const Cell *cell = has[number] ? &second[number] : &first[number];
        TRY(cell->is_null ? put(text, "null", 4) : put_text(text, cell, &plan->columns[number], 0));
        TRY(put_character(text, '_'));
    }
    return DONE;
}

typedef struct {
    const char *start;
    Py_ssize_t size;
} Piece;

/* Writes a placeholder that is an image. */
static Outcome put_image(const Plan *plan, Text *text, int placeholder, const Cell *first, const Cell *second, const char *has) {
    if (placeholder == OLD)
        return put_old(plan, text, first, second, has);
    int is_first = placeholder == FIRST;
    return put_object(plan, text, is_first ? &plan->first : &plan->second, is_first ? first : second);
}

/* Writes a placeholder that is no image. */
static Outcome put_mark(Text *text, int placeholder, Py_ssize_t row, int is_last) {
    if (placeholder != ROW)
        return is_last ? put(text, "true", 4) : put(text, "false", 5);
    TRY(need(text, 20));
    put_digits(text, (uint64_t)row, 1);
    return DONE;
}

static Outcome put_value(
    const Plan *plan, Text *text, const Cell *first, const Cell *second, const char *has, const Piece *pieces, Py_ssize_t row, int is_last
) {
    TRY(put(text, pieces[0].start, pieces[0].size));
    for (Py_ssize_t i = 0; i < plan->placeholders_count; i++) {
        int placeholder = plan->placeholders[i];
        TRY(is_image(placeholder) ? put_image(plan, text, placeholder, first, second, has) : put_mark(text, placeholder, row, is_last));
        TRY(put(text, pieces[i + 1].start, pieces[i + 1].size));
    }
    return DONE;
}

static PyObject *KEY, *VALUE, *PARTITION;

/* Sets a member of a record; takes `value`, which is NULL with an exception. */
static Outcome set(PyObject *record, PyObject *name, PyObject *value) {
    Outcome outcome = value == NULL || PyDict_SetItem(record, name, value) < 0 ? FAILED : DONE;
    Py_XDECREF(value);
    return outcome;
}

static Outcome fill_record(PyObject *record, PyObject *key, PyObject *value, Py_ssize_t partition) {
    Outcome outcome = set(record, KEY, key);
    if (outcome == DONE)
        outcome = set(record, VALUE, value);
    else
        Py_XDECREF(value);
    return outcome == DONE && partition >= 0 ? set(record, PARTITION, PyLong_FromSsize_t(partition)) : outcome;
}

/* Appends the record {"key": ..., "value": ...}, with "partition" unless it is negative. Takes key and value, which are NULL with an exception. */
static Outcome append(PyObject *records, PyObject *key, PyObject *value, Py_ssize_t partition) {
    PyObject *record = PyDict_New();
    if (record == NULL) {
        Py_XDECREF(key);
        Py_XDECREF(value);
        return FAILED;
    }
    Outcome outcome = fill_record(record, key, value, partition);
    if (outcome == DONE && PyList_Append(records, record) < 0)
        outcome = FAILED;
    Py_DECREF(record);
    return outcome;
}

/* What the rows of one event are read from and written with. */
typedef struct {
    const Plan *plan;
    PyObject *body;
    const uint8_t *start;
    Py_ssize_t size;
    Piece pieces[PLACEHOLDERS + 1];
    Cell *first, *second;
    char *has; /* whether the second image has a column */
    Text text;
} Event;

/* Begins to read an event; on failure an exception is set. What was allocated is freed by `end` in either case. */
static int begin(Event *event, const Plan *plan, PyObject *body, PyObject *texts) {
    char *raw;
    if (!PyTuple_Check(texts) || PyTuple_Size(texts) != plan->placeholders_count + 1)
        return PyErr_SetString(PyExc_ValueError, "the texts are one more than the placeholders"), -1;
    if (PyBytes_AsStringAndSize(body, &raw, &event->size) < 0)
        return -1;
    event->plan = plan;
    event->body = body;
    event->start = (const uint8_t *)raw;
    for (Py_ssize_t i = 0; i <= plan->placeholders_count; i++) {
        Piece *piece = &event->pieces[i];
        if ((piece->start = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(texts, i), &piece->size)) == NULL)
            return -1;
    }
    event->first = PyMem_Calloc((size_t)plan->columns_count * 2 + 1, sizeof(Cell));
    event->has = PyMem_Calloc((size_t)plan->columns_count + 1, 1);
    char *start = event->text.start = PyMem_Malloc(4096);
    if (event->first == NULL || event->has == NULL || start == NULL)
        return PyErr_NoMemory(), -1;
    event->second = event->first + plan->columns_count;
    event->text.at = start;
    event->text.end = start + 4096;
    for (Py_ssize_t i = 0; i < plan->second.count; i++)
        event->has[plan->second.columns[i]] = 1;
    return 0;
}

static void end(Event *event) {
    if (event->first != NULL)
        forget(event->plan, event->first);
    PyMem_Free(event->first);
    PyMem_Free(event->has);
    PyMem_Free(event->text.start);
}

/* Reads the images of the row at `at`, and moves `at` after it. */
static Outcome read_row(Event *event, Py_ssize_t *at) {
    const Plan *plan = event->plan;
    Py_ssize_t here = *at;
    if (plan->has_readers)
        forget(plan, event->first);
    TRY(read_image(plan, &plan->first, event->first, event->body, event->start, event->size, &here));
    if (plan->is_update) {
        TRY(read_image(plan, &plan->second, event->second, event->body, event->start, event->size, &here));
        if (key_changes(plan, event->first, event->second))
            return NOT_MINE;
    }
    if (here == *at) /* the row has no bytes in the event */
        return NOT_MINE;
    *at = here;
    return DONE;
}

/* Writes the rows from `at` on, up to the first that must take the row-at-a-time path. */
static Outcome write_rows(Event *event, Py_ssize_t *at, Py_ssize_t *row, int is_last, PyObject *records) {
    const Plan *plan = event->plan;
    Text *text = &event->text;
    while (*at < event->size) {
        Py_ssize_t here = *at;
        TRY(read_row(event, &here));
        text->at = text->start;
        TRY(put_key(plan, text, event->first, event->second, event->has));
        Py_ssize_t key_size = text->at - text->start;
        TRY(put_value(plan, text, event->first, event->second, event->has, event->pieces, *row, is_last && here >= event->size));
        PyObject *key = PyBytes_FromStringAndSize(text->start, key_size);
        PyObject *value = PyBytes_FromStringAndSize(text->start + key_size, text->at - text->start - key_size);
        TRY(append(records, key, value, -1));
        *at = here;
        *row += 1;
    }
    return DONE;
}

PyDoc_STRVAR(write_doc, "write(body, at, row, is_last, texts, records) -> place and number of the next row");

static PyObject *Plan_write(PyObject *self, PyObject *args) {
    PyObject *body, *texts, *records, *result = NULL;
    Py_ssize_t at, row;
    int is_last;
    if (!PyArg_ParseTuple(args, "SnnpOO:write", &body, &at, &row, &is_last, &texts, &records))
        return NULL;
    if (!PyList_Check(records) || at < 0 || row < 0)
        return PyErr_SetString(PyExc_ValueError, "records are a list; places are not negative"), NULL;
    Event event = {0};
    if (begin(&event, (const Plan *)self, body, texts) == 0 && write_rows(&event, &at, &row, is_last, records) != FAILED)
        result = Py_BuildValue("nn", at, row);
    end(&event);
    return result;
}

/* ---- many rows in a record: producer/publish/row_batching.py is the reference ---- */

/* The rows of a partition that are yet to become a record: the key of the first of them, their images by placeholder, with commas between, the
   number of the first, and the bytes of their records if each had one. */
typedef struct {
    Text key, images[PLACEHOLDERS];
    Py_ssize_t rows, first_row, size;
    int is_last;
} Open;

typedef struct {
    Py_ssize_t partitions, most_rows, most_bytes;
} Limits;

/* The hash of the Java client: plugins/kafka/partitioner.py is the reference. */
static uint32_t murmur2(const uint8_t *at, Py_ssize_t size) {
    const uint32_t m = 0x5BD1E995;
    uint32_t value = 0x9747B28C ^ (uint32_t)size;
    for (; size >= 4; at += 4, size -= 4) {
        uint32_t part = (uint32_t)little(at, 4) * m;
        value = value * m ^ (part ^ part >> 24) * m;
    }
    if (size)
        value = (value ^ (uint32_t)little(at, (int)size)) * m;
    value = (value ^ value >> 13) * m;
    return value ^ value >> 15;
}

static Py_ssize_t partition_of(const char *key, Py_ssize_t size, Py_ssize_t partitions) {
    return partitions > 1 ? (Py_ssize_t)(murmur2((const uint8_t *)key, size) & 0x7FFFFFFF) % partitions : 0;
}

/* The size of a text, which may be none. */
static Py_ssize_t size_of(const Text *text) {
    return text->start == NULL ? 0 : text->at - text->start;
}

static char *copied(char *to, const char *from, Py_ssize_t size) {
    memcpy(to, from, (size_t)size);
    return to + size;
}

/* The value of a record with the rows of a partition. */
static PyObject *value_of(const Event *event, const Open *open) {
    const Plan *plan = event->plan;
    char room[PLACEHOLDERS][20]; /* of the marks */
    Piece marks[PLACEHOLDERS];
    Py_ssize_t size = event->pieces[0].size;
    for (Py_ssize_t i = 0; i < plan->placeholders_count; i++) {
        Text text = {room[i], room[i], room[i] + sizeof room[i]};
        marks[i].start = room[i];
        if (is_image(plan->placeholders[i]))
            marks[i] = (Piece){open->images[i].start, size_of(&open->images[i])};
        else if (put_mark(&text, plan->placeholders[i], open->first_row, open->is_last) == DONE)
            marks[i].size = text.at - text.start;
        size += marks[i].size + event->pieces[i + 1].size;
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, size);
    if (made == NULL)
        return NULL;
    char *to = copied(PyBytes_AsString(made), event->pieces[0].start, event->pieces[0].size);
    for (Py_ssize_t i = 0; i < plan->placeholders_count; i++) {
        to = copied(to, marks[i].start, marks[i].size);
        to = copied(to, event->pieces[i + 1].start, event->pieces[i + 1].size);
    }
    return made;
}

/* Appends the record of a partition's rows: with a key only if there is one row. */
static Outcome close_record(const Event *event, Open *open, Py_ssize_t partition, PyObject *records) {
    if (!open->rows)
        return DONE;
    PyObject *key = open->rows > 1 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(open->key.start, size_of(&open->key));
    TRY(append(records, key, value_of(event, open), partition));
    open->rows = open->size = 0;
    return DONE;
}

static Outcome put_again(Text *text, const char *bytes, Py_ssize_t count) {
    text->at = text->start;
    return put(text, bytes, count);
}

/* The rows of a partition, which has some from now on: most events have rows of few of the partitions. */
static Open *open_of(Open **opened, Py_ssize_t partition) {
    if (opened[partition] == NULL && (opened[partition] = PyMem_Calloc(1, sizeof(Open))) == NULL)
        PyErr_NoMemory();
    return opened[partition];
}

/* Adds the row that was read to the record of its partition. Rows that need a record of their own are left to the row-at-a-time path. */
static Outcome add_row(Event *event, Open **opened, const Limits *limits, Py_ssize_t row, int is_last, PyObject *records) {
    const Plan *plan = event->plan;
    Text *text = &event->text;
    Py_ssize_t ends[PLACEHOLDERS], size = event->pieces[0].size;
    text->at = text->start;
    TRY(put_key(plan, text, event->first, event->second, event->has));
    Py_ssize_t key_size = text->at - text->start;
    for (Py_ssize_t i = 0; i < plan->placeholders_count; i++) {
        int placeholder = plan->placeholders[i];
        TRY(is_image(placeholder) ? put_image(plan, text, placeholder, event->first, event->second, event->has)
                                  : put_mark(text, placeholder, row, is_last));
        ends[i] = text->at - text->start;
        size += event->pieces[i + 1].size;
    }
    size += text->at - text->start - key_size;
    if (size > limits->most_bytes)
        return NOT_MINE;
    Py_ssize_t partition = partition_of(text->start, key_size, limits->partitions);
    Open *open = open_of(opened, partition);
    if (open == NULL)
        return FAILED;
    if (open->rows == limits->most_rows || open->size + size > limits->most_bytes)
        TRY(close_record(event, open, partition, records));
    if (!open->rows) {
        open->first_row = row;
        TRY(put_again(&open->key, text->start, key_size));
    }
    for (Py_ssize_t i = 0, from = key_size; i < plan->placeholders_count; from = ends[i++]) {
        if (!is_image(plan->placeholders[i]))
            continue;
        Text *images = &open->images[i];
        if (open->rows)
            TRY(put_character(images, ','));
        else
            images->at = images->start;
        TRY(put(images, text->start + from, ends[i] - from));
    }
    open->rows++;
    open->size += size;
    open->is_last = is_last;
    return DONE;
}

static Outcome join_rows(Event *event, Open **opened, const Limits *limits, Py_ssize_t at, Py_ssize_t *row, int is_last, PyObject *records) {
    while (at < event->size) {
        TRY(read_row(event, &at));
        TRY(add_row(event, opened, limits, *row, is_last && at >= event->size, records));
        *row += 1;
    }
    for (Py_ssize_t partition = 0; partition < limits->partitions; partition++)
        if (opened[partition] != NULL)
            TRY(close_record(event, opened[partition], partition, records));
    return DONE;
}

static void free_opened(Open **opened, Py_ssize_t count) {
    for (Py_ssize_t i = 0; opened != NULL && i < count; i++) {
        if (opened[i] == NULL)
            continue;
        PyMem_Free(opened[i]->key.start);
        for (int image = 0; image < PLACEHOLDERS; image++)
            PyMem_Free(opened[i]->images[image].start);
        PyMem_Free(opened[i]);
    }
    PyMem_Free(opened);
}

PyDoc_STRVAR(
    join_doc,
    "join(body, at, row, is_last, texts, partitions, most_rows, most_bytes) -> records of many rows and the number of the next row; None if a row "
    "must take the row-at-a-time path"
);

static PyObject *Plan_join(PyObject *self, PyObject *args) {
    PyObject *body, *texts, *result = NULL;
    Py_ssize_t at, row;
    int is_last;
    Limits limits;
    if (!PyArg_ParseTuple(
            args, "SnnpOnnn:join", &body, &at, &row, &is_last, &texts, &limits.partitions, &limits.most_rows, &limits.most_bytes
        ))
        return NULL;
    if (at < 0 || row < 0 || limits.partitions < 1 || limits.most_rows < 1)
        return PyErr_SetString(PyExc_ValueError, "places are not negative; there are partitions, and rows in a record"), NULL;
    Event event = {0};
    Outcome outcome = FAILED;
    PyObject *records = PyList_New(0);
    Open **opened = PyMem_Calloc((size_t)limits.partitions, sizeof(Open *));
    if (opened == NULL)
        PyErr_NoMemory();
    else if (records != NULL && begin(&event, (const Plan *)self, body, texts) == 0)
        outcome = join_rows(&event, opened, &limits, at, &row, is_last, records);
    if (outcome == DONE)
        result = Py_BuildValue("On", records, row);
    else if (outcome == NOT_MINE)
        result = Py_NewRef(Py_None);
    Py_XDECREF(records);
    free_opened(opened, limits.partitions);
    end(&event);
    return result;
}

/* ---- plans ---- */

/* Numbers below `most` from a tuple; NULL with an exception. */
static int *numbers(PyObject *tuple, Py_ssize_t most, Py_ssize_t *count) {
    *count = 0;
    if (!PyTuple_Check(tuple))
        return PyErr_SetString(PyExc_TypeError, "a tuple of numbers is wanted"), NULL;
    Py_ssize_t size = PyTuple_Size(tuple);
    int *found = PyMem_Malloc(sizeof(int) * (size_t)(size + 1));
    if (found == NULL)
        return (int *)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < size; i++) {
        long number = PyLong_AsLong(PyTuple_GetItem(tuple, i));
        if (number < 0 || number >= most) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a number is out of range");
            PyMem_Free(found);
            return NULL;
        }
        found[i] = (int)number;
    }
    *count = size;
    return found;
}

static int decimal_bytes(int digits) {
    return digits / 9 * 4 + DECIMAL_BYTES[digits % 9];
}

/* Whether reading and writing by the plan stays within bounds. */
static int is_sound(const Column *column) {
    int size = column->size, digits = column->digits, extra = (digits + 1) / 2;
    switch (column->kind) {
    case INTEGER:
        return size >= 1 && size <= 8;
    case DOUBLE:
        return size == 8;
    case DECIMAL:
        return digits >= 1 && digits <= 65 && column->scale >= 0 && column->scale <= digits
               && size == decimal_bytes(digits - column->scale) + decimal_bytes(column->scale) && size <= 32;
    case YEAR:
        return size == 1;
    case DATE:
        return size == 3;
    case TIME:
        return digits >= 0 && digits <= 6 && size == 3 + extra;
    case DATETIME:
        return digits >= 0 && digits <= 6 && size == 5 + extra;
    case TIMESTAMP:
        return digits >= 0 && digits <= 6 && size == 4 + extra;
    case ENUM:
        return (size == 1 || size == 2) && PyTuple_Check(column->json_texts) && PyTuple_Check(column->texts)
               && PyTuple_Size(column->json_texts) == PyTuple_Size(column->texts);
    case UTF8:
        return size >= 1 && size <= 4;
    case BYTES:
        if (size < 1 || size > 4 || !PyBytes_Check(column->json_texts) || !PyBytes_Check(column->texts))
            return 0;
        for (int i = 0; i < 2; i++) {
            PyObject *table = i ? column->texts : column->json_texts;
            const char *characters = PyBytes_AsString(table);
            if (PyBytes_Size(table) != 256 * 8)
                return 0;
            for (int byte = 0; byte < 256; byte++)
                if (characters[byte * 8] < 0 || characters[byte * 8] > 7)
                    return 0;
        }
        return 1;
    case READ:
        return PyCallable_Check(column->read);
    default:
        return 0;
    }
}

static int fill(Column *column, PyObject *from) {
    int kind;
    if (!PyTuple_Check(from))
        return PyErr_SetString(PyExc_TypeError, "a column is a tuple"), -1;
    if (!PyArg_ParseTuple(
            from, "iiiiiSOOO:column", &kind, &column->size, &column->digits, &column->scale, &column->is_signed, &column->member,
            &column->json_texts, &column->texts, &column->read
        ))
        return -1;
    column->kind = kind >= 0 && kind < KINDS ? (Kind)kind : KINDS;
    column->is_shown = PyBytes_Size(column->member) > 0;
    if (!is_sound(column))
        return PyErr_SetString(PyExc_ValueError, "a column is not one that can be read"), -1;
    return 0;
}

static int fill_plan(Plan *plan, PyObject *args) {
    PyObject *columns, *first, *second, *same, *key, *key_text, *placeholders, *constants;
    if (!PyArg_ParseTuple(
            args, "O!OOpOOSOS:Plan", &PyTuple_Type, &columns, &first, &second, &plan->is_update, &same, &key, &key_text, &placeholders,
            &constants
        ))
        return -1;
    plan->key_text = Py_NewRef(key_text);
    if (PyBytes_Size(constants) > 0)
        plan->constants = Py_NewRef(constants);
    Py_ssize_t count = PyTuple_Size(columns), same_count;
    plan->columns = PyMem_Calloc((size_t)count + 1, sizeof(Column));
    if (plan->columns == NULL)
        return PyErr_NoMemory(), -1;
    plan->columns_count = count;
    plan->owner = Py_NewRef(columns);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (fill(&plan->columns[i], PyTuple_GetItem(columns, i)) < 0)
            return -1;
        plan->has_readers |= plan->columns[i].kind == READ;
    }
    if ((plan->first.columns = numbers(first, count, &plan->first.count)) == NULL
        || (plan->second.columns = numbers(second, count, &plan->second.count)) == NULL
        || (plan->key = numbers(key, count, &plan->key_count)) == NULL
        || (plan->placeholders = numbers(placeholders, PLACEHOLDERS, &plan->placeholders_count)) == NULL)
        return -1;
    int *keys = numbers(same, count, &same_count);
    if (keys == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < same_count; i++)
        plan->columns[keys[i]].is_key = 1;
    PyMem_Free(keys);
    if (plan->placeholders_count > PLACEHOLDERS)
        return PyErr_SetString(PyExc_ValueError, "more placeholders than there are"), -1;
    return 0;
}

static PyObject *Plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *plan = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (plan != NULL && fill_plan((Plan *)plan, args) < 0)
        Py_CLEAR(plan);
    return plan;
}

static void Plan_dealloc(PyObject *self) {
    Plan *plan = (Plan *)self;
    PyMem_Free(plan->columns);
    PyMem_Free(plan->first.columns);
    PyMem_Free(plan->second.columns);
    PyMem_Free(plan->key);
    PyMem_Free(plan->placeholders);
    Py_XDECREF(plan->owner);
    Py_XDECREF(plan->constants);
    Py_XDECREF(plan->key_text);
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(
    plan_doc, "Plan(columns, first, second, is_update, same, key, key_text, placeholders, constants): how the rows of one table and operation become records."
);

static PyMethodDef plan_methods[] = {
    {"write", Plan_write, METH_VARARGS, write_doc}, {"join", Plan_join, METH_VARARGS, join_doc}, {NULL, NULL, 0, NULL}
};
static PyType_Slot plan_slots[] = {
    {Py_tp_new, Plan_new}, {Py_tp_dealloc, Plan_dealloc}, {Py_tp_methods, plan_methods}, {Py_tp_doc, (void *)plan_doc}, {0, NULL}
};
static PyType_Spec plan_spec = {"cdcbus.producer.publish._native.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, plan_slots};

static int fill_module(PyObject *module) {
    static const char *const names[KINDS] = {"INTEGER", "DOUBLE",    "DECIMAL", "YEAR", "DATE",  "TIME",
                                             "DATETIME", "TIMESTAMP", "ENUM",    "UTF8", "BYTES", "READ"};
    static const char *const placeholders[PLACEHOLDERS] = {"FIRST", "SECOND", "OLD", "ROW", "IS_LAST"};
    PyObject *type = PyType_FromSpec(&plan_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "Plan", type) < 0)
        return Py_XDECREF(type), -1;
    Py_DECREF(type);
    if ((KEY = PyUnicode_InternFromString("key")) == NULL || (VALUE = PyUnicode_InternFromString("value")) == NULL
        || (PARTITION = PyUnicode_InternFromString("partition")) == NULL)
        return -1;
    for (int i = 0; i < KINDS; i++)
        if (PyModule_AddIntConstant(module, names[i], i) < 0)
            return -1;
    for (int i = 0; i < PLACEHOLDERS; i++)
        if (PyModule_AddIntConstant(module, placeholders[i], i) < 0)
            return -1;
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_native", "Rows of a binlog event straight to Kafka records, in C.", -1, NULL, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && fill_module(made) < 0)
        Py_CLEAR(made);
    return made;
}
