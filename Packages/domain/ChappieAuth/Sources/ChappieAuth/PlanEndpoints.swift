public import ChappieCore

extension ChappieEndpointProfile {
    /// Returns the address of the page on which the user signs in.
    func authorizeURL(_ openID: ChappieOpenIDProfile) -> URL { Self.url(issuer, openID.authorizePath) }

    /// The profile of the public Responses API, paid for by the user's ChatGPT plan. It follows the documentation for
    /// apps that run on the user's machine (developers.openai.com/siwc, October 2026).
    ///
    /// It has no WebSocket, because none is documented. To try one, set
    /// `profile.webSocket = ChappieWebSocketProfile()`.
    public static let chatGPTPlan = chatGPTPlan(
        issuer: URL(string: "https://auth.openai.com") ?? URL(filePath: "/"),
        backend: URL(string: "https://api.openai.com/v1") ?? URL(filePath: "/"))

    /// Returns ``chatGPTPlan`` with other addresses.
    public static func chatGPTPlan(issuer: URL, backend: URL) -> ChappieEndpointProfile {
        var profile = ChappieEndpointProfile(
            issuer: issuer, backend: backend, requestCoding: .identity,
            forbiddenBodyFields: chatGPTPlanForbiddenFields, toolEnvelope: .namespaces, errorTable: .chatGPTPlan,
            webSocket: nil, openID: ChappieOpenIDProfile(), sendsAccountFields: false)
        profile.paths.responses = "/responses"
        profile.paths.models = "/models"
        profile.paths.usage = nil
        profile.paths.accountsCheck = nil
        profile.refusedRoles = ["system"]
        profile.sendsCodexFields = false
        profile.takesResponsesLite = false
        profile.takesCompaction = false
        profile.ranksModels = false
        profile.usagePage = URL(string: "https://chatgpt.com/settings/usage")
        return profile
    }
}

extension ChappieAuthSession {
    /// The grant by which the endpoints let users sign in.
    @_spi(ChappieInternals) public var configuredGrant: ChappieGrant { manager.endpoints.grant }
}

extension ChappieEndpoints {
    /// Returns the endpoints of "Continue with ChatGPT", the route for open-source programs that run on the user's
    /// machine. The user's plan pays, if the user allows it.
    ///
    /// ```swift
    /// let configuration = ChappieConfiguration(endpoints: .continueWithChatGPT(appName: "My App"))
    /// ```
    /// - Parameter appName: The program's own name, under which it registers, 1 to 80 characters.
    public static func continueWithChatGPT(appName: String) -> ChappieEndpoints {
        plan(.chatGPTPlan, appName: appName)
    }

    private static func plan(_ profile: ChappieEndpointProfile, appName: String) -> ChappieEndpoints {
        ChappieEndpoints(
            registration: ChappieRegistration(clientID: ChappieOpenIDProfile().bootstrapClientID), profile: profile,
            grant: .continueWithChatGPT(appName: appName))
    }

    /// Returns the endpoints of a simulator on this machine, such as `chappie simulator --auto-approve --port 8080`.
    ///
    /// - Parameters:
    ///   - port: The port of the simulator, 1 to 65535. Default 8080.
    ///   - grant: The kind of sign-in. Default: the device code.
    public static func simulator(port: Int = 8080, grant: ChappieGrant = .deviceCode) -> ChappieEndpoints {
        precondition((1...65_535).contains(port), "A port is a number from 1 to 65535.")
        let address = "http://127.0.0.1:\(port)"
        let issuer = URL(string: address) ?? URL(filePath: "/")
        if case .continueWithChatGPT(let appName) = grant {
            let backend = URL(string: address + "/v1") ?? issuer
            return plan(.chatGPTPlan(issuer: issuer, backend: backend), appName: appName)
        }
        var endpoints = ChappieEndpoints(
            issuer: issuer, backend: URL(string: address + "/backend-api") ?? URL(filePath: "/"))
        endpoints.grant = grant
        return endpoints
    }
}
