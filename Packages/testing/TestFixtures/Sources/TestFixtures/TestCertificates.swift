/// A private certificate authority, and the certificates that it has issued.
struct TestCertificates: Sendable {
    private let directory: TemporaryDirectory

    var authority: String { certificate("authority").certificate }

    /// Returns the paths of the certificate and the key of one server.
    func certificate(_ name: String) -> (certificate: String, key: String) {
        (directory.path("\(name).pem"), directory.path("\(name).key"))
    }

    /// Creates the authority, certificates for 127.0.0.1 named `good` and `expired`, one for another host (`other`),
    /// and a self-signed one (`self`).
    init(in directory: TemporaryDirectory) async throws {
        self.directory = directory
        let loopback = "IP:127.0.0.1,DNS:localhost"
        for (name, subject) in [("authority", "Test Authority"), ("self", "127.0.0.1")] {
            try await request(name, for: loopback, subject, ["-x509", "-days", "2"], to: certificate(name).certificate)
        }
        for (name, host, days) in [
            ("good", loopback, "1"), ("expired", loopback, "-1"), ("other", "DNS:other.invalid", "1"),
        ] {
            let request = directory.path("\(name).csr")
            try await self.request(name, for: host, name, [], to: request)
            try await SystemProgram.openssl.run([
                "x509", "-req", "-in", request, "-CA", authority, "-CAkey", certificate("authority").key,
                "-copy_extensions", "copy", "-days", days, "-out", certificate(name).certificate,
            ])
        }
    }

    private func request(
        _ name: String, for host: String, _ subject: String, _ options: [String], to file: String
    ) async throws {
        try await SystemProgram.openssl.run(
            ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"] + options + [
                "-keyout", certificate(name).key, "-out", file, "-subj", "/CN=\(subject)",
                "-addext", "subjectAltName=\(host)",
            ])
    }
}
