import ArgumentParser
@_spi(ChappieInternals) import ChappieAuth
import ChappieSDK
import FoundationEssentials

/// The way to ChatGPT. It determines how the user signs in and which server gets the requests. Each route has separate
/// credentials and accounts.
enum Route: String, ExpressibleByArgument, CaseIterable {
    /// ChatGPT's device code, with the backend of ChatGPT's own programs.
    case device
    /// "Continue with ChatGPT", with the public API, which the user's plan pays for.
    case plan

    /// The service's own addresses.
    var endpoints: ChappieEndpoints {
        switch self {
        case .device: .chatGPT
        case .plan: .continueWithChatGPT(appName: "Chappie")
        }
    }

    /// Returns the same route at other addresses.
    func endpoints(issuer: URL, backend: URL) -> ChappieEndpoints {
        var endpoints = endpoints
        endpoints.issuer = issuer
        endpoints.backend = backend
        return endpoints
    }

    /// The command with which the user signs in.
    var login: String { self == .device ? "`chappie login`" : "`chappie login --route \(rawValue)`" }

    /// The kind of sign-in in the form that the user reads.
    var words: String {
        switch self {
        case .device: "device code"
        case .plan: "Continue with ChatGPT"
        }
    }
}

/// Texts about a user's plan that pays for requests.
enum PlanWords {
    static let inUse = "Using ChatGPT plan"

    /// Returns the text about the page that manages the usage of the plan, or `nil` if there is no such page.
    static func manageUsage(_ endpoints: ChappieEndpoints) -> String? {
        endpoints.usagePage.map { "Manage usage: \($0.absoluteString)" }
    }

    /// Returns the answer of `chappie usage` and `/usage` if the service does not report the usage.
    static func usage(_ page: URL?) -> [String] {
        [
            inUse + ".",
            page.map { "Manage usage: \($0.absoluteString)" } ?? "The service does not report how much is used.",
        ]
    }
}
