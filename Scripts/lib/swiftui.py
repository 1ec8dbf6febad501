"""What is Apple's alone, compiled without a Mac: swiftui.py check|count

check   builds Tests/SwiftUICheck, which has hand-written declarations in the place of Apple's modules, compiles its call forms
        and the README's in other language modes and the face over AppKit, then plants mistakes: each has to be an error where
        it stands
count   prints how many mistakes are planted

An isolation fault and an uninitialised property are found after type checking, so everything goes as far as SIL.
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
OURS, FORMS, DOCUMENTS = "ChappieSignInUI", "Forms", "DocumentsApp"
FILES, KEYCHAIN, CRYPTO, SESSION, SOCKET = "ChappieFiles", "ChappieKeychainApple", "ChappieCrypto", "ChappieURLSession", "ChappieWebSocket"
STRICT = [word for name in ("ExistentialAny", "InternalImportsByDefault", "MemberImportVisibility", "NonisolatedNonsendingByDefault")
          for word in ("-enable-upcoming-feature", name)]
OPTIONS = {FORMS: ["-swift-version", "6", "-warnings-as-errors"],
           DOCUMENTS: ["-swift-version", "6", "-warnings-as-errors", "-parse-as-library"]}
OPTIONS |= {module: ["-swift-version", "6", "-D", "CHAPPIE_FULL_FOUNDATION", "-warnings-as-errors", *STRICT]
            for module in (OURS, FILES, KEYCHAIN, CRYPTO, SESSION, SOCKET)}
MODES = {"in Swift 6's mode": ["-swift-version", "6"], "in Swift 5's mode": ["-swift-version", "5"],
         "in Swift 5's mode on the main actor": ["-swift-version", "5", "-default-isolation", "MainActor"],
         "on the main actor": ["-swift-version", "6", "-default-isolation", "MainActor"]}
VIEW, SHEET, DESKTOP = "SwiftUI/ChappieSignIn.swift", "SwiftUI/SignInSheet.swift", "SwiftUI/AppleDesktop.swift"
FOLDERS, SECURITY, CRYPTOKIT = "UserFolders.swift", "SecItemCalls+Security.swift", "CryptoLibrary+CryptoKit.swift"
RSA = "RSAPublicKey+Security.swift"
SETTINGS, POOL = "SessionSettings+Apple.swift", "SessionPool.swift"

# (module, file, what stands there, what is planted, the error's words, where the error stands if not in what is planted)
MISTAKES = [
    # In the face.
    (OURS, SHEET, ".multilineTextAlignment(.leading)", ".multilineAlignment(.leading)", "has no member 'multilineAlignment'"),
    (OURS, SHEET, "Button(tryAgain, action: signIn)\n                .buttonStyle(.borderedProminent)",
     "Button(tryAgain, action: signIn)\n                .buttonStyle(.prominent)", "has no member 'prominent'"),
    (OURS, SHEET, "            case .continueWithChatGPT: EmptyView()\n", "", "switch must be exhaustive", "switch step.kind {"),
    (OURS, SHEET, "model.copyCode()", "model.pasteCode()", "has no .*member 'pasteCode'"),
    (OURS, SHEET, "@ObservedObject var model: ChappieSignInModel", "@ObservedObject var model: ChappieSignInState",
     "requires that 'ChappieSignInState' conform to 'ObservableObject'"),
    (OURS, SHEET, "Button(step.texts.button ?? step.texts.title)", "Button(step.texts.button)", "must be unwrapped|no exact matches"),
    (OURS, SHEET, "    import Accessibility\n", "", "cannot find 'AccessibilityNotification'", "Announcement(words.sentence"),
    (OURS, SHEET, "ForEach(state.notices, id: \\.part)", "ForEach(state.notices)", "conform to 'Identifiable'"),
    (OURS, SHEET, ".environment(\\.isEnabled, true)", ".environment(\\.isDisabled, true)", "has no member 'isDisabled'"),
    (OURS, SHEET, "copy: @MainActor () -> Void", "copy: @Sendable () async -> Void", "expecting synchronous function type", "Button(action: copy)"),
    (OURS, VIEW, "@Environment(\\.openURL)", "@Environment(\\.openLink)", "has no member 'openLink'"),
    (OURS, VIEW, "isPresented: isSheetPresented", "isPresented: model.state.isSheetPresented", "to expected argument type 'Binding<Bool>'"),
    (OURS, VIEW, "            texts = settings.texts\n", "", "without initializing all stored properties|before all stored properties are initialized",
     "onDeviceCode: { [relay] in relay.onDeviceCode?($0) }))\n        }"),
    (OURS, VIEW, "public struct ChappieSignInLabel: View", "public struct ChappieSignInLabel", "and 'Label : View'", "where Label == ChappieSignInLabel {"),
    (OURS, VIEW, "self.onDeviceCode = onDeviceCode", "_relay = State(initialValue: SignInRelay())", "incorrect argument label"),
    (OURS, VIEW, "Button {\n                    model.signIn()", "Button {\n                    await model.finishPendingWork()", "async"),
    # A closure that belongs to the main actor would trap on the queue that calls it.
    (OURS, DESKTOP, "continuation.resume(returning: $0)", "self.openURL = nil; continuation.resume(returning: $0)", "main actor-isolated property 'openURL'"),
    (OURS, DESKTOP, "try await center.requestAuthorization(", "try center.requestAuthorization(", "'async' but is not marked with 'await'"),
    (OURS, DESKTOP, "        @MainActor\n        func open(", "        func open(", "actor-isolated", "guard let openURL"),
    (OURS, DESKTOP, "    @MainActor\n    final class SignInRelay", "    final class SignInRelay", "'Sendable'", "private var openURL"),
    (OURS, DESKTOP, "throw DesktopError(\"There is no window to open the page from.\")", "throw CancellationError()", "cannot be converted to error type"),
    (OURS, DESKTOP, "try await center.add(request)", "Task.detached { try await center.add(request) }; try await center.add(request)", "risks causing data races"),
    (OURS, DESKTOP, "UIPasteboard.general.string = text", "UIPasteboard.general.text = text", "has no member 'text'"),
    # In the keychain's adapter and the folders beside it.
    (KEYCHAIN, SECURITY, "SecItemAdd(item as CFDictionary, nil)", "SecItemAdd(item as CFDictionary)", "missing argument"),
    (KEYCHAIN, SECURITY, "kSecUseDataProtectionKeychain", "kSecUseDataProtection", "cannot find 'kSecUseDataProtection'"),
    (KEYCHAIN, SECURITY, "case .whenUnlockedThisDeviceOnly: kSecAttrAccessibleWhenUnlockedThisDeviceOnly",
     "case .whenUnlockedThisDeviceOnly: kSecAttrAccessibleAlwaysThisDeviceOnly", "cannot find 'kSecAttrAccessibleAlwaysThisDeviceOnly'"),
    (KEYCHAIN, SECURITY, "SecItemCopyMatching(search as CFDictionary, &found)", "SecItemCopyMatching(search as CFDictionary, found)",
     "cannot convert|passing"),
    (KEYCHAIN, SECURITY, "(found as? Data).map { Secret(Array($0)) }", "(found as Data).map { Secret(Array($0)) }", "is not convertible|cannot convert"),
    (KEYCHAIN, SECURITY, "KeychainStatus(rawValue: SecItemDelete(query.dictionary as CFDictionary))",
     "SecItemDelete(query.dictionary as CFDictionary)", "cannot convert"),
    (FILES, FOLDERS, "    import Security\n", "", "containerURL", "files.containerURL("),
    (FILES, FOLDERS, "isExcludedFromBackup = isExcludedFromBackup", "isExcludedFromBackups = isExcludedFromBackup", "has no member 'isExcludedFromBackups'"),
    (FILES, FOLDERS, "            var folder = URL(", "            let folder = URL(", "mutating member", "folder.setResourceValues(values)"),
    (FILES, FOLDERS, "[.protectionKey: type]", "[.fileProtection: type]", "has no member 'fileProtection'"),
    # In the transport over URLSession.
    (SESSION, SETTINGS, "SecTrustEvaluateWithError(trust, nil)", "SecTrustEvaluate(trust, nil)", "cannot find 'SecTrustEvaluate'"),
    (SESSION, SETTINGS, "guard let trust = challenge.protectionSpace.serverTrust", "guard let trust = challenge.protectionSpace.trust",
     "has no member 'trust'"),
    (SESSION, SETTINGS, "? .TLSv13 : .TLSv12", "? .tls13 : .tls12", "has no member 'tls1[23]'"),
    (SESSION, SETTINGS, "configuration.proxyConfigurations = [setting]", "configuration.proxyConfigurations = setting", "cannot assign value"),
    (SESSION, SETTINGS, "NWEndpoint.Port(rawValue: UInt16(proxy.port)) else", "NWEndpoint.Port(rawValue: proxy.port) else", "cannot convert"),
    (SESSION, SETTINGS, "        default:\n", "        case \"socks4\":\n", "switch must be exhaustive", "switch proxy.scheme {"),
    (SESSION, SETTINGS, "func hold() { suspend() }", "func pause() { suspend() }", "does not conform to protocol 'SessionTask'",
     "extension URLSessionTask: SessionTask {"),
    (SESSION, POOL, "settings.answer(to: challenge)", "settings.answer(challenge)", "missing argument label"),
    # In the WebSocket without libcurl.
    (SOCKET, "StreamWebSocketTransport.swift", "streams.connect(host: host,", "streams.open(host: host,", "has no member 'open'"),
    (SOCKET, "WebSocketSession.swift", "restUntil = now + Burst.rest", "restUntil = now + CurlBurst.rest", "cannot find 'CurlBurst'"),
    # In what an app writes.
    # A trailing closure that makes no view is taken for `onDeviceCode`: a warning, and an error where warnings are errors.
    (FORMS, "Forms.swift", "{ ChappieSignInLabel($0).bold() }", "{ title in title }", "is unused"),
    (FORMS, "Forms.swift", "                EmptyView()\n", "                title.count\n", "'Int' conform to 'View'"),
    (FORMS, "Forms.swift", "{ _ in Text(\"Go on\") }", "{ title, count in Text(title) }", "expects 1 argument|takes 1 argument"),
    (FORMS, "Forms.swift", "            requestsNotificationPermission: false", "            asksPermission: false", "incorrect argument label|extra argument"),
    (FORMS, "Forms.swift", "            showsOnboardingSheet: true,\n            requestsNotificationPermission: true,",
     "            requestsNotificationPermission: true,\n            showsOnboardingSheet: true,", "must precede"),
    (FORMS, "Forms.swift", "struct Basic: View {\n    @StateObject private var authSession = Chappie.authSession()",
     "struct Basic: View {\n    @StateObject private var authSession = Chappie.client()", "conform to 'ObservableObject'"),
    (FORMS, "Forms.swift", "try await authSession.startDeviceCodeSignIn()", "try authSession.startDeviceCodeSignIn()", "'async' but is not marked with 'await'"),
    (FORMS, "Forms.swift", "        case .expired: \"Expired\"\n", "", "switch must be exhaustive", "switch authSession.deviceLinkState {"),
    (FORMS, "Forms.swift", "private var progress: String {", "private nonisolated var progress: String {", "main actor-isolated",
     "switch authSession.deviceLinkState {"),
    (FORMS, "Forms.swift", "        _model = StateObject(wrappedValue: ChappieSignInModel(session: authSession, showsOnboardingSheet: false))\n",
     "", "without initializing all stored properties", "init(authSession: ChappieAuthSession) {\n    }"),
    (FORMS, "Forms.swift", "{ model.signIn() }", "{ model.state.isEnabled = false }", "setter is inaccessible"),
    (FORMS, "Forms.swift", "onDeviceCode: { code = $0 }", "onDeviceCode: { code = $0; try await Task.sleep(for: .seconds(1)) }", "async"),
    (FORMS, "Forms.swift", ".buttonStyle(.borderedProminent)", ".buttonStyle(BorderedStyle())", "cannot find 'BorderedStyle'"),
    (FORMS, "Observer.swift", "import Combine\n", "", "cannot find type 'AnyCancellable'", "func observe(_ session"),
    # In the code over CryptoKit.
    (CRYPTO, CRYPTOKIT, "let nonce = try AES.GCM.Nonce(", "let nonce = AES.GCM.Nonce(", "not marked with 'try'"),
    (CRYPTO, CRYPTOKIT, "try? AES.GCM.open(", "try? AES.GCM.decrypt(", "has no member 'decrypt'"),
    (CRYPTO, CRYPTOKIT, "hash.update(data: message)", "start.update(data: message)", "immutable"),
    (CRYPTO, "Scrypt.swift", "HMAC<SHA256>.authenticationCode(", "HMAC<SHA3_512>.authenticationCode(", "cannot find type 'SHA3_512'"),
    # In the check of a signature over Security.
    (CRYPTO, RSA, "SecKeyVerifySignature(\n", "SecKeyRawVerify(\n", "cannot find 'SecKeyRawVerify'", "return SecKeyRawVerify("),
    (CRYPTO, RSA, ".rsaSignatureMessagePKCS1v15SHA256", ".rsaSignatureDigestPKCS1v15SHA3", "has no member 'rsaSignatureDigestPKCS1v15SHA3'"),
    (CRYPTO, RSA, "SecKeyCreateWithData(data(der), attributes as CFDictionary, nil)", "SecKeyCreateWithData(der, attributes as CFDictionary, nil)",
     "cannot convert value of type '\\[UInt8\\]'"),
    (CRYPTO, RSA, "kSecAttrKeyTypeRSA,", "kSecAttrKeyTypeRSAPublic,", "cannot find 'kSecAttrKeyTypeRSAPublic'"),
    # In the app that is made of the documentation's code.
    (DOCUMENTS, "DocumentsApp.swift", "@StateObject private var userSession = UserSession()", "@StateObject private var userSession = AppLog()",
     "conform to 'ObservableObject'"),
    (DOCUMENTS, "DocumentsApp.swift", "AccountView(authSession: authSession)", "AccountView(authSession: client)", "cannot convert value of type 'ChappieClient'"),
    (DOCUMENTS, "SignInButton.swift", "            showsOnboardingSheet: false,", "            showsSheet: false,", "incorrect argument label|extra argument"),
    (DOCUMENTS, "SignInButton.swift", "Task { try await signInByHand() }", "try await signInByHand()", "async|invalid conversion from throwing function"),
    (DOCUMENTS, "SignInButton.swift", "        case .cancelled: \"Cancelled\"\n", "", "switch must be exhaustive", "switch authSession.deviceLinkState {"),
    (DOCUMENTS, "Authentication.swift", "info.isFedRAMPAccount", "info.isFedRAMP", "has no member 'isFedRAMP'"),
    (DOCUMENTS, "Authentication.swift", "try await authSession.refreshAuth()", "try authSession.refreshAuth()", "'async' but is not marked with 'await'"),
    (DOCUMENTS, "Security.swift", "fileProtection: .completeUntilFirstUserAuthentication", "fileProtection: .untilFirstUserAuthentication",
     "has no member 'untilFirstUserAuthentication'"),
    (DOCUMENTS, "Security.swift", "client.runtime(store: store)", "client.runtime(threads: store)", "incorrect argument label"),
    (DOCUMENTS, "Errors.swift", "answer = reply\n", "answer = reply.text\n", "has no member 'text'"),
    (DOCUMENTS, "Errors.swift", "limit.plan?.displayName ?? ", "limit.plan.displayName ?? ", "must be unwrapped"),
    (DOCUMENTS, "Errors.swift", "ChappieClientError.httpError(let status, let body)", "ChappieClientError.httpError(let status)", "matching them as a tuple is deprecated"),
    (DOCUMENTS, "Errors.swift", "rateLimitBackoff: .disabled", "rateLimitBackoff: .off", "has no member 'off'"),
    (DOCUMENTS, "MultiAccount.swift", "authSession?.signOut()", "authSession.signOut()", "must be unwrapped"),
    (DOCUMENTS, "MultiAccount.swift", "ChappieConfiguration(keychainAccount: user.id)", "ChappieConfiguration(keychainUser: user.id)", "extra argument 'keychainUser'"),
]


def sources(module):
    """path below the module's folder -> text"""
    folder = PACKAGE / "Sources" / module
    found = [pathlib.Path(top) / name for top, _, names in os.walk(folder, followlinks=True) for name in names if name.endswith(".swift")]
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(found)}


