@_spi(ChappieInternals) import ChappieCore
import Dispatch

/// Keeps each account's model list from one run of a program to the next: a port.
///
/// The client asks the backend each time, with the `ETag` of the list that it has: a list that has not changed costs one
/// small exchange, and is never out of date. There is no time for which a list is believed unasked. A complete fake:
///
/// ```swift
/// actor Memory: ChappieModelCache {
///     var documents: [String: [UInt8]] = [:]
///     func load(_ name: String) -> [UInt8]? { documents[name] }
///     func save(_ document: [UInt8], _ name: String) { documents[name] = document }
/// }
/// ```
public protocol ChappieModelCache: Sendable {
    /// The document saved last under `name`; `nil` where there is none, or none can be read. The client checks it.
    func load(_ name: String) async -> [UInt8]?
    /// Keeps `document`, which holds no secret, under `name`: 16 hexadecimal digits for an account of an issuer and a backend.
    /// A failure is no loss.
    func save(_ document: [UInt8], _ name: String) async
}

/// Model lists in files for their owner alone: `models-NAME.json`, each replaced in one step.
public struct ChappieFileModelCache: ChappieModelCache {
    private static let limit = 17 << 20
    private let directory: String

    /// - Parameter directory: absolute; made where it is missing, when the first list is saved.
    public init(directory: String) { self.directory = directory }

    /// Files in `$XDG_CACHE_HOME/chappie`, or in `~/.cache/chappie`; `nil` where there is no home.
    ///
    /// - Parameter variable: looks up a variable of the environment.
    public init?(environment variable: (String) -> String?) {
        // Relative paths are to be ignored (XDG Base Directory Specification).
        let named = variable("XDG_CACHE_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
        guard let parent = named ?? variable("HOME").map({ $0 + "/.cache" }), parent.hasPrefix("/") else { return nil }
        self.init(directory: parent + "/chappie")
    }

    /// Reads the file, of at most 17 MiB.
    public func load(_ name: String) async -> [UInt8]? {
        let path = path(of: name)
        return await Self.onThread { try? RegularFile.contents(of: path, limit: Self.limit) }
    }

    /// Writes the file.
    public func save(_ document: [UInt8], _ name: String) async {
        let path = path(of: name)
        await Self.onThread { _ = PrivateFile.replace(path, with: document, isDurable: false) }
    }

    private func path(of name: String) -> String { "\(directory)/models-\(name).json" }

    /// Disks block, and Swift's threads must not.
    private static func onThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: work()) }
        }
    }
}

/// A model list with its tag, and whose it is, as a document of the cache.
struct ModelListRecord {
    /// The issuer, the backend, the user and the account.
    let owner: [String]
    /// The wire format that the list was asked for.
    let format: String

    var name: String { FNV1a.hexadecimal(owner) }

    /// `nil` for a list that repeats a token, as a proxy's may: tokens are kept in the credential store alone.
    func document(tag: String, list: ChappieJSON) -> [UInt8]? {
        let json: ChappieJSON = ["owner": owners, "format": .string(format), "etag": .string(tag), "list": list]
        let text = json.serialized()
        return UntrustedText.withoutTokens(text) == text ? Array(text.utf8) : nil
    }

    /// `nil` for a document that is damaged, or of another owner or format.
    func read(_ document: [UInt8]) -> (tag: String, models: [ChappieModel])? {
        guard let json = try? ChappieJSON(parsing: document), json["owner"] == owners,
            json["format"]?.string == format, let tag = UntrustedText.token(json["etag"]?.string, limit: 1024),
            let models = json["list"].flatMap(ChappieModel.list)
        else { return nil }
        return (tag, models)
    }

    private var owners: ChappieJSON { .array(owner.map(ChappieJSON.string)) }
}
