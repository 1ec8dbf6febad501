@_spi(ChappieInternals) import ChappieCore
import HTTPTypes

/// The parts that are used of an authorization server's discovery document (OpenID Connect Discovery, 4.2).
struct OpenIDConfiguration: Sendable, Hashable {
    let issuer: String
    let keysURL: URL
    let revocationURL: URL

    /// Creates a configuration from a discovery document. An address counts only if it is at the issuer's own origin.
    /// Otherwise the usual address is used.
    ///
    /// - Throws: ``ChappieAuthError/invalidResponse`` if this is another issuer's document.
    init(_ object: ChappieJSONObject, _ endpoints: ChappieEndpoints) throws(ChappieAuthError) {
        let issuer = endpoints.issuer.absoluteString
        guard let found = object["issuer"]?.string, found == issuer || found == issuer + "/" else {
            throw .invalidResponse
        }
        self.issuer = found
        func address(_ name: String, or usual: URL) -> URL {
            let url = object[name]?.string.flatMap { URL(string: $0) }
            return if let url, Origin(url) == Origin(endpoints.issuer) { url } else { usual }
        }
        keysURL = address("jwks_uri", or: endpoints.keysURL)
        revocationURL = address("revocation_endpoint", or: endpoints.revokeURL)
    }
}

extension IssuerClient {
    /// Reads the server's discovery document.
    ///
    /// - Throws: ``ChappieAuthError``: `networkFailure` if it cannot be loaded now, whatever the reason.
    func configuration(
        _ endpoints: ChappieEndpoints, within limit: Duration = .seconds(30)
    ) async throws(ChappieAuthError) -> OpenIDConfiguration {
        guard let url = endpoints.discoveryURL else { throw .invalidResponse }
        return try OpenIDConfiguration(try await document(at: url, within: limit), endpoints)
    }

    /// Reads the keys of identity tokens.
    ///
    /// - Throws: The errors of ``configuration(_:within:)``.
    func signingKeys(_ configuration: OpenIDConfiguration) async throws(ChappieAuthError) -> SigningKeys {
        let object = try await document(at: configuration.keysURL, within: .seconds(30))
        guard let keys = SigningKeys(object) else {
            throw Self.outage(configuration.keysURL, "it was not a set of keys")
        }
        return keys
    }

    private func document(at url: URL, within limit: Duration) async throws(ChappieAuthError) -> ChappieJSONObject {
        let request = HTTPExchangeRequest(url: url, headerFields: [.accept: "application/json"])
        let answer: IssuerResponse
        do throws(ChappieAuthError) {
            answer = try await successOfTwo(request, secrets: [], within: limit)
        } catch {
            switch error {
            case .cancelledSignIn, .blockedByGateway: throw error
            case .networkFailure(let words): throw .networkFailure("\(words) Nothing was changed; try again later.")
            case .tokenExchangeFailed(let status, _): throw Self.outage(url, "the status was \(status)")
            case .tooManyRequests: throw Self.outage(url, "the status was 429")
            default: throw Self.outage(url, "the answer could not be understood")
            }
        }
        guard let object = answer.object else { throw Self.outage(url, "the answer could not be understood") }
        return object
    }

    /// Returns a network failure, because a server that can't deliver its documents now reveals nothing about the
    /// user's identity.
    private static func outage(_ url: URL, _ reason: String) -> ChappieAuthError {
        .networkFailure(
            "\(url.hostAndPort) could not give \(url.path()) (\(reason)). Nothing was changed; try again later.")
    }
}
