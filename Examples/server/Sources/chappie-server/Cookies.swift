import CServer
import Foundation

/// The cookies with which pages name their user. They are signed with a key that all machines share.
struct Cookies: Sendable {
    static let name = "chat"

    private let key: [UInt8]

    /// Reads the key, of at least 32 bytes.
    init(keyFile path: String) throws {
        key = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
        guard key.count >= 32 else { throw SettingsError("\(path) must have at least 32 bytes") }
    }

    /// Returns the cookie of a user, or `nil` for a name that can't be used.
    func make(for user: String) -> String? {
        let isName = user.utf8.allSatisfy {
            isalnum(Int32($0)) != 0 || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: ".")
        }
        return isName && (1...64).contains(user.utf8.count) ? "\(user)_\(signature(of: user))" : nil
    }

    /// Returns the user whom a cookie names, or `nil` if its signature is wrong.
    func user(in cookie: String) -> String? {
        guard let user = cookie.split(separator: "_").first.map(String.init), let own = make(for: user) else {
            return nil
        }
        let isSame = own.utf8.count == cookie.utf8.count && CRYPTO_memcmp(own, cookie, own.utf8.count) == 0
        return isSame ? user : nil
    }

    /// Returns the HMAC-SHA-256 of a name, in hexadecimal.
    private func signature(of name: String) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        _ = HMAC(EVP_sha256(), key, Int32(key.count), Array(name.utf8), name.utf8.count, &digest, nil)
        return digest.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }
}
