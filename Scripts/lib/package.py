"""Makes the Debian packages of the programs: package.py PROGRAM FOLDER

PROGRAM is a chappie in the folder in which SwiftPM has built it, next to its simulator. See Scripts/package.
"""

import datetime
import gzip
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import materials
import sbom
from materials import Missing, ROOT, output

# The oldest libcurl that has every option that ChappieCurl sets (CURLOPT_QUICK_EXIT). Its symbols are older, and dpkg-shlibdeps
# looks at nothing else.
LIBCURL = "7.87.0"
TEXTS = {
    "chappie": ("Talk to ChatGPT with your own account", """\
chappie is a command-line program by which you sign in with your own ChatGPT
account and talk to the service from your own machine. It asks questions and
holds conversations, which it stores encrypted. It runs tools and tool servers
(Model Context Protocol), searches the web and makes pictures."""),
    "chappie-simulator": ("Simulator of the service that chappie talks to", """\
The program behind "chappie simulator". It runs a ChatGPT backend on this
machine, for developing and testing. Sign-in pages, tokens and answers are real
in form and worthless in value."""),
}
# What is opened while the program runs, and therefore unknown to dpkg-shlibdeps.
RELATIONS = {
    "chappie": {
        "Recommends": "ca-certificates, gnome-keyring | keepassxc | kwalletmanager, libqrencode4, libsecret-1-0, xdg-utils",
        "Suggests": "bash-completion, chappie-simulator, man-db",
    },
    "chappie-simulator": {"Suggests": "chappie"},
}


def git(*words):
    # The tree may be another user's, for example in a container.
    return output("git", "-c", f"safe.directory={ROOT}", "-C", ROOT, *words).strip()


def compressed(text):
    """Returns what `gzip -9n` makes of the text."""
    return gzip.compress(text.encode(), 9, mtime=0)


def portable(program):
    """Returns the program without what depends on the folder of its build. Those are the compiler's hashes of its object files, which
    contain their paths and are read by nothing but the compiler, and the build ID, which is computed again."""
    data = bytearray(program.read_bytes())
    found = re.findall(r"\] (\.swift_modhash|\.note\.gnu\.build-id) +\w+ +\w+ (\w+) (\w+)", output("readelf", "-SW", program))
    sections = {name: (int(offset, 16), int(offset, 16) + int(size, 16)) for name, offset, size in found}
    if len(sections) != 2:
        raise Missing(f"{program} has no sections of the name .swift_modhash and .note.gnu.build-id")
    begin, end = sections[".swift_modhash"]
    data[begin:end] = bytes(end - begin)
    # The ID is a SHA-1 at the end of its note.
    end = sections[".note.gnu.build-id"][1]
    data[end - 20:end] = bytes(20)
    data[end - 20:end] = hashlib.sha1(data).digest()
    return bytes(data)


def manual(name, version, program):
    """Returns the manual page. The simulator has none of its own, so its page shows its help."""
    if name == "chappie":
        return output(program, "manual")
    about, _, usage = output(program, "--help", env={**os.environ, "COLUMNS": "76"}).partition("\nUSAGE:")
    summary, description = (roff(text) for text in about.removeprefix("OVERVIEW: ").strip().split("\n\n", 1))
    return (f'.TH {name.upper()} 1 "" "{name} {version}" "User Commands"\n.SH NAME\n{name} \\- {" ".join(summary.split())}\n'
            f".SH SYNOPSIS\n.B {name}\n.RI [ option \\|.\\|.\\|.]\n.SH DESCRIPTION\n{description}\n"
            f".SH OPTIONS\n.nf\n{roff(usage.partition('OPTIONS:')[2].strip(chr(10)))}\n.fi\n.SH SEE ALSO\nchappie(1)\n")


