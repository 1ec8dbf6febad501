import TestFixtures

/// A real X server without a screen, on a number that is free. It ends with this value.
struct VirtualDisplay {
    let variables: [String: String]
    private let server: RunningProgram

    init() async throws {
        let environment = ["PATH": "/usr/bin:/bin"]
        let server = try SystemProgram.xvfb.start(
            ["-displayfd", "1", "-screen", "0", "320x240x8", "-nolisten", "tcp", "-noreset"], environment: environment,
            output: .pipe, errors: .file("/dev/null"))
        // It prints its number once it is ready.
        guard let number = try await onOwnThread({ server.output?.line() }) else {
            throw FixtureFailure("Xvfb ended before it was ready")
        }
        self.server = server
        variables = environment.merging(["DISPLAY": ":\(number)"]) { $1 }
    }
}
