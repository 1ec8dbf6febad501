/// One right to send requests: what goes into the headers, and which credential it came from.
struct AccessAuthorization: Sendable {
    let accessToken: Secret
    let accountID: String
    let account: ChappieAccountInfo
    /// Names the credential, so that a late 401 is only held against the token that it was about.
    let generation: Int
}
