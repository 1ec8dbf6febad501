import Dispatch
import FoundationEssentials
import Glibc

/// A program that the tests need on the machine.
public struct SystemProgram: Sendable {
    /// What it is called, or where it is.
    public let name: String
    /// The Debian packages that bring it.
    public let packages: String

    public init(_ name: String, packages: String) {
        self.name = name
        self.packages = packages
    }

    /// Longer than the programs' own limits.
    private static let limit = Patience.limit * 2

    public static let nginx = SystemProgram("nginx", packages: "nginx")
    public static let tinyproxy = SystemProgram("tinyproxy", packages: "tinyproxy")
    public static let openssl = SystemProgram("openssl", packages: "openssl")
    public static let dbusDaemon = SystemProgram("dbus-daemon", packages: "dbus-daemon")
    public static let gdbus = SystemProgram("gdbus", packages: "libglib2.0-bin")
    /// Debian's own: it is the one that has the modules.
    public static let python = SystemProgram("/usr/bin/python3", packages: "python3 python3-dbusmock gir1.2-gcr-3")
    public static let zstd = SystemProgram("zstd", packages: "zstd")

    /// Where it is.
    ///
    /// - Throws: ``FixtureFailure``, whose words say what to install.
    public func path() throws -> String {
        // Debian keeps some servers where an ordinary person's PATH doesn't look.
        let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        let candidates = name.hasPrefix("/") ? [name] : folders.split(separator: ":").map { "\($0)/\(name)" }
        guard let path = candidates.first(where: FileManager.default.isExecutableFile(atPath:)) else {
            throw FixtureFailure("\(name) is missing; install it with: apt-get install \(packages)")
        }
        return path
    }

    /// Whether a test that needs it runs: the program is there, or `CHAPPIE_REQUIRE_COUNTERPARTS` demands every counterpart.
    ///
    /// For `.enabled(if:_:)`, with ``absence`` as its comment.
    public var isUsable: Bool {
        ProcessInfo.processInfo.environment["CHAPPIE_REQUIRE_COUNTERPARTS"] != nil || (try? path()) != nil
    }

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
        let path = try path()
        return try await onOwnThread {
            // Files, not pipes: neither side can block the other.
            let directory = try TemporaryDirectory()
            let output = try directory.write("", to: "output")
            let errors = try directory.write("", to: "errors")
            let program = try RunningProgram(
                path, arguments, environment: environment, input: input, output: .file(output),
                errors: withErrors ? .withOutput : .file(errors))
            // What hangs must fail the test, not hang it.
            let alarm = DispatchWorkItem { [weak program] in program?.end() }
            DispatchQueue.global().asyncAfter(deadline: .now() + Self.limit / .seconds(1), execute: alarm)
            let status = program.wait()
            alarm.cancel()
            let text = try directory.read("output")
            guard status == 0 else {
                let complaint = try text + directory.read("errors")
                throw FixtureFailure(
                    "\(name) \(arguments.joined(separator: " ")) ended with \(status): \(complaint)")
            }
            return text
        }
    }
}

extension [SystemProgram] {
    /// Whether a test that needs all of them runs.
    public var areUsable: Bool { allSatisfy(\.isUsable) }

    /// Why a test is skipped without one of them.
    public var absence: String { filter { !$0.isUsable }.map(\.absence).joined(separator: "; ") }
}
