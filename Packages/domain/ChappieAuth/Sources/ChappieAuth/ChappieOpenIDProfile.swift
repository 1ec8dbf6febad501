/// An authorization server with OpenID Connect discovery, whose sign-in goes through a browser on this machine
/// (RFC 8252) and whose identity tokens are verified.
///
/// The paths are below the issuer, with a leading slash.
public struct ChappieOpenIDProfile: Sendable, Hashable, Codable {
    /// The path of the page on which the user signs in.
    public var authorizePath = "/api/accounts/authorize"
    /// The path of the endpoint that exchanges and renews tokens.
    public var tokenPath = "/api/accounts/oauth/token"
    /// The path of the endpoint that revokes a refresh token, used if discovery names no address at the issuer's
    /// origin.
    public var revokePath = "/api/accounts/oauth/revoke"
    /// The path of the server's discovery document.
    public var discoveryPath = "/.well-known/openid-configuration"
    /// The path of the keys of identity tokens, used if discovery names no address at the issuer's origin.
    public var keysPath = "/.well-known/jwks.json"
    /// The API that the tokens are for (RFC 8707).
    public var resource = "https://api.openai.com/v1"
    /// The permissions that a sign-in asks for.
    public var scopes = [
        "openid", "profile", "email", "offline_access", "resource.invoke", "chatgpt.tokens.use.direct",
    ]
    /// The permission to use the user's plan.
    public var planScope = "chatgpt.tokens.use.direct"
    /// The client id of a program that has no registration yet. It is never sent to the token endpoint.
    public var bootstrapClientID = "dynamic_agent_client"
    /// The path on this machine to which the browser returns.
    public var callbackPath = "/auth/callback"

    /// Creates the profile of ChatGPT.
    public init() {}
}
