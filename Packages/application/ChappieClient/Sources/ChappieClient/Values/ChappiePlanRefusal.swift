@_spi(ChappieInternals) public import ChappieAuth
@_spi(ChappieInternals) import ChappieCore

/// A request that the service does not answer on the user's ChatGPT plan.
///
/// The sign-in is always kept, and no other way of payment is tried.
public struct ChappiePlanRefusal: Sendable, Hashable, Codable {
    /// The reason for a refusal. Unknown values are kept.
    public struct Reason: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The user is signed in, but has not allowed this app to use the plan. Nothing was sent.
        public static let notGranted = Reason(rawValue: "not_granted")
        /// The user's plan, workspace or settings exclude the use of the plan by this app.
        public static let notEligible = Reason(rawValue: "not_eligible")
        /// The sign-in does not cover the use of the plan.
        public static let notAuthorized = Reason(rawValue: "not_authorized")
        /// The service has not enabled this app for plans.
        public static let appNotEnabled = Reason(rawValue: "app_not_enabled")
        /// Plan use can't be checked or routed at the moment.
        public static let unavailable = Reason(rawValue: "unavailable")
        /// The service can't attribute the request to a user.
        public static let userUnknown = Reason(rawValue: "user_unknown")
        /// The request contains something that may not be used on a plan. ``parameter`` names it, if the service does.
        public static let capability = Reason(rawValue: "unsupported_capability")
        /// The address or the method may not be used on a plan.
        public static let route = Reason(rawValue: "unsupported_route")
        /// The workspace of the sign-in is deactivated, or may not be used.
        public static let workspace = Reason(rawValue: "workspace")
        /// A policy forbids the request, for example in the user's region.
        public static let policy = Reason(rawValue: "policy")
        /// The account's workspace is pinned to a region, and the request was not for it.
        /// ``ChappiePlanRefusal/region`` is the region that the request named.
        public static let workspaceRegion = Reason(rawValue: "workspace_region")
    }

    /// The reason for the refusal.
    public var reason: Reason
    /// The status of the answer, or `nil` if the refusal came in the stream of an answer.
    public var status: Int?
    /// The service's message. It is safe to show to the user. See `ChappieResponseError.message`.
    public var message: String?
    /// The member of the request that the service names. It is safe to show to the user.
    public var parameter: String?
    /// The id of the request. See `ChappieResponse.requestID`.
    public var requestID: String?
    /// The region that the request named, for ``Reason/workspaceRegion``. `nil` if the sign-in names none.
    public var region: String?
    /// Another address that the service names for the workspace. Nothing is sent there.
    public var otherOrigin: String?

    /// Creates a refusal from its parts.
    public init(
        reason: Reason, status: Int? = nil, message: String? = nil, parameter: String? = nil, requestID: String? = nil
    ) {
        self.reason = reason
        self.status = status
        self.message = message
        self.parameter = parameter
        self.requestID = requestID
    }
}

extension ChappiePlanRefusal {
    /// Creates a refusal for the region of the account's workspace.
    @_spi(ChappieInternals) public init(_ refusal: RegionRefusal) {
        self.init(
            reason: .workspaceRegion, status: refusal.status, message: refusal.message, requestID: refusal.requestID)
        region = refusal.region
        otherOrigin = refusal.otherOrigin
    }

    /// The refusal as text, followed by the service's own message. The full stop may be missing.
    var sentence: String {
        let words = message.flatMap { $0.isEmpty ? nil : $0.prefix(500) }
        let first = words.map { "\(summary): \($0)" } ?? summary + "."
        // The advice asks the user to report the request id.
        if [.userUnknown, .appNotEnabled].contains(reason), let requestID {
            return "\(UntrustedText.sentence(first)) \(RequestID.sentence(requestID))"
        }
        guard reason == .workspaceRegion else { return first }
        let sent = region.map { "The request named the region \"\($0)\"." } ?? "The sign-in names no region."
        let other = otherOrigin.map { "The service names \($0) for the workspace, which this program does not use." }
        return [UntrustedText.sentence(first), sent, other].compactMap(\.self).joined(separator: " ")
    }

    private var summary: String {
        switch reason {
        case .notGranted: "You are signed in, but this app may not use your ChatGPT plan"
        case .notEligible: "Your ChatGPT plan or workspace does not allow this app to use the plan"
        case .notAuthorized: "This sign-in does not allow the use of your ChatGPT plan"
        case .appNotEnabled: "ChatGPT has not enabled this app to use plans"
        case .unavailable: "The use of your ChatGPT plan could not be checked at the moment"
        case .userUnknown: "The service could not find out whose ChatGPT plan this request uses"
        case .capability:
            parameter.map { "The request's \"\($0)\" can't be used on a ChatGPT plan" }
                ?? "The request has something that can't be used on a ChatGPT plan"
        case .route: "This address of the service can't be used on a ChatGPT plan"
        case .policy: "A policy of the service forbids this request"
        case .workspace: "The workspace of this sign-in can't be used"
        case .workspaceRegion: "Your workspace allows requests from its region only"
        default: "The service does not answer this request on your ChatGPT plan"
        }
    }

    /// The user's next step.
    var advice: String {
        switch reason {
        case .notGranted: "Sign in once more and allow plan use."
        case .notEligible:
            "Ask the administrator of your workspace, or use another way to pay. Signing in again does not change it."
        case .notAuthorized: "Check that the right account is selected, then sign in once more and allow plan use."
        case .appNotEnabled:
            "Report it to the maker of this app, with the request's id. Signing in again does not change it."
        case .unavailable: "Try again in a few minutes; you stay signed in."
        case .userUnknown:
            "Try again later; you stay signed in. Report it, with the request's id, if it happens again."
        case .capability: "Leave it out of the request, or choose another model or tool."
        case .route: "Check the configured addresses."
        case .workspace: "Sign in again and choose another workspace, or ask the administrator of this one."
        case .workspaceRegion: "Ask the administrator of your workspace. Signing in again does not change it."
        case .policy: "Asking again does not change it; it may depend on where you are."
        default: "Try again later."
        }
    }
}
