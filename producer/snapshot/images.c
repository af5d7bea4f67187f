/* Rows as a server answers them to row images: `producer/snapshot/rows.py` says in Python what must come out.

   A row whose bytes end too early, or whose float is none, is refused with ValueError; all reads stay within the row. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Goes up when what Python gives or gets here changes: cdcbus.producer.snapshot.rows then takes no older build. */
#define INTERFACE 1
#define NULL_CELL 251
#define FLOAT_CHARACTERS 63

typedef enum { TEXT, FLOAT, DOUBLE } Form;
typedef struct {
    const unsigned char *at, *end;
} Row;
typedef struct {
    const unsigned char *start;
    uint64_t size;
    int is_null;
} Cell;

/* The next cell of a row; whether it is all there. */
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

/* The bytes of a float; NULL with an exception set where the text is none. */
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

PyDoc_STRVAR(images_doc, "images(packets, forms): the row images of rows in the protocol's text form; `forms` has a byte for each cell.");
static PyMethodDef methods[] = {{"images", images, METH_VARARGS, images_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_images", "Rows as a server answers them to row images, in C.", -1, methods, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit__images(void) {
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddIntConstant(made, "INTERFACE", INTERFACE) < 0)
        Py_CLEAR(made);
    return made;
}
