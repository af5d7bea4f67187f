/* Cuts a server's answer into packets (`producer/binlog/dump_stream.py` is the reference in Python), and converts those of rows to row images, and
   these to columns (`producer/snapshot/rows.py` is the reference).

   A row that is truncated, or has an invalid float, raises ValueError; all reads stay within the row. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Raised when the values passed between Python and this code change: cdcbus.producer.snapshot.rows then refuses older builds. */
#define INTERFACE 3
#define HEAD_BYTES 4
#define LONGEST_PACKET 0xFFFFFF
#define NULL_CELL 251
#define FLOAT_CHARACTERS 63

/* ---- an answer to packets ---- */

static PyObject *cut(PyObject *self, PyObject *answer) {
    char *raw;
    Py_ssize_t size, at = 0;
    if (PyBytes_AsStringAndSize(answer, &raw, &size) < 0)
        return NULL;
    PyObject *packets = PyList_New(0);
    while (packets != NULL && size - at >= HEAD_BYTES) {
        const unsigned char *head = (const unsigned char *)raw + at;
        Py_ssize_t length = head[0] | head[1] << 8 | head[2] << 16; /* the fourth byte numbers the packets */
        if (length == LONGEST_PACKET || size - at - HEAD_BYTES < length)
            break;
        PyObject *packet = PyBytes_FromStringAndSize(raw + at + HEAD_BYTES, length);
        if (packet == NULL || PyList_Append(packets, packet) < 0)
            Py_CLEAR(packets);
        Py_XDECREF(packet);
        at += HEAD_BYTES + length;
    }
    return packets == NULL ? NULL : Py_BuildValue("Nn", packets, at);
}

/* ---- packets to images ---- */

typedef enum { TEXT, FLOAT, DOUBLE } Form;
typedef struct {
    const unsigned char *at, *end;
} Row;
typedef struct {
    const unsigned char *start;
    uint64_t size;
    int is_null;
} Cell;

/* Reads the next cell of a row. Returns whether it is complete. */
static int next_cell(Row *row, Cell *cell) {
    if (row->at >= row->end)
        return 0;
    unsigned char first = *row->at++;
    cell->is_null = first == NULL_CELL;
    cell->size = cell->is_null ? 0 : first;
    if (first > NULL_CELL) {
        int width = first == 252 ? 2 : first == 253 ? 3 : first == 254 ? 8 : 0;
        if (width == 0 || row->end - row->at < width)
            return 0;
        cell->size = 0;
        for (int i = 0; i < width; i++)
            cell->size |= (uint64_t)row->at[i] << (8 * i);
        row->at += width;
    }
    cell->start = row->at;
    if (cell->size > (uint64_t)(row->end - row->at))
        return 0;
    row->at += cell->size;
    return 1;
}

static unsigned char *put(unsigned char *to, uint64_t bits, int bytes) {
    for (int i = 0; i < bytes; i++)
        *to++ = (unsigned char)(bits >> (8 * i));
    return to;
}

/* Writes the bytes of a float; returns NULL with an exception set if the text is not a float. */
static unsigned char *put_float(unsigned char *to, const Cell *cell, Form form) {
    char text[FLOAT_CHARACTERS + 1];
    if (cell->size > FLOAT_CHARACTERS) {
        PyErr_SetString(PyExc_ValueError, "a float has too many characters");
        return NULL;
    }
    memcpy(text, cell->start, cell->size);
    text[cell->size] = 0;
    double value = PyOS_string_to_double(text, NULL, NULL);
    if (value == -1.0 && PyErr_Occurred())
        return NULL;
    if (form == FLOAT) {
        float small = (float)value;
        uint32_t bits;
        memcpy(&bits, &small, sizeof bits);
        return put(to, bits, 4);
    }
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put(to, bits, 8);
}

static PyObject *image(PyObject *packet, const unsigned char *forms, Py_ssize_t count) {
    char *data;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(packet, &data, &length) < 0)
        return NULL;
    Row start = {(unsigned char *)data, (unsigned char *)data + length}, row = start;
    Py_ssize_t nulls = (count + 7) / 8, size = nulls;
    Cell cell;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!next_cell(&row, &cell) || (forms[i] == TEXT && cell.size > UINT32_MAX)) {
            PyErr_SetString(PyExc_ValueError, "a row ends before its last cell");
            return NULL;
        }
        if (!cell.is_null)
            size += forms[i] == TEXT ? 4 + (Py_ssize_t)cell.size : forms[i] == FLOAT ? 4 : 8;
    }
    PyObject *made = PyBytes_FromStringAndSize(NULL, size);
    if (made == NULL)
        return NULL;
    unsigned char *head = (unsigned char *)PyBytes_AsString(made), *to = head + nulls;
    memset(head, 0, (size_t)nulls);
    row = start;
    for (Py_ssize_t i = 0; i < count; i++) {
        next_cell(&row, &cell);
        if (cell.is_null) {
            head[i / 8] |= (unsigned char)(1 << (i % 8));
        } else if (forms[i] == TEXT) {
            to = put(to, cell.size, 4);
            memcpy(to, cell.start, cell.size);
            to += cell.size;
        } else if ((to = put_float(to, &cell, (Form)forms[i])) == NULL) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

static PyObject *images(PyObject *self, PyObject *args) {
    PyObject *packets;
    const char *forms;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "O!y#", &PyList_Type, &packets, &forms, &count))
        return NULL;
    Py_ssize_t rows = PyList_Size(packets);
    PyObject *made = PyList_New(rows);
    for (Py_ssize_t i = 0; made != NULL && i < rows; i++) {
        PyObject *packet = PyList_GetItem(packets, i);
        PyObject *one = packet == NULL ? NULL : image(packet, (const unsigned char *)forms, count);
        if (one == NULL || PyList_SetItem(made, i, one) < 0)
            Py_CLEAR(made);
    }
    return made;
}