def roff(text):
    """Escapes a text for roff. An empty line begins a paragraph."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").splitlines()
    return "\n".join(("\\&" if line.startswith((".", "'")) else "") + line if line.strip() else ".PP" for line in lines)


def completions(name, program):
    """Returns path -> script for each shell."""
    words = ["completions"] if name == "chappie" else ["--generate-completion-script"]
    paths = {"bash": f"bash-completion/completions/{name}", "zsh": f"zsh/vendor-completions/_{name}",
             "fish": f"fish/vendor_completions.d/{name}.fish"}
    # These files are read by a shell, and are no programs.
    return {f"usr/share/{path}": output(program, *words, shell).removeprefix("#!/bin/bash\n").lstrip("\n").encode()
            for shell, path in paths.items()}


def changelog(name, version, maintainer, time):
    """Returns the entries of this version from CHANGELOG.md in Debian's form."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise Missing(f"CHANGELOG.md has no section for {version}")
    entries = [re.sub(r"\*\*|`", "", " ".join(entry.split())) for entry in re.findall(r"^- (.*?)(?=^- |\n\n|\Z)", found[1], re.MULTILINE | re.DOTALL)]
    lines = [textwrap.fill(entry, 78, initial_indent="  * ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
             for entry in entries]
    date = datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    return f"{name} ({version}) unstable; urgency=medium\n\n" + "\n".join(lines) + f"\n\n -- {maintainer}  {date}\n"


def copyright(parts):
    """Returns the copyright file in Debian's form (DEP-5), with everything that is linked into the program."""
    texts = dict(re.findall(r"^License: (.*)\n((?: .*\n)+)", (pathlib.Path(__file__).parent / "licences.txt").read_text(), re.MULTILINE))
    used = {"Apache-2.0"}
    stanzas = ["Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: chappie\n"
               "Comment: A folder with the name of another project stands for what is linked\n into the program from it.\n",
               "Files: *\nCopyright: 2026 The authors of Chappie\nLicense: Apache-2.0\n"]
    for part in parts:
        licence = re.sub(r" WITH (\w+)-exception\S*", r" with \1 exception", part.licence).replace(" AND ", " and ")
        used |= set(licence.split(" and "))
        holders = "\n ".join(part.copyright.split("; "))
        notice = "".join(f" {line}\n" if line.strip() else " .\n" for line in part.notice.strip().splitlines())
        stanzas.append(f"Files: {part.name}/*\nCopyright: {holders}\nLicense: {licence}\n" + (f"Comment:\n{notice}" if notice else ""))
    return "\n".join(stanzas + [f"License: {name}\n{texts[name]}" for name in sorted(used)])


def dependencies(program, work):
    """Returns the packages with the shared libraries that the program loads, as dpkg-shlibdeps finds them."""
    (work / "debian").mkdir(exist_ok=True)
    (work / "debian/control").write_text("Source: chappie\n\nPackage: chappie\nArchitecture: any\n")
    found = output("dpkg-shlibdeps", "-O", program, cwd=work).strip().removeprefix("shlibs:Depends=")
    return re.sub(r"(libcurl4\w*) \(>= [^)]*\)", rf"\1 (>= {LIBCURL})", found)


def write_package(name, program, work, folder, version, architecture, maintainer, time):
    """Makes one package and, next to it, its bill of materials."""
    tree = work / name
    if any(library.startswith("libswift") for library in materials.needed(program)):
        raise Missing(f"{program} is not a release build, which contains the Swift runtime")
    depends = dependencies(program, work)
    parts = materials.linked(program)
    libraries = [materials.debian(package.split()[0]) for package in depends.split(", ")]
    documents = f"usr/share/doc/{name}"
    files = {
        f"usr/bin/{name}": portable(program),
        **completions(name, program),
        f"usr/share/man/man1/{name}.1.gz": compressed(manual(name, version, program)),
        f"{documents}/copyright": copyright(parts).encode(),
        f"{documents}/changelog.gz": compressed(changelog(name, version, maintainer, time)),
    }
    own = f"{documents}/{name}.spdx.json.gz"
    bill = sbom.bill(name, version, architecture, time, files, own, parts, libraries)
    files[own] = compressed(bill)
    for path, data in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(data)
    every = sorted(tree.rglob("*"))
    size = sum(-(-path.stat().st_size // 1024) if path.is_file() else 1 for path in every)
    summary, description = TEXTS[name]
    fields = {
        "Package": name, "Version": version, "Architecture": architecture, "Maintainer": maintainer, "Installed-Size": size,
        "Depends": depends, **RELATIONS[name], "Section": "net", "Priority": "optional",
        "Description": summary + "\n" + textwrap.indent(description, " "),
    }
    control = tree / "DEBIAN"
    control.mkdir()
    (control / "control").write_text("".join(f"{field}: {value}\n" for field, value in fields.items()))
    digests = {path.relative_to(tree): hashlib.md5(path.read_bytes()).hexdigest() for path in every if path.is_file()}
    (control / "md5sums").write_text("".join(f"{digest}  {path}\n" for path, digest in digests.items()))
    for path in [tree, *tree.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
        os.utime(path, (time, time))
    stem = folder / f"{name}_{version}_{architecture}"
    # The usual level 6 takes four times as long, and saves a tenth.
    output("dpkg-deb", "--root-owner-group", "-Zxz", "-z3", "--build", tree, f"{stem}.deb",
           env={**os.environ, "SOURCE_DATE_EPOCH": str(time)})
    pathlib.Path(f"{stem}.spdx.json").write_text(bill)
    print(f"{stem}.deb\n{stem}.spdx.json")


def main(program, folder):
    program, folder = pathlib.Path(program).resolve(), pathlib.Path(folder)
    architecture = output("dpkg", "--print-architecture").strip()
    version = output(program, "--version").strip()
    maintainer = git("log", "-1", "--format=%an <%ae>")
    time = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct"))
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        for name in TEXTS:
            write_package(name, program.parent / name, pathlib.Path(work), folder, version, architecture, maintainer, time)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(*sys.argv[1:])
    except Missing as error:
        sys.exit(f"package: {error}")
