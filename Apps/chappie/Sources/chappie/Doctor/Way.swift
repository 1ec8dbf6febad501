import ChappieCurl
import ChappieSDK
import FoundationEssentials

/// The way to a service as one attempt at a connection has found it: proxy, DNS, TCP, TLS, as far as it came.
struct Way {
    private let url: URL
    private let report: ConnectionReport

    init(to url: URL, as report: ConnectionReport) {
        self.url = url
        self.report = report
    }

    var findings: [Finding] {
        guard let error = report.error else { return reached + tls }
        return reached.filter { $0.name != stage(of: error) } + [Finding.failed(stage(of: error), error)]
    }

    /// What an address stands for: the proxy's name is looked up here, and the service's by the proxy.
    private var lookedUp: String {
        guard let proxy = report.proxy else { return url.host() ?? "" }
        return String(proxy[..<(proxy.lastIndex(of: ":") ?? proxy.endIndex)])
    }

    private var reached: [Finding] {
        var findings: [Finding] = []
        if let proxy = report.proxy { findings.append(.ok("proxy", proxy)) }
        if let address = report.address {
            if lookedUp != address {
                findings.append(.ok("DNS", "\(lookedUp) is \(address)\(Self.after(report.nameLookup))"))
            }
            if report.connect != nil || report.error?.stage == .tls {
                findings.append(.ok("TCP", "connected\(Self.after(report.connect))"))
            }
        }
        return findings
    }

    private func stage(of error: ChappieTransportError) -> String {
        switch error.code {
        case .unknownHost: "DNS"
        case .proxyFailed: "proxy"
        case .certificateRejected, .tlsFailed, .invalidCAFile: "TLS"
        default: error.stage == .tls ? "TLS" : "TCP"
        }
    }

    private var tls: [Finding] {
        guard url.scheme?.lowercased() == "https" else { return [] }
        let certificates = report.certificates.map { certificate in
            "\(Self.commonName(certificate.subject)) from \(Self.commonName(certificate.issuer)), good until "
                + certificate.expires
        }
        let detail = certificates.isEmpty ? "secured" : certificates.joined(separator: "; ")
        let ends = report.certificates.compactMap { Examination.moment($0.expires) }
        guard let first = ends.min(), first.timeIntervalSinceNow < 14 * 86_400 else {
            return [.ok("TLS", "\(detail)\(Self.after(report.tls))")]
        }
        return [
            .warning("TLS", detail, "It ends soon: whoever runs the server, or the proxy in between, should renew it.")
        ]
    }

    private static func after(_ duration: Duration?) -> String {
        duration.map { ", after \(Int(($0.seconds * 1000).rounded(.up))) ms" } ?? ""
    }

    /// `R3` out of `C = US, O = Let's Encrypt, CN = R3`.
    private static func commonName(_ name: String) -> String {
        let parts = name.split(separator: ",").map { $0.drop { $0 == " " } }
        guard let common = parts.last(where: { $0.hasPrefix("CN") }) else { return name }
        return String(common.drop { $0 != "=" }.dropFirst().drop { $0 == " " })
    }
}
