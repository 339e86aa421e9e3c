#!/usr/bin/env python3
"""A script of Redis as a C string with its SHA-1, by which EVALSHA names it: embed_script.py FILE HEADER NAME
OUT.c declares `const char NAME[]`, `const size_t NAME_len` and `const char NAME_sha1[]`, as HEADER says."""
import hashlib
import pathlib
import subprocess
import sys


def main():
    source, _, name, out = sys.argv[1:]
    subprocess.run([sys.executable, pathlib.Path(__file__).parent / "embed.py", *sys.argv[1:]], check=True)
    digest = hashlib.sha1(pathlib.Path(source).read_bytes()).hexdigest()
    with open(out, "a", encoding="ascii") as file:
        file.write(f'const char {name}_sha1[] = "{digest}";\n')


if __name__ == "__main__":
    main()
