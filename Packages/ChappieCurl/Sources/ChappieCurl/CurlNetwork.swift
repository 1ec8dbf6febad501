public import ChappieCore
public import FoundationEssentials
import Synchronization

/// The network as one policy shows it, on one thread: what `CurlHTTPTransport` and `CurlWebSocketTransport` share.
///
/// ```swift
/// let network = CurlNetwork(policy: policy)
/// let http = CurlHTTPTransport(network: network)
/// let webSockets = CurlWebSocketTransport(network: network)
/// ```
///
/// The environment (for the proxy) and the extra CA file are read when the first request is made; the thread starts
/// then, too. It ends when everybody has let go of the network and the last exchange and connection are over.
public final class CurlNetwork: Sendable {
    public let policy: ChappieNetworkPolicy
    public let loop = CurlEventLoop()
    private let surroundings = Mutex<Surroundings?>(nil)

    /// Opens nothing and can't fail: a policy that makes no sense is an error of each request.
    public init(policy: ChappieNetworkPolicy = .default) { self.policy = policy }

    /// Ends every exchange and connection with code `.unavailable`, closes all sockets and ends the thread. Returns
    /// without waiting for that; later requests fail with the same code.
    public func shutdown() { loop.stop() }

    /// How to get to the host of `url`.
    ///
    /// - Throws: ``ChappieTransportError`` with stage `.configuration`: the URL, the proxy setting or the extra CA file
    ///   can't be used.
    public func route(
        to url: URL, for application: Origin.Application
    ) throws(ChappieTransportError) -> CurlRoute {
        try CurlRoute(to: url, for: application, policy: policy, surroundings: readSurroundings())
    }

    /// A failure is not remembered: the file may be mended by the next request.
    private func readSurroundings() throws(ChappieTransportError) -> Surroundings {
        if let known = surroundings.withLock({ $0 }) { return known }
        let read = try Surroundings.read(for: policy)
        surroundings.withLock { $0 = read }
        return read
    }
}
