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
            let first = try ask("New passphrase for \(path): ", terminal)
            guard first == (try ask("The same again: ", terminal)) else {
                throw .noPassphrase("the two entries differ")
            }
            return first
        }
    }

    private func ask(_ question: String, _ terminal: CInt) throws(CredentialStoreError) -> Secret {
        var settings = termios()
        guard tcgetattr(terminal, &settings) == 0 else { throw .noPassphrase("the terminal does not answer") }
        var silent = settings
        silent.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(terminal, TCSAFLUSH, &silent)
        defer {
            tcsetattr(terminal, TCSAFLUSH, &settings)
            _ = write(terminal, "\n", 1)
        }
        _ = write(terminal, question, question.utf8.count)
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
}
