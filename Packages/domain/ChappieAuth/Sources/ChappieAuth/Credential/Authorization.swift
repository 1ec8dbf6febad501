@_spi(ChappieInternals) public import ChappieCore
public import HTTPTypes
import Synchronization

/// The end of one attempt at a request.
@_spi(ChappieInternals)
public enum AuthorizedAttempt<Value: Sendable>: Sendable {
    /// Any result but a 401. A caller may put its own failures into the value.
    case value(Value)
    /// The backend answered 401.
    case unauthorized(HTTPExchangeResponse)
    /// A result that reveals nothing about the token, such as the 401 of an endpoint other than the one for responses.
    case inconclusive(Value)
}

/// A refusal because of the region to which the account's workspace is pinned. The sign-in is not in doubt.
@_spi(ChappieInternals)
public struct RegionRefusal: Error, Sendable, Hashable {
    /// The status of the answer.
    public var status: Int
    /// The service's message. It is safe to show to the user.
    public var message: String?
    /// The id by which the service identifies the exchange.
    public var requestID: String?
    /// The region that the refused request named, or `nil` if the sign-in names none.
    public var region: String?
    /// The other address that the service names for the workspace, if any.
    public var otherOrigin: String?

    /// Creates a refusal with the values that arrived.
    public init(status: Int, message: String?, requestID: String?) {
        self.status = status
        self.message = message
        self.requestID = requestID
    }
}

/// The service's answer about the workspace of one account, kept as long as the process runs.
final class KnownWorkspace: Sendable {
    /// The way in which the service routes the requests for a workspace.
    struct Routing: Sendable, Hashable {
        /// The value that requests for the workspace must have, or `nil` if there is none.
        var route: String?
        /// An origin other than the configured backend's. Nothing is sent there.
        var otherOrigin: String?
    }

    private let known = Mutex<(account: ChappieAccountInfo, routing: Routing)?>(nil)

    /// Returns the answer if it is for `account`, or `nil`.
    func routing(of account: ChappieAccountInfo) -> Routing? {
        known.withLock { $0.flatMap { $0.account.isSameAccount(as: account) ? $0.routing : nil } }
    }

    /// Keeps an answer. It replaces the answer of another account.
    func keep(_ routing: Routing, of account: ChappieAccountInfo) { known.withLock { $0 = (account, routing) } }
}

/// A token with which requests may be sent.
struct AccessToken: Sendable {
    let credential: Credential
    let generation: Int
    /// Whether the token has just arrived from the server.
    let isNew: Bool

    var account: ChappieAccountInfo { credential.info }
}

/// The right to send requests with the slot's credential.
///
/// All attempts at a request belong to one account. If another account signs in between them, the request is not sent
/// in its name.
@_spi(ChappieInternals)
public struct Authorization: Sendable {
    private let manager: CredentialManager
    /// The account of the requests, or `nil` for the account that is signed in when a request begins.
    private let account: ChappieAccountInfo?
    /// The program that the requests name. Programs that share one sign-in may have different names.
    private let program: ChappieRegistration
    /// Whether a middleware renews the tokens after the first 401 and sends the request once more. Default `false`.
    public var renewsOnce = false

    init(manager: CredentialManager, account: ChappieAccountInfo?, program: ChappieRegistration) {
        self.manager = manager
        self.account = account
        self.program = program
    }

    /// Whether the token endpoint has refused the refresh token of the sign-in.
    public var isRenewalRefused: Bool { manager.isRenewalRefused }

    /// Throws if a request is not for the configured backend. No other server receives the fields of
    /// ``authorized(_:)``.
    public func check(_ request: HTTPExchangeRequest) throws(ChappieTransportError) {
        if let origin = Origin(request.url), origin == Origin(manager.endpoints.backend) { return }
        throw ChappieTransportError(
            .invalidURL, stage: .configuration, host: request.url.hostAndPort,
            reason: "requests with a sign-in go to the configured backend only")
    }

    /// Adds the cookies of the backend's edge to `request`, which is for the configured backend.
    public func addCookies(to request: inout HTTPExchangeRequest) {
        let cookies = manager.cookies.field(
            for: request.url, at: manager.clock.now, signOuts: manager.status.value.signOuts)
        if let cookies { request.headerFields[.cookie] = cookies }
    }

    /// Keeps the cookies that the backend's edge sets in the answer to a request for `url`.
    public func keepCookies(of fields: HTTPFields, from url: URL) {
        manager.cookies.received(
            fields, from: url, at: manager.clock.now, signOuts: manager.status.value.signOuts)
    }

