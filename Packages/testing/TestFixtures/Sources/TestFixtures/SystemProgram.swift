import FoundationEssentials
import Glibc
import Testing

/// A program that the tests need on the machine.
public struct SystemProgram: Sendable {
    /// Its name or path.
    public let name: String
    /// The Debian packages that contain it.
    public let packages: String
    /// A file that must also exist.
    private let companion: String?

    /// Creates a program in `PATH`, or at a path, that these Debian packages contain. `companion` is a file that must
    /// also exist.
    public init(_ name: String, packages: String, companion: String? = nil) {
        self.name = name
        self.packages = packages
        self.companion = companion
    }

    /// A server with TLS.
    public static let nginx = SystemProgram("nginx", packages: "nginx")
    /// A CONNECT proxy.
    public static let tinyproxy = SystemProgram("tinyproxy", packages: "tinyproxy")
    /// A program that makes certificates.
    public static let openssl = SystemProgram("openssl", packages: "openssl")
    /// A session bus.
    public static let dbusDaemon = SystemProgram("dbus-daemon", packages: "dbus-daemon")
    /// A program that waits for names on a bus.
    public static let gdbus = SystemProgram("gdbus", packages: "libglib2.0-bin")
    /// Debian's Python, which has the modules.
    public static let python = SystemProgram(
        "/usr/bin/python3", packages: "python3 python3-dbusmock gir1.2-gcr-3",
        companion: "/usr/lib/python3/dist-packages/dbusmock")
    /// A program that decompresses bodies.
    public static let zstd = SystemProgram("zstd", packages: "zstd")

    /// Returns the path of its file. On a machine without the program, the calling test is skipped here with a message.
    ///
    /// - Throws: ``FixtureFailure`` with the packages to install, if counterparts are required.
    public func path() throws -> String {
        if let found { return found }
        if Test.current != nil, !Self.areDemanded {
            print("skipped: \(absence)")
            try Test.cancel(Comment(rawValue: absence))
        }
        throw FixtureFailure("\(name) is missing; install it with: apt-get install \(packages)")
    }

    private var found: String? {
        // Debian keeps some servers outside an ordinary user's PATH.
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        let candidates = name.hasPrefix("/") ? [name] : folders.split(separator: ":").map { "\($0)/\(name)" }
        guard companion.map(FileManager.default.fileExists(atPath:)) ?? true else { return nil }
        return candidates.first(where: FileManager.default.isExecutableFile(atPath:))
    }

    /// Whether `CHAPPIE_REQUIRE_COUNTERPARTS` requires every counterpart, as `Scripts/test` does.
    private static var areDemanded: Bool {
        ProcessInfo.processInfo.environment["CHAPPIE_REQUIRE_COUNTERPARTS"] != nil
    }

    /// Whether a test that needs it runs, for `.enabled(if:_:)` with ``absence`` as its comment.
    public var isUsable: Bool { Self.areDemanded || found != nil }

    /// The reason for which a test is skipped without it.
    public var absence: String { "\(name) is not installed here; Debian has it in \(packages)" }

    /// Starts the program and returns. It ends when the returned value is released, or when the tests end.
    public func start(
        _ arguments: [String], environment: [String: String]? = nil, input: ProgramInput = .nothing,
        output: ProgramOutput, errors: ProgramErrors
    ) throws -> RunningProgram {
        try RunningProgram(
            path(), arguments, environment: environment, input: input, output: output, errors: errors, isGuarded: true)
    }

    /// Runs the program to its end, which must be a success, and returns its output.
    ///
    /// - Parameter withErrors: whether the output includes its standard error.
    /// - Throws: ``FixtureFailure`` with the program's messages, if it fails.
    @discardableResult
    public func run(
        _ arguments: [String], environment: [String: String]? = nil, input: ProgramInput = .nothing,
        withErrors: Bool = false
    ) async throws -> String {
        // With files instead of pipes, neither side can block the other.
        let directory = try TemporaryDirectory()
        let program = try RunningProgram(
            path(), arguments, environment: environment, input: input, output: .file(directory.path("output")),
            errors: withErrors ? .withOutput : .file(directory.path("errors")))
        // A program that hangs must fail the test and not hang it. Its own limit may be as long as ours.
        if try await !eventually(within: Patience.limit * 2, { program.hasEnded }) { program.end() }
        let text = try directory.read("output")
        let status = program.wait()
        guard status == 0 else {
            let complaint = text + (withErrors ? "" : try directory.read("errors"))
            throw FixtureFailure("\(name) \(arguments.joined(separator: " ")) ended with \(status): \(complaint)")
        }
        return text
    }
}

extension [SystemProgram] {
    /// Whether a test that needs all of them runs.
    public var areUsable: Bool { allSatisfy(\.isUsable) }

    /// The reason for which a test is skipped if a program is missing.
    public var absence: String { filter { !$0.isUsable }.map(\.absence).joined(separator: "; ") }
}
