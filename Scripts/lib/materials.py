"""What a released program is made of: the packages whose modules it contains, the archives that are linked into it, and the shared
libraries that it loads. package.py and sbom.py use it."""

import dataclasses
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The licence of each package that may be part of a program, in SPDX's terms, and who holds the copyright. A package that is missing
# here can't be shipped, because nobody has read its licence.
SWIFT = "Apache-2.0 WITH Swift-exception"
LICENCES = {
    "swift-argument-parser": (SWIFT, "2020-2026 Apple Inc. and the Swift project authors"),
    "swift-atomics": (SWIFT, "2020-2025 Apple Inc. and the Swift project authors"),
    "swift-collections": (SWIFT, "2021-2026 Apple Inc. and the Swift project authors"),
    "swift-http-types": ("Apache-2.0", "2023-2026 Apple Inc. and the Swift HTTP Types project authors"),
    "swift-log": ("Apache-2.0", "2018-2026 Apple Inc. and the Swift Logging API project authors"),
    "swift-nio": ("Apache-2.0 AND MIT AND BSD-3-Clause",
                  "2017-2026 Apple Inc. and the SwiftNIO project authors; 1995-1998 WIDE Project (sha1); 2018 Fedor Indutny (llhttp)"),
    "swift-system": (SWIFT, "2020-2026 Apple Inc. and the Swift System project authors"),
    "swift-runtime": (SWIFT, "2014-2026 Apple Inc. and the Swift project authors"),
    "libstdc++": ("GPL-3.0-or-later WITH GCC-exception-3.1", "1998-2022 Free Software Foundation, Inc."),
    "cmark-gfm": ("BSD-2-Clause AND MIT", "2014 John MacFarlane; 2012 Vicent Martí; 2012 GitHub, Inc.; "
                  "2009 Public Software Group e. V., Berlin, Germany"),
}


class Missing(Exception):
    """Something without which a program can't be described."""


@dataclasses.dataclass
class Material:
    """A part of a program, or a library that it loads."""

    name: str
    version: str
    location: str
    purl: str
    licence: str = "NOASSERTION"
    copyright: str = "NOASSERTION"
    notice: str = ""


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command))} failed: {done.stderr.strip()}")
    return done.stdout


def needed(program):
    """Returns the names of the shared libraries that a program loads when it starts."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", program))


def debian(package):
    """Returns the installed package as a material."""
    version, architecture = output("dpkg-query", "-W", "-f", "${Version} ${Architecture}\n", package).splitlines()[0].split()
    plain = version.replace("+", "%2B").replace(":", "%3A").replace("~", "%7E")
    return Material(package, version, "NOASSERTION", f"pkg:deb/debian/{package.replace('+', '%2B')}@{plain}?arch={architecture}")


def swift_version():
    return re.search(r"Swift version ([\w.-]+)", output("swift", "--version"))[1]


def part(material):
    if material.name not in LICENCES:
        raise Missing(f"{material.name} is linked into the program, and Scripts/lib/materials.py doesn't know its licence. Read it and add it.")
    licence, copyright = LICENCES[material.name]
    return dataclasses.replace(material, licence=licence, copyright=copyright)


def modules(program):
    """Returns the folders of the modules that the program was linked from, in its build."""
    listed = program.parent / f"{program.name}.product/Objects.LinkFileList"
    if not listed.exists():
        raise Missing(f"{listed} is missing. Name a program in the folder in which SwiftPM has built it.")
    return {program.parent / f"{name}.build" for name in re.findall(r"/([^/\n]+)\.build/", listed.read_text())}


def checkouts(program):
    """Returns the identities of the packages whose modules are linked into the program."""
    found = set()
    for module in modules(program):
        for described in [module / "sources", *module.glob("**/*.d")]:
            if described.exists() and (name := re.search(r"/checkouts/([^/]+)/", described.read_text())):
                found.add(name[1])
                break
    return sorted(found)


def linked(program):
    """Returns everything that a program contains besides Chappie itself."""
    program = program.resolve()
    resolved = ROOT / "Apps/Package.resolved"
    if not resolved.exists():
        raise Missing(f"{resolved} is missing. Build the program first: Scripts/try.")
    pins = {pin["identity"]: pin for pin in json.loads(resolved.read_text())["pins"]}
    parts = []
    for name in checkouts(program):
        location, state = pins[name]["location"].removesuffix(".git"), pins[name]["state"]
        notice = program.parents[2] / "checkouts" / name / "NOTICE.txt"
        parts.append(part(Material(
            name, state["version"], f"git+{location}@{state['revision']}",
            f"pkg:swift/{location.removeprefix('https://')}@{state['version']}", notice=notice.read_text() if notice.exists() else "")))
    version = swift_version()
    parts.append(part(Material("swift-runtime", version, f"git+https://github.com/swiftlang/swift@swift-{version}-RELEASE",
                               f"pkg:github/swiftlang/swift@swift-{version}-RELEASE")))
    loaded = " ".join(needed(program))
    archives = {"libstdc++": "libstdc++"}
    if any(module.name == "CCMark.build" for module in modules(program)):
        archives["cmark-gfm"] = "libcmark-gfm"
    for name, library in archives.items():
        if f"{library}.so" not in loaded:
            parts.append(part(dataclasses.replace(debian(archive_package(library)), name=name)))
    return parts


def archive_package(library):
    """Returns the name of the Debian package with the archive that the linker finds: see build_chappie in common.sh."""
    path = str(pathlib.Path(output("clang", f"-print-file-name={library}.a").strip()).resolve())
    for candidate in (path, path.removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    raise Missing(f"no Debian package contains {path}")
