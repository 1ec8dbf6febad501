"""The packages from outside. A copy of the tree as it stands, in a repository of another name, is used by packages that ask for it
by URL. The manifest of each is resolved, and a program on one module is built. With --full everything is built, and the SDK also by
the engine that compiles as Xcode does. What other consumers write is compiled with the tests (CHAPPIE_CONSUMERS in Package.swift),
and `Scripts/check` compares both manifests. All builds share one folder, and none may give a warning."""

import os
import pathlib
import pwd
import re
import shutil
import subprocess

import pexpect
import pytest

from conftest import ROOT
from counterparts import PATIENCE, free_port
from printed import consumer as consumer_sources
from printed import mains, manifests, programs, readme_programs, write
from test_ask import PIXEL

# One after the other: each build takes all cores.
pytestmark = [pytest.mark.packages, pytest.mark.slow, pytest.mark.xdist_group("packages")]
NOT_LINKED = ("libsecret", "libglib", "libFoundation.so", "libFoundationNetworking")


def reaching_packages():
    """The part of the environment that leads to packages elsewhere: proxies, authorities, and the user's settings of git (its
    `safe.directory`, `insteadOf`), which a HOME of one's own hides."""
    kept = {name: value for name, value in os.environ.items() if re.match("(?i)git_|ssl_cert_|(https?|all|no)_proxy$", name)}
    homes = [pathlib.Path(home) for home in (os.environ.get("HOME"), pwd.getpwuid(os.getuid()).pw_dir) if home]
    settings = [path for home in homes for path in (home / ".gitconfig", home / ".config/git/config") if os.access(path, os.R_OK)]
    return {**{"GIT_CONFIG_GLOBAL": str(path) for path in settings[:1]}, **kept}


def run(*command, env=os.environ, **options):
    """Runs a command as a user of the packages does: without CHAPPIE_STRICT, which our scripts set."""
    env = {name: value for name, value in {**env, **reaching_packages()}.items() if name != "CHAPPIE_STRICT"}
    return subprocess.run(["nice", *command], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env, **options)


def module_maps(modules):
    """The compiler's options to find the modules of C that a build has."""
    maps = [*modules.glob("*.build/module.modulemap"), *modules.parent.glob("checkouts/**/include/module.modulemap")]
    maps += [*ROOT.glob("Packages/*/*/Sources/*/include/module.modulemap")] if modules.is_relative_to(ROOT) else []
    return [word for path in maps for word in ("-Xcc", f"-fmodule-map-file={path}")]


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """`build(package, option…)`: the folder of what it has built."""
    scratch = tmp_path_factory.mktemp("scratch")

    def build(package, *options):
        """`options` are what to build. A target without dependencies is compiled once SwiftPM has checked the products and targets of
        all manifests."""
        command = ["swift", "build", "--package-path", package, "--scratch-path", scratch, "-debug-info-format", "none", *options]
        done = run(*command)
        assert done.returncode == 0 and "warning:" not in (done.stdout + done.stderr).lower(), done.stdout[-5000:] + done.stderr
        return pathlib.Path(run(*command, "--show-bin-path").stdout.strip())
    return build


