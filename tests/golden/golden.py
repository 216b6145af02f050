"""Writes reference data as a plain C header. Used by the make_*.py beside it; needs numpy only."""
import importlib.metadata
import os
import textwrap

import numpy as np

QUIET = """#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif
"""
LOUD = """#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
"""
MIN_NORMAL = 2.0 ** -126   # anything smaller is written as 0, because some processors flush it to 0


def r32(x):
    """Rounds to float32 but keeps float64: the reference sees exactly the numbers that the C code sees."""
    return np.asarray(x, np.float32).astype(np.float64)


def c_float(x):
    """The shortest text that reads back as the same float32 (9 significant digits at most)."""
    assert np.isfinite(x), "no portable spelling in C"
    x = np.float32(x)
    return str(np.float32(0) if abs(x) < MIN_NORMAL else x) + "f"


def c_double(x):
    assert np.isfinite(x), "no portable spelling in C"
    return repr(float(x))


TYPES = {"float": c_float, "double": c_double, "int": lambda x: str(int(x)),
         "unsigned char": lambda x: str(int(x)), "unsigned int": lambda x: "0x%08xu" % int(x)}


class Header:
    def __init__(self, script, note, packages):
        versions = ", ".join(p + " " + importlib.metadata.version(p) for p in packages)
        self.script, self.lines, self.names = script, [], []
        self.comment("Written by %s; do not edit. Reference libraries: %s. %s" % (script, versions, note))

    def comment(self, text):
        self.lines.append("\n".join(textwrap.wrap("/* " + text + " */", 110, subsequent_indent="   ")))

    def case(self, title, **sizes):
        """Starts a case: a comment, and its sizes as enumerators (constant expressions in C99 and in C++)."""
        self.lines.append("")
        self.comment(title)
        if sizes:
            text = "enum { " + ", ".join("g_%s = %d" % s for s in sizes.items())
            self.lines.append("\n".join(textwrap.wrap(text, 107, subsequent_indent="       ")) + " };")
            self.names.append("  ".join("%s=%d" % s for s in sizes.items()))

    def value(self, ctype, name, x):
        self.lines.append("static const %s g_%s = %s;" % (ctype, name, TYPES[ctype](x)))
        self.names.append("%s %s" % (ctype, name))

    def array(self, ctype, name, x):
        """One flat array, rows after one another; the comment gives the shape."""
        x = np.asarray(x.detach() if hasattr(x, "detach") else x)
        shape = "".join("[%d]" % d for d in x.shape)
        text = ", ".join(TYPES[ctype](v) for v in x.ravel())
        body = textwrap.wrap(text, 110, initial_indent="    ", subsequent_indent="    ")
        head = "static const %s g_%s[] = { /* %s */" % (ctype, name, shape)
        self.lines.append("\n".join([head] + body + ["};"]))
        self.names.append("%s %s%s" % (ctype, name, shape))

    def floats(self, prefix, **arrays):
        for name, x in arrays.items():
            self.array("float", prefix + "_" + name, x)

    def save(self, file):
        guard = "GOLDEN_" + file.replace(".", "_").upper()
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
        body = [self.lines[0], "#ifndef " + guard, "#define " + guard, "", QUIET.rstrip()] + self.lines[1:]
        with open(path, "w", encoding="ascii", newline="\n") as f:
            f.write("\n".join(body + ["", LOUD + "#endif /* " + guard + " */"]) + "\n")
        print("\n".join(self.names))
        print("%s: %d bytes" % (file, os.path.getsize(path)))
