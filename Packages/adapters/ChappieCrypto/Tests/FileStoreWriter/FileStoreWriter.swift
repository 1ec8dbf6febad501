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
/// not; asks whether it can save, saves, and prints both errors.
/// `FileStoreWriter mask DIRECTORY OCTAL`: saves one document under this file mode creation mask.
@main
enum FileStoreWriter {
    private static let slot = CredentialSlot(service: "com.chappie.writer", account: "default")

    static func main() async throws {
        let arguments = CommandLine.arguments
        let store = try EncryptedFileCredentialStore(
            directory: arguments[2], passphrase: FixedPassphrase(Secret("correct horse")),
            parameters: ScryptParameters(costExponent: 1, blockSize: 1) ?? .default)
        switch arguments[1] {
        case "endless":
            let earlier = try await store.load(slot)?.withBytes { String(decoding: $0, as: UTF8.self) }
            var number = earlier.flatMap { Int($0.split(separator: " ")[1]) } ?? 0
            say("ready")
            while true {
                number += 1
                try await store.save(document("endless", number), in: slot)
                say("saved \(number)")
            }
        case "race":
            say("ready")
            var byte: UInt8 = 0
            while read(0, &byte, 1) > 0 {}
            for number in 1...(Int(arguments[4]) ?? 1) {
                try await store.save(document(arguments[3], number), in: slot)
            }
            say("done")
        case "limit":
            signal(SIGXFSZ, arguments[4] == "ignored" ? SIG_IGN : SIG_DFL)
            limit(RLIMIT_CORE, to: 0)
            limit(RLIMIT_FSIZE, to: rlim_t(arguments[3]) ?? 0)
            do { try await store.prepareToSave(in: slot) } catch { say("\(error)") }
            do { try await store.save(document("limit", 6), in: slot) } catch { say("\(error)") }
        default:
            umask(mode_t(arguments[3], radix: 8) ?? 0)
            try await store.save(document("mask", 1), in: slot)
        }
    }

    /// `NAME N LLLL…`: how many L follow from N, so that a part of it can't be taken for the whole.
    private static func document(_ name: String, _ number: Int) -> Secret {
        Secret("\(name) \(number) " + String(repeating: "L", count: 1 + number * 997 % 6000))
    }

    private static func limit(_ resource: __rlimit_resource, to bytes: rlim_t) {
        var limit = rlimit(rlim_cur: bytes, rlim_max: bytes)
        setrlimit(__rlimit_resource_t(resource.rawValue), &limit)
    }

    private static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        if write(1, bytes, bytes.count) != bytes.count { exit(74) }
    }
}
