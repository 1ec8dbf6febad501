// Declarations only. Each signature is that of the page which its comment names, under
// developer.apple.com/documentation/network/.
public import FoundationNetworking

// nwendpoint, nwendpoint/host, nwendpoint/port
public enum NWEndpoint: Sendable {
    public struct Host: Sendable {
        public init(_ string: String) { fatalError() }
    }
    public struct Port: Sendable {
        public init?(rawValue: UInt16) { fatalError() }
    }
    case hostPort(host: Host, port: Port)
}

// nwprotocoltls/options
public class NWProtocolTLS {
    public class Options {
        public init() { fatalError() }
    }
}

// proxyconfiguration, its init(httpconnectproxy:tlsoptions:), init(socksv5proxy:), allowfailover, excludeddomains and
// applycredential(username:password:)
public struct ProxyConfiguration: Sendable {
    public init(httpCONNECTProxy: NWEndpoint, tlsOptions: NWProtocolTLS.Options? = nil) { fatalError() }
    public init(socksv5Proxy: NWEndpoint) { fatalError() }
    public var allowFailover: Bool
    public var excludedDomains: [String]
    public mutating func applyCredential(username: String, password: String) { fatalError() }
}

// …/documentation/foundation/urlsessionconfiguration/proxyconfigurations
extension URLSessionConfiguration {
    public var proxyConfigurations: [ProxyConfiguration] {
        get { fatalError() }
        set { fatalError() }
    }
}
