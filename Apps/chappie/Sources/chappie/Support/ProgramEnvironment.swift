import Glibc

/// The environment variables the program was started with.
struct ProgramEnvironment: Sendable {
    private let lookUp: @Sendable (String) -> String?

    init(_ lookUp: @escaping @Sendable (String) -> String?) { self.lookUp = lookUp }

    /// The process's own.
    static let process = ProgramEnvironment { name in getenv(name).map { String(cString: $0) } }

    /// The value; an empty one counts as unset.
    subscript(name: String) -> String? { lookUp(name).flatMap { $0.isEmpty ? nil : $0 } }
}
