/// A port that keeps each account's model list, and the models that were refused to it, from one run of a program to
/// the next.
///
/// For a day, a turn uses the stored list without asking the backend. An older list is renewed at the same time as the
/// turn, with the `ETag` of the stored list, so that an unchanged list costs one small exchange. A complete fake:
///
/// ```swift
/// actor Memory: ChappieModelCache {
///     var documents: [String: [UInt8]] = [:]
///     func load(_ name: String) -> [UInt8]? { documents[name] }
///     func save(_ document: [UInt8], _ name: String) { documents[name] = document }
/// }
/// ```
public protocol ChappieModelCache: Sendable {
    /// Returns the document that was last saved under `name`, or `nil` if it is missing or can't be read. The client
    /// checks it.
    func load(_ name: String) async -> [UInt8]?
    /// Saves `document`, which contains no secret, under `name`. The name has 16 hexadecimal digits, for a document of
    /// an account, an issuer and a backend. A failure is ignored.
    func save(_ document: [UInt8], _ name: String) async
}
