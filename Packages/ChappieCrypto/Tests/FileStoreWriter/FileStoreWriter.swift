import ChappieAuth
import ChappieCrypto

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A process that saves into an encrypted file store, for tests that kill it, starve it, or run two of it.
///
/// `FileStoreWriter endless DIRECTORY`: prints `ready`, then saves one document after the other, and prints `saved N`
/// after each, until it is killed.
/// `FileStoreWriter race DIRECTORY NAME COUNT`: prints `ready`, waits for the end of its input, saves COUNT documents,
/// prints `done`.
/// `FileStoreWriter limit DIRECTORY BYTES ignored|default`: may write files of BYTES at most, with SIGXFSZ ignored or
/// not; prints the error's words.
/// `FileStoreWriter mask DIRECTORY OCTAL`: saves one document under this file mode creation mask.
@main
enum FileStoreWriter {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count >= 2, let mode = arguments.first else { exit(64) }
        let rest = Array(arguments.dropFirst(2))
        let store = try EncryptedFileCredentialStore(
            directory: arguments[arguments.startIndex + 1], passphrase: FixedPassphrase(Secret("correct horse")),
            parameters: ScryptParameters(costExponent: 1, blockSize: 1) ?? .default)
        switch mode {
        case "endless": try await endless(store)
        case "race": try await race(store, name: rest[0], count: Int(rest[1]) ?? 0)
        case "limit": await limit(store, bytes: UInt(rest[0]) ?? 0, ignores: rest[1] == "ignored")
        case "mask":
            umask(mode_t(rest[0], radix: 8) ?? 0)
            try await store.save(document("mask", 1), in: slot)
        default: exit(64)
        }
    }

    private static let slot = CredentialSlot(service: "com.chappie.writer", account: "default")

    /// `NAME N LLLL…`: how many L follow from N, so that a part of it can't be taken for the whole.
    private static func document(_ name: String, _ number: Int) -> Secret {
        Secret("\(name) \(number) " + String(repeating: "L", count: 1 + number * 997 % 6000))
    }

    private static func endless(_ store: EncryptedFileCredentialStore) async throws {
        let earlier = try await store.load(slot)?.withBytes { String(decoding: $0, as: UTF8.self) }
        var number = earlier.flatMap { Int($0.split(separator: " ")[1]) } ?? 0
        say("ready")
        while true {
            number += 1
            try await store.save(document("endless", number), in: slot)
            say("saved \(number)")
        }
    }

    private static func race(_ store: EncryptedFileCredentialStore, name: String, count: Int) async throws {
        say("ready")
        var byte: UInt8 = 0
        while read(0, &byte, 1) > 0 {}
        for number in 1...count { try await store.save(document(name, number), in: slot) }
        say("done")
    }

    private static func limit(_ store: EncryptedFileCredentialStore, bytes: UInt, ignores: Bool) async {
        signal(SIGXFSZ, ignores ? SIG_IGN : SIG_DFL)
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        var limit = rlimit(rlim_cur: rlim_t(bytes), rlim_max: rlim_t(bytes))
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
        do throws(CredentialStoreError) {
            try await store.save(document("limit", 6), in: slot)
            say("saved")
        } catch .failed(let detail) {
            say("failed: \(detail)")
        } catch {
            say("otherwise: \(error)")
        }
    }

    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        if write(1, bytes, bytes.count) != bytes.count { exit(74) }
    }
}
