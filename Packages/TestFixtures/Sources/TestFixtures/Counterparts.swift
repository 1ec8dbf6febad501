import FoundationEssentials
import Glibc
import Synchronization

/// nginx with several TLS servers, and tinyproxy, on loopback: what a network adapter meets outside.
///
/// ```swift
/// let counterparts = try await Counterparts()
/// try await counterparts.start(locations: #"location / { return 200 "hello\n"; }"#)
/// defer { counterparts.end() }
/// ```
public final class Counterparts: Sendable {
    /// Of this test: the certificates, the configurations, the logs.
    public let directory: TemporaryDirectory
    let certificates: TestCertificates
    private let ports: [Server: ReservedPort]
    private let programs = Mutex<[RunningProgram]>([])

    /// The servers, each with a port of its own.
    enum Server: CaseIterable {
        case good, goodWithoutHTTP2, expired, otherHost, selfSigned, oldTLS, plain, proxy
    }

    /// Takes ports and makes certificates; nothing listens yet.
    public init() async throws {
        directory = try TemporaryDirectory()
        certificates = try await TestCertificates(in: directory)
        ports = Dictionary(uniqueKeysWithValues: try Server.allCases.map { ($0, try ReservedPort()) })
    }

    /// The certificate of the private authority, a file.
    public var authority: String { certificates.authority }
    /// The certificate of ``selfSigned``, a file.
    public var selfSignedCertificate: String { certificates.certificate("self").certificate }
    /// The port of HTTP/2 and 1.1 with a certificate of the private authority.
    public var good: Int { port(.good) }
    /// The same, HTTP/1.1 only.
    public var goodWithoutHTTP2: Int { port(.goodWithoutHTTP2) }
    /// The port of a server whose certificate was good until an hour ago.
    public var expired: Int { port(.expired) }
    /// The port of a server whose certificate is another host's.
    public var otherHost: Int { port(.otherHost) }
    /// The port of a server that has signed its certificate itself.
    public var selfSigned: Int { port(.selfSigned) }
    /// The port of a server with a trusted certificate, TLS 1.1 and nothing newer.
    public var oldTLS: Int { port(.oldTLS) }
    /// The port of a server without TLS.
    public var plain: Int { port(.plain) }
    /// The port of tinyproxy: user `someone`, password `s3cret`.
    public var proxy: Int { port(.proxy) }

    /// The log of tinyproxy.
    public var proxyLog: String {
        get throws { try directory.read("proxy.log") }
    }

    /// Starts them; returns when all of them listen.
    ///
    /// - Parameter locations: what each TLS server answers: `location` blocks as nginx has them.
    public func start(locations: String) async throws {
        let nginx = try directory.write(nginxConfiguration(locations: locations), to: "nginx.conf")
        let proxy = try directory.write(proxyConfiguration, to: "proxy.conf")
        let nginxLog = directory.path("nginx.log")
        try await start(.nginx, ["-p", directory.path, "-e", nginxLog, "-c", nginx], logging: nginxLog) { $0 != .proxy }
        try await start(.tinyproxy, ["-d", "-c", proxy], logging: directory.path("proxy.out")) { $0 == .proxy }
    }

    /// Ends them.
    public func end() { for program in programs.withLock({ $0 }) { program.end() } }

    func port(_ server: Server) -> Int { ports[server]?.number ?? 0 }

    private func start(
        _ program: SystemProgram, _ arguments: [String], logging log: String, serves: (Server) -> Bool
    ) async throws {
        let running = try program.start(arguments, output: .file(log), errors: .withOutput)
        programs.withLock { $0.append(running) }
        let ports = Server.allCases.filter(serves).map(port)
        let isUp = try await eventually {
            let table = try TCPSocketTable()
            return running.hasEnded || ports.allSatisfy(table.isListening)
        }
        guard isUp, !running.hasEnded else {
            let words = (try? String(contentsOfFile: log, encoding: .utf8)) ?? ""
            throw FixtureFailure("\(program.name) did not begin to listen: \(words)")
        }
    }
}

extension Counterparts {
    func nginxConfiguration(locations: String) -> String {
        let old = "ssl_protocols TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;"
        let servers = [
            server(.good, "good"), server(.goodWithoutHTTP2, "good", options: ""), server(.expired, "expired"),
            server(.otherHost, "other"), server(.selfSigned, "self"), server(.oldTLS, "good", options: "", old),
        ]
        func server(_ server: Server, _ name: String, options: String = "http2", _ more: String = "") -> String {
            let (certificate, key) = certificates.certificate(name)
            return """
                server {
                    listen 127.0.0.1:\(port(server)) ssl \(options);
                    ssl_certificate \(certificate);
                    ssl_certificate_key \(key);
                    \(more)
                    \(locations)
                }
                """
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
                client_body_temp_path \(directory.path("client"));
                proxy_temp_path \(directory.path("proxy"));
                fastcgi_temp_path \(directory.path("fastcgi"));
                uwsgi_temp_path \(directory.path("uwsgi"));
                scgi_temp_path \(directory.path("scgi"));
                ssl_protocols TLSv1.2 TLSv1.3;
                \(servers.joined(separator: "\n"))
                server { listen 127.0.0.1:\(plain); }
            }
            """
    }

    var proxyConfiguration: String {
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
