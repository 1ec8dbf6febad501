import CCurl
@_spi(ChappieInternals) public import ChappieCore
public import FoundationEssentials

/// The findings of one attempt at a connection, stage by stage.
public struct ConnectionReport: Sendable, Hashable {
    /// A certificate of the chain that the server has shown, as its own words say.
    public struct Certificate: Sendable, Hashable {
        /// Whose it is.
        public var subject: String
        /// The name of its issuer.
        public var issuer: String
        /// As OpenSSL writes it: `Nov 20 12:00:00 2027 GMT`.
        public var expires: String
    }

    /// `host:port` of the proxy in between; `nil` for none. What the exclusion list spares is known to curl alone.
    public var proxy: String?
    /// The address that was reached: the proxy's, where there is one.
    public var address: String?
    /// From the start until the name was resolved; `nil` where it did not come to that.
    public var nameLookup: Duration?
    /// From the start until the connection stood; `nil` likewise.
    public var connect: Duration?
    /// From the start until TLS was through; `nil` likewise.
    public var tls: Duration?
    /// The server's own certificate first; empty without TLS, and where it was not trusted.
    public var certificates: [Certificate] = []
    /// Why there is no connection; `nil` when there is one.
    public var error: ChappieTransportError?
}

extension CurlNetwork {
    /// Opens a connection to the host of `url`, closes it, and says how that went: for diagnosis. Sends no request.
    ///
    /// On a thread of its own, which ends with it; it takes at most the policy's connect deadline. Cancelling the task does
    /// not shorten that.
    public func probe(_ url: URL) async -> ConnectionReport {
        let route: CurlRoute
        do { route = try self.route(to: url, for: .http) } catch { return ConnectionReport(error: error) }
        let deadline = policy.deadlines.connect
        return await withCheckedContinuation { continuation in
            let started = LoopThread.start { continuation.resume(returning: Self.probe(route, deadline)) }
            if !started {
                continuation.resume(returning: ConnectionReport(error: .unavailable("the system has no thread left")))
            }
        }
    }

    private static func probe(_ route: CurlRoute, _ deadline: Duration) -> ConnectionReport {
        guard CurlGlobal.isReady, let handle = EasyHandle() else {
            return ConnectionReport(error: .unavailable("libcurl does not start"))
        }
        handle.connect(route, deadline: deadline)
        handle.set(CURLOPT_CERTINFO, true)
        // A plain http origin behind a proxy would need no tunnel; through one it says as much about the way.
        let result = CurlResult(code: curl_easy_perform(handle.raw))
        var report = ConnectionReport()
        if case .via(_, _, let host, let port) = route.proxy { report.proxy = "\(host):\(port)" }
        report.address = handle.string(CURLINFO_PRIMARY_IP)
        report.nameLookup = handle.time(CURLINFO_NAMELOOKUP_TIME_T)
        report.connect = handle.time(CURLINFO_CONNECT_TIME_T)
        report.tls = handle.time(CURLINFO_APPCONNECT_TIME_T)
        report.certificates = handle.certificates
        if !result.isSuccess { report.error = CurlFailure(result, of: handle, at: .connect, on: route).error }
        return report
    }
}

extension EasyHandle {
    fileprivate func string(_ info: CURLINFO) -> String? {
        var text: UnsafePointer<CChar>?
        guard ccurl_easy_get_string(raw, info, &text) == CURLE_OK, let text, text.pointee != 0 else { return nil }
        return String(cString: text)
    }

    /// Since the start; `nil` when it did not come to that.
    fileprivate func time(_ info: CURLINFO) -> Duration? {
        var microseconds: curl_off_t = 0
        guard ccurl_easy_get_offset(raw, info, &microseconds) == CURLE_OK, microseconds > 0 else { return nil }
        return .microseconds(microseconds)
    }

    /// The chain as the server has shown it, its texts bounded: they are a stranger's.
    fileprivate var certificates: [ConnectionReport.Certificate] {
        var pointer: UnsafeMutableRawPointer?
        guard ccurl_easy_get_pointer(raw, CURLINFO_CERTINFO, &pointer) == CURLE_OK, let pointer else { return [] }
        let info = pointer.assumingMemoryBound(to: curl_certinfo.self).pointee
        guard let lists = info.certinfo else { return [] }
        return (0..<min(Int(info.num_of_certs), 10)).map { index in
            var certificate = ConnectionReport.Certificate(subject: "", issuer: "", expires: "")
            var entry = lists[index]
            while let line = entry {
                if let data = line.pointee.data { certificate.take(String(cString: data)) }
                entry = line.pointee.next
            }
            return certificate
        }
    }
}

extension ConnectionReport.Certificate {
    /// `Subject:CN = example.org` and its like.
    fileprivate mutating func take(_ line: String) {
        let parts = line.split(separator: ":", maxSplits: 1)
        guard parts.count == 2, parts[1].utf8.count < 1000 else { return }
        let text = String(parts[1].unicodeScalars.map { (0x20..<0x7F).contains($0.value) ? Character($0) : "?" })
        switch parts[0] {
        case "Subject": subject = text
        case "Issuer": issuer = text
        case "Expire date": expires = text
        default: break
        }
    }
}
