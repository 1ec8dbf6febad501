import ArgumentParser
import ChappieSDK

/// A setting of the user. It is a member of `settings.json` and a name of `chappie config`.
///
/// A flag of the command line takes precedence over a template, a template over the environment, the environment over
/// the file, and the file over the default.
enum Setting: String, CaseIterable, Sendable {
    case model, effort, verbosity, transport, markdown
    case statusLine = "status_line"
    case template, tools
    case appTools = "app_tools"
    case keepThreads = "keep_threads"
    case threadsLimit = "threads_limit"
    case store
    case keepKey = "keep_key"

    /// The levels of effort.
    static let efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"]

    /// The values that a setting takes.
    enum Kind {
        case text
        /// A text without white space.
        case word
        case oneOf([String])
        case yesOrNo
        /// A number of MiB.
        case size
        /// Paths of files.
        case files
        /// Names without white space.
        case names
    }

    /// The origin of a value.
    enum Source: String { case flag, environment, file, login, `default` }

    var kind: Kind {
        switch self {
        case .model: .word
        case .template: .text
        case .effort: .oneOf(Self.efforts)
        case .verbosity: .oneOf(["low", "medium", "high"])
        case .transport: .oneOf(TransportChoice.allCases.map(\.rawValue))
        case .markdown: .oneOf(MarkdownChoice.allCases.map(\.rawValue))
        case .tools: .files
        case .appTools: .names
        case .keepThreads, .statusLine, .keepKey: .yesOrNo
        case .threadsLimit: .size
        case .store: .oneOf(StoreChoice.allCases.map(\.rawValue))
        }
    }

    /// The environment variable that overrides the file.
    var variable: String? {
        switch self {
        case .model: "CHAPPIE_MODEL"
        case .threadsLimit: "CHAPPIE_THREADS_LIMIT"
        case .store: "CHAPPIE_CREDENTIAL_STORE"
        default: nil
        }
    }

    /// The default as text.
    var usual: String {
        switch self {
        case .model: "your account's best"
        case .effort, .verbosity: "the model's own"
        case .transport, .markdown: "auto"
        case .template, .tools, .appTools: "none"
        case .keepThreads, .statusLine, .keepKey: "true"
        case .threadsLimit: "512"
        case .store: "keyring"
        }
    }

    /// The meaning of the setting for the help.
    var meaning: String {
        switch self {
        case .model: "the model of new conversations (--model)"
        case .effort: "how hard the model thinks (--effort)"
        case .verbosity: "how long answers are (--verbosity)"
        case .transport: "the transport of answers (--transport)"
        case .markdown: "when Markdown is drawn (--markdown)"
        case .statusLine: "whether a chat shows model, context and limits (--status-line)"
        case .template: "the template of new conversations (--template)"
        case .tools: "manifests of tools and of tool servers (--tools)"
        case .appTools: "reading tools of connected apps that run without a question (chappie apps)"
        case .keepThreads: "whether conversations are kept (--ephemeral)"
        case .threadsLimit: "MiB that kept conversations may take"
        case .store: "where the sign-in is stored"
        case .keepKey: "whether the kernel keeps the encrypted file's key for 15 minutes (chappie lock)"
        }
    }

    /// The accepted values as text that follows "takes".
    private var form: String {
        switch kind {
        case .text: "a text that is not empty"
        case .word: "a name without spaces"
        case .oneOf(let words): words.dropLast().joined(separator: ", ") + " or \(words.last ?? "")"
        case .yesOrNo: "true or false"
        case .size: "a number of MiB, 1 to 1048576"
        case .files: "an array of paths"
        case .names: "an array of names"
        }
    }

    /// Returns the path of the member of `value` that the setting does not accept, or `nil` if it accepts the value.
    /// The empty path means `value` itself.
    private func unacceptedMember(_ value: ChappieJSON) -> String? {
        switch kind {
        case .text: value.string?.isEmpty == false ? nil : ""
        case .word: Self.isWord(value) ? nil : ""
        case .oneOf(let words): value.string.map(words.contains) == true ? nil : ""
        case .yesOrNo: value.bool == nil ? "" : nil
        case .size: value.int.map((1...(1 << 20)).contains) == true ? nil : ""
        case .files:
            value.array.map { $0.firstIndex { $0.string?.isEmpty != false }.map { "[\($0)]" } } ?? ""
        case .names:
            value.array.map { $0.firstIndex { Self.isWord($0) == false }.map { "[\($0)]" } } ?? ""
        }
    }

