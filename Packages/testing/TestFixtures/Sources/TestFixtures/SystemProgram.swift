import FoundationEssentials
import Glibc
import Testing

/// A program that the tests need on the machine.
public struct SystemProgram: Sendable {
    /// Its name or path.
    public let name: String
    /// The Debian packages that bring it.
    public let packages: String
    /// A file that has to be there as well.
    private let companion: String?

    /// Creates a program in `PATH`, or at a path, that these Debian packages bring, and a file that has to be there as
    /// well.
    public init(_ name: String, packages: String, companion: String? = nil) {
        self.name = name
        self.packages = packages
        self.companion = companion
    }

    /// A server with TLS.
    public static let nginx = SystemProgram("nginx", packages: "nginx")
    /// A CONNECT proxy.
    public static let tinyproxy = SystemProgram("tinyproxy", packages: "tinyproxy")
    /// It makes certificates.
    public static let openssl = SystemProgram("openssl", packages: "openssl")
    /// A bus of the session.
    public static let dbusDaemon = SystemProgram("dbus-daemon", packages: "dbus-daemon")
    /// It waits for names on a bus.
    public static let gdbus = SystemProgram("gdbus", packages: "libglib2.0-bin")
    /// Debian's own, which has the modules.
    public static let python = SystemProgram(
        "/usr/bin/python3", packages: "python3 python3-dbusmock gir1.2-gcr-3",
        companion: "/usr/lib/python3/dist-packages/dbusmock")
    /// It decompresses bodies.
    public static let zstd = SystemProgram("zstd", packages: "zstd")

    /// Returns the path of its file. On a plain machine the test that asks ends here as skipped, with a sentence.
    ///
    /// - Throws: ``FixtureFailure``, whose words say what to install, if counterparts are demanded.
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

    /// Whether `CHAPPIE_REQUIRE_COUNTERPARTS` demands every counterpart, as `Scripts/test` does.
    private static var areDemanded: Bool {
        ProcessInfo.processInfo.environment["CHAPPIE_REQUIRE_COUNTERPARTS"] != nil
    }

    /// Whether a test that needs it runs, for `.enabled(if:_:)` with ``absence`` as its comment.
    public var isUsable: Bool { Self.areDemanded || found != nil }

    /// Why a test is skipped without it.
    public var absence: String { "\(name) is not installed here; Debian has it in \(packages)" }

    /// Starts it and returns. It ends when the result goes, or the tests do.
    public func start(
        _ arguments: [String], environment: [String: String]? = nil, input: ProgramInput = .nothing,
        output: ProgramOutput, errors: ProgramErrors
    ) throws -> RunningProgram {
        try RunningProgram(
            path(), arguments, environment: environment, input: input, output: output, errors: errors, isGuarded: true)
    }

    /// Runs it to its end, which must be a good one; returns what it printed.
    ///
    /// - Parameter withErrors: whether that includes its standard error.
    /// - Throws: ``FixtureFailure`` for another end, with what it complained about.
    @discardableResult
    public func run(
        _ arguments: [String], environment: [String: String]? = nil, input: ProgramInput = .nothing,
        withErrors: Bool = false
    ) async throws -> String {
        // Files, not pipes: neither side can block the other.
        let directory = try TemporaryDirectory()
        let program = try RunningProgram(
            path(), arguments, environment: environment, input: input, output: .file(directory.path("output")),
            errors: withErrors ? .withOutput : .file(directory.path("errors")))
        // A program that hangs must fail the test, not hang it; its own limit may be as long as ours.
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

    /// Why a test is skipped if a program is missing.
    public var absence: String { filter { !$0.isUsable }.map(\.absence).joined(separator: "; ") }
}