    /// Calls `attempt` with the header fields to add to a request for the backend. It does so at most three times: with
    /// the current token, with a newer token from the store, and with a new token from the server.
    ///
    /// The fields are `authorization` and `user-agent`. If the backend is ChatGPT's own, they also include
    /// `originator`, and the account's `chatgpt-account-id`, `X-OpenAI-Fedramp` and workspace region from the tokens.
    ///
    /// If `attempt` throws ``RegionRefusal``, this asks the service once for each account how it routes the workspace's
    /// requests. If the service names a route, one more attempt follows.
    ///
    /// - Throws: ``ChappieAuthError`` (`planUseNotGranted` before anything is sent), the errors of `attempt`, and
    ///   `CancellationError`. A final 401 is ``ChappieAuthError/reauthenticationRequired(_:)``. It does not change the
    ///   stored credential, because the token endpoint still accepts it. The session also reports the error. The same
    ///   error stops a request whose account has been replaced by another one.
    public func authorized<Value: Sendable>(
        _ attempt: (HTTPFields) async throws -> AuthorizedAttempt<Value>
    ) async throws -> Value {
        try Task.checkCancellation()
        var access = try await manager.accessToken(.token)
        try checkAccount(account, access)
        let account = access.account
        var attempts = 1
        while true {
            let routing = manager.workspace.routing(of: access.account)
            let result: AuthorizedAttempt<Value>
            do {
                result = try await attempt(try headerFields(for: access, routing))
            } catch let refusal as RegionRefusal {
                try await reroute(refusal, access, routing)
                continue
            }
            switch result {
            case .value(let value):
                manager.backendAnswered(access, refusal: nil)
                return value
            case .inconclusive(let value): return value
            case .unauthorized(let response):
                let body = try await response.body.beginning(upTo: 64 << 10, clock: manager.clock)
                guard attempts < 3, attempts == 1 || !access.isNew else {
                    let answer = IssuerResponse(status: 401, headerFields: response.headerFields, body: body)
                    let reason = refusal(answer, access, response.headerFields.requestID)
                    manager.backendAnswered(access, refusal: reason)
                    throw ChappieAuthError.reauthenticationRequired(reason)
                }
                access = try await manager.accessToken(.replacement(of: access.generation))
                try checkAccount(account, access)
                attempts += 1
            }
        }
    }

    private func headerFields(
        for access: AccessToken, _ routing: KnownWorkspace.Routing? = nil
    ) throws -> HTTPFields {
        guard access.account.planUse != .notGranted else { throw ChappieAuthError.planUseNotGranted }
        var fields: HTTPFields = [:]
        fields[.authorization] = "Bearer \(access.credential.accessToken.text)"
        if !manager.endpoints.usesPlan {
            // Without an account, the service routes the request by the token.
            guard access.credential.accountID != nil || access.credential.hasClaims else {
                throw ChappieAuthError.missingAccountID
            }
            fields[.chatGPTAccountID] = access.credential.accountID
            if access.account.isFedRAMPAccount { fields[.fedRAMP] = "true" }
            fields[.residency] = access.account.residency
            fields[.routingOverride] = routing?.route
            fields[.originator] = program.originator
        }
        fields[.userAgent] = program.userAgent
        return fields
    }

    // MARK: Workspaces that are pinned to a region

    /// The longest wait for the answer about the workspace.
    private static let workspacePatience = Duration.seconds(10)

    /// Returns if another attempt has a route that the refused attempt did not have. Otherwise it throws.
    ///
    /// - Throws: `refusal`, with the region that was sent and the address that the service names.
    private func reroute(
        _ refusal: RegionRefusal, _ access: AccessToken, _ sent: KnownWorkspace.Routing?
    ) async throws {
        let known = manager.workspace.routing(of: access.account)
        let found = if let known { known } else { try await askForRouting(access) }
        if sent == nil, found?.route != nil { return }
        var refusal = refusal
        refusal.region = access.account.residency
        refusal.otherOrigin = found?.otherOrigin
        throw refusal
    }

    /// Asks the service how it routes the workspace's requests.
    ///
    /// - Returns: `nil` if the service could not be reached.
    private func askForRouting(_ access: AccessToken) async throws -> KnownWorkspace.Routing? {
        guard let url = manager.endpoints.accountsCheckURL else { return nil }
        var request = HTTPExchangeRequest(url: url, headerFields: try headerFields(for: access))
        request.headerFields[.accept] = "application/json"
        let answer: IssuerResponse
        do {
            answer = try await manager.tokens.issuer.send(request, within: Self.workspacePatience)
        } catch {
            try Task.checkCancellation()
            return nil
        }
        let routing = KnownWorkspace.Routing(
            answer.object, of: access.account.accountID, backend: manager.endpoints.backend)
        manager.workspace.keep(routing, of: access.account)
        return routing
    }

