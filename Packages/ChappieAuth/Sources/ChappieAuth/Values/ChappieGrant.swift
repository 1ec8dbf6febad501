/// How an authorization was obtained (RFC 6749, 1.3): one of three things that are kept apart as values, beside
/// ``ChappieRegistration`` (who asks) and ``ChappieEndpointProfile`` (where, and in which shape).
///
/// A grant ends in an authorization code, and the exchange of that code for tokens does not know which grant produced
/// it. The loopback redirect with PKCE (RFC 8252, RFC 7636) and credentials imported from another program are further
/// values; neither changes what comes after.
public enum ChappieGrant: Sendable, Hashable {
    /// The device authorization grant in the form that ChatGPT speaks (a relative of RFC 8628).
    case deviceCode

    /// The word kept beside a stored credential.
    public var rawValue: String {
        switch self {
        case .deviceCode: "device_code"
        }
    }
}
