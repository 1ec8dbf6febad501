/// One sign-in by device code, from the code's birth to the exchange.
struct DeviceAuthorization: Sendable {
    enum State: Sendable {
        /// Waits for the person. Next: `approved` or `refused`.
        case pending(polls: Int)
        /// The person agreed; the code may be fetched and exchanged. Next: `exchanged`.
        case approved(authorizationCode: String)
        /// The person said no. Final.
        case refused
        /// The authorization code was used. Final.
        case exchanged(authorizationCode: String)
    }

    let id: String
    let userCode: UserCode
    let clientID: String
    let verifier: CodeVerifier
    /// Unix seconds.
    let expiresAt: Int
    /// The account that the approval named; `nil` when it named none.
    var accountID: String?
    var state: State
}
