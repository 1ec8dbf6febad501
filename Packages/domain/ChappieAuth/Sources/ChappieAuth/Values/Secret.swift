@_spi(ChappieInternals) import ChappieCore
import Synchronization

/// Bytes that must stay secret. A secret prints as `‹redacted›` and is not `Codable`. Putting it into text causes a
/// compiler warning. It is wiped when its last copy is released.
///
/// Wiping covers the bytes in this value. A string that a caller creates from them lives as long as the caller keeps
/// it.
public struct Secret: Sendable {
    private let storage: Storage

    /// Creates a secret with a copy of `bytes`.
    public init(_ bytes: [UInt8]) { storage = Storage(bytes) }

    /// Creates a secret with the bytes of this text.
    public init(_ text: String) { self.init(Array(text.utf8)) }

    /// Calls `body` with the bytes. `body` must not keep them.
    public func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) throws -> Result) rethrows -> Result {
        // The array leaves the lock as a second reference to the same buffer, not as a copy of it.
        try withExtendedLifetime(storage) { try storage.bytes.withLock { $0 }.withUnsafeBufferPointer(body) }
    }

    /// The number of its bytes.
    public var count: Int { storage.bytes.withLock(\.count) }
    /// Whether it has no bytes.
    public var isEmpty: Bool { count == 0 }

    private final class Storage: Sendable {
        let bytes: Mutex<[UInt8]>

        init(_ bytes: [UInt8]) { self.bytes = Mutex(bytes) }

        deinit { bytes.withLock { wipe(&$0) } }
    }
}

/// Overwrites the bytes with zeros. The function is not inlined, because the compiler must not see that the bytes are
/// not read again.
@inline(never)
private func wipe(_ bytes: inout [UInt8]) {
    for index in bytes.indices { bytes[index] = 0 }
    withExtendedLifetime(bytes) {}
}

extension Secret: Equatable {
    /// Returns whether the bytes are equal. It always compares every byte, so that the time reveals only the length.
    public static func == (left: Secret, right: Secret) -> Bool {
        var copy = left.withBytes(Array.init)
        defer { wipe(&copy) }
        return right.withBytes { bytes in
            guard bytes.count == copy.count else { return false }
            var difference: UInt8 = 0
            for index in bytes.indices { difference |= bytes[index] ^ copy[index] }
            return difference == 0
        }
    }
}

extension Secret: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The redacted form.
    public var description: String { "‹redacted›" }
    /// The redacted form.
    public var debugDescription: String { description }
    /// A mirror without children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension DefaultStringInterpolation {
    /// Appends the redacted form, and causes a compiler warning, because text goes to logs and messages. It is
    /// deprecated, not unavailable, because the compiler would prefer the general overload to an unavailable one.
    @available(*, deprecated, message: "a secret must not be put into text")
    public mutating func appendInterpolation(_ secret: Secret) { appendLiteral(secret.description) }
}

extension Secret {
    /// The bytes as text, only for the moment at which a request or a stored document is built.
    @_spi(ChappieInternals) public var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }

    /// Creates a secret from a token that fits an authorization header: 1 byte to 64 KiB of visible ASCII. Returns
    /// `nil` for any other text.
    @_spi(ChappieInternals) public init?(token: String?) {
        guard let token = UntrustedText.token(token, limit: 64 << 10) else { return nil }
        self.init(token)
    }
}
