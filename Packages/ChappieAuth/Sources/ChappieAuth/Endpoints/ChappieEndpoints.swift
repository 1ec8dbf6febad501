public import FoundationEssentials

/// Where to sign in and talk, and as whom.
///
/// ```swift
/// let local = ChappieEndpoints(issuer: URL(string: "http://127.0.0.1:8080")!,
///                              backend: URL(string: "http://127.0.0.1:8080/backend-api")!)
/// ```
public struct ChappieEndpoints: Sendable, Hashable {
    public var registration: ChappieRegistration
    public var profile: ChappieEndpointProfile

    public init(registration: ChappieRegistration = ChappieRegistration(), profile: ChappieEndpointProfile) {
        self.registration = registration
        self.profile = profile
    }

    /// Other addresses that speak the same protocol. Final slashes don't matter.
    public init(issuer: URL, backend: URL, registration: ChappieRegistration = ChappieRegistration()) {
        self.init(registration: registration, profile: ChappieEndpointProfile(issuer: issuer, backend: backend))
    }

    /// The service itself.
    public static let chatGPT = ChappieEndpoints(
        issuer: URL(string: "https://auth.openai.com") ?? URL(filePath: "/"),
        backend: URL(string: "https://chatgpt.com/backend-api") ?? URL(filePath: "/"))
}
