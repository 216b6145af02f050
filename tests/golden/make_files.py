"""Writes files.h: files of the safetensors format as its Python package makes them, byte by byte.

    pip install numpy==2.4.6 safetensors==0.8.0
    python make_files.py

What is in them stands in test_files.c as well, spelled out in C.
"""
import json
import struct
import tempfile

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load, save

from golden import Header

NOTE = "".join(map(chr, range(1, 32))) + "\"\\/\x7f\u00e9\u20ac\U0001f600"

ARRAYS = {
    "actor.0.weight": np.array([[1.5, -0.0], [np.inf, 2.0 ** -126], [3.4028234663852886e38, -0.1]], "<f4"),
    "actor.0.bias": np.array([0.25, -8], "<f4"),
    "steps": np.array(2 ** 64 - 1, "<u8"),
    "long": np.array([-2 ** 63, 2 ** 63 - 1], "<i8"),
    "eight": np.array([0.1, -1e300], "<f8").reshape(1, 1, 1, 2, 1, 1, 1, 1),
    "int": np.array([[-2 ** 31, -1], [0, 2 ** 31 - 1]], "<i4"),
    "unsigned": np.array([2 ** 32 - 1], "<u4"),
    "bytes": np.array([0, 1, 255], "u1"),
    "none": np.zeros((0, 3), "<f4"),
    "no bytes": np.zeros((0,), "u1"),
    "\"quoted\" \\ / gr\u00f6\u00dfe": np.array([7], "u1"),
}


def contents(h):
    h.case("contents: every type, ranks 0 to 8, arrays without elements, one text; by safetensors.numpy.save")
    h.array("unsigned char", "contents", list(save(ARRAYS, {"note": NOTE})))


def texts(h):
    """The package writes texts in the order of a hash table, another one at each call: until it is this one."""
    order = ["c", "", "\u00e9", "a", "b"]
    metadata = {"": "empty key", "a": "", "b": "1", "c": "2", "\u00e9": "\n"}
    while True:
        whole = save({"x": np.array([1], "u1")}, metadata)
        if list(json.loads(whole[8:-1])["__metadata__"]) == order:
            break
    h.case("texts: several, not sorted by key; by safetensors.numpy.save")
    h.array("unsigned char", "texts", list(whole))


def nothing(h):
    h.case("nothing: no arrays and no texts; by safetensors.numpy.save")
    h.array("unsigned char", "nothing", list(save({})))


def spelled(h):
    """Other writers may put spaces, escapes and members where they like, and need not align anything."""
    header = {
        "last": {"shape": [1], "data_offsets": [9, 13], "dtype": "F32"},
        "__metadata__": {"note": NOTE},
        "gr\u00f6\U0001f600e": {"data_offsets": [1, 9], "dtype": "F64", "shape": [1]},
        "first": {"dtype": "U8", "shape": [1, 1], "data_offsets": [0, 1]},
    }
    text = json.dumps(header, ensure_ascii=True, indent="\t").replace("/", "\\/") + " \r\n"
    data = struct.pack("<Bdf", 9, 0.1, -2.5)
    whole = struct.pack("<Q", len(text)) + text.encode("ascii") + data
    assert load(whole)["gr\u00f6\U0001f600e"] == [0.1]    # the reference takes it
    with tempfile.NamedTemporaryFile() as f:
        f.write(whole)
        f.flush()
        assert safe_open(f.name, "np").metadata() == {"note": NOTE}
    h.case("spelled: a header with all the freedoms that JSON gives, and data that is not aligned; by json.dumps")
    h.array("unsigned char", "spelled", list(whole))


if __name__ == "__main__":
    header = Header("make_files.py", "Each array is a file, byte by byte.", ["numpy", "safetensors"])
    for case in contents, texts, nothing, spelled:
        case(header)
    header.save("files.h")