    private func checkAccount(_ wanted: ChappieAccountInfo?, _ access: AccessToken) throws {
        guard let wanted, !wanted.isSameAccount(as: access.account) else { return }
        throw ChappieAuthError.reauthenticationRequired(
            "Another account has signed in since. A request of the earlier account is not sent in its name.")
    }

    private func refusal(_ answer: IssuerResponse, _ access: AccessToken, _ requestID: String?) -> String {
        let message = answer.issuerError(secrets: [access.credential.accessToken]).message
        let detail = message.map { ": " + ($0.hasSuffix(".") ? String($0.dropLast()) : $0) } ?? ""
        let id = requestID.map { " \(RequestID.sentence($0))" } ?? ""
        return "The service refused the sign-in although it had just been renewed\(detail).\(id)"
    }
}

extension Authorization: HTTPMiddleware {
    /// Sends `request` with ``authorized(_:)`` if it is for the configured backend. A 401 does not put the sign-in in
    /// doubt, because only the endpoint for responses decides about that. It renews the tokens only if ``renewsOnce``
    /// is `true`.
    ///
    /// - Throws: The errors of ``check(_:)`` and ``authorized(_:)``. No status is an error.
    public func intercept(
        _ request: HTTPExchangeRequest,
        next: @concurrent @Sendable (HTTPExchangeRequest) async throws -> HTTPExchangeResponse
    ) async throws -> HTTPExchangeResponse {
        try check(request)
        var renewals = renewsOnce ? 1 : 0
        return try await authorized { fields in
            var request = request
            for field in fields { request.headerFields[field.name] = field.value }
            addCookies(to: &request)
            let response = try await next(request)
            keepCookies(of: response.headerFields, from: request.url)
            guard response.status.code == 401 else { return .value(response) }
            guard renewals > 0 else { return .inconclusive(response) }
            renewals -= 1
            return .unauthorized(response)
        }
    }
}

extension KnownWorkspace.Routing {
    /// Creates a routing from the answer about the user's workspaces. Without an account id, it uses the default
    /// account.
    init(_ answer: ChappieJSONObject?, of accountID: String?, backend: URL) {
        let id = accountID ?? answer?["default_account_id"]?.string
        let workspace = answer?["accounts"]?.array?.first { $0["id"]?.string == id }
        route = Credential.region(workspace?["account_routing_override"]?.string)
        let origin = Credential.region(workspace?["workspace_backend_origin"]?.string)
            .flatMap { URL(string: $0) }.flatMap { Origin($0) }
        if origin != Origin(backend) { otherOrigin = origin?.description }
    }
}

extension CredentialManager {
    /// The authorization that adds the credential to requests for the backend, and renews it when necessary.
    @_spi(ChappieInternals)
    public var authorization: Authorization { authorization(onlyFor: nil) }

    /// Returns an authorization for requests of one account. Once another account has signed in, they are not sent any
    /// more.
    ///
    /// - Parameters:
    ///   - account: The account, or `nil` for the account that is signed in when a request begins.
    ///   - program: The program that the requests name. Default: the manager's own.
    @_spi(ChappieInternals)
    public func authorization(
        onlyFor account: ChappieAccountInfo?, as program: ChappieRegistration? = nil
    ) -> Authorization {
        Authorization(manager: self, account: account, program: program ?? endpoints.registration)
    }

    /// The shortest time between two renewals after a change of plan.
    private static let planRenewalPause: TimeInterval = 3600

    /// Renews tokens that name another plan than the service does. Without a renewal, they name the old plan for days.
    ///
    /// It does so at most once an hour. The time of the last renewal counts, even if another process made it. If a
    /// renewal fails, the sign-in keeps its current tokens.
    ///
    /// - Returns: Whether the tokens are new.
    /// - Throws: `CancellationError`.
    @_spi(ChappieInternals) public func renewAfterPlanChange() async throws -> Bool {
        do {
            let access = try await ask(.account)
            let (renewed, began) = (access.credential.lastRefresh, access.credential.beganAt)
            let isRecent = renewed.map { abs(clock.now.timeIntervalSince($0)) < Self.planRenewalPause } ?? false
            guard access.credential.refreshToken != nil, !isRecent || renewed == began else { return false }
            return try await ask(.refresh).generation != access.generation
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            return false
        }
    }
}
