import CCurl
@_spi(ChappieInternals) public import ChappieCore
public import FoundationEssentials

/// The results of one attempt to connect, by stage.
public struct ConnectionReport: Sendable, Hashable {
    /// A certificate of the chain that the server presented. The texts come from the certificate.
    public struct Certificate: Sendable, Hashable {
        /// The name of the certificate's owner.
        public var subject: String
        /// The name of the certificate's issuer.
        public var issuer: String
        /// The end of the certificate's validity, in OpenSSL's format: `Nov 20 12:00:00 2027 GMT`.
        public var expires: String
    }

    /// The proxy as `host:port`, or `nil` if none is used.
    public var proxy: String?
    /// The address that was reached. If there is a proxy, it is the proxy's address.
    public var address: String?
    /// The time from the start until the name was resolved, or `nil` if this stage was not reached.
    public var nameLookup: Duration?
    /// The time from the start until the connection was open, or `nil` if this stage was not reached.
    public var connect: Duration?
    /// The time from the start until the TLS handshake was complete, or `nil` if this stage was not reached.
    public var tls: Duration?
    /// The chain, beginning with the server's own certificate. It is empty without TLS, and if the chain was not
    /// trusted.
    public var certificates: [Certificate] = []
    /// The reason why the connection failed, or `nil` if it succeeded.
    public var error: ChappieTransportError?
}

extension CurlNetwork {
    /// Opens a connection to the host of `url` and closes it, for diagnosis. Returns the results. Sends no request.
    ///
    /// The probe runs on its own thread, which ends with the probe. It takes at most the policy's connect deadline.
    /// Cancelling the task does not shorten it.
    public func probe(_ url: URL) async -> ConnectionReport {
        let route: CurlRoute
        do {
            route = try self.route(to: url, for: .http)
        } catch {
            return ConnectionReport(error: error)
        }
        let deadline = policy.deadlines.connect
        return await withCheckedContinuation { continuation in
            let hasStarted = startThread { continuation.resume(returning: ConnectionReport(of: route, deadline)) }
            if !hasStarted { continuation.resume(returning: ConnectionReport(error: .noThread)) }
        }
    }
}

extension ConnectionReport {
    /// Connects over `route` and records the results. Plain http through a proxy would need no tunnel, but the probe
    /// always asks for one, which tests the same route.
    fileprivate init(of route: CurlRoute, _ deadline: Duration) {
        guard CurlGlobal.isReady, let handle = EasyHandle() else {
            error = .unavailable("libcurl does not start")
            return
        }
        handle.connect(route, deadline: deadline)
        handle.set(CURLOPT_CERTINFO, true)
        let result = CurlResult(code: curl_easy_perform(handle.raw))
        proxy = route.proxy.map { "\($0.host):\($0.port)" }
        var text: UnsafePointer<CChar>?
        ccurl_easy_get(handle.raw, CURLINFO_PRIMARY_IP, &text)
        address = text.flatMap { $0.pointee == 0 ? nil : String(cString: $0) }
        nameLookup = handle.time(CURLINFO_NAMELOOKUP_TIME_T)
        connect = handle.time(CURLINFO_CONNECT_TIME_T)
        tls = handle.time(CURLINFO_APPCONNECT_TIME_T)
        certificates = handle.certificates
        if !result.isSuccess { error = CurlFailure(result, of: handle, at: .connect, on: route).error }
    }
}

extension EasyHandle {
    /// Returns the time since the start, or `nil` if this stage was not reached.
    fileprivate func time(_ info: CURLINFO) -> Duration? {
        let microseconds = long(info)
        return microseconds > 0 ? .microseconds(microseconds) : nil
    }

    /// The chain that the server presented.
    fileprivate var certificates: [ConnectionReport.Certificate] {
        var info: UnsafePointer<curl_certinfo>?
        guard ccurl_easy_get(raw, CURLINFO_CERTINFO, &info) == CURLE_OK, let info, let lists = info.pointee.certinfo
        else { return [] }
        return (0..<min(Int(info.pointee.num_of_certs), 10)).map { index in
            var certificate = ConnectionReport.Certificate(subject: "", issuer: "", expires: "")
            for entry in sequence(first: lists[index], next: { $0?.pointee.next }) {
                if let data = entry?.pointee.data { certificate.take(String(cString: data)) }
            }
            return certificate
        }
    }
}

extension ConnectionReport.Certificate {
    /// Reads a line such as `Subject:CN = example.org`. The text is not trusted.
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
