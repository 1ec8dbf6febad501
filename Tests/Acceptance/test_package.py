"""The Debian packages, made of the program under test: what lintian and the reader of SPDX say of them, an installation in a new
Debian, and the image that Containerfile describes."""

import gzip
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pexpect
import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from conftest import ROOT
from containerfile import Image, in_root, instructions, make_root
from counterparts import PATIENCE
from materials import needed
from package import portable
from test_access_token import TOKEN

# Making packages and roots takes all cores.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("package")]
NAMES = ("chappie", "chappie-simulator")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300 * PATIENCE, **options)
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture(scope="session")
def make(program):
    """`make(folder, …)`: makes the packages there, and returns them by name."""
    if any(name.startswith("libswift") for name in needed(program)):
        pytest.skip("only a released program, which contains the Swift runtime, can be packaged")

    def make(folder, **options):
        printed = run(ROOT / "Scripts/package", "--program", program, folder, **options)
        files = [pathlib.Path(line) for line in printed.splitlines() if line.endswith(".deb")]
        return {file.name.split("_")[0]: file for file in files}
    return make


@pytest.fixture(scope="session")
def packages(make, tmp_path_factory):
    made = make(tmp_path_factory.mktemp("packages"))
    assert sorted(made) == sorted(NAMES)
    return made


