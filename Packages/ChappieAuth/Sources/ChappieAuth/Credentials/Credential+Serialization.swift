import ChappieCore
import FoundationEssentials

extension Credential {
    /// The version of the document that this code writes.
    static let documentVersion = 1
    static let maximumDocumentSize = 1 << 20

    private static let knownMembers: Set<String> = ["version", "grant", "tokens", "last_refresh"]
    private static let knownTokenMembers: Set<String> = ["id_token", "access_token", "refresh_token", "account_id"]

    /// The JSON document that goes into a ``CredentialStore``.
    func serialized() -> Secret {
        var tokens = ChappieJSONObject()
        tokens["id_token"] = idToken.map { .string($0.text) }
        tokens["access_token"] = .string(accessToken.text)
        tokens["refresh_token"] = refreshToken.map { .string($0.text) }
        tokens["account_id"] = accountID.map { .string($0) }
        var document = ChappieJSONObject([("version", .integer(Self.documentVersion))])
        document["grant"] = grant.map { .string($0) }
        document["tokens"] = .object(ChappieJSONObject(members: tokens.members + unknownTokenMembers.members))
        document["last_refresh"] = lastRefresh.map { .string(WireDate.rfc3339Text($0)) }
        let whole = ChappieJSONObject(members: document.members + unknownMembers.members)
        return Secret(ChappieJSON.object(whole).serializedBytes())
    }

    /// Reads a stored document.
    ///
    /// - Throws: ``CredentialStoreError/corrupt(_:)``, in words that hold nothing of the document.
    init(serialized secret: Secret) throws(CredentialStoreError) {
        guard secret.count <= Self.maximumDocumentSize else { throw .corrupt("it is larger than any credential") }
        guard let json = try? ChappieJSON(parsing: secret.withBytes(Array.init)), case .object(let document) = json
        else { throw .corrupt("it is not a JSON object") }
        guard let version = document["version"]?.int, version >= 1 else { throw .corrupt("it has no version") }
        guard version == Self.documentVersion else {
            throw .corrupt("it was written by a newer version of this program (format \(version))")
        }
        guard case .object(let tokens) = document["tokens"] else { throw .corrupt("it holds no tokens") }
        guard let accessToken = Secret(token: tokens["access_token"]?.string) else {
            throw .corrupt("it holds no usable access token")
        }
        self.init(
            idToken: Secret(token: tokens["id_token"]?.string), accessToken: accessToken,
            refreshToken: Secret(token: tokens["refresh_token"]?.string),
            accountID: SafeText.token(tokens["account_id"]?.string, limit: 256),
            lastRefresh: document["last_refresh"]?.string.flatMap(WireDate.rfc3339),
            grant: SafeText.token(document["grant"]?.string, limit: 64),
            unknownMembers: document.leaving(out: Self.knownMembers),
            unknownTokenMembers: tokens.leaving(out: Self.knownTokenMembers))
    }
}

extension ChappieJSONObject {
    fileprivate func leaving(out names: Set<String>) -> ChappieJSONObject {
        ChappieJSONObject(members: members.filter { !names.contains($0.name) })
    }
}
