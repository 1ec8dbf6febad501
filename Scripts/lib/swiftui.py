"""Compiles the code for Apple's platforms without a Mac: swiftui.py check|planted

check    builds Tests/SwiftUICheck, which has hand-written declarations in place of Apple's modules, and compiles its call forms
         and the README's in other language modes, the SwiftUI code and the example of an app over AppKit, and the tests that
         only a Mac runs
planted  plants a mistake of each kind, which has to be an error in its line

Isolation and initialisation are checked after types, so everything is compiled as far as SIL.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "Tests/SwiftUICheck"
BUILD = PACKAGE / ".build/debug"
OURS, FORMS, DOCUMENTS, CHAT, MAC = "ChappieSignInUI", "Forms", "DocumentsApp", "ChatApp", "MacTests"
CORE, SQLITE, SIMULATOR = "ChappieCore", "ChappieThreadsSQLite", "ChappieSimulator"
FILES, KEYCHAIN, CRYPTO, SESSION, SOCKET = "ChappieFiles", "ChappieKeychainApple", "ChappieCrypto", "ChappieURLSession", "ChappieWebSocket"
STRICT = [word for name in ("ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility", "NonisolatedNonsendingByDefault")
          for word in ("-enable-upcoming-feature", name)]
OPTIONS = {FORMS: ["-swift-version", "6", "-warnings-as-errors"],
           **dict.fromkeys((DOCUMENTS, CHAT, MAC), ["-swift-version", "6", "-warnings-as-errors", "-parse-as-library"])}
OPTIONS |= {module: ["-swift-version", "6", "-D", "CHAPPIE_FULL_FOUNDATION", "-warnings-as-errors", *STRICT]
            for module in (OURS, FILES, KEYCHAIN, CRYPTO, SESSION, SOCKET, CORE, SQLITE, SIMULATOR)}
MODES = {"in Swift 6's mode": ["-swift-version", "6"], "in Swift 5's mode": ["-swift-version", "5"],
         "in Swift 5's mode on the main actor": ["-swift-version", "5", "-default-isolation", "MainActor"],
         "on the main actor": ["-swift-version", "6", "-default-isolation", "MainActor"]}
VIEW, SHEET, DESKTOP = "SwiftUI/ChappieSignIn.swift", "SwiftUI/SignInSheet.swift", "SwiftUI/AppleDesktop.swift"
PAGE = "SwiftUI/InAppPage.swift"
FOLDERS, SECURITY, CRYPTOKIT = "UserFolders.swift", "SecItemCalls+Security.swift", "CryptoLibrary+CryptoKit.swift"
SETTINGS, NETWORK = "SessionSettings+Apple.swift", "NetworkByteStreamTransport.swift"

# One of each kind, and one in each module: (module, file, the code there, the mistake, the error, where the error is reported if not
# in the mistake's line).
MISTAKES = [
    (OURS, SHEET, ".multilineTextAlignment(.leading)", ".multilineAlignment(.leading)", "has no member 'multilineAlignment'"),
    (OURS, SHEET, "            case .continueWithChatGPT: EmptyView()\n", "", "switch must be exhaustive", "switch step.kind {"),
    (OURS, SHEET, "@ObservedObject var model: ChappieSignInModel", "@ObservedObject var model: ChappieSignInState",
     "requires that 'ChappieSignInState' conform to 'ObservableObject'"),
    (OURS, SHEET, "    import Accessibility\n", "", "cannot find 'AccessibilityNotification'", "Announcement(words.sentence"),
    (OURS, VIEW, "isPresented: isSheetPresented", "isPresented: model.state.isSheetPresented", "to expected argument type 'Binding<Bool>'"),
    (OURS, VIEW, "            texts = settings.texts\n", "", "without initializing all stored properties|before all stored properties are initialized",
     "_presentation = StateObject(wrappedValue: SignInPresentation(settings, relay))\n        }"),
    (OURS, DESKTOP, "continuation.resume(returning: $0)", "self.openURL = nil; continuation.resume(returning: $0)", "main actor-isolated property 'openURL'"),
    (OURS, DESKTOP, "try await center.requestAuthorization(", "try center.requestAuthorization(", "'async' but is not marked with 'await'"),
    (OURS, DESKTOP, "throw DesktopError(\"There is no window to open the page from.\")", "throw CancellationError()", "cannot be converted to error type"),
    (OURS, DESKTOP, "try await center.add(request)", "Task.detached { try await center.add(request) }; try await center.add(request)", "risks causing data races"),
    (OURS, SHEET, "Link(consent.policy, destination: url)", "Link(consent.policy, url: url)", "incorrect argument label"),
    (OURS, DESKTOP, "[.localOnly: true, ", "[.local: true, ", "has no member 'local'"),
    (OURS, PAGE, "func presentationAnchor(for session: ASWebAuthenticationSession)", "func presentationAnchor(of session: ASWebAuthenticationSession)",
     "has different argument labels"),
    (OURS, PAGE, "Task { @MainActor [weak self] in self?.closed() }", "self?.closed()", "main actor-isolated"),
    (KEYCHAIN, "SystemBackgroundTime.swift", "performExpiringActivity(withReason: reason)", "performExpiringActivity(reason: reason)",
     "incorrect argument label"),
    (FORMS, "Observer.swift", "session.$state.sink", "session.$states.sink", "has no"),
    (KEYCHAIN, SECURITY, "SecItemAdd(item as CFDictionary, nil)", "SecItemAdd(item as CFDictionary)", "missing argument"),
    (FILES, FOLDERS, "            var folder = URL(", "            let folder = URL(", "mutating member", "folder.setResourceValues(values)"),
    (SESSION, SETTINGS, "NWEndpoint.Port(rawValue: UInt16(proxy.port)) else", "NWEndpoint.Port(rawValue: proxy.port) else", "cannot convert"),
    (SESSION, SETTINGS, "sec_trust_copy_ref(trust).takeRetainedValue()", "sec_trust_copy_ref(trust)", "cannot convert",
     "let policy = SecPolicyCreateSSL(true, NSString(string: name) as CFString)\n                    complete(SecTrustSetPolicies(trust"),
    (SESSION, SETTINGS, "parameters.setPrivacyContext(context)", "parameters.privacyContext = context", "has no member 'privacyContext'"),
    (SESSION, NETWORK, "port: endpoint,", "port: port,", "cannot convert"),
    (SESSION, NETWORK, "private let isAtEnd = Atomic(false)", "private var isAtEnd = false", "stored property 'isAtEnd' of 'Sendable'-conforming class"),
    (SESSION, NETWORK, "                default: break\n", "", "switch must be exhaustive", "switch state {"),
    (SOCKET, "StreamWebSocketTransport.swift", "streams.connect(host: host,", "streams.open(host: host,", "has no member 'open'"),
    (FORMS, "Forms.swift", "{ ChappieSignInLabel($0).bold() }", "{ title in title }", "is unused"),
    (FORMS, "Forms.swift", "            showsOnboardingSheet: true,\n            requestsNotificationPermission: true,",
     "            requestsNotificationPermission: true,\n            showsOnboardingSheet: true,", "must precede"),
    (FORMS, "Forms.swift", "{ model.signIn() }", "{ model.state.isEnabled = false }", "setter is inaccessible"),
    (FORMS, "Forms.swift", ".buttonStyle(.borderedProminent)", ".buttonStyle(BorderedStyle())", "cannot find 'BorderedStyle'"),
    (CRYPTO, CRYPTOKIT, "let nonce = try AES.GCM.Nonce(", "let nonce = AES.GCM.Nonce(", "not marked with 'try'"),
    (CHAT, "ChatView.swift", "text: $model.draft", "text: model.draft", "cannot convert value"),
    (CHAT, "ChatApp.swift", "Chappie.client(configuration: ChatApp.configuration).runtime(", "Chappie.client(configuration: ChatApp.configuration).threads(",
     "has no member 'threads'"),
    (SQLITE, "ThreadFolder.swift", "[.volumeIsLocalKey]", "[.volumeLocalKey]", "has no member 'volumeLocalKey'"),
    (SIMULATOR, "Backend/Backend.swift", "#if canImport(CZstd)\n    import CZstd\n#endif", "import CZstd", "no such module 'CZstd'"),
    (CORE, "Support/Foundation.swift", "#if os(tvOS) || os(watchOS)", "#if os(Linux)", "does not support tvOS", "    #error("),
    (MAC, "MacTests.swift", "FileRegistrationStore(directory: folder)", "FileRegistrationStore(folder: folder)", "incorrect argument label"),
    (DOCUMENTS, "Errors.swift", "limit.plan?.displayName ?? ", "limit.plan.displayName ?? ", "must be unwrapped"),
]


def sources(module):
    """path below the module's folder -> text"""
    folder = PACKAGE.parent / "Mac/Tests" / module if module == MAC else PACKAGE / "Sources" / module
    found = [pathlib.Path(top) / name for top, _, names in os.walk(folder, followlinks=True) for name in names if name.endswith(".swift")]
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(found)}


