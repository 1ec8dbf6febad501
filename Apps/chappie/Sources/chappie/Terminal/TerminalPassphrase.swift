import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieCrypto
@_spi(ChappieInternals) import ChappieFiles
import ChappieLineEditor
import ChappieMarkdown
import ChappieSDK
import FoundationEssentials
import Glibc
import SystemPackage

/// A source that asks the user for the passphrase on the terminal itself, because standard input may be a pipe.
struct TerminalPassphrase: TraceablePassphraseSource {
    /// Returns the terminal as the origin of a key that is kept.
    func origin() -> PassphraseOrigin { .known("terminal") }

    /// Asks the user for the passphrase.
    ///
    /// - Returns: the passphrase, or `nil` if the process has no terminal.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        do {
            return try await onThread { try Self.ask(for: purpose) }
        } catch let error as CredentialStoreError {
            throw error
        } catch {
            throw .noPassphrase("the question was cancelled")
        }
    }

    private static func ask(for purpose: PassphrasePurpose) throws -> Secret? {
        guard let terminal = try? Descriptor("/dev/tty", .readWrite) else { return nil }
        switch purpose {
        case .opening(let path): return try ask("Passphrase for \(shown(path)): ", terminal)
        case .creating(let path):
            // A typing error does not restart the sign-in.
            for _ in 1...3 {
                let first = try ask("New passphrase for \(shown(path)): ", terminal)
                if first == (try ask("Repeat the passphrase: ", terminal)) { return first }
                say("The two passphrases differ.\n", terminal)
            }
            throw CredentialStoreError.noPassphrase("the two passphrases differ")
        }
    }

    /// Returns a secret that the user types without an echo on the terminal itself, or `nil` if the process has no
    /// terminal.
    static func secret(asking question: String) async throws -> Secret? {
        try await onThread {
            guard let terminal = try? Descriptor("/dev/tty", .readWrite) else { return nil }
            return try ask(question, terminal)
        }
    }

    /// Returns the path in a form that is short enough for a line. The file's name is a digest of its purpose.
    private static func shown(_ path: String) -> String {
        let home = ProgramEnvironment.process.folders.home.map { $0 + "/" } ?? ""
        let path = !home.isEmpty && path.hasPrefix(home) ? "~/" + path.dropFirst(home.count) : path
        guard let slash = path.lastIndex(of: "/"), let dot = path.lastIndex(of: "."), slash < dot else { return path }
        let name = path[path.index(after: slash)..<dot]
        return name.count > 16 ? "\(path[...slash])\(name.prefix(8))…\(path[dot...])" : path
    }

    private static func ask(_ question: String, _ terminal: Descriptor) throws -> Secret {
        guard TerminalEcho.silence(terminal.number) else {
            throw CredentialStoreError.noPassphrase("the terminal does not answer")
        }
        defer { TerminalEcho.restore() }
        say(question, terminal)
        var entry: [UInt8] = []
        // A growing array would leave copies in memory.
        entry.reserveCapacity(4096)
        defer { for index in entry.indices { entry[index] = 0 } }
        while entry.count < 4096, let byte = try? terminal.read(atMost: 1).first, byte != UInt8(ascii: "\n") {
            entry.append(byte)
        }
        guard !entry.isEmpty else { throw CredentialStoreError.noPassphrase("no passphrase was entered") }
        return Secret(entry)
    }

    private static func say(_ text: String, _ terminal: Descriptor) {
        var text = UntrustedText.forTerminal(text)
        if let size = TerminalState.size(of: terminal.number) { text = PlainText.wrapped(text, width: size.columns) }
        try? terminal.write(Array(text.utf8))
    }
}
