import Glibc

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