    private static func isWord(_ value: ChappieJSON) -> Bool {
        value.string.map { !$0.isEmpty && !$0.contains(where: \.isWhitespace) } == true
    }

    /// Returns a sentence that explains why `value` is not allowed in the file, or `nil` if it is allowed.
    func problem(of value: ChappieJSON) -> String? {
        unacceptedMember(value).map { place in
            let member = if case .names = kind { "a name without spaces" } else { "the path of a file" }
            return "\(rawValue)\(place) takes \(place.isEmpty ? form : member)."
        }
    }

    /// Parses arguments of a command line or the text of a variable.
    ///
    /// - Throws: ``CommandLineError``, in which the setting is called `name`.
    func value(from words: [String], name: String) throws -> ChappieJSON {
        let text = words.joined(separator: " ")
        let value: ChappieJSON? =
            switch kind {
            case .text, .word, .oneOf: .string(text)
            case .yesOrNo: ["true": true, "false": false][text]
            case .size: Int(text).map { .integer($0) }
            case .files, .names: .array(words.map { .string($0) })
            }
        guard let value, unacceptedMember(value) == nil else {
            throw CommandLineError.usage("\(name) is \"\(text)\".", suggestion: "Set it to \(form), or unset it.")
        }
        return value
    }

    /// Returns the setting with this name.
    ///
    /// - Throws: ``CommandLineError`` with a similar name.
    static func named(_ name: String) throws -> Setting {
        if let setting = Setting(rawValue: name.replacing("-", with: "_").lowercased()) { return setting }
        throw CommandLineError.usage(
            "There is no setting \(name.prefix(100)).",
            suggestion: similar(to: name).map { "Did you mean \($0)?" } ?? "See `chappie config list`.")
    }

    static func similar(to name: String) -> String? { Spelling.nearest(to: name, in: allCases.map(\.rawValue)) }
}

extension Setting {
    /// Returns the value without the command line and its source, or `nil` if the default applies.
    ///
    /// - Throws: ``CommandLineError`` about the environment.
    func chosen(
        _ environment: ProgramEnvironment, _ kept: SettingsFile, _ notes: ProgramNotes = ProgramNotes()
    ) throws -> (value: ChappieJSON, source: Source)? {
        if let variable, let text = environment[variable] {
            return (try value(from: [text], name: variable), .environment)
        }
        if let value = kept[self] { return (value, .file) }
        return self == .store ? notes.store.map { (.string($0.rawValue), .login) } : nil
    }
}

/// The transport of answers.
enum TransportChoice: String, ExpressibleByArgument, CaseIterable {
    case auto, websocket, sse

    var policy: ChappieStreamingTransportPolicy {
        switch self {
        case .auto: .default
        case .websocket: ChappieStreamingTransportPolicy(fallsBackToHTTPSSE: false)
        case .sse: .httpSSEOnly
        }
    }
}

/// The place for credentials.
enum StoreChoice: String, CaseIterable { case keyring, file, memory }

/// A search for words that a user may have meant.
enum Spelling {
    /// Returns the word that differs in the fewest letters. It differs in at most one letter, or two if the word is
    /// long.
    static func nearest(to word: String, in words: [String]) -> String? {
        guard word.count > 2, word.count < 40 else { return nil }
        return words.map { ($0, distance(Array(word.lowercased()), Array($0))) }.filter {
            $0.1 <= (word.count > 5 ? 2 : 1)
        }
        .min { $0.1 < $1.1 }?.0
    }

    /// Returns how many letters must be inserted, removed, replaced or swapped with the next one (Damerau and
    /// Levenshtein).
    private static func distance(_ one: [Character], _ other: [Character]) -> Int {
        var (before, row) = ([Int](), Array(0...other.count))
        for (index, letter) in one.enumerated() {
            var next = [index + 1]
            for (column, expected) in other.enumerated() {
                var least = min(row[column] + (letter == expected ? 0 : 1), row[column + 1] + 1, next[column] + 1)
                if index > 0, column > 0, letter == other[column - 1], one[index - 1] == expected {
                    least = min(least, before[column - 1] + 1)
                }
                next.append(least)
            }
            before = row
            row = next
        }
        return row.last ?? 0
    }
}