@pytest.fixture(scope="session")
def published(tmp_path_factory):
    """A copy of the tree as it stands, in a repository of another name, with a version."""
    copy = tmp_path_factory.mktemp("published") / "some-copy"
    copy.mkdir()
    # The tree may be another user's, which git wants to hear.
    listed = f"git -c safe.directory='{ROOT}' ls-files -z -co --exclude-standard"
    subprocess.run(f"{listed} | tar --null --ignore-failed-read -cf - -T - 2>/dev/null | tar -xf - -C '{copy}'", shell=True, check=True, cwd=ROOT)
    as_consumer = ["-c", "user.name=consumer", "-c", "user.email=consumer@localhost", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q", "-b", "trunk"], ["add", "-A"], [*as_consumer, "commit", "-qm", "As it stands"], ["tag", "1.2.3"]):
        subprocess.run(["git", "-C", copy, *words], check=True)
    return copy


@pytest.fixture(scope="session")
def examples(tmp_path_factory, published):
    """Examples, which asks for the copy by URL and version."""
    package = tmp_path_factory.mktemp("outside") / "examples"
    shutil.copytree(ROOT / "Examples", package, ignore=shutil.ignore_patterns(".build"))
    manifest = (package / "Package.swift").read_text()
    by_path, by_name = '.package(name: "chappie", path: "..")', 'package: "chappie"'
    assert by_path in manifest and by_name in manifest
    manifest = manifest.replace(by_path, f'.package(url: "file://{published}", from: "1.2.0")').replace(by_name, f'package: "{published.name}"')
    (package / "Package.swift").write_text(manifest)
    return package


@pytest.fixture(scope="session")
def consumer(tmp_path_factory, published):
    """Tests/Consumer with every Swift block of the landing pages, which asks for a copy of the tree."""
    package = tmp_path_factory.mktemp("consumer")
    write(package, consumer_sources())
    manifest = (ROOT / "Tests/Consumer/Package.swift.in").read_text()
    for key, value in {"URL": f"file://{published}", "IDENTITY": published.name}.items():
        manifest = manifest.replace(f"@{key}@", value)
    (package / "Package.swift").write_text(manifest)
    return package


def run_tests(bundle, *targets, **options):
    """Runs the tests of these targets."""
    tested = run(bundle, "--testing-library", "swift-testing", "--filter", rf"^({'|'.join(targets)})\.", **options)
    said = tested.stdout + tested.stderr
    assert tested.returncode == 0 and re.search(r"Test run with [1-9]\d* tests? .*passed", said), said[-5000:]
    return said


def test_core_alone_builds_runs_and_links_little(build, consumer):
    program = build(consumer, "--product", "core-consumer") / "core-consumer"
    assert run(program).stdout == "it works\n"
    linked = run("ldd", program).stdout
    assert not [name for name in ("libcurl", "libzstd", *NOT_LINKED) if name in linked], linked


def test_every_form_of_the_sdk_and_its_testing_product_compiles_and_runs_outside(built, build, consumer, full, tmp_path):
    """With the blocks of the landing pages. The tests' user has a home of their own, and no keyring."""
    modules = build(consumer, "--build-tests") if full else built
    alone = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    assert run(modules / "sdk-consumer", env=alone).stdout == "ChappieClient\n"
    bundle = modules / ("consumerPackageTests.xctest" if full else "chappiePackageTests.xctest")
    assert "theDocumentsFormsRun() passed" in run_tests(bundle, "SDKConsumerTests", env=alone)

    def compile(*options):
        return run("swiftc", "-typecheck", "-warnings-as-errors", "-I", modules / "Modules", "-I", modules, *module_maps(modules), *options)

    # Programs in the language mode before this one, and those in which everything is the main actor's.
    for options in (["-swift-version", "5"], ["-swift-version", "6", "-default-isolation", "MainActor"]):
        forms = [path for path in consumer.glob("Tests/SDKConsumerTests/*.swift") if path.name != "DocumentsTests.swift"]
        assert (done := compile(*options, "-parse-as-library", *forms)).returncode == 0, done.stderr[-5000:]

    def write(code):
        (tmp_path / "secret.swift").write_text(f"import ChappieAuth\n{code}\n")
        return tmp_path / "secret.swift"

    # A program that puts a secret into text gets a warning, and one that encodes it doesn't compile.
    assert compile(write('let secret = Secret("a"); print(secret.count)')).returncode == 0
    assert "must not be put into text" in compile(write('let secret = Secret("a"); print("\\(secret)")')).stderr
    assert "does not conform to protocol 'Encodable'" in compile(write('struct Note: Encodable { let secret = Secret("a") }')).stderr


def test_the_documentation_builds_without_a_warning(built, tmp_path):
    """Every DocC catalogue, with the symbols of its module: each link leads somewhere, each list of parameters is complete. Each
    module of a product has a landing page."""
    done = run(ROOT / "Scripts/docs", "--skip-build", tmp_path / "docs")
    assert done.returncode == 0, done.stderr
    # Products for our own programs begin with `_`.
    products = re.findall(r'\.library\(name: "[A-Z]\w+", targets: \[(.*)\]\)', (ROOT / "Package.swift").read_text())
    modules = re.findall(r"\w+", " ".join(products))
    assert "ChappieTesting" in modules
    assert not [name for name in modules if not (tmp_path / "docs/documentation" / name.lower() / "index.html").exists()]


@pytest.fixture(scope="session")
def readme_package(published, tmp_path_factory):
    """The programs of the guides, with README.md's manifest, which has its one target once for each."""
    package, manifest, texts = tmp_path_factory.mktemp("readme"), manifests()[0], readme_programs()
    source, target = '.package(url: "https://example.com/chappie.git", from: "0.1.0")', re.search(r"\.executableTarget\(.*\]\)(?=\s*\])", manifest, re.DOTALL)[0]
    assert source in manifest and 'name: "hello",' in target
    targets = ",\n".join(target.replace('"hello"', f'"{name}"') for name in texts)
    manifest = manifest.replace(target, targets).replace(source, f'.package(url: "file://{published}", from: "1.2.0")')
    (package / "Package.swift").write_text(manifest.replace('package: "chappie"', f'package: "{published.name}"'))
    write(package, mains(texts))
    return package


def readme_program(words=None):
    """The name of the program of the guides that has these words, at a simulator; without any, of the first one as it is printed."""
    return f"readme-{'printed' if words is None else [number for number, text in enumerate(programs()) if words in text][0]}"


@pytest.fixture(scope="session")
def readme(built, build, readme_package, full):
    """`readme(words)`: the program that `readme_program` names."""
    outside = build(readme_package, *([] if full else ["--target", "CZlib"]))
    return lambda words=None: (outside if full else built) / readme_program(words)


@pytest.mark.full
def test_the_sdk_is_built_as_xcode_builds_it_and_its_program_answers(build, readme_package, simulate, user):
    """Xcode, and with it SwiftPM's engine swiftbuild, compiles dependencies with options that no setting of ours may contradict.
    `Scripts/check` looks for such settings in all manifests."""
    name, simulator = readme_program(".simulator(port: 8080)"), simulate()
    program = build(readme_package, "--build-system", "swiftbuild", "--product", name) / name
    said = run(program, str(simulator.port), env=user(simulator).environment).stdout
    assert "What is RFC 6455?" in said, said


def on_a_terminal(program, *words, environment, folder=None):
    """(what the program wrote, in the pieces in which it came; its exit code), on a terminal of 80 columns."""
    child = pexpect.spawn(str(program), [str(word) for word in words], env=environment, encoding="utf-8", dimensions=(24, 80), cwd=folder, timeout=60 * PATIENCE)
    pieces = []
    while True:
        try:
            pieces.append(child.read_nonblocking(4096, timeout=60 * PATIENCE))
        except pexpect.EOF:
            child.close()
            return pieces, child.exitstatus


def test_the_readmes_first_program_streams_on_a_terminal(readme, simulate, user):
    simulator = simulate(deltasPerSecond=40)
    pieces, status = on_a_terminal(readme("fflush"), simulator.port, environment=user(simulator).environment)
    whole = "".join(pieces)
    assert status == 0 and re.match(r"Open http://127\.0\.0\.1\S* and type \S+\.", whole) and "What is RFC 6455?" in whole, whole
    answer = whole[whole.index("# You asked"):]
    said = ["".join(pieces[:count]) for count in range(1, len(pieces))]
    parts_of_lines = [text for text in said if "# You asked" in text and not text.endswith("\n")]
    assert len(parts_of_lines) > 5, f"it comes line by line: {pieces}"
    assert answer.endswith("\r\n"), "the shell's prompt would stand behind the answer"


def test_the_readmes_first_program_says_what_to_do_without_a_keyring_or_a_network(readme, tmp_path):
    alone = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/nothing"}
    for program, *expected in [([readme()], "No keyring is available", ".encryptedFile(passphrase:)"),
                               ([readme("fflush"), free_port()], "127.0.0.1", "connection")]:
        pieces, status = on_a_terminal(*program, environment=alone)
        said = "".join(pieces)
        assert status == 1 and all(words in said for words in expected), said
        assert "Fatal error" not in said and "at /" not in said, said


def test_the_readmes_other_programs_do_what_is_said_of_them(readme, simulate, user, tmp_path):
    simulator = simulate()
    (tmp_path / "diagram.png").write_bytes(PIXEL)
    (tmp_path / "report.txt").write_text("All is well.")
    environment = user(simulator).environment

    def said(words):
        pieces, status = on_a_terminal(readme(words), simulator.port, environment=environment, folder=str(tmp_path))
        assert status == 0, pieces
        return "".join(pieces)

    assert re.search(r"Open \S+ and type \S+\.\r\n# You asked\r\n\r\n> What is RFC 6455\?", said(".simulator(port: 8080)"))
    assert "Sunny in Oslo" in said("weather")
    assert "> What do these show?" in said("diagram.png")
    assert "The note is deleted." in said("approvalPending")
    assert "> What is new in Swift?" in said("webSearch")
    assert re.search(r"^\S+: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\r$", said("as: Event.self"), re.MULTILINE)
    # The second run prints its own thread and the first one's.
    for count in (1, 2):
        kept = said("ChappieFileThreadStore")
        assert len(re.findall(r"^\S{36} Remember the number 7\.\r$", kept, re.MULTILINE)) == count, kept


def test_the_examples_build_from_outside_and_run(built, build, examples, full, simulate):
    outside = build(examples, *(["--build-tests"] if full else ["--target", "CZlib"]))
    folder, bundle = (outside, "examplesPackageTests.xctest") if full else (built, "chappiePackageTests.xctest")
    run_tests(folder / bundle, "NotesTests", "ThreadStoreTests", "ChatModelTests")
    simulator = simulate()
    order = 'call order {"article": "tea", "count": 3}'
    for example, lines, expected in [
            ("chat", ["reply: one", "reply: two", "/quit"], ["Signed in as", "one\ntwo"]),
            ("many-users", [], ["user-1 got: for the first\nuser-2 got: for the second", "user-3 has to link"]),
            ("tool-approval", [order, "yes", order, "one", order, "no", order, "always", order],
             ["ordered: 3 × tea", "ordered: 1 × tea", "[order: denied]", "[order: succeeded]"]),
            ("agent", ['call add_task {"title": "buy tea"}', "call list_tasks {}", "reply: the end"],
             ['[add_task {"title": "buy tea"}]', "[list_tasks {}]", "buy tea", "the end"]),
            ("custom-store", [], ["found in the table", "the table is empty"]),
            ("thread-store", [], ["1. the first answer\n2. the second answer"]),
            ("sign-in-model", [], ["Your code: ", "opening http", "[ChatGPT Linked! Return to the app]", "has no clipboard"])]:
        done = subprocess.run([folder / example], input="".join(line + "\n" for line in lines), capture_output=True, text=True,
                              timeout=60 * PATIENCE, env={**os.environ, **simulator.settings})
        assert done.returncode == 0 and all(part in done.stdout for part in expected), done


def test_each_package_builds_from_its_own_manifest(build, published, full):
    """Without --full only two, which reach almost every other package, and nothing is compiled: SwiftPM checks the products and
    targets of all their manifests before that. `Scripts/check` shows that each target is the same at the root."""
    # SwiftPM warns of GTK's flags. test_gtk.py builds that package.
    every = [path.parent for path in sorted(published.glob("Packages/*/*/Package.swift")) if path.parent.name != "ChappieSignInGTK"]
    assert len(every) > 20
    for package in every if full else [published / "Packages/facade/ChappieSDK", published / "Packages/testing/ChappieTesting"]:
        build(package, *([] if full else ["--target", "CZlib"]))


def test_the_program_links_neither_full_foundation_nor_what_is_opened_at_run_time(program):
    linked = run("ldd", program).stdout
    assert "libc.so" in linked and not [name for name in NOT_LINKED if name in linked], linked
