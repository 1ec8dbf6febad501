@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieSDK

/// The user's choices, which are kept in `$XDG_CONFIG_HOME/chappie/settings.json`. They do not contain a secret.
///
/// Only a command that uses the settings stops at a fault in the file, and only at one that hides the user's choices.
/// Every other command reports it in a line.
struct SettingsFile {
    /// An error in the file.
    struct Fault: Error {
        enum Severity: Int {
            /// A fault without the loss of a choice: an empty file, a mark, or a value that is `null`.
            case blank
            /// A member that this version does not know. It may belong to a later version or be misspelt.
            case unknown
            /// A value that cannot be used, or the complete file.
            case unusable
        }

        let severity: Severity
        let error: CommandLineError
    }

    /// The values that the user has set.
    private(set) var values: [Setting: ChappieJSON] = [:]
    /// The faults in the order of the file.
    private(set) var faults: [Fault] = []

    /// The value, or `nil` for the default.
    subscript(setting: Setting) -> ChappieJSON? {
        get { values[setting] }
        set { values[setting] = newValue }
    }

    /// Creates empty settings.
    init() {}

    /// Reads the file. The settings are empty if the file is missing.
    init(environment: ProgramEnvironment) {
        guard let folder = environment.folders.configuration else {
            self.init()
            return
        }
        self.init(UserFile(path: folder + Self.name))
    }

    private init(_ file: UserFile) {
        self.init()
        do {
            if let bytes = try file.contents() { self = SettingsFile(parsing: bytes, path: file.path) }
        } catch {
            faults.append(Fault(severity: file.isDanglingLink ? .unknown : .unusable, error: CommandLineError(error)))
        }
    }

    /// Reads the parts of a text that can be used.
    ///
    /// - Parameter path: the file's path for messages.
    init(parsing bytes: [UInt8], path: String) {
        let text = Text(bytes: bytes, path: path)
        if UserFile.isBlank(bytes) {
            faults.append(text.fault(.blank, nil, "it is empty."))
        } else if UserFile.isMarked(bytes) {
            faults.append(text.fault(.blank, nil, "it begins with a byte order mark."))
        }
        do {
            guard let object = try UserFile.object(in: bytes) else {
                faults.append(text.fault(.unusable, nil, "it is not a JSON object."))
                return
            }
            var names: Set<String> = []
            for member in object.members {
                let isFirst = names.insert(member.name).inserted
                do throws(Fault) { try read(member, isFirst, text) } catch { faults.append(error) }
            }
        } catch {
            faults.append(text.fault(of: error))
        }
    }

    private mutating func read(
        _ member: ChappieJSONObject.Member, _ isFirst: Bool, _ text: Text
    ) throws(Fault) {
        let name = UntrustedText.message(member.name, limit: 100) ?? "\"\""
        guard let setting = Setting(rawValue: member.name) else {
            let guess = Setting.similar(to: member.name).map { " Did you mean \($0)?" } ?? ""
            throw text.fault(.unknown, member.name, "there is no setting \(name).\(guess)")
        }
        guard isFirst else { throw text.fault(.unusable, member.name, "\(name) is there twice.") }
        if let problem = setting.problem(of: member.value) {
            throw text.fault(member.value == .null ? .blank : .unusable, member.name, problem)
        }
        values[setting] = member.value
    }

    /// Stops at the first fault of at least this severity.
    ///
    /// - Throws: ``CommandLineError``.
    func check(_ severity: Fault.Severity) throws {
        if let fault = faults.first(where: { $0.severity.rawValue >= severity.rawValue }) { throw fault.error }
    }

    /// A line about the faults, or `nil` without faults.
    var notice: String? {
        guard let first = (faults.first { $0.severity == .unusable } ?? faults.first)?.error else { return nil }
        let rest = faults.count > 1 ? " (and \(faults.count - 1) more)" : ""
        return "\(first.message)\(rest) It is left out. \(first.suggestion ?? "")"
    }

    private static let name = "/settings.json"

    private static func file(_ environment: ProgramEnvironment) throws -> UserFile {
        UserFile(path: try environment.folder(\.configuration, for: "the settings") + name)
    }

    /// Returns the file's path.
    ///
    /// - Throws: ``CommandLineError`` if there is no folder for it.
    static func path(_ environment: ProgramEnvironment) throws -> String { try file(environment).path }

    /// Reads the bytes of the file. Returns none if the file is missing.
    ///
    /// - Throws: ``CommandLineError``.
    static func text(_ environment: ProgramEnvironment) throws -> [UInt8] { try file(environment).contents() ?? [] }

