/* Cuts records of one shape into their cells, as Arrow columns: `plugins/converters/arrow/cut.py` is the reference in Python.

   A record is only read as far as it has the shape, and never beyond its end; any other is left out. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Raised when the values passed between Python and this code change: cdcbus.plugins.converters.arrow.compiled then refuses older builds. */
#define INTERFACE 1

typedef struct {
    const unsigned char *start;
    Py_ssize_t size;
} Text;
typedef struct {
    const Text *texts; /* one before each placeholder, and one after the last; all begin and end with a quotation mark */
    const char *are_texts; /* for each placeholder whether it is a text, else a number */
    Py_ssize_t count; /* of placeholders */
    Py_ssize_t stamp; /* 0, or the length of a number after the last text, before `end` */
    Text end;
} Shape;
typedef struct {
    uint32_t start; /* in the data of all records */
    int32_t size; /* -1: NULL */
} Cell;
typedef struct {
    PyObject *present, *ends, *data; /* bytes */
    int64_t size;
    int has_escapes;
} Column;

/* These return the place after what they have found at `at`, or NULL. */

static const unsigned char *after_text(const unsigned char *at, const unsigned char *end, const unsigned char *text, Py_ssize_t size) {
    return end - at >= size && memcmp(at, text, (size_t)size) == 0 ? at + size : NULL;
}

/* A number or truth value with the characters beside it: see NUMBER in shape.py. */
static const unsigned char *after_number(const unsigned char *at, const unsigned char *end) {
    const unsigned char *found;
    if (at == end || *at++ != ':')
        return NULL;
    if ((found = after_text(at, end, (const unsigned char *)"true", 4)) == NULL && (found = after_text(at, end, (const unsigned char *)"false", 5)) == NULL) {
        if (at < end && *at == '-')
            at++;
        found = at;
        while (found < end && *found >= '0' && *found <= '9')
            found++;
        if (found == at || (*at == '0' && found - at > 1))
            return NULL;
    }
    return found < end && *found == ',' ? found + 1 : NULL;
}

/* The closing quotation mark of a text. */
static const unsigned char *closing(const unsigned char *at, const unsigned char *end, int *has_escapes) {
    for (; at < end && *at != '"'; at++) {
        if (*at == '\\') {
            *has_escapes = 1;
            if (++at == end)
                return NULL;
        }
        if (*at < ' ')
            return NULL;
    }
    return at < end ? at : NULL;
}

/* Finds a record's cells. Returns whether it has the shape. A NULL has no quotation marks, so the texts beside it lack theirs. */
static int cells_of(const Shape *shape, const unsigned char *data, const unsigned char *at, const unsigned char *end, Cell *cells, Column *columns) {
    int was_null = 0;
    for (Py_ssize_t i = 0; i <= shape->count; i++) {
        int is_text = i < shape->count && shape->are_texts[i];
        at = after_text(at, end, shape->texts[i].start + was_null, shape->texts[i].size - was_null - is_text);
        if (at == NULL)
            return 0;
        was_null = 0;
        if (i == shape->count)
            break;
        const unsigned char *start = at, *null;
        if (!is_text) {
            if ((at = after_number(at, end)) == NULL)
                return 0;
        } else if ((null = after_text(at, end, (const unsigned char *)"null", 4)) != NULL) {
            was_null = 1;
            at = null;
        } else {
            if (at == end || *at != '"' || (at = closing(++start, end, &columns[i].has_escapes)) == NULL)
                return 0;
        }
        cells[i].start = (uint32_t)(start - data);
        cells[i].size = was_null ? -1 : (int32_t)(at - start);
    }
    if (shape->stamp) {
        const unsigned char *after = after_number(at, end);
        if (after == NULL || after - at != shape->stamp)
            return 0;
        at = after_text(after, end, shape->end.start, shape->end.size);
    }
    return at == end;
}

typedef struct {
    const int32_t *ends;
    const unsigned char *data;
    const int64_t *places;
    Py_ssize_t rows, bytes;
} Records;

/* Finds the cells of all records, and returns how many have the shape; -1 where a place lies outside. `kept` gets their places. */
static Py_ssize_t find(const Shape *shape, const Records *records, Py_ssize_t ends, Cell *cells, int64_t *kept, Column *columns) {
    Py_ssize_t found = 0;
    for (Py_ssize_t row = 0; row < records->rows; row++) {
        int64_t place = records->places[row];
        if (place < 0 || place >= ends - 1)
            return -1;
        int32_t start = records->ends[place], end = records->ends[place + 1];
        if (start < 0 || end < start || end > records->bytes)
            return -1;
        Cell *of_row = cells + found * shape->count;
        if (!cells_of(shape, records->data, records->data + start, records->data + end, of_row, columns))
            continue;
        for (Py_ssize_t i = 0; i < shape->count; i++)
            columns[i].size += of_row[i].size > 0 ? of_row[i].size : 0;
        kept[found++] = place;
    }
    return found;
}

static int allocate(Column *column, Py_ssize_t rows) {
    column->present = PyBytes_FromStringAndSize(NULL, (rows + 7) / 8);
    column->ends = PyBytes_FromStringAndSize(NULL, 4 * (rows + 1));
    column->data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)column->size);
    if (column->present == NULL || column->ends == NULL || column->data == NULL)
        return -1;
    memset(PyBytes_AsString(column->present), 0, (size_t)(rows + 7) / 8);
    return 0;
}