def compile(module, texts, options=(), modules=BUILD / "Modules"):
    """What the compiler says of these sources: (path, line, error)."""
    maps = [word for path in [*BUILD.glob("*.build/module.modulemap"), *PACKAGE.glob("Sources/C*/include/module.modulemap")] for word in ("-Xcc", f"-fmodule-map-file={path}")]
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


def lines(text, part):
    """The lines on which a part stands that occurs once."""
    if text.count(part) != 1:
        sys.exit(f"{part!r} stands there {text.count(part)} times")
    first = text[:text.index(part)].count("\n") + 1
    return range(first, first + part.rstrip("\n").count("\n") + 1)


def plant(mistakes):
    """(a module's sources with as many of these mistakes as don't touch each other, [(mistake, the lines that are to be told)])"""
    texts, planted = sources(mistakes[0][0]), []
    for mistake in mistakes:
        _, path, there, new, _, *place = mistake
        lines(sources(mistake[0])[path], there)
        tried = {**texts, path: texts[path].replace(there, new)}
        # Without a line of its own it is told where the rest misses it.
        marks = [(other, tried[other[1]], (other[5:] or other[3:4])[0]) for other in [*(known for known, _ in planted), mistake]]
        if texts[path].count(there) != 1 or any(text.count(mark) != 1 for _, text, mark in marks):
            continue
        wanted = [(other, lines(text, mark)) for other, text, mark in marks]
        told = [(other[1], line) for other, found in wanted for line in found]
        if len(told) == len(set(told)):
            texts, planted = tried, wanted
    return texts, planted