def compile(module, texts, options=(), modules=BUILD / "Modules"):
    """What the compiler says of these sources: (path, line, error)."""
    paths = [*BUILD.glob("*.build/module.modulemap"), *PACKAGE.glob("Sources/C*/include/module.modulemap"),
             *PACKAGE.glob(".build/checkouts/*/Sources/*/include/module.modulemap")]
    maps = [word for path in paths for word in ("-Xcc", f"-fmodule-map-file={path}")]
    with tempfile.TemporaryDirectory() as folder:
        for path, text in texts.items():
            (pathlib.Path(folder) / path).parent.mkdir(exist_ok=True)
            (pathlib.Path(folder) / path).write_text(text)
        done = subprocess.run(["swiftc", "-emit-sil", "-wmo", "-o", os.devnull, "-module-name", module, *(options or OPTIONS[module]), "-I", modules,
                               *maps, *texts], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = re.findall(r"^(?:.*/)?(\S*?\.swift):(\d+):\d+: error: (.*)", done.stderr, flags=re.M)
    if done.returncode and not found:
        sys.exit(done.stderr)
    names = {os.path.basename(path): path for path in texts}
    return [(names[os.path.basename(path)], int(line), words) for path, line, words in found]


def missed(mistake):
    """Returns how the compiler missed a mistake, or None."""
    module, path, there, planted, error, *place = mistake
    texts = sources(module)
    if texts[path].count(there) != 1:
        return f"{path}: {there!r} is there {texts[path].count(there)} times"
    texts[path] = texts[path].replace(there, planted)
    mark = place[0] if place else planted
    first = texts[path][:texts[path].index(mark)].count("\n") + 1
    reported = compile(module, texts)
    wanted = range(first, first + mark.rstrip("\n").count("\n") + 1)
    if not any(name == path and line in wanted and re.search(error, words) for name, line, words in reported):
        return f"{path}: {planted or there!r} is not reported in lines {wanted.start}–{wanted.stop - 1} as {error!r}, but: {reported}"


def build():
    # A module at once takes a fifth less than its files in parts.
    command = ["swift", "build", "--package-path", PACKAGE, "--disable-index-store", "-debug-info-format", "none",
               "-Xswiftc", "-wmo", "-Xswiftc", "-num-threads", "-Xswiftc", "1"]
    built = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, "CHAPPIE_STRICT": "1"})
    if built.returncode:
        sys.exit(built.stdout[-5000:] + built.stderr)


