#!/usr/bin/env python3
"""A file as a C string: embed.py FILE HEADER NAME OUT.c declares `const char NAME[]` and `const size_t
NAME_len`, as HEADER says."""
import pathlib
import sys


def literal(line):
    out = []
    for byte in line:
        char = chr(byte)
        plain = 32 <= byte < 127 and char not in '"\\?'
        out.append(char if plain else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def main():
    source, header, name, out = sys.argv[1:]
    text = pathlib.Path(source).read_bytes()
    lines = "\n    ".join(literal(line) for line in text.splitlines(keepends=True))
    pathlib.Path(out).write_text(f'/* Made by scripts/embed.py. */\n#include "{header}"\n\n'
                                 f"const char {name}[] =\n    {lines};\n"
                                 f"const size_t {name}_len = sizeof {name} - 1;\n")


if __name__ == "__main__":
    main()