def missed(mistakes):
    """What is wrong with how these mistakes of one module are found. They are planted together, since each compilation costs as
    much as the last; those that others hide are planted again, in the end each by itself."""
    problems = []
    while mistakes:
        texts, planted = plant(mistakes)
        said = compile(mistakes[0][0], texts)
        is_told = lambda mistake, wanted: any(path == mistake[1] and line in wanted and re.search(mistake[4], error) for path, line, error in said)
        told = [mistake for mistake, wanted in planted if is_told(mistake, wanted)]
        mistakes = [mistake for mistake in mistakes if mistake not in told]
        if not told and len(planted) == 1:
            [(mistake, wanted)] = planted
            problems.append(f"{mistake[1]}: {mistake[3] or mistake[2]!r} is not told in lines {wanted.start}–{wanted.stop - 1} "
                            f"as {mistake[4]!r}, but so: {said}")
            mistakes.remove(mistake)
        elif not told:
            problems += [problem for mistake in mistakes for problem in missed([mistake])]
            mistakes = []
    return problems


def build():
    # A module at once takes a fifth less than its files in parts.
    command = ["swift", "build", "--package-path", PACKAGE, "--disable-index-store", "-debug-info-format", "none",
               "-Xswiftc", "-wmo", "-Xswiftc", "-num-threads", "-Xswiftc", "1"]
    built = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ, "CHAPPIE_STRICT": "1"})
    if built.returncode:
        sys.exit(built.stdout[-5000:] + built.stderr)


