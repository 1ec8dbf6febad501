@_spi(ChappieInternals) public import ChappieCore
public import HTTPTypes

/// The end of one attempt at a request.
@_spi(ChappieInternals)
public enum AuthorizedAttempt<Value: Sendable>: Sendable {
    /// Any result but a 401. A caller may put its own failures into the value.
    case value(Value)
    /// The backend answered 401.
    case unauthorized(HTTPExchangeResponse)
}

/// The right to send requests with the slot's credential.
///
/// All attempts at a request belong to one account: if another account signs in meanwhile, the request is not sent in
/// its name.
@_spi(ChappieInternals)
public struct Authorization: Sendable {
    private let manager: CredentialManager
    /// The account of the requests; `nil` for the account that is signed in when a request begins.
    private let account: ChappieAccountInfo?
    /// The program that the requests name. Programs with one sign-in may have names of their own.
    private let program: ChappieRegistration

    init(manager: CredentialManager, account: ChappieAccountInfo?, program: ChappieRegistration) {
        self.manager = manager
        self.account = account
        self.program = program
    }

    /// Stops a request that is not for the configured backend: nothing else gets the fields of ``authorized(_:)``.
    public func check(_ request: HTTPExchangeRequest) throws(ChappieTransportError) {
        if let origin = Origin(request.url), origin == Origin(manager.endpoints.profile.backend) { return }
        throw ChappieTransportError(
            .invalidURL, stage: .configuration, host: request.url.hostAndPort,
            reason: "requests with a sign-in go to the configured backend only")
    }

    /// Calls `attempt` with the header fields to add to a request for the backend, three times at most: with the
    /// present token, with a newer token from the store, and with a fresh token from the server.
    ///
    /// The fields are `authorization` and `user-agent`, and if the profile says so `chatgpt-account-id`,
    /// `X-OpenAI-Fedramp` if the account needs it, and `originator`.
    ///
    /// - Throws: ``ChappieAuthError``, `planUseNotGranted` before anything is sent; the errors of `attempt`; `CancellationError`. A final 401 is
    ///   ``ChappieAuthError/reauthenticationRequired(_:)``. It leaves the stored credential alone, because the token
    ///   endpoint still accepts it; the session reports it, too. The same error stops a request whose account has been
    ///   replaced by another one.
    public func authorized<Value: Sendable>(
        _ attempt: (HTTPFields) async throws -> AuthorizedAttempt<Value>
    ) async throws -> Value {
        try Task.checkCancellation()
        var access = try await manager.accessToken(.token)
        try checkAccount(account, access)
        let account = access.account
        var attempts = 1
        while true {
            switch try await attempt(try headerFields(for: access)) {
            case .value(let value):
                manager.backendAnswered(access, refusal: nil)
                return value
            case .unauthorized(let response):
                let body = try await response.body.beginning(upTo: 64 << 10, clock: manager.clock)
                guard attempts < 3, attempts == 1 || !access.isNew else {
                    let answer = IssuerResponse(status: 401, headerFields: response.headerFields, body: body)
                    let reason = refusal(answer, access)
                    manager.backendAnswered(access, refusal: reason)
                    throw ChappieAuthError.reauthenticationRequired(reason)
                }
                access = try await manager.accessToken(.replacement(of: access.generation))
                try checkAccount(account, access)
                attempts += 1
            }
        }
    }

    private func headerFields(for access: AccessToken) throws -> HTTPFields {
        guard access.account.planUse != .notGranted else { throw ChappieAuthError.planUseNotGranted }
        var fields: HTTPFields = [:]
        fields[.authorization] = "Bearer \(access.credential.accessToken.text)"
        if manager.endpoints.profile.sendsAccountFields {
            guard let accountID = access.credential.accountID else { throw ChappieAuthError.missingAccountID }
            fields[.chatGPTAccountID] = accountID
            if access.account.isFedRAMPAccount { fields[.fedRAMP] = "true" }
            fields[.originator] = program.originator
        }
        fields[.userAgent] = program.userAgent
        return fields
    }

    private func checkAccount(_ wanted: ChappieAccountInfo?, _ access: AccessToken) throws {
        guard let wanted, !wanted.isSameAccount(as: access.account) else { return }
        throw ChappieAuthError.reauthenticationRequired(
            "Another account has signed in meanwhile. A request of the earlier account is not sent in its name.")
    }

    private func refusal(_ answer: IssuerResponse, _ access: AccessToken) -> String {
        let message = answer.issuerError(secrets: [access.credential.accessToken]).message
        let detail = message.map { ": " + ($0.hasSuffix(".") ? String($0.dropLast()) : $0) } ?? ""
        return "The service refused the sign-in although it had just been renewed\(detail)."
    }
}

extension Authorization: HTTPMiddleware {
    /// Sends `request` with ``authorized(_:)``, if it is for the configured backend.
    ///
    /// - Throws: The errors of ``check(_:)`` and ``authorized(_:)``. No status but a final 401 is an error.
    public func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        try check(request)
        return try await authorized { fields in
            var request = request
            for field in fields { request.headerFields[field.name] = field.value }
            let response = try await next(request)
            return response.status.code == 401 ? .unauthorized(response) : .value(response)
        }
    }
}

extension CredentialManager {
    /// Adds the credential to requests for the backend, and renews it when necessary.
    @_spi(ChappieInternals)
    public var authorization: Authorization { authorization(onlyFor: nil) }

    /// The same for requests of one account: once another account has signed in, they are not sent any more.
    ///
    /// - Parameters:
    ///   - account: `nil` for the account that is signed in when a request begins.
    ///   - program: The program that the requests name. Default: the manager's own.
    @_spi(ChappieInternals)
    public func authorization(
        onlyFor account: ChappieAccountInfo?, as program: ChappieRegistration? = nil
    ) -> Authorization {
        Authorization(manager: self, account: account, program: program ?? endpoints.registration)
    }
}
