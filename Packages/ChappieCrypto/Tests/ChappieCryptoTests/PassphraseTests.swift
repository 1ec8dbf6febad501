@_spi(ChappieInternals) import ChappieAuth
import Foundation
import Glibc
import Synchronization
import Testing

@testable import ChappieCrypto

struct PassphraseTests {
    /// Answers when it is told to.
    private final class Person: PassphraseSource {
        private let state = Mutex<(purposes: [PassphrasePurpose], answers: [String?])>(([], []))
        private let gate = AsyncStream.makeStream(of: Void.self)

        init(_ answers: [String?]) { state.withLock { $0.answers = answers } }

        var purposes: [PassphrasePurpose] { state.withLock(\.purposes) }

        func speak() { gate.continuation.finish() }

        func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
            state.withLock { $0.purposes.append(purpose) }
            for await _ in gate.stream {}
            guard !Task.isCancelled else { throw .noPassphrase("given up") }
            let answer = state.withLock { $0.answers.isEmpty ? "" : $0.answers.removeFirst() }
            guard let answer else { throw .noPassphrase("the person refused") }
            return Secret(answer)
        }
    }

    private func store(_ folder: PrivateFolder, _ source: any PassphraseSource) throws -> EncryptedFileCredentialStore {
        try EncryptedFileCredentialStore(directory: folder.credentials, passphrase: source, parameters: .cheap)
    }

    @Test func itIsAskedForOnceHoweverManyNeedIt() async throws {
        let folder = try PrivateFolder()
        try await EncryptedFileCredentialStore.cheap(folder).save(Secret("x"), in: .mine)
        let person = Person(["correct horse"])
        let store = try store(folder, person)
        try await withThrowingTaskGroup(of: String?.self) { group in
            for _ in 0..<16 { group.addTask { try await store.load(.mine)?.text } }
            person.speak()
            for try await text in group { #expect(text == "x") }
        }
        try await store.save(Secret("y"), in: .yours)
        #expect(person.purposes == [.opening(try store.path(of: .mine))])
    }

    @Test func nobodyIsAskedWhereThereIsNothingToOpen() async throws {
        let folder = try PrivateFolder()
        let person = Person(["correct horse"])
        let store = try store(folder, person)
        #expect(try await store.load(.mine) == nil)
        try await store.delete(.mine)
        #expect(!FileManager.default.fileExists(atPath: folder.credentials))
        #expect(person.purposes.isEmpty)
        person.speak()
        try await store.save(Secret("x"), in: .mine)
        #expect(person.purposes == [.creating(try store.path(of: .mine))])
    }

    @Test func preparingToSaveAsksAndTheSaveDoesNotAskAgain() async throws {
        let folder = try PrivateFolder()
        let person = Person(["correct horse"])
        person.speak()
        let store = try store(folder, person)
        try await store.prepareToSave(in: .mine)
        #expect(person.purposes == [.creating(try store.path(of: .mine))])
        #expect(try folder.names().isEmpty)
        try await store.save(Secret("x"), in: .mine)
        try await store.prepareToSave(in: .mine)
        #expect(person.purposes.count == 1)
        #expect(try await store.load(.mine)?.text == "x")
    }

    @Test func preparingToSaveFindsOutWhatASaveWould() async throws {
        let folder = try PrivateFolder()
        let unset = try store(folder, FirstPassphrase([]))
        #expect(await storeError { try await unset.prepareToSave(in: .mine) }?.isNoPassphrase == true)
        let right = try EncryptedFileCredentialStore.cheap(folder)
        try await right.save(Secret("x"), in: .mine)
        let wrong = try EncryptedFileCredentialStore.cheap(folder, passphrase: "battery staple")
        #expect(await storeError { try await wrong.prepareToSave(in: .mine) }?.isWrongPassphrase == true)
        let path = try right.path(of: .mine)
        try Files.write([1, 2, 3], to: path)
        try await right.prepareToSave(in: .mine)
        #expect(try Files.read(path) == [1, 2, 3])
        try Files.set(0o755, of: folder.credentials)
        #expect(await storeError { try await right.prepareToSave(in: .mine) }?.isUnsafe == true)
    }

    @Test func aRefusalIsNotRememberedAndAForgottenOneIsAskedForAgain() async throws {
        let folder = try PrivateFolder()
        try await EncryptedFileCredentialStore.cheap(folder).save(Secret("x"), in: .mine)
        let person = Person([nil, "wrong", "correct horse"])
        person.speak()
        let store = try store(folder, person)
        #expect(await storeError { _ = try await store.load(.mine) } == .noPassphrase("the person refused"))
        for _ in 0..<2 { #expect(await storeError { _ = try await store.load(.mine) }?.isWrongPassphrase == true) }
        #expect(person.purposes.count == 2)
        store.forgetPassphrase()
        #expect(try await store.load(.mine)?.text == "x")
        #expect(person.purposes.count == 3)
    }

    @Test func aCancelledCallAnswersAtOnceAndTheOthersKeepTheQuestion() async throws {
        let folder = try PrivateFolder()
        try await EncryptedFileCredentialStore.cheap(folder).save(Secret("x"), in: .mine)
        let person = Person(["correct horse"])
        let store = try store(folder, person)
        let patient = Task { try await store.load(.mine)?.text }
        let hasty = Task { try await store.load(.mine)?.text }
        hasty.cancel()
        await #expect(throws: CredentialStoreError.cancelled) { try await hasty.value }
        person.speak()
        #expect(try await patient.value == "x")
        #expect(person.purposes.count == 1)
    }

    @Test func aQuestionThatNobodyWaitsForIsGivenUp() async throws {
        let asked = AsyncStream.makeStream(of: String.self)
        struct Listener: PassphraseSource {
            let heard: AsyncStream<String>.Continuation
            func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
                heard.yield("asked")
                // A person who never answers: this ends by cancellation alone, and nothing waits for the hour.
                for await _ in AsyncStream<Void>(unfolding: { try? await Task.sleep(for: .seconds(3600)) }) {}
                heard.yield("given up")
                throw .noPassphrase("given up")
            }
        }
        let folder = try PrivateFolder()
        try await EncryptedFileCredentialStore.cheap(folder).save(Secret("x"), in: .mine)
        let store = try store(folder, Listener(heard: asked.continuation))
        let call = Task { try await store.load(.mine)?.text }
        var heard = asked.stream.makeAsyncIterator()
        #expect(await heard.next() == "asked")
        call.cancel()
        await #expect(throws: CredentialStoreError.cancelled) { try await call.value }
        #expect(await heard.next() == "given up")
    }

    @Test func theFirstSourceThatIsSetUpIsTaken() async throws {
        let folder = try PrivateFolder()
        let file = try folder.write(Array("from the file\n".utf8), to: "p")
        let unset = PassphraseFile(environment: [:])
        let set = PassphraseFile(environment: [PassphraseFile.variable: file])
        #expect(try await unset.passphrase(for: .opening("/f")) == nil)
        #expect(
            try await PassphraseFile(environment: [PassphraseFile.variable: ""]).passphrase(for: .opening("/f")) == nil)
        let first = FirstPassphrase([unset, SystemdPassphrase(environment: [:]), set, FixedPassphrase(Secret("last"))])
        #expect(try await first.passphrase(for: .opening("/f"))?.text == "from the file")
        let broken = FirstPassphrase([PassphraseFile(path: folder.path + "/none"), FixedPassphrase(Secret("last"))])
        #expect(await storeError { _ = try await broken.passphrase(for: .opening("/f")) }?.isNoPassphrase == true)
        #expect(try await FirstPassphrase([]).passphrase(for: .opening("/f")) == nil)
    }

    @Test(arguments: [
        ("plain", "plain"), ("one line\n", "one line"), ("dos\r\n", "dos"), ("two\n\n", "two\n"),
        (" spaces \n", " spaces "),
        ("a\nb", "a\nb"), ("ünï 🔑\n", "ünï 🔑"), ("cr\r", "cr\r"),
    ])
    func oneLineBreakAtTheEndDoesNotCount(text: String, passphrase: String) async throws {
        let folder = try PrivateFolder()
        let source = PassphraseFile(path: try folder.write(Array(text.utf8), to: "p"))
        #expect(try await source.passphrase(for: .opening("/f"))?.text == passphrase)
    }

    @Test func aPassphraseFileIsRefusedWhenOthersCouldHaveReadIt() async throws {
        let folder = try PrivateFolder()
        let path = try folder.write(Array("s3cret\n".utf8), to: "p")
        for mode in (0o1...0o77).map({ 0o600 | $0 }) {
            try Files.set(mode, of: path)
            let error = await storeError(String(mode, radix: 8)) {
                _ = try await PassphraseFile(path: path).passphrase(for: .opening("/f"))
            }
            #expect(error?.isUnsafe == true)
            #expect(error?.recoverySuggestion?.contains("chmod 600 \(path)") == true)
            #expect(error?.errorDescription?.contains("s3cret") == false)
        }
        try Files.set(0o400, of: path)
        #expect(try await PassphraseFile(path: path).passphrase(for: .opening("/f"))?.text == "s3cret")
    }

    @Test func aPassphraseFileIsBoundedAndRegularAndNotEmpty() async throws {
        let folder = try PrivateFolder()
        let most = [UInt8](repeating: 65, count: PassphraseFile.limit)
        let source = PassphraseFile(path: try folder.write(most, to: "most"))
        #expect(try await source.passphrase(for: .opening("/f"))?.count == PassphraseFile.limit)
        #expect(mkfifo(folder.path + "/pipe", 0o600) == 0)
        let unfit = [
            try folder.write(most + [10], to: "more"), try folder.write([], to: "empty"),
            try folder.write([10], to: "line"),
            folder.path + "/pipe", folder.path, folder.path + "/missing", folder.path + "/nul\u{0}",
        ]
        for path in unfit {
            let error = await storeError(path) {
                _ = try await PassphraseFile(path: path).passphrase(for: .opening("/f"))
            }
            #expect(error?.isNoPassphrase == true || error?.isUnsafe == true)
        }
    }

    @Test func systemdsCredentialMayBeReadableByItsGroupAndMayBeMissing() async throws {
        let folder = try PrivateFolder()
        let source = SystemdPassphrase(environment: ["CREDENTIALS_DIRECTORY": folder.path])
        #expect(try await source.passphrase(for: .opening("/f")) == nil)
        let path = try folder.write(Array("from systemd\n".utf8), to: SystemdPassphrase.name)
        for mode in [0o400, 0o440, 0o600] {
            try Files.set(mode, of: path)
            #expect(try await source.passphrase(for: .opening("/f"))?.text == "from systemd")
        }
        for mode in [0o444, 0o420, 0o402, 0o404, 0o410, 0o666] {
            try Files.set(mode, of: path)
            #expect(await storeError { _ = try await source.passphrase(for: .opening("/f")) }?.isUnsafe == true)
        }
    }
}
