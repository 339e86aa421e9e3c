#!/usr/bin/env python3
"""Who may include whom: the table of docs/architecture.md, held as a test.

Each folder of src/ may include itself, the public header and the folders listed for it; the listed order is
the only direction there is. Also held here: no file over 500 lines, no two-word dumping grounds, no 16-byte
__atomic operation in what was built (gcc would call libatomic, which is process-private on some machines)."""
import os
import pathlib
import re
import subprocess
import sys

MAY_INCLUDE = {
    "base": [],
    "algo": ["base"],
    "store": ["base"],
    "wire": ["base"],
    "policy": ["base", "algo"],
    "engine": ["base", "algo", "store", "policy"],
    "lib": ["base", "algo", "store", "policy", "engine", "wire"],
    "remote": ["base", "algo", "policy", "engine", "wire"],
    "meter": ["base", "algo", "store", "policy", "wire"],
    "serve": ["base", "algo", "store", "policy", "engine", "wire", "lib", "remote", "meter"],
    "doors": ["base", "algo", "store", "policy", "engine", "wire", "lib", "remote", "meter", "serve"],
    "import": ["base", "policy"],
    "cli": ["base", "algo", "store", "policy", "engine", "wire", "lib", "remote", "meter", "serve", "doors", "import"],
}
LINES_MAX = 500
BANNED_NAMES = ("util", "common", "misc", "helper")
BANNED_CALLS = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|atoi|atol)\s*\(")
NO_FLOAT = ("base", "algo", "store", "engine")

ROOT = pathlib.Path(__file__).resolve().parent.parent


def without_comments(text):
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def includes(text):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.M)


def check_file(path, complaints):
    folder = path.relative_to(ROOT / "src").parts[0]
    text = path.read_text()
    where = path.relative_to(ROOT)
    if folder not in MAY_INCLUDE:
        complaints.append(f"{where}: folder {folder} is not in the table")
        return
    for target in includes(text):
        head = target.split("/")[0]
        if target == "weir/weir.h" or head == folder or head in MAY_INCLUDE[folder]:
            continue
        complaints.append(f"{where}: {folder} may not include {target}")
    lines = text.count("\n")
    if lines > LINES_MAX:
        complaints.append(f"{where}: {lines} lines, at most {LINES_MAX}")
    if any(word in path.stem for word in BANNED_NAMES):
        complaints.append(f"{where}: a name that says nothing")
    code = without_comments(text)
    for match in BANNED_CALLS.finditer(code):
        complaints.append(f"{where}: {match.group(1)} is banned")
    if folder in NO_FLOAT and re.search(r"\b(double|float)\b", code):
        complaints.append(f"{where}: floating point in {folder}")


def check_nginx(complaints):
    for path in sorted((ROOT / "nginx").glob("*.[ch]")):
        for target in includes(path.read_text()):
            if target != "weir/weir.h" and not target.startswith("ngx_http_weir"):
                complaints.append(f"{path.relative_to(ROOT)}: the module sees only weir.h, not {target}")
        for target in re.findall(r"^\s*#\s*include\s+<([^>]+)>", path.read_text(), flags=re.M):
            if not (target.startswith("ngx_") or target in ("weir/weir.h", "linux/magic.h")):
                complaints.append(f"{path.relative_to(ROOT)}: unexpected include <{target}>")


def check_atomics(build, complaints):
    archive = build / "libweir.a"
    if not archive.exists():
        return
    names = subprocess.run(["nm", "-u", str(archive)], capture_output=True, text=True).stdout
    for line in names.splitlines():
        if re.search(r"__atomic_\w+_16", line):
            complaints.append(f"{archive.name}: calls libatomic: {line.strip()}")


def main():
    complaints = []
    files = sorted((ROOT / "src").rglob("*.[ch]"))
    for path in files:
        check_file(path, complaints)
    check_nginx(complaints)
    check_atomics(pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")), complaints)
    for complaint in complaints:
        print(complaint)
    print(f"{len(files)} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
