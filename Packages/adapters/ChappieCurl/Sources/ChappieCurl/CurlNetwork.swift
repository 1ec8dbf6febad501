@_spi(ChappieInternals) public import ChappieCore
public import FoundationEssentials
import Synchronization

/// The network under one policy, on one thread. `CurlHTTPTransport` and `CurlWebSocketTransport` share it.
///
/// ```swift
/// let network = CurlNetwork(policy: policy)
/// let http = CurlHTTPTransport(network: network)
/// let webSockets = CurlWebSocketTransport(network: network)
/// ```
///
/// The first request reads the environment (for the proxy and the certificate authorities) and the extra CA file, and
/// starts the thread. The thread ends after the network is released and the last exchange and connection have ended.
public final class CurlNetwork: Sendable {
    /// The proxy variables of this machine, if the policy uses them, and the extra certificate authorities.
    private struct Environment {
        let variables: [String: String]
        let trust: TrustAnchors?

        init(for policy: ChappieNetworkPolicy, _ extraCAFileName: String) throws(ChappieTransportError) {
            let all = ProcessInfo.processInfo.environment
            variables = policy.proxy == .environment ? all.filter { ProxySelection.variables.contains($0.key) } : [:]
            trust = try TrustAnchors(
                extraFile: policy.extraCAFile, called: extraCAFileName,
                environment: all.filter { TrustAnchors.variables.contains($0.key) })
        }
    }

    /// The proxy, trust and deadlines of every request.
    public let policy: ChappieNetworkPolicy
    /// The thread of all exchanges and connections.
    @_spi(ChappieInternals) public let loop = NetworkLoop()
    private let environment = Mutex<Environment?>(nil)
    private let extraCAFileName: String

    /// Creates a network. This opens nothing and can't fail. Each request reports an invalid policy as its error.
    ///
    /// - Parameter extraCAFileName: The name of the setting from which the program takes
    ///   ``ChappieNetworkPolicy/extraCAFile``, such as an environment variable. Errors name it.
    public init(policy: ChappieNetworkPolicy = .default, extraCAFileName: String = "the extra CA file") {
        self.policy = policy
        self.extraCAFileName = extraCAFileName
    }

    /// A sentence about each certificate in the user's files that can't be read and is ignored.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.invalidCAFile` if a file can't be used.
    public var certificateNotes: [String] {
        get throws(ChappieTransportError) { try known().trust?.notes ?? [] }
    }

    private func known() throws(ChappieTransportError) -> Environment {
        try environment.withLock { known throws(ChappieTransportError) in
            if let known { return known }
            let read = try Environment(for: policy, extraCAFileName)
            known = read
            return read
        }
    }

    /// Ends every exchange and connection with code `.unavailable`, closes all sockets and ends the thread. Returns
    /// without waiting for this to finish. Later requests fail with the same code.
    public func shutdown() { loop.stop() }

    /// Returns the route to the host of `url`. A failure is not remembered, since the user may fix the file before the
    /// next request.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration` if the URL, the proxy setting or the extra CA
    ///   file can't be used.
    @_spi(ChappieInternals) public func route(
        to url: URL, for application: Origin.Application
    ) throws(ChappieTransportError) -> CurlRoute {
        let environment = try known()
        let origin = try Origin(of: url, for: application)
        return CurlRoute(
            origin: origin, proxy: try ProxySelection(policy.proxy, for: origin, environment: environment.variables),
            trust: environment.trust, extraCAFileName: extraCAFileName, minimumTLS: policy.minimumTLS)
    }
}
