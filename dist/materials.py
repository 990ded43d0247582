"""What is compiled into a binary, as CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/): the crates, the C libraries within crates, the libraries
within the page, and the font of pictures."""

import json
import os
import re
import subprocess
import time
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The C that crates carry: (crate, file in the crate, its version there, name, licence).
WITHIN = [
    ("libbpf-sys", "elfutils/configure.ac", r"AC_INIT\(\[elfutils\],\[([^\]]+)\]", "elfutils", "LGPL-3.0-or-later OR GPL-2.0-or-later"),
    ("libbpf-sys", "zlib/zlib.h", r'#define ZLIB_VERSION "([^"]+)"', "zlib", "Zlib"),
    ("libbpf-sys", "libbpf/src/libbpf.map", r"LIBBPF_([0-9.]+) \{(?![\s\S]*LIBBPF_[0-9.]+ \{)", "libbpf", "LGPL-2.1-only OR BSD-2-Clause"),
    ("zstd-sys", "zstd/lib/zstd.h", r"#define ZSTD_VERSION_MAJOR +(\d+)[\s\S]*?_MINOR +(\d+)[\s\S]*?_RELEASE +(\d+)", "zstd", "BSD-3-Clause OR GPL-2.0-only"),
]


def document(release, target, digest):
    """The list for the binary with this SHA-256."""
    own, crates = compiled(target)
    components = [crate(package, checksum) for package, checksum in crates] + within(crates) + scripts() + fonts()
    components.sort(key=lambda component: component["bom-ref"])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.epoch)),
            "component": {
                "type": "application",
                "bom-ref": "thalweg",
                "name": "thalweg",
                "version": release.version,
                "licenses": [{"expression": own["license"]}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
                "properties": [{"name": "thalweg:commit", "value": release.commit}, {"name": "thalweg:target", "value": target}],
            },
        },
        "components": components,
        "dependencies": [{"ref": "thalweg", "dependsOn": [component["bom-ref"] for component in components]}],
    }


def compiled(target):
    """The command's own package, and (package, checksum) of each crate that its binary for `target` is made of, without those that only build it."""
    metadata = json.loads(
        subprocess.run(
            [os.path.join(ROOT, "tools", "cargo"), "metadata", "--locked", "--format-version", "1", "--filter-platform", target,
             "--features", "thalweg/vendored"],
            cwd=ROOT, check=True, stdout=subprocess.PIPE,
        ).stdout
    )  # fmt: skip
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    with open(os.path.join(ROOT, "Cargo.lock"), "rb") as lock:
        checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in tomllib.load(lock)["package"]}
    first = next(package for package in metadata["packages"] if package["name"] == "thalweg")
    found, left = set(), [first["id"]]
    while left:
        package = left.pop()
        if package in found:
            continue
        found.add(package)
        for dependency in nodes[package]["deps"]:
            runs_at_compile_time = any("proc-macro" in kind for t in packages[dependency["pkg"]]["targets"] for kind in t["kind"])
            if not runs_at_compile_time and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                left.append(dependency["pkg"])
    others = sorted((packages[package] for package in found if packages[package]["source"]), key=lambda p: (p["name"], p["version"]))
    return first, [(package, checksums[package["name"], package["version"]]) for package in others]


def crate(package, checksum):
    """One crate of the registry."""
    component = {
        "type": "library",
        "bom-ref": f"pkg:cargo/{package['name']}@{package['version']}",
        "purl": f"pkg:cargo/{package['name']}@{package['version']}",
        "name": package["name"],
        "version": package["version"],
    }
    if checksum:
        component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package.get("license"):
        component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return component


def within(crates):
    """The C libraries whose sources come with a crate, with the version that those sources say."""
    found = []
    for package, _ in crates:
        for name, file, version, library, licence in WITHIN:
            if package["name"] != name:
                continue
            with open(os.path.join(os.path.dirname(package["manifest_path"]), file), encoding="utf-8") as source:
                matched = re.search(version, source.read())
            if not matched:
                raise ValueError(f"{file} of {name} does not say its version as dist/materials.py expects ({version})")
            number = ".".join(matched.groups())
            purl = f"pkg:generic/{library}@{number}"
            found.append({"type": "library", "bom-ref": purl, "purl": purl, "name": library, "version": number, "licenses": [{"expression": licence}]})
    return found


def scripts():
    """The libraries that the page of `thalweg report` is bundled from."""
    with open(os.path.join(ROOT, "web", "package-lock.json"), encoding="utf-8") as file:
        packages = json.load(file)["packages"]
    found = []
    for name, package in sorted(packages.items()):
        if name and not package.get("dev") and not package.get("optional"):
            short = name.removeprefix("node_modules/")
            purl = f"pkg:npm/{short}@{package['version']}"
            component = {"type": "library", "bom-ref": purl, "purl": purl, "name": short, "version": package["version"]}
            if package.get("license"):
                component["licenses"] = [{"expression": package["license"]}]
            found.append(component)
    return found


def fonts():
    """The font that pictures as PNG are written in."""
    page = os.path.join(ROOT, "crates", "report", "font", "README.md")
    with open(page, encoding="utf-8") as file:
        name, version = re.search(r"subsets of (DejaVu) Sans Condensed ([0-9.]+)", file.read()).groups()
    purl = f"pkg:generic/{name.lower()}-fonts@{version}"
    return [{"type": "data", "bom-ref": purl, "purl": purl, "name": "dejavu-fonts", "version": version, "licenses": [{"license": {"id": "Bitstream-Vera"}}]}]
