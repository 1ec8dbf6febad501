import FoundationEssentials

#if canImport(Glibc)
    public import Glibc
#elseif canImport(Musl)
    public import Musl
#elseif canImport(Darwin)
    public import Darwin
#endif

/// A program with its arguments, its environment and its folder. No shell interprets them.
public struct ProgramInvocation: Sendable, Hashable {
    /// The path of the program, which is also its first argument.
    public var path: String
    /// The arguments after the program's name. They must not contain a secret, because every process of the machine can
    /// read them.
    public var arguments: [String]
    /// The program's complete environment.
    public var environment: [String: String]
    /// The folder in which the program starts, or `nil` for this process's folder.
    public var workingDirectory: String?

    /// Creates an invocation with the given properties.
    public init(
        path: String, arguments: [String] = [], environment: [String: String], workingDirectory: String? = nil
    ) {
        self.path = path
        self.arguments = arguments
        self.environment = environment
        self.workingDirectory = workingDirectory
    }

    /// Creates an invocation from a command in the form that users write. A name is looked up in the `PATH` of
    /// `environment`. A relative path begins at `workingDirectory`.
    ///
    /// - Throws: ``StartFailure`` if the program or the folder does not exist.
    public init(
        command: [String], environment: [String: String], workingDirectory: String? = nil
    ) throws(StartFailure) {
        guard let name = command.first, !name.isEmpty else { throw StartFailure("the command is empty") }
        // C strings end at the first NUL character, so another program could start.
        let words = command + environment.map { "\($0.key)=\($0.value)" } + [workingDirectory ?? ""]
        guard !words.contains(where: { $0.utf8.contains(0) }) else {
            throw StartFailure("the command or its environment holds a NUL character")
        }
        if let workingDirectory, !Self.has(S_IFDIR, at: workingDirectory) {
            throw StartFailure("there is no folder \(workingDirectory)")
        }
        let found: String?
        if name.contains("/") {
            let path = name.hasPrefix("/") ? name : "\(workingDirectory ?? ".")/\(name)"
            found = Self.isExecutable(path) ? path : nil
        } else {
            found = Self.find(name, in: environment["PATH"])
        }
        guard let found else {
            let place = name.contains("/") ? "" : " in PATH"
            throw StartFailure("there is no program \(name)\(place) that may be run")
        }
        self.init(
            path: found, arguments: Array(command.dropFirst()), environment: environment,
            workingDirectory: workingDirectory)
    }

    /// Returns the path of the program `name` in the folders of `searchPath`, or `nil` if it is not there. Relative
    /// folders are ignored, because a program in the current folder must not run by accident.
    public static func find(
        _ name: String, in searchPath: String?, where isExecutable: (String) -> Bool = Self.isExecutable
    ) -> String? {
        let folders = searchPath.flatMap { $0.isEmpty ? nil : $0 } ?? "/usr/local/bin:/usr/bin:/bin"
        return folders.split(separator: ":").filter { $0.hasPrefix("/") }.map { "\($0)/\(name)" }
            .first(where: isExecutable)
    }

    /// Returns whether there is a file at `path` that this user may run.
    public static func isExecutable(_ path: String) -> Bool { access(path, X_OK) == 0 && !has(S_IFDIR, at: path) }

    /// The names of the variables that every program receives.
    public static let passedVariables = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LC_ALL",
    ]

    /// Returns a clean environment, which consists of ``passedVariables`` of this process, and `more`. Other
    /// variables of this process are omitted, because they may contain keys and tokens of other programs.
    public static func cleanEnvironment(adding more: [String: String] = [:]) -> [String: String] {
        ProcessInfo.processInfo.environment.filter { passedVariables.contains($0.key) }
            .merging(more) { _, given in given }
    }

    /// Returns whether there is a file of this type, such as `S_IFDIR`, at `path`.
    public static func has(_ type: mode_t, at path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == type
    }
}

/// The reason why a program could not be started.
public struct StartFailure: Error, Sendable, Hashable {
    /// The reason as one clause, without a full stop.
    public let reason: String

    /// Creates a failure for this reason.
    public init(_ reason: String) { self.reason = reason }
}
