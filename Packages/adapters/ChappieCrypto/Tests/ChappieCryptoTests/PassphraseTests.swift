@_spi(ChappieInternals) import ChappieAuth
import Foundation
import Glibc
import Synchronization
import TestFixtures
import Testing

@_spi(ChappieInternals) @testable import ChappieCrypto

struct PassphraseTests {
    /// Answers when the test lets it, or stops when its caller stops waiting.
    private final class Person: PassphraseSource {
        private let state = Mutex<(purposes: [PassphrasePurpose], answers: [String?])>(([], []))
        private let gate = AsyncStream.makeStream(of: Void.self)
        let isAsked = AsyncStream.makeStream(of: Void.self)

        init(_ answers: [String?], isReady: Bool = false) {
            state.withLock { $0.answers = answers }
            if isReady { speak() }
        }

        var purposes: [PassphrasePurpose] { state.withLock(\.purposes) }

        func speak() { gate.continuation.finish() }

        func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
            state.withLock { $0.purposes.append(purpose) }
            isAsked.continuation.yield()
            for await _ in gate.stream {}
            guard !Task.isCancelled else { throw .noPassphrase("given up") }
            let answer = state.withLock { $0.answers.isEmpty ? "" : $0.answers.removeFirst() }
            guard let answer else { throw .noPassphrase("the person refused") }
            return Secret(answer)
        }
    }

    @Test func itIsAskedForOnceHoweverManyNeedIt() async throws {
        let it = try await PrivateStore(saving: "x")
        let person = Person(["correct horse"])
        let store = try it.store(person)
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<16 { group.addTask { try await store.load(.mine)?.text } }
            person.speak()
            for try await text in group { #expect(text == "x") }
        }
        try await store.save(Secret("y"), in: .yours)
        #expect(person.purposes == [.opening(try it.path)])
    }

    @Test func nobodyIsAskedWhereThereIsNothingToOpen() async throws {
        let it = try await PrivateStore()
        let person = Person(["correct horse"], isReady: true)
        let store = try it.store(person)
        #expect(try await store.load(.mine) == nil)
        try await store.delete(.mine)
        #expect(!FileManager.default.fileExists(atPath: it.credentials))
        #expect(person.purposes.isEmpty)
        try await store.save(Secret("x"), in: .mine)
        #expect(person.purposes == [.creating(try it.path)])
    }

    @Test func `preparing to save asks for the passphrase, and the save doesn't ask again`() async throws {
        let it = try await PrivateStore()
        let person = Person(["correct horse"], isReady: true)
        let store = try it.store(person)
        try await store.prepareToSave(in: .mine)
        #expect(person.purposes == [.creating(try it.path)])
        #expect(try it.names.isEmpty)
        try await store.save(Secret("x"), in: .mine)
        try await store.prepareToSave(in: .mine)
        #expect(person.purposes.count == 1)
        #expect(try await store.load(.mine)?.text == "x")
    }

    @Test func preparingToSaveFindsOutWhatASaveWould() async throws {
        let it = try await PrivateStore(saving: "x")
        for (source, kind) in [
            (FirstPassphrase([]), "noPassphrase"), (FixedPassphrase(Secret("battery staple")), "wrongPassphrase"),
        ] as [(any PassphraseSource, String)] {
            let store = try it.store(source)
            await refusal(kind) { try await store.prepareToSave(in: .mine) }
        }
        try Files.write([1, 2, 3], to: it.path)
        try await it.store.prepareToSave(in: .mine)
        #expect(try Files.read(it.path) == [1, 2, 3])
        try Files.set(0o755, of: it.credentials)
        await refusal("unsafeFile") { try await it.store.prepareToSave(in: .mine) }
    }

    @Test func `a refusal isn't remembered, and a forgotten passphrase is asked for again`() async throws {
        let it = try await PrivateStore(saving: "x")
        let person = Person([nil, "wrong", "slip", "correct horse", "correct horse"], isReady: true)
        let store = try it.store(person)
        for kind in [#"noPassphrase("the person refused")"#, "wrongPassphrase", "wrongPassphrase"] {
            await refusal(kind) { _ = try await store.load(.mine) }
        }
        #expect(person.purposes.count == 3)
        for _ in 1...2 { #expect(try await store.load(.mine)?.text == "x") }
        #expect(person.purposes.count == 4)
        store.forgetPassphrase()
        #expect(try await store.load(.mine)?.text == "x")
        #expect(person.purposes.count == 5)
    }

    /// The first caller asks and is cancelled, which withdraws the question; the second waits; the next one asks again.
    @Test func `a cancelled call returns at once, and the next one asks`() async throws {
        let it = try await PrivateStore(saving: "x")
        let person = Person(["correct horse"])
        let store = try it.store(person)
        let asking = Task { try await store.load(.mine)?.text }
        var isAsked = person.isAsked.stream.makeAsyncIterator()
        await isAsked.next()
        let waiting = Task { try await store.load(.mine)?.text }
        for task in [waiting, asking] {
            task.cancel()
            await #expect(throws: CredentialStoreError.cancelled) { try await task.value }
        }
        person.speak()
        #expect(try await store.load(.mine)?.text == "x")
        #expect(person.purposes.count == 2)
    }

    @Test func theFirstSourceThatIsSetUpIsTaken() async throws {
        let folder = try TemporaryDirectory()
        let file = try Files.write(Array("from the file\n".utf8), to: folder.path("p"), mode: 0o600)
        let unset = [[:], [PassphraseFile.variable: ""]].map { PassphraseFile(environment: $0) }
        let set = PassphraseFile(environment: [PassphraseFile.variable: file])
        let last = FixedPassphrase(Secret("last"))
        let systemd = SystemdPassphrase(environment: [:])
        #expect(try await FirstPassphrase(unset + [systemd]).passphrase(for: .opening("/f")) == nil)
        let first = FirstPassphrase(unset + [systemd, set, last])
        #expect(try await first.passphrase(for: .opening("/f"))?.text == "from the file")
        let broken = FirstPassphrase([PassphraseFile(path: folder.path("none")), last])
        await refusal("noPassphrase") { _ = try await broken.passphrase(for: .opening("/f")) }
    }

    @Test(arguments: [
        ("plain", "plain"), ("one line\n", "one line"), ("dos\r\n", "dos"), ("two\n\n", "two\n"),
        (" spaces \n", " spaces "), ("a\nb", "a\nb"), ("ünï 🔑\n", "ünï 🔑"), ("cr\r", "cr\r"),
    ])
    func oneLineBreakAtTheEndDoesNotCount(text: String, passphrase: String) async throws {
        let folder = try TemporaryDirectory()
        let source = PassphraseFile(path: try Files.write(Array(text.utf8), to: folder.path("p"), mode: 0o600))
        #expect(try await source.passphrase(for: .opening("/f"))?.text == passphrase)
    }

    /// The facts of a passphrase file.
    private func facts(_ mode: mode_t, of owner: uid_t) -> stat {
        var facts = stat()
        facts.st_mode = S_IFREG | mode
        facts.st_uid = owner
        facts.st_nlink = 1
        return facts
    }

    @Test func `a passphrase file is refused if others could have read it`() async throws {
        for mode in (0o1...0o77).map({ 0o600 | mode_t($0) }) {
            let error = await refusal("unsafeFile") {
                try SafeFile.check(facts(mode, of: 4242), for: .passphrase, path: "/p", user: 4242)
            }
            #expect(error?.recoverySuggestion?.contains("chmod 600 /p") == true)
        }
        try SafeFile.check(facts(0o400, of: 4242), for: .passphrase, path: "/p", user: 4242)
        let error = await refusal("unsafeFile", saying: "/p belongs to user 4243") {
            try SafeFile.check(facts(0o400, of: 4243), for: .passphrase, path: "/p", user: 4242)
        }
        #expect(error?.recoverySuggestion?.contains("install -m 600 /p") == true)
    }

    /// Kubernetes and Docker hand secrets over as files of root, which the container's user can't change.
    @Test func `a passphrase file of root may be readable and not writable by others`() async throws {
        for mode in [0o400, 0o440, 0o444, 0o600, 0o640, 0o644] as [mode_t] {
            try SafeFile.check(facts(mode, of: 0), for: .passphrase, path: "/run/secrets/p", user: 4242)
        }
        for mode in [0o420, 0o602, 0o660, 0o666, 0o777] as [mode_t] {
            let error = await refusal("unsafeFile") {
                try SafeFile.check(facts(mode, of: 0), for: .passphrase, path: "/run/secrets/p", user: 4242)
            }
            #expect(error?.recoverySuggestion?.contains("chmod go-w /run/secrets/p") == true)
        }
        await refusal("unsafeFile") {
            try SafeFile.check(facts(0o400, of: 0), for: .credential, path: "/c", user: 4242)
        }
    }

    /// As with CHAPPIE_PASSPHRASE_FILE=<(pass show chappie): the writer may be slower than the reader.
    @Test func `a pipe that is handed over by its descriptor is read to its end`() async throws {
        var ends: [CInt] = [-1, -1]
        #expect(pipe(&ends) == 0)
        defer { close(ends[0]) }
        let reading = Task { [path = "/dev/fd/\(ends[0])"] in
            try await PassphraseFile(path: path).passphrase(for: .opening("/f"))?.text
        }
        for part in ["from ", "a pipe\n"] { #expect(write(ends[1], part, part.utf8.count) == part.utf8.count) }
        close(ends[1])
        #expect(try await reading.value == "from a pipe")
    }

    @Test func `a path that is not UTF-8 is refused and not repaired`() async throws {
        let folder = try TemporaryDirectory()
        let path = try Files.write(Array("another\n".utf8), to: folder.path("p\u{FFFD}"), mode: 0o600)
        await refusal("noPassphrase", saying: "not UTF-8") {
            _ = try await PassphraseFile(path: path).passphrase(for: .opening("/f"))
        }
    }

    @Test func `a passphrase file must be regular, not empty and not too large`() async throws {
        let folder = try TemporaryDirectory()
        let most = [UInt8](repeating: 65, count: PassphraseFile.limit)
        let source = PassphraseFile(path: try Files.write(most, to: folder.path("most"), mode: 0o600))
        #expect(try await source.passphrase(for: .opening("/f"))?.count == PassphraseFile.limit)
        #expect(mkfifo(folder.path("pipe"), 0o600) == 0)
        for (name, content) in [("more", most + [10]), ("empty", []), ("line", [10])] {
            try Files.write(content, to: folder.path(name), mode: 0o600)
        }
        for (name, kind) in [
            ("more", "noPassphrase"), ("empty", "noPassphrase"), ("line", "noPassphrase"), ("pipe", "noPassphrase"),
            (".", "unsafeFile"), ("missing", "noPassphrase"), ("nul\u{0}", "noPassphrase"),
        ] {
            await refusal(kind, name) {
                _ = try await PassphraseFile(path: folder.path(name)).passphrase(for: .opening("/f"))
            }
        }
    }

    @Test func `systemd's credential may be readable by its group and may be missing`() async throws {
        let folder = try TemporaryDirectory()
        let source = SystemdPassphrase(environment: ["CREDENTIALS_DIRECTORY": folder.path])
        #expect(try await source.passphrase(for: .opening("/f")) == nil)
        let path = try Files.write(Array("from systemd\n".utf8), to: folder.path(SystemdPassphrase.name))
        for mode in [0o400, 0o440, 0o600] {
            try Files.set(mode, of: path)
            #expect(try await source.passphrase(for: .opening("/f"))?.text == "from systemd")
        }
        for mode in [0o444, 0o420, 0o402, 0o404, 0o410, 0o666] {
            try Files.set(mode, of: path)
            await refusal("unsafeFile") { _ = try await source.passphrase(for: .opening("/f")) }
        }
    }
}