/* ---- images to columns ---- */

typedef struct {
    PyObject *present, *ends, *data; /* bytes */
    unsigned char *bits, *end, *to;
    uint64_t size;
} Column;

/* Calls a function for each cell of an image that is not NULL, in order. Returns whether the image is complete, and ends with the last. */
static int each_cell(PyObject *image, const unsigned char *forms, Py_ssize_t count, Column *columns, Py_ssize_t row, int is_copying) {
    char *raw;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(image, &raw, &length) < 0)
        return 0;
    const unsigned char *nulls = (const unsigned char *)raw, *at = nulls + (count + 7) / 8, *end = nulls + length;
    if (at > end)
        return 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Column *column = &columns[i];
        if (!(nulls[i / 8] >> (i % 8) & 1)) {
            uint64_t size = forms[i] == FLOAT ? 4 : 8;
            if (forms[i] == TEXT) {
                if (end - at < 4)
                    return 0;
                size = at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 | (uint64_t)at[3] << 24;
                at += 4;
            }
            if ((uint64_t)(end - at) < size)
                return 0;
            if (is_copying) {
                memcpy(column->to, at, size);
                column->to += size;
            } else {
                column->bits[row / 8] |= (unsigned char)(1 << (row % 8));
            }
            column->size += size;
            at += size;
        }
        if (!is_copying)
            put(column->end + 4 * row, column->size, 4);
    }
    return at == end;
}

static int over_all(PyObject *rows, const unsigned char *forms, Py_ssize_t count, Column *columns, int is_copying) {
    Py_ssize_t size = PyList_Size(rows);
    for (Py_ssize_t row = 0; row < size; row++)
        if (!each_cell(PyList_GetItem(rows, row), forms, count, columns, row, is_copying)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a row image is not as long as its cells");
            return -1;
        }
    return 0;
}

/* `size` zeros. */
static PyObject *zeros(Py_ssize_t size, unsigned char **start) {
    PyObject *made = PyBytes_FromStringAndSize(NULL, size);
    if (made != NULL) {
        *start = (unsigned char *)PyBytes_AsString(made);
        memset(*start, 0, (size_t)size);
    }
    return made;
}

static int fill(PyObject *rows, const unsigned char *forms, Py_ssize_t count, Column *columns) {
    Py_ssize_t size = PyList_Size(rows);
    for (Py_ssize_t i = 0; i < count; i++) {
        columns[i].present = zeros((size + 7) / 8, &columns[i].bits);
        columns[i].ends = zeros(4 * (size + 1), &columns[i].end);
        if (columns[i].present == NULL || columns[i].ends == NULL)
            return -1;
        columns[i].end += 4; /* the first cell begins at 0 */
    }
    if (over_all(rows, forms, count, columns, 0) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (columns[i].size > INT32_MAX)
            return PyErr_SetString(PyExc_ValueError, "a column has more than 2 GB"), -1;
        columns[i].data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)columns[i].size);
        if (columns[i].data == NULL)
            return -1;
        columns[i].to = (unsigned char *)PyBytes_AsString(columns[i].data);
    }
    return over_all(rows, forms, count, columns, 1);
}

static PyObject *columns(PyObject *self, PyObject *args) {
    PyObject *rows;
    const char *forms;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "O!y#", &PyList_Type, &rows, &forms, &count))
        return NULL;
    Column *found = PyMem_Calloc((size_t)count + 1, sizeof(Column));
    if (found == NULL)
        return PyErr_NoMemory();
    PyObject *made = NULL;
    if (fill(rows, (const unsigned char *)forms, count, found) == 0 && (made = PyList_New(count)) != NULL)
        for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
            PyObject *one = Py_BuildValue("OOO", found[i].present, found[i].ends, found[i].data);
            if (one == NULL || PyList_SetItem(made, i, one) < 0)
                Py_CLEAR(made);
        }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_XDECREF(found[i].present);
        Py_XDECREF(found[i].ends);
        Py_XDECREF(found[i].data);
    }
    PyMem_Free(found);
    return made;
}

PyDoc_STRVAR(cut_doc, "cut(answer): the packets at its begin, up to one that is not whole or has other parts, and where they end.");
PyDoc_STRVAR(images_doc, "images(packets, forms): the row images of rows in the protocol's text form; `forms` has a byte for each cell.");
PyDoc_STRVAR(columns_doc, "columns(images, forms): for each column a bitmap of the rows that have a cell, a zero and the cells' ends, four bytes each, and the cells' bytes.");
static PyMethodDef methods[] = {
    {"cut", cut, METH_O, cut_doc}, {"images", images, METH_VARARGS, images_doc}, {"columns", columns, METH_VARARGS, columns_doc}, {NULL, NULL, 0, NULL}
};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_images", "Rows as a server answers them to row images, in C.", -1, methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit__images(void) {
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddIntConstant(made, "INTERFACE", INTERFACE) < 0)
        Py_CLEAR(made);
    return made;
}
