import Foundation

/// A real X server without a screen, on a number that is free.
final class VirtualDisplay {
    let variables: [String: String]
    private let server: Process

    init() throws {
        let environment = ["PATH": "/usr/bin:/bin"]
        let (server, number) = try Tool.xvfb.start(
            ["-displayfd", "1", "-screen", "0", "320x240x8", "-nolisten", "tcp", "-noreset"], environment: environment)
        self.server = server
        variables = environment.merging(["DISPLAY": ":\(number)"]) { $1 }
    }

    deinit { server.end() }
}