    /// Changes the file and keeps the changes that other processes make at the same time.
    ///
    /// - Parameter limit: the maximum time to wait for other processes.
    /// - Throws: ``CommandLineError``, errors of `change`, or `CancellationError`. After an error of `change`
    ///   the file is unchanged. A file with a member that would be lost is also an error.
    static func change(
        _ environment: ProgramEnvironment, within limit: Duration = .seconds(5),
        _ change: (inout SettingsFile) throws -> Void
    ) async throws {
        let file = try file(environment)
        try await file.locked(environment, within: limit) {
            let kept = SettingsFile(file)
            try kept.check(.unknown)
            var settings = kept
            try change(&settings)
            guard settings.values != kept.values else { return }
            var object = ChappieJSONObject()
            for setting in Setting.allCases { object[setting.rawValue] = settings.values[setting] }
            try file.write(object)
        }
    }

    /// Removes every member with this name, whatever else the file contains.
    ///
    /// - Returns: whether there was such a member.
    /// - Throws: ``CommandLineError`` or `CancellationError`.
    static func remove(_ name: String, _ environment: ProgramEnvironment) async throws -> Bool {
        let file = try file(environment)
        var isFound = false
        try await file.locked(environment) {
            guard !file.isDanglingLink, let bytes = try file.contents() else { return }
            let text = Text(bytes: bytes, path: file.path)
            let object: ChappieJSONObject?
            do {
                object = try UserFile.object(in: bytes)
            } catch {
                throw text.fault(of: error).error
            }
            guard let object else { throw text.fault(.unusable, nil, "it is not a JSON object.").error }
            let rest = object.members.filter { $0.name != name }
            isFound = rest.count < object.members.count
            if isFound { try file.write(ChappieJSONObject(members: rest)) }
        }
        return isFound
    }

    /// Replaces the file with the text that the user has edited.
    ///
    /// - Parameter before: the text before the edit. If the file has another text now, another process has changed it.
    /// - Throws: ``CommandLineError`` or `CancellationError`.
    static func replace(
        _ environment: ProgramEnvironment, with text: [UInt8], ifStill before: [UInt8]
    ) async throws {
        let file = try file(environment)
        try await file.locked(environment) {
            guard try file.contents() ?? [] == before else {
                throw CommandLineError.usage(
                    "\(file.path) was changed by another command while you edited it; your changes are not used.",
                    suggestion: "Edit it again.")
            }
            try file.write(text)
        }
    }
}

/// The text of the settings for messages about it.
private struct Text {
    let bytes: [UInt8]
    let path: String

    /// Returns a fault.
    ///
    /// - Parameter member: the member whose line is named.
    func fault(_ severity: SettingsFile.Fault.Severity, _ member: String?, _ what: String) -> SettingsFile.Fault {
        fault(severity, line: member.flatMap(line), what, member)
    }

    func fault(of error: any Error) -> SettingsFile.Fault {
        guard let error = error as? ChappieJSONError else { return fault(.unusable, nil, "it is not JSON.") }
        let line = UserFile.unmarked(bytes).prefix(error.offset).count { $0 == UInt8(ascii: "\n") } + 1
        return fault(.unusable, line: line, "it is not JSON: \(error.reason).", nil)
    }

    private func fault(
        _ severity: SettingsFile.Fault.Severity, line: Int?, _ what: String, _ member: String?
    ) -> SettingsFile.Fault {
        let name = member.flatMap { UntrustedText.message($0, limit: 100) }
        let removal = name.map { "Run `chappie config unset \($0)` or `chappie config edit`" }
        return SettingsFile.Fault(
            severity: severity,
            error: .usage(
                "\(path)\(line.map { ", line \($0)" } ?? ""): \(what)",
                suggestion: "\(removal ?? "Run `chappie config edit`"); `chappie config --help` lists the settings."))
    }

    /// Returns the line of the first member with this name at any depth, or `nil` if the name is written with escapes.
    private func line(of member: String) -> Int? {
        let name = ChappieJSON.string(member).serializedBytes()
        var (line, rest) = (1, bytes[...])
        while let byte = rest.first {
            if byte == UInt8(ascii: "\n") { line += 1 }
            if byte == UInt8(ascii: "\""), rest.starts(with: name),
                rest.dropFirst(name.count).first(where: { !" \t\r\n".utf8.contains($0) }) == UInt8(ascii: ":")
            {
                return line
            }
            rest = rest.dropFirst()
        }
        return nil
    }
}
