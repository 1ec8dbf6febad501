import ChappieAuth
@_spi(ChappieInternals) import ChappieCore
import Dispatch

/// Keeps each account's model list from one run of a program to the next: a port.
///
/// A turn uses the list that is kept without asking for a day; an older one is renewed beside the turn, with the `ETag` of
/// what is there, so that a list that has not changed costs one small exchange. A complete fake:
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

/// A model list with its tag and its date, and whose it is, as a document of the cache.
struct ModelListRecord {
    /// The issuer, the backend, the user and the account.
    let owner: [String]
    /// The wire format that the list was asked for.
    let format: String

    var name: String { FNV1a.hexadecimal(owner) }

    /// `nil` for a list that repeats a token, as a proxy's may: tokens are kept in the credential store alone.
    func document(tag: String?, list: ChappieJSON, at date: Date) -> [UInt8]? {
        let json: ChappieJSON = [
            "owner": owners, "format": .string(format), "listed_at": Self.seconds(date),
            "etag": tag.map(ChappieJSON.string) ?? .null, "list": list,
        ]
        let text = json.serialized()
        return UntrustedText.withoutTokens(text) == text ? Array(text.utf8) : nil
    }

    /// The document of a list that still held at `date`.
    func renewed(_ document: [UInt8], at date: Date) -> [UInt8]? {
        guard var object = (try? ChappieJSON(parsing: document))?.object else { return nil }
        object["listed_at"] = Self.seconds(date)
        return ChappieJSON.object(object).serializedBytes()
    }

    /// `nil` for a document that is damaged, or of another owner. One of another format is old, and has no tag: the service
    /// may list more to this one.
    func read(_ document: [UInt8], of account: ChappieAccountInfo) -> ModelList? {
        guard let json = try? ChappieJSON(parsing: document), json["owner"] == owners,
            let models = json["list"].flatMap(ChappieModel.list)
        else { return nil }
        let isCurrent = json["format"]?.string == format
        let date = isCurrent ? json["listed_at"]?.int.map { Date(timeIntervalSince1970: TimeInterval($0)) } : nil
        return ModelList(
            account: account, tag: isCurrent ? UntrustedText.token(json["etag"]?.string, limit: 1024) : nil,
            models: models, listedAt: date ?? .distantPast)
    }

    private var owners: ChappieJSON { .array(owner.map(ChappieJSON.string)) }

    private static func seconds(_ date: Date) -> ChappieJSON {
        .integer(Int(exactly: date.timeIntervalSince1970.rounded(.down)) ?? 0)
    }
}
