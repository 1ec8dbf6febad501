@_spi(ChappieInternals) import ChappieCore

/// A record of a sign-out that outlives the process, because the store did not carry it out in time.
struct Tombstone: Sendable {
    /// The time when the user signed out, by the wall clock. It is not before the sign-ins that were signed out.
    private(set) var at: Date
    /// Whether the credential is to be revoked at the server. It is `false` if another machine uses it after an export.
    let revokes: Bool
    /// The accounts that were signed out. It is empty if the store could not be read either.
    private(set) var accounts: [ChappieAccountInfo] = []
    /// The mark of the change made by the sign-out.
    var mark: [UInt8]?
    /// Whether the credential is unchanged since the sign-out. In that case the times, which may be from a wrong clock,
    /// don't matter.
    var isLastChange = false

    init(at: Date, revokes: Bool, _ credentials: [Credential]) {
        self.at = at
        self.revokes = revokes
        for credential in credentials { add(credential) }
    }

    mutating func add(_ credential: Credential) {
        // Either time may have been read from a wrong clock.
        at = max(at, credential.beganAt ?? at)
        accounts.append(ChappieAccountInfo(userID: credential.info.userID, accountID: credential.info.accountID))
    }

    /// Returns whether `stored` belongs to an account that the user signed out of, or may belong to one because the
    /// accounts are not known.
    func concerns(_ stored: Credential) -> Bool {
        accounts.isEmpty || accounts.contains { $0.isSameAccount(as: stored.info) }
    }

    /// Returns whether `stored` is the credential that the user signed out of, and not a later sign-in of the same
    /// account.
    func means(_ stored: Credential) -> Bool {
        isLastChange || concerns(stored) && stored.beganAt.map { $0 <= at } ?? true
    }

    /// Creates a tombstone from a stored document. Returns `nil` if the document is not a tombstone. It then has no
    /// effect.
    init?(serialized document: [UInt8]) {
        guard let json = try? ChappieJSON(parsing: document),
            let at = json["signed_out_at"]?.string.flatMap(HTTPDate.rfc3339)
        else { return nil }
        self.at = at
        revokes = json["revokes"]?.bool ?? true
        mark = json["mark"]?.string.flatMap(Base64URL.decode)
        accounts = (json["accounts"]?.array ?? []).map {
            ChappieAccountInfo(userID: $0["user_id"]?.string, accountID: $0["account_id"]?.string)
        }
    }

    func serialized() -> [UInt8] {
        let accounts = accounts.map { account -> ChappieJSON in
            var members = ChappieJSONObject()
            members["account_id"] = account.accountID.map { .string($0) }
            members["user_id"] = account.userID.map { .string($0) }
            return .object(members)
        }
        // The time is rounded up to a full second, because a sign-in in the same second counts as earlier.
        let at = Date(timeIntervalSince1970: at.timeIntervalSince1970.rounded(.up)).ISO8601Format()
        let members: [(String, ChappieJSON)] = [
            ("signed_out_at", .string(at)), ("revokes", .bool(revokes)), ("accounts", .array(accounts)),
        ]
        var document = ChappieJSONObject(members)
        document["mark"] = mark.map { .string(Base64URL.encode($0)) }
        return ChappieJSON.object(document).serializedBytes()
    }
}
