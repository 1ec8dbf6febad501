@_spi(ChappieInternals) import ChappieCore
import ChappieCurl
import ChappieSDK
import FoundationEssentials

/// The diagnosis of one attempt at a connection: proxy, DNS, TCP and TLS, as far as it came.
struct ConnectionDiagnosis: Sendable {
    private let url: URL
    private let report: ConnectionReport

    init(_ url: URL, _ report: ConnectionReport) {
        self.url = url
        self.report = report
    }

    var isReachable: Bool { report.error == nil }

    func findings(at now: Date) -> [Finding] {
        guard let error = report.error else { return reached + tls(at: now) }
        let stage = stage(of: error)
        return reached.filter { $0.name != stage } + [Finding.failed(stage, error)]
    }

    /// The name behind the address: this machine looks up the proxy's, and the proxy looks up the service's.
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

    private func tls(at now: Date) -> [Finding] {
        guard url.scheme?.lowercased() == "https" else { return [] }
        let certificates = report.certificates.map { certificate in
            "\(Self.commonName(certificate.subject)) from \(Self.commonName(certificate.issuer)), good until "
                + certificate.expires
        }
        let detail = certificates.isEmpty ? "secured" : certificates.joined(separator: "; ")
        let ends = report.certificates.compactMap { Self.moment($0.expires) }
        guard let first = ends.min(), first.timeIntervalSince(now) < 14 * 86_400 else {
            return [.ok("TLS", "\(detail)\(Self.after(report.tls))")]
        }
        return [.warning("TLS", detail, "It ends soon: the operator of the server, or of the proxy, should renew it.")]
    }

    private static func after(_ duration: Duration?) -> String {
        duration.map { ", after \($0.wholeMilliseconds) ms" } ?? ""
    }

    /// `R3` out of `C = US, O = Let's Encrypt, CN = R3`.
    private static func commonName(_ name: String) -> String {
        let parts = name.split(separator: ",").map { $0.drop { $0 == " " } }
        guard let common = parts.last(where: { $0.hasPrefix("CN") }) else { return name }
        return String(common.drop { $0 != "=" }.dropFirst().drop { $0 == " " })
    }

    /// A moment as OpenSSL writes it: `Nov 21 05:37:32 2026 GMT`, a day below ten after two spaces.
    private static func moment(_ text: String) -> Date? {
        let words = text.split(separator: " ")
        guard words.count == 5 else { return nil }
        let day = words[1].count == 1 ? "0\(words[1])" : words[1]
        return HTTPDate.imfFixdate("Day, \(day) \(words[0]) \(words[3]) \(words[2]) \(words[4])")
    }
}
