"""The packages from outside. A copy of the tree as it stands, in a repository of another name, is used by packages that ask for
single modules by URL, by version and by branch. Neither may get a warning from our manifest."""

import os
import subprocess

import pytest

from conftest import ROOT
from test_readme import blocks

# One after the other: each build takes all cores.
pytestmark = [pytest.mark.packages, pytest.mark.slow, pytest.mark.xdist_group("packages")]


def run(*command, **options):
    return subprocess.run(["nice", *command], capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    there = tmp_path_factory.mktemp("published") / "some-copy"
    there.mkdir()
    subprocess.run(f"git -C '{ROOT}' ls-files -z -co --exclude-standard | tar -C '{ROOT}' --null --ignore-failed-read -cf - -T - 2>/dev/null | "
                   f"tar -xf - -C '{there}'", shell=True, check=True)
    as_consumer = ["-c", "user.name=consumer", "-c", "user.email=consumer@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q", "-b", "trunk"], ["add", "-A"], [*as_consumer, "commit", "-qm", "As it stands"], ["tag", "1.2.3"]):
        subprocess.run(["git", "-C", there, *words], check=True)
    return there


@pytest.fixture
def consume(published, tmp_path):
    def build(name, requirement, *options):
        """Builds a consumer of Tests/Consumer in a folder of its own, which it returns."""
        there, template = tmp_path / name, ROOT / "Tests/Consumer" / name
        subprocess.run(["cp", "-R", f"{template}/.", there], check=True)
        manifest = (there / "Package.swift.in").read_text()
        for key, value in {"URL": f"file://{published}", "REQUIREMENT": requirement, "IDENTITY": published.name}.items():
            manifest = manifest.replace(f"@{key}@", value)
        (there / "Package.swift").write_text(manifest)
        if name == "SDK":
            write_examples(there / "Sources/sdk-consumer")
        done = run("swift", "build", "--package-path", there, *options)
        assert done.returncode == 0 and "warning:" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
        return there
    return build


def write_examples(folder):
    """Every Swift block of the README becomes a file with one function."""
    for info, start, lines in blocks():
        if info.split()[:1] == ["swift"] and "package" not in info.split():
            imported = [line for line in lines if line.startswith("import ")]
            body = ["    " + line for line in lines if line not in imported]
            text = [*imported, "", f"@MainActor func readme{start}() async throws {{", *body, "}", ""]
            (folder / f"Readme{start}.swift").write_text("\n".join(text))


def test_core_alone_builds_runs_and_links_little(consume):
    for requirement in ('from: "1.2.0"', 'branch: "trunk"'):
        program = consume("Core", requirement) / ".build/debug/core-consumer"
        assert run(program).stdout == "it works\n"
    linked = run("ldd", program).stdout
    assert not [name for name in ("libcurl", "libsecret", "libFoundation.so", "libzstd", "libglib") if name in linked], linked


def test_the_sdk_builds_with_the_readme_by_version_and_with_its_testing_product_by_branch(consume, tmp_path):
    modules = consume("SDK", 'from: "1.2.0"') / ".build/debug"

    def compile(code):
        (tmp_path / "secret.swift").write_text(f"import ChappieAuth\n{code}\n")
        return run("swiftc", "-typecheck", "-warnings-as-errors", "-I", modules / "Modules", "-I", modules, tmp_path / "secret.swift")

    # A program that puts a secret into text gets a warning, and one that encodes it doesn't compile.
    assert compile('let secret = Secret("a"); print(secret.count)').returncode == 0
    assert "not to be put into text" in compile('let secret = Secret("a"); print("\\(secret)")').stderr
    assert "does not conform to protocol 'Encodable'" in compile('struct Note: Encodable { let secret = Secret("a") }').stderr
    consume("SDK", 'branch: "trunk"', "--build-tests")


@pytest.mark.parametrize("package", ["ChappieSDK", "ChappieTesting"])
def test_a_package_builds_from_its_own_manifest(package):
    """These two reach every other package."""
    done = run("swift", "build", "--package-path", ROOT / "Packages" / package)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_core_auth_and_client_build_in_apples_idiom(tmp_path):
    """With full Foundation, and with OpenCombine in the place of Combine."""
    done = run("swift", "build", "--package-path", ROOT / "Tests/AppleIdiom", "--scratch-path", tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def test_public_names_obey_their_rules(program):
    done = run(ROOT / "Tests/Consumer/surface", os.path.dirname(program))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_links_neither_full_foundation_nor_what_is_opened_at_run_time(program):
    linked = run("ldd", program).stdout
    assert "libc.so" in linked
    assert not [name for name in ("libsecret", "libglib", "libFoundation.so", "libFoundationNetworking") if name in linked], linked
