extension CurlFailure {
    /// Why a certificate was refused, in plain words; OpenSSL's stand beside them, since those are what people look for.
    var certificateReason: String {
        let words = shown(orElse: "")
        let reason =
            switch true {
            case words.contains("expired"): "its certificate has expired"
            case words.contains("not yet valid"): "its certificate is not valid yet, by the clock of this machine"
            // Both ways in which curl says that the name in the certificate is another.
            case words.contains("subject name"): "its certificate is for another host"
            // "self signed" in OpenSSL 1.1.
            case words.contains("issuer certificate"), words.contains("self-signed"), words.contains("self signed"):
                "its certificate is from no authority that is trusted here"
            default: "its certificate is not trusted"
            }
        return words.isEmpty ? reason : "\(reason) (\(words))"
    }

    /// The connection ended or was reset inside the handshake, in one of the ways in which curl and OpenSSL 3 say so.
    var isBrokenHandshake: Bool {
        [
            "SSL_ERROR_SYSCALL", "SSL_ERROR_ZERO_RETURN", "unexpected eof", "Recv failure: ", "Send failure: ",
            "Connection reset",
        ]
        .contains { text.contains($0) }
    }

    /// Why the handshake failed. Where one side offers no version that the other takes, OpenSSL says so in one of these
    /// ways, whichever side notices.
    var handshakeReason: String {
        let words = shown(orElse: "the handshake failed")
        let isAboutVersion = ["alert protocol version", "unsupported protocol", "version too low"].contains {
            words.contains($0)
        }
        return isAboutVersion ? "it speaks no version of TLS that is allowed here (\(words))" : words
    }

    /// curl's words without its prefixes, in printable ASCII and bounded: they may quote a name in a certificate.
    private func shown(orElse fallback: String) -> String {
        var text = Substring(text)
        for prefix in ["SSL certificate problem: ", "SSL: "] where text.hasPrefix(prefix) {
            text = text.dropFirst(prefix.count)
        }
        let clean = text.unicodeScalars.lazy.map { (0x20..<0x7F).contains($0.value) ? Character($0) : "?" }.prefix(200)
        return clean.isEmpty ? fallback : String(clean)
    }
}
