import ChappieSimulator
import ChappieTesting
import Foundation
import Glibc
import Testing

/// A WebSocket server that echoes, nginx with several TLS servers before it, and tinyproxy before that, on loopback, for one
/// suite.
struct Counterparts: Sendable {
    @TaskLocal private static var running: Counterparts?

    /// Only within a suite that has the trait ``Trait``.
    static var current: Counterparts {
        get throws { try #require(running, "the suite lacks the counterparts trait") }
    }

    /// Behind all of nginx's.
    let server: ScriptedWebSocketServer
    let directory: URL
    let authority: String
    /// With a certificate of the private authority; speaks HTTP/2 as well, if it is asked.
    let good: Int
    let expired: Int
    let otherHost: Int
    let selfSigned: Int
    /// Trusted certificate, TLS 1.1 and nothing newer.
    let oldTLS: Int
    /// tinyproxy: user `someone`, password `s3cret`.
    let proxy: Int

    /// What tinyproxy has logged.
    var proxyLog: String {
        get throws { try String(contentsOf: directory.appendingPathComponent("proxy.log"), encoding: .utf8) }
    }

    struct Trait: SuiteTrait, TestScoping {
        func provideScope(
            for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
        ) async throws {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
            try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: directory) }
            let server = try ScriptedWebSocketServer.start(
                opening: {
                    $0.target == "/no" ? .init(.response(status: 403, body: Array("not you".utf8))) : .upgrade($0)
                },
                reply: { message, _ in [.send(WebSocketFrames.message(message))] })
            defer { server.stop() }
            let counterparts = try Counterparts(in: directory, before: server)
            let nginx = try counterparts.startNginx()
            defer { nginx.end() }
            let proxy = try counterparts.startProxy()
            defer { proxy.end() }
            try await counterparts.waitUntilReady()
            try await Counterparts.$running.withValue(counterparts, operation: function)
        }
    }

    private init(in directory: URL, before server: ScriptedWebSocketServer) throws {
        self.directory = directory
        self.server = server
        let certificates = try TestCertificates(in: directory)
        authority = certificates.authority
        let ports = try freePorts(6)
        (good, expired, otherHost) = (ports[0], ports[1], ports[2])
        (selfSigned, oldTLS, proxy) = (ports[3], ports[4], ports[5])

        func tls(_ port: Int, _ name: String, _ more: String = "") -> String {
            let (certificate, key) = certificates.certificate(name)
            return """
                server {
                    listen 127.0.0.1:\(port) ssl http2;
                    ssl_certificate \(certificate);
                    ssl_certificate_key \(key);
                    \(more)
                    location / {
                        proxy_pass http://127.0.0.1:\(server.port);
                        proxy_http_version 1.1;
                        proxy_set_header Upgrade $http_upgrade;
                        proxy_set_header Connection "upgrade";
                        proxy_buffering off;
                    }
                }

                """
        }
        let old = "ssl_protocols TLSv1.1; ssl_ciphers ALL:@SECLEVEL=0;"
        try """
        daemon off;
        \(getuid() == 0 ? "user root;" : "")
        worker_processes 1;
        pid \(directory.path)/nginx.pid;
        error_log \(directory.path)/nginx.log;
        events { worker_connections 256; }
        http {
            access_log off;
            client_body_temp_path \(directory.path)/client;
            proxy_temp_path \(directory.path)/proxy;
            fastcgi_temp_path \(directory.path)/fastcgi;
            uwsgi_temp_path \(directory.path)/uwsgi;
            scgi_temp_path \(directory.path)/scgi;
            ssl_protocols TLSv1.2 TLSv1.3;
            \(tls(good, "good"))
            \(tls(expired, "expired"))
            \(tls(otherHost, "other"))
            \(tls(selfSigned, "self"))
            \(tls(oldTLS, "good", old))
        }
        """.write(to: directory.appendingPathComponent("nginx.conf"), atomically: false, encoding: .utf8)
        try """
        \(getuid() == 0 ? "User root\nGroup root" : "")
        Port \(proxy)
        Listen 127.0.0.1
        Timeout 60
        LogFile "\(directory.path)/proxy.log"
        LogLevel Connect
        MaxClients 50
        Allow 127.0.0.1
        BasicAuth someone s3cret
        """.write(to: directory.appendingPathComponent("proxy.conf"), atomically: false, encoding: .utf8)
    }

    private func startNginx() throws -> ChildProcess {
        try TestProgram.nginx.start(
            ["-p", directory.path, "-e", path("nginx.log"), "-c", path("nginx.conf")], log: path("nginx.log"))
    }

    private func startProxy() throws -> ChildProcess {
        try TestProgram.tinyproxy.start(["-d", "-c", path("proxy.conf")], log: path("proxy.out"))
    }

    private func path(_ name: String) -> String { directory.appendingPathComponent(name).path }

    private func waitUntilReady() async throws {
        for port in [good, oldTLS, proxy] {
            guard try await eventually({ answers(port) }) else {
                let logs = ["nginx.log", "proxy.out"].map {
                    (try? String(contentsOfFile: path($0), encoding: .utf8)) ?? ""
                }
                throw ChildProcess.Problem(
                    description: "nginx or tinyproxy did not begin to listen on port \(port): \(logs.joined())")
            }
        }
    }
}

extension Trait where Self == Counterparts.Trait {
    /// Runs the suite with nginx and tinyproxy beside it.
    static var counterparts: Self { Self() }
}

private func answers(_ port: Int) -> Bool {
    let client = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
    defer { close(client) }
    return withLoopbackAddress(port) { connect(client, $0, $1) == 0 }
}

/// Ports that nobody had a moment ago, all different.
private func freePorts(_ count: Int) throws -> [Int] {
    var sockets: [CInt] = []
    defer { for descriptor in sockets { close(descriptor) } }
    return try (0..<count).map { _ in
        let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        sockets.append(descriptor)
        try #require(withLoopbackAddress(0) { bind(descriptor, $0, $1) == 0 })
        return withLoopbackAddress(0) { address, size in
            var size = size
            getsockname(descriptor, UnsafeMutablePointer(mutating: address), &size)
            return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                Int(UInt16(bigEndian: $0.pointee.sin_port))
            }
        }
    }
}

private func withLoopbackAddress<Result>(
    _ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
) -> Result {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    address.sin_port = UInt16(port).bigEndian
    return withUnsafeMutablePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
}
