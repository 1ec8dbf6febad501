import ChappieCrypto
import ChappieSDK
import Glibc

/// Asks a person for the passphrase, on the terminal itself: standard input may be a pipe.
struct TerminalPassphrase: PassphraseSource {
    /// - Returns: `nil` where there is no terminal.
    func passphrase(for purpose: PassphrasePurpose) async throws(CredentialStoreError) -> Secret? {
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard terminal >= 0 else { return nil }
        defer { close(terminal) }
        switch purpose {
        case .opening(let path): return try ask("Passphrase for \(path): ", terminal)
        case .creating(let path):
            // A slip of the finger is no reason to begin anew.
            for _ in 1...3 {
                let first = try ask("New passphrase for \(path): ", terminal)
                if first == (try ask("The same again: ", terminal)) { return first }
                say("The two differ.\n", terminal)
            }
            throw .noPassphrase("the two entries differ")
        }
    }

    private func ask(_ question: String, _ terminal: CInt) throws(CredentialStoreError) -> Secret {
        guard TerminalEcho.silence(terminal) else { throw .noPassphrase("the terminal does not answer") }
        defer { TerminalEcho.restore() }
        say(question, terminal)
        var entry: [UInt8] = []
        // In one piece from the start, so that growing leaves no copies behind.
        entry.reserveCapacity(1024)
        defer { for index in entry.indices { entry[index] = 0 } }
        var byte: UInt8 = 0
        while entry.count < 1024 {
            let count = read(terminal, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count == 1, byte != UInt8(ascii: "\n") else { break }
            entry.append(byte)
        }
        guard !entry.isEmpty else { throw .noPassphrase("nothing was entered") }
        return Secret(entry)
    }

    private func say(_ text: String, _ terminal: CInt) { _ = write(terminal, text, text.utf8.count) }
}