static void fill(const Column *column, const unsigned char *data, const Cell *cell, Py_ssize_t rows, Py_ssize_t step) {
    char *present = PyBytes_AsString(column->present), *to = PyBytes_AsString(column->data);
    int32_t *ends = (int32_t *)(void *)PyBytes_AsString(column->ends), end = 0;
    *ends++ = 0;
    for (Py_ssize_t row = 0; row < rows; row++, cell += step) {
        if (cell->size >= 0) {
            present[row / 8] |= (char)(1 << (row % 8));
            memcpy(to + end, data + cell->start, (size_t)cell->size);
            end += cell->size;
        }
        *ends++ = end;
    }
}

/* The texts of a tuple of bytes. Returns -1 with an exception set if they are not as `Shape` says. */
static int read_texts(PyObject *tuple, Py_ssize_t count, Text *texts) {
    for (Py_ssize_t i = 0; i < count; i++) {
        char *start;
        PyObject *text = PyTuple_GetItem(tuple, i);
        if (text == NULL || PyBytes_AsStringAndSize(text, &start, &texts[i].size) < 0)
            return -1;
        if (texts[i].size < 2)
            return PyErr_SetString(PyExc_ValueError, "a text lacks its quotation marks"), -1;
        texts[i].start = (const unsigned char *)start;
    }
    return 0;
}

static PyObject *made(const Shape *shape, const Records *records, Py_ssize_t ends, Cell *cells, int64_t *kept, Column *columns) {
    Py_ssize_t found;
    Py_BEGIN_ALLOW_THREADS
    found = find(shape, records, ends, cells, kept, columns);
    Py_END_ALLOW_THREADS
    if (found < 0)
        return PyErr_SetString(PyExc_ValueError, "a record lies outside of its array"), NULL;
    for (Py_ssize_t i = 0; i < shape->count; i++)
        if (allocate(&columns[i], found) < 0)
            return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < shape->count; i++)
        fill(&columns[i], records->data, cells + i, found, shape->count);
    Py_END_ALLOW_THREADS
    PyObject *list = PyList_New(shape->count);
    for (Py_ssize_t i = 0; list != NULL && i < shape->count; i++) {
        PyObject *one = Py_BuildValue("OOOi", columns[i].present, columns[i].ends, columns[i].data, columns[i].has_escapes);
        if (one == NULL || PyList_SetItem(list, i, one) < 0)
            Py_CLEAR(list);
    }
    return list == NULL ? NULL : Py_BuildValue("y#N", (const char *)kept, 8 * found, list);
}

static PyObject *cut(PyObject *self, PyObject *args) {
    PyObject *texts;
    Shape shape = {0};
    Py_buffer ends, data, places;
    Py_ssize_t offset;
    const char *end;
    if (!PyArg_ParseTuple(args, "O!y#ny#y*ny*y*", &PyTuple_Type, &texts, &shape.are_texts, &shape.count, &shape.stamp, &end, &shape.end.size, &ends, &offset, &data, &places))
        return NULL;
    shape.end.start = (const unsigned char *)end;
    Records records = {
        (const int32_t *)ends.buf + offset, data.buf, places.buf, places.len / (Py_ssize_t)sizeof(int64_t), data.len
    };
    Py_ssize_t count = shape.count;
    PyObject *result = NULL;
    Text *of_shape = PyMem_Calloc((size_t)count + 1, sizeof(Text));
    Column *columns = PyMem_Calloc((size_t)count + 1, sizeof(Column));
    Cell *cells = PyMem_Calloc((size_t)records.rows * (size_t)count + 1, sizeof(Cell));
    int64_t *kept = PyMem_Calloc((size_t)records.rows + 1, sizeof(int64_t));
    if (of_shape == NULL || columns == NULL || cells == NULL || kept == NULL)
        PyErr_NoMemory();
    else if (PyTuple_Size(texts) != count + 1 || offset < 0)
        PyErr_SetString(PyExc_ValueError, "a shape has a text before each placeholder, and one after the last");
    else if (read_texts(texts, count + 1, of_shape) == 0) {
        shape.texts = of_shape;
        result = made(&shape, &records, ends.len / (Py_ssize_t)sizeof(int32_t) - offset, cells, kept, columns);
    }
    for (Py_ssize_t i = 0; columns != NULL && i < count; i++) {
        Py_XDECREF(columns[i].present);
        Py_XDECREF(columns[i].ends);
        Py_XDECREF(columns[i].data);
    }
    PyMem_Free(of_shape);
    PyMem_Free(columns);
    PyMem_Free(cells);
    PyMem_Free(kept);
    PyBuffer_Release(&ends);
    PyBuffer_Release(&data);
    PyBuffer_Release(&places);
    return result;
}

PyDoc_STRVAR(cut_doc, "cut(texts, are_texts, stamp_bytes, end, ends, offset, data, places): the places of the records that have the shape, eight bytes each; and for each placeholder a bitmap of the records that have a cell, a zero and the cells' ends, four bytes each, the cells' bytes, and whether some may have escapes.");
static PyMethodDef methods[] = {{"cut", cut, METH_VARARGS, cut_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_cut", "Records of one shape to columns of cells, in C.", -1, methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit__cut(void) {
    PyObject *made_module = PyModule_Create(&module);
    if (made_module != NULL && PyModule_AddIntConstant(made_module, "INTERFACE", INTERFACE) < 0)
        Py_CLEAR(made_module);
    return made_module;
}
