/// Keeps each account's model list, and the models that were refused to it, from one run of a program to the next: a
/// port.
///
/// A turn uses the list that is kept without asking for a day; an older one is renewed beside the turn, with the `ETag`
/// of what is there, so that a list that has not changed costs one small exchange. A complete fake:
///
/// ```swift
/// actor Memory: ChappieModelCache {
///     var documents: [String: [UInt8]] = [:]
///     func load(_ name: String) -> [UInt8]? { documents[name] }
///     func save(_ document: [UInt8], _ name: String) { documents[name] = document }
/// }
/// ```
public protocol ChappieModelCache: Sendable {
    /// Returns the document saved last under `name`, or `nil` if it is missing or can't be read. The client checks it.
    func load(_ name: String) async -> [UInt8]?
    /// Keeps `document`, which holds no secret, under `name`: 16 hexadecimal digits for a document of an account, an
    /// issuer and a backend. A failure is ignored.
    func save(_ document: [UInt8], _ name: String) async
}
