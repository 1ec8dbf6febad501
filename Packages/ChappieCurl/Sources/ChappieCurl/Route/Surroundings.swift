public import ChappieCore
import FoundationEssentials

/// What lies outside the network policy: the environment's proxy variables, and certificate files.
public struct Surroundings: Sendable {
    /// Nothing but ``ProxySelection/variables``, and those only where the policy asks for them.
    public let environment: [String: String]
    public let trust: TrustAnchors

    public init(environment: [String: String], trust: TrustAnchors) {
        self.environment = environment
        self.trust = trust
    }

    /// Looks at the process's environment and reads the extra CA file.
    ///
    /// - Throws: ``ChappieTransportError`` with code `.invalidCAFile`, naming the file.
    public static func read(for policy: ChappieNetworkPolicy) throws(ChappieTransportError) -> Surroundings {
        let all = policy.proxy == .environment ? ProcessInfo.processInfo.environment : [:]
        return Surroundings(
            environment: all.filter { ProxySelection.variables.contains($0.key) },
            trust: try TrustAnchors(extraFile: policy.extraCAFile))
    }
}