def check():
    build()
    forms, ours, documents, chat = sources(FORMS), sources(OURS), sources(DOCUMENTS), sources(CHAT)
    # Marked `Swift`, since `swift` marks the blocks that Linux compiles.
    forms["Readme.swift"] = re.search(r"^```Swift\n(.*?)^```", (PACKAGE.parents[1] / "README.md").read_text(), flags=re.M | re.S)[1]
    with tempfile.TemporaryDirectory() as mac, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # As on a Mac: AppKit, and no UIKit.
        for path in (BUILD / "Modules").glob("*.swiftmodule"):
            if path.stem not in ("UIKit", OURS, KEYCHAIN):
                os.symlink(path, f"{mac}/{path.name}")
        whole = {
            **{f"the call forms {mode}": [FORMS, forms, options] for mode, options in MODES.items()},
            **{f"the documentation's app {mode}": [DOCUMENTS, documents, [*options, "-parse-as-library"]] for mode, options in MODES.items()},
            "the face": [OURS, ours],
            **{f"{module} over AppKit": [module, sources(module), [*OPTIONS[module], "-emit-module-path", f"{mac}/{module}.swiftmodule"], mac]
               for module in (OURS, KEYCHAIN)},
            "the tests that only a Mac runs": [MAC, sources(MAC)],
        }
        answers = {name: pool.submit(compile, *what) for name, what in whole.items()}
        # It imports both, as they are over AppKit.
        concurrent.futures.wait(answers.values())
        answers["the example of an app over AppKit"] = pool.submit(compile, CHAT, chat, OPTIONS[CHAT], mac)
        problems = [f"{name}: {answer.result()}" for name, answer in answers.items() if answer.result()]
    print(*problems, sep="\n", end="\n" * bool(problems))
    sys.exit(bool(problems))


def planted():
    build()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [problem for problem in pool.map(missed, MISTAKES) if problem]
    print(*problems, sep="\n", end="\n" * bool(problems))
    print(f"{len(MISTAKES) - len(problems)} of {len(MISTAKES)} planted mistakes are found")
    sys.exit(bool(problems))


if __name__ == "__main__":
    {"check": check, "planted": planted}[sys.argv[1]]()