@pytest.fixture(scope="session")
def debians(tmp_path_factory):
    """A new Debian for each test that takes one."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("a root of Debian needs root and the right to make mounts")
    folder = tmp_path_factory.mktemp("debian")
    make_root(folder / "0")
    run("cp", "-a", folder / "0", folder / "1")
    yield [folder / "0", folder / "1"]
    shutil.rmtree(folder)


@pytest.fixture
def root(debians):
    return debians.pop()


def test_the_same_program_gives_the_same_packages(make, packages, tmp_path):
    again = make(tmp_path, umask=0o077, env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C"})
    for name, file in packages.items():
        assert file.name == again[name].name
        assert hashlib.sha256(file.read_bytes()).digest() == hashlib.sha256(again[name].read_bytes()).digest(), name


def test_a_package_has_nothing_of_the_folder_of_the_build(program, packages, tmp_path):
    copies = [tmp_path / "one", tmp_path / "two"]
    for byte, copy in enumerate(copies, 1):
        shutil.copy(program, copy)
        for section, begin in ((".swift_modhash", 0), (".note.gnu.build-id", 16)):
            run("objcopy", "--dump-section", f"{section}={tmp_path}/section", copy, "/dev/null")
            content = (tmp_path / "section").read_bytes()
            (tmp_path / "section").write_bytes(content[:begin] + bytes([byte]) * (len(content) - begin))
            run("objcopy", "--update-section", f"{section}={tmp_path}/section", copy)
    one, two = copies
    assert one.read_bytes() != two.read_bytes() and portable(one) == portable(two)
    for name, file in packages.items():
        run("dpkg-deb", "-x", file, tmp_path / name)
        assert str(pathlib.Path(program).parents[1]).encode() not in (tmp_path / name / "usr/bin" / name).read_bytes()


def test_lintian_finds_no_error_and_the_dependencies_are_those_of_the_program(packages):
    # A committer's address need not be one to which Debian can write.
    address = "bogus-mail-host,bogus-mail-host-in-debian-changelog"
    found = run("lintian", "--allow-root", "--fail-on", "none", "--suppress-tags", address, *packages.values())
    assert not re.findall(r"^[EW]: .*", found, re.MULTILINE)
    architecture = run("dpkg", "--print-architecture").strip()
    for name, file in packages.items():
        fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "-f", file).splitlines() if re.match(r"\S+: ", line))
        assert fields["Package"] == name and file.name == f"{name}_{fields['Version']}_{architecture}.deb"
    assert re.search(r"libcurl4\w* \(>= 7\.87\.0\)", run("dpkg-deb", "-f", packages["chappie"], "Depends"))


@pytest.mark.parametrize("name", NAMES)
def test_the_bill_of_materials_is_valid_and_complete(name, packages, program, tmp_path):
    bill = pathlib.Path(str(packages[name]).removesuffix(".deb") + ".spdx.json")
    assert not validate_full_spdx_document(parse_file(str(bill)))
    run("dpkg-deb", "-x", packages[name], tmp_path)
    documents = tmp_path / "usr/share/doc" / name
    assert gzip.decompress((documents / f"{name}.spdx.json.gz").read_bytes()) == bill.read_bytes()
    told = json.loads(bill.read_text())
    # Every file with its sum, and the program is the one that was built.
    sums = {file["fileName"]: {sum["algorithm"]: sum["checksumValue"] for sum in file["checksums"]}["SHA256"] for file in told["files"]}
    installed = {f"./{path.relative_to(tmp_path)}": hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.rglob("*") if path.is_file()}
    del installed[f"./usr/share/doc/{name}/{name}.spdx.json.gz"]
    assert sums == installed
    built = pathlib.Path(program).parent / name
    assert sums[f"./usr/bin/{name}"] == hashlib.sha256(portable(built)).hexdigest()
    # Every library that it loads, and the packages whose symbols it has.
    listed = {package["name"] for package in told["packages"]}
    paths = dict(re.findall(r"(\S+) => (\S+)", run("ldd", built)))
    for library in needed(built):
        if library in paths:
            file = pathlib.Path(paths[library]).resolve()
            owner = run("dpkg-query", "-S", f"*/{file.name}").split(":")[0]
            assert owner in listed, f"{library} of {owner} is missing in {listed}"
    expected = {"swift-argument-parser", "swift-system", "swift-runtime", "libstdc++"}
    expected |= {"swift-nio", "swift-atomics"} if name == "chappie-simulator" else {"cmark-gfm", "swift-log", "swift-http-types"}
    assert expected <= listed
    # Whatever is linked has its licence in the package.
    parts = {relation["relatedSpdxElement"] for relation in told["relationships"] if relation["relationshipType"] == "STATIC_LINK"}
    licences = (documents / "copyright").read_text()
    for package in told["packages"]:
        assert package["SPDXID"] not in parts or f"\nFiles: {package['name']}/*\n" in licences


def test_it_is_installed_used_and_removed_in_a_new_debian(packages, root):
    (root / "packages").mkdir()
    for file in packages.values():
        shutil.copy(file, root / "packages")
    inside = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "TERM": "dumb"}
    here = lambda command: run(*in_root(root, "sh", "-ec", command), env=inside)
    here("apt-get update && apt-get install -y --no-install-recommends /packages/*.deb bash-completion man-db")
    assert here("dpkg --verify chappie chappie-simulator") == ""
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", here("chappie --version"))
    assert "cut" in here("chappie simulator --list-scenarios").split()
    assert here("man -w chappie chappie-simulator").splitlines() == [f"/usr/share/man/man1/{name}.1.gz" for name in NAMES]
    shell = pexpect.spawn("unshare", in_root(root, "bash", "--norc", "-i")[1:], env=inside, encoding="utf-8", timeout=30 * PATIENCE)
    shell.sendline(". /usr/share/bash-completion/bash_completion; PS1=ready:")
    shell.expect_exact("\nready:")
    shell.send("chappie th\t")
    shell.expect_exact("chappie threads ")
    shell.close(force=True)
    owned = [path for path in here("dpkg -L chappie chappie-simulator | sort -u").splitlines() if (root / path[1:]).is_file()]
    assert len(owned) == 16, owned
    here("apt-get purge -y chappie chappie-simulator")
    assert not [path for path in owned if (root / path[1:]).exists()]
    assert here("find /usr /etc /var/lib/dpkg/info -iname '*chappie*'") == ""


def test_the_image_of_containerfile_answers(packages, root, simulate):
    simulator = simulate()
    image = Image(root, packages["chappie"].parent)
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", image.run("--version").stdout)
    settings = {**simulator.settings, "CHAPPIE_ACCESS_TOKEN": TOKEN}
    doctor = image.run("doctor", **settings)
    assert doctor.returncode == 0 and "All is well." in doctor.stdout, doctor
    asked = image.run("ask", "reply: Hello, world", **settings)
    assert (asked.returncode, asked.stdout) == (0, "Hello, world\n"), asked
    # The program runs as an ordinary user without rights, who can write to /tmp only.
    assert image.entrypoint == ["/usr/bin/chappie"]
    image.entrypoint = ["/bin/sh", "-c"]
    rights = image.run("id -u; grep CapBnd /proc/self/status; touch /tmp/new; touch /usr/new /home/chappie/new")
    assert rights.stdout.split() == ["65532", "CapBnd:", "0" * 16] and rights.stderr.count("Read-only file system") == 2, rights


def test_an_instruction_that_the_check_does_not_know_is_refused():
    with pytest.raises(AssertionError, match="HEALTHCHECK"):
        instructions("FROM debian:12-slim\nHEALTHCHECK NONE\n")
