import FoundationEssentials
import Glibc
import Synchronization

/// The counterparts of a network adapter on loopback: nginx with several TLS servers, and tinyproxy.
///
/// ```swift
/// let counterparts = try await Counterparts()
/// try await counterparts.start(locations: #"location / { return 200 "hello\n"; }"#)
/// defer { counterparts.end() }
/// ```
public final class Counterparts: Sendable {
    /// The directory of this test, with the certificates, the configurations and the logs.
    public let directory: TemporaryDirectory
    private let certificates: TestCertificates
    private let ports: [ReservedPort]
    private let programs = Mutex<[RunningProgram]>([])

    /// Reserves ports and creates certificates. Nothing listens yet.
    public init() async throws {
        directory = try TemporaryDirectory()
        certificates = try await TestCertificates(in: directory)
        ports = try (0..<8).map { _ in try ReservedPort() }
    }

    /// The path of the certificate of the private authority.
    public var authority: String { certificates.authority }
    /// The path of the certificate of ``selfSigned``.
    public var selfSignedCertificate: String { certificates.certificate("self").certificate }
    /// The port of a server with HTTP/2 and 1.1, and a certificate of the private authority.
    public var good: Int { ports[0].number }
    /// The port of an identical server with only HTTP/1.1.
    public var goodWithoutHTTP2: Int { ports[1].number }
    /// The port of a server whose certificate expired a day ago.
    public var expired: Int { ports[2].number }
    /// The port of a server whose certificate is for another host.
    public var otherHost: Int { ports[3].number }
    /// The port of a server with a self-signed certificate.
    public var selfSigned: Int { ports[4].number }
    /// The port of a server with a trusted certificate, and TLS 1.1 as its newest version.
    public var oldTLS: Int { ports[5].number }
    /// The port of a server without TLS.
    public var plain: Int { ports[6].number }
    /// The port of tinyproxy, with the user `someone` and the password `s3cret`.
    public var proxy: Int { ports[7].number }

    /// The log of tinyproxy.
    public var proxyLog: String {
        get throws { try directory.read("proxy.log") }
    }

    /// Starts the programs, and returns when all of them listen.
    ///
    /// - Parameter locations: the answers of each TLS server, as `location` blocks of nginx.
    public func start(locations: String) async throws {
        let nginx = try directory.write(nginxConfiguration(locations: locations), to: "nginx.conf")
        let proxy = try directory.write(proxyConfiguration, to: "proxy.conf")
        let log = directory.path("nginx.log")
        try await start(.nginx, ["-p", directory.path, "-e", log, "-c", nginx], logging: log, on: ports.dropLast())
        try await start(.tinyproxy, ["-d", "-c", proxy], logging: directory.path("proxy.out"), on: ports.suffix(1))
    }

    /// Ends the programs.
    public func end() { for program in programs.withLock({ $0 }) { program.end() } }

    private func start(
        _ program: SystemProgram, _ arguments: [String], logging log: String, on ports: ArraySlice<ReservedPort>
    ) async throws {
        let running = try program.start(arguments, output: .file(log), errors: .withOutput)
        programs.withLock { $0.append(running) }
        let isUp = try await eventually {
            let table = try TCPSocketTable()
            return running.hasEnded || ports.allSatisfy { table.isListening(on: $0.number) }
        }
        guard isUp, !running.hasEnded else {
            let words = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            throw FixtureFailure("\(program.name) did not begin to listen: \(words)")
        }
    }

    private func nginxConfiguration(locations: String) -> String {
        func server(_ port: Int, _ name: String, http2: Bool = false, _ more: String = "") -> String {
            let (certificate, key) = certificates.certificate(name)
            return """
                server {
                    listen 127.0.0.1:\(port) ssl \(http2 ? "http2" : "");
                    ssl_certificate \(certificate);
                    ssl_certificate_key \(key);
                    \(more)
                    \(locations)
                }
                """
        }
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
            "\($0)_temp_path \(directory.path($0));"
        }
        return """
            daemon off;
            \(getuid() == 0 ? "user root;" : "")
            worker_processes 1;
            pid \(directory.path("nginx.pid"));
            error_log \(directory.path("nginx.log"));
            events { worker_connections 256; }
            http {
                access_log off;
                \(folders.joined(separator: "\n"))
                ssl_protocols TLSv1.2 TLSv1.3;
                \(server(good, "good", http2: true))
                \(server(goodWithoutHTTP2, "good"))
                \(server(expired, "expired", http2: true))
                \(server(otherHost, "other", http2: true))
                \(server(selfSigned, "self", http2: true))
                \(server(oldTLS, "good", "ssl_protocols TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;"))
                server { listen 127.0.0.1:\(plain); }
            }
            """
    }

    private var proxyConfiguration: String {
        """
        \(getuid() == 0 ? "User root\nGroup root" : "")
        Port \(proxy)
        Listen 127.0.0.1
        Timeout 60
        LogFile "\(directory.path("proxy.log"))"
        LogLevel Connect
        MaxClients 50
        Allow 127.0.0.1
        BasicAuth someone s3cret
        """
    }
}
