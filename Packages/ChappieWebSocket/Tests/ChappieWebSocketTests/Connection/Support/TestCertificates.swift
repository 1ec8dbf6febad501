import Foundation

/// A private certificate authority in a directory of its own, and what it has issued.
struct TestCertificates {
    let directory: URL

    var authority: String { path("authority.pem") }

    /// Certificate and key of one server.
    func certificate(_ name: String) -> (certificate: String, key: String) {
        (path("\(name).pem"), path("\(name).key"))
    }

    /// Makes the authority, and certificates for 127.0.0.1 called `good` and `expired`, one for another host (`other`),
    /// and one that signed itself (`self`).
    init(in directory: URL) throws {
        self.directory = directory
        let openssl = TestProgram.openssl
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        for (name, subject) in [("authority", "/CN=Test Authority"), ("self", "/CN=127.0.0.1")] {
            try openssl.run(
                ["req", "-x509"] + key + [
                    "-keyout", path("\(name).key"), "-out", path("\(name).pem"), "-days", "2", "-subj", subject,
                    "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                ])
        }
        try Data().write(to: directory.appendingPathComponent("index"))
        try """
        [ca]
        default_ca = here
        [here]
        database = \(path("index"))
        new_certs_dir = \(directory.path)
        certificate = \(authority)
        private_key = \(path("authority.key"))
        default_md = sha256
        rand_serial = yes
        policy = anything
        copy_extensions = copy
        unique_subject = no
        [anything]
        commonName = supplied
        """.write(toFile: path("ca.conf"), atomically: false, encoding: .utf8)
        let now = Date()
        try issue("good", for: "IP:127.0.0.1,DNS:localhost", from: now - 3600, to: now + 86_400, key: key)
        try issue("expired", for: "IP:127.0.0.1,DNS:localhost", from: now - 86_400, to: now - 3600, key: key)
        try issue("other", for: "DNS:other.invalid", from: now - 3600, to: now + 86_400, key: key)
    }

    private func issue(_ name: String, for host: String, from start: Date, to end: Date, key: [String]) throws {
        try TestProgram.openssl.run(
            ["req"] + key + [
                "-keyout", path("\(name).key"), "-out", path("\(name).csr"), "-subj", "/CN=\(name)",
                "-addext", "subjectAltName=\(host)",
            ])
        try TestProgram.openssl.run([
            "ca", "-batch", "-notext", "-config", path("ca.conf"), "-in", path("\(name).csr"), "-out",
            path("\(name).pem"), "-startdate", Self.stamp(start), "-enddate", Self.stamp(end),
        ])
    }

    private func path(_ name: String) -> String { directory.appendingPathComponent(name).path }

    private static func stamp(_ date: Date) -> String {
        date.formatted(
            Date.VerbatimFormatStyle(
                format:
                    "\(year: .padded(4))\(month: .twoDigits)\(day: .twoDigits)\(hour: .twoDigits(clock: .twentyFourHour, hourCycle: .zeroBased))\(minute: .twoDigits)\(second: .twoDigits)",
                locale: Locale(identifier: "en_US_POSIX"), timeZone: .gmt, calendar: Calendar(identifier: .gregorian)))
            + "Z"
    }
}
