import FoundationEssentials

/// A private certificate authority, and what it has issued.
struct TestCertificates: Sendable {
    private let directory: TemporaryDirectory

    var authority: String { directory.path("authority.pem") }

    /// Certificate and key of one server.
    func certificate(_ name: String) -> (certificate: String, key: String) {
        (directory.path("\(name).pem"), directory.path("\(name).key"))
    }

    /// Makes the authority, and certificates for 127.0.0.1 called `good` and `expired`, one for another host (`other`),
    /// and one that signed itself (`self`).
    init(in directory: TemporaryDirectory) async throws {
        self.directory = directory
        for (name, subject) in [("authority", "/CN=Test Authority"), ("self", "/CN=127.0.0.1")] {
            let (certificate, key) = certificate(name)
            try await SystemProgram.openssl.run(
                ["req", "-x509"] + Self.newKey + [
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", subject,
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                ])
        }
        try directory.write("", to: "index")
        try directory.write(configuration, to: "ca.conf")
        let (hour, day) = (3600.0, 86_400.0)
        let now = Date()
        try await issue("good", for: "IP:127.0.0.1,DNS:localhost", from: now - hour, to: now + day)
        try await issue("expired", for: "IP:127.0.0.1,DNS:localhost", from: now - day, to: now - hour)
        try await issue("other", for: "DNS:other.invalid", from: now - hour, to: now + day)
    }

    private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    private var configuration: String {
        """
        [ca]
        default_ca = here
        [here]
        database = \(directory.path("index"))
        new_certs_dir = \(directory.path)
        certificate = \(authority)
        private_key = \(certificate("authority").key)
        default_md = sha256
        rand_serial = yes
        policy = anything
        copy_extensions = copy
        unique_subject = no
        [anything]
        commonName = supplied
        """
    }

    private func issue(_ name: String, for host: String, from start: Date, to end: Date) async throws {
        let (certificate, key) = certificate(name)
        let request = directory.path("\(name).csr")
        try await SystemProgram.openssl.run(
            ["req"] + Self.newKey + [
                "-keyout", key, "-out", request, "-subj", "/CN=\(name)", "-addext", "subjectAltName=\(host)",
            ])
        try await SystemProgram.openssl.run([
            "ca", "-batch", "-notext", "-config", directory.path("ca.conf"), "-in", request, "-out", certificate,
            "-startdate", Self.stamp(start), "-enddate", Self.stamp(end),
        ])
    }

    /// `20300102030405Z`
    private static func stamp(_ date: Date) -> String {
        let style = Date.ISO8601FormatStyle(dateSeparator: .omitted, timeSeparator: .omitted, timeZone: .gmt)
        return date.formatted(style).replacing("T", with: "")
    }
}