def check():
    build()
    forms, ours, documents = sources(FORMS), sources(OURS), sources(DOCUMENTS)
    # Marked `Swift`, since `swift` marks the blocks that Linux compiles.
    forms["Readme.swift"] = re.search(r"^```Swift\n(.*?)^```", (PACKAGE.parents[1] / "README.md").read_text(), flags=re.M | re.S)[1]
    with tempfile.TemporaryDirectory() as mac, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # As on a Mac: AppKit, and no UIKit.
        for path in (BUILD / "Modules").glob("*.swiftmodule"):
            if path.stem != "UIKit":
                os.symlink(path, f"{mac}/{path.name}")
        whole = {
            **{f"the call forms {mode}": [FORMS, forms, options] for mode, options in MODES.items()},
            **{f"the documentation's app {mode}": [DOCUMENTS, documents, [*options, "-parse-as-library"]] for mode, options in MODES.items()},
            "the face": [OURS, ours],
            "the face over AppKit": [OURS, ours, OPTIONS[OURS], mac],
        }
        answers = {name: pool.submit(compile, *what) for name, what in whole.items()}
        text = ours[DESKTOP].replace("forType: .string", "forType: .text")
        on_a_mac = pool.submit(compile, OURS, ours | {DESKTOP: text}, OPTIONS[OURS], mac)
        by_module = [[mistake for mistake in MISTAKES if mistake[0] == module] for module in OPTIONS]
        hidden = [problem for found in pool.map(missed, by_module) for problem in found]
        problems = [f"{name}: {answer.result()}" for name, answer in answers.items() if answer.result()]
        if not any("'text'" in error for _, _, error in on_a_mac.result()):
            hidden.append(f"{DESKTOP}: a mistake in the branch for AppKit is not told: {on_a_mac.result()}")
    print(*problems, *hidden, sep="\n", end="\n" * bool(problems or hidden))
    print(f"{len(MISTAKES) + 1 - len(hidden)} of {len(MISTAKES) + 1} planted mistakes are caught")
    sys.exit(1 if problems or hidden else 0)


if __name__ == "__main__":
    {"check": check, "count": lambda: print(len(MISTAKES) + 1)}[sys.argv[1]]()
