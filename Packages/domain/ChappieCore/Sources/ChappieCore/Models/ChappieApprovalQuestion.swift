extension ChappieApprovalRequest {
    /// The number of arguments that are shown before the user asks for all of them.
    private static let shownArguments = 30
    /// The length of the arguments that is shown, in Unicode scalars. A character may consist of any number of these.
    private static let shownLength = 2000

    /// Returns the question as lines for a terminal, with the tool's description and the arguments. It ends with a line
    /// feed.
    ///
    /// A server and the model wrote these. They appear as JSON, which has no line feeds. Characters that could deceive
    /// the user are written as escapes, so that no part of them looks like a line of the program.
    ///
    /// - Parameter isWhole: Whether everything is shown. Default `false`, which shows at most 30 arguments and 2,000
    ///   characters, and counts the rest.
    public func question(isWhole: Bool = false) -> String {
        var lines: [String] = []
        if hasChanged { lines.append("\(call.shownName) has changed since you approved all of its calls.") }
        if let description = UntrustedText.message(toolDescription) {
            lines.append("\(call.shownName) describes itself as \(written(.string(description)))")
        }
        lines.append("The model wants to run \(call.shownName):")
        guard let members = call.argumentsJSON?.object?.members else {
            lines.append("  \(cut(written(.string(call.arguments)), to: isWhole ? .max : Self.shownLength))")
            return lines.joined(separator: "\n") + "\n"
        }
        let shown = isWhole ? members[...] : members.prefix(Self.shownArguments)
        var room = isWhole ? Int.max : Self.shownLength
        for (index, member) in shown.enumerated() {
            // The room that short arguments leave is used by the arguments after them.
            let argument = cut(
                "\(written(.string(member.name))): \(written(member.value))", to: room / (shown.count - index))
            room -= min(room, argument.unicodeScalars.count)
            lines.append("  \(argument)")
        }
        let left = members.count - shown.count
        if left > 0 { lines.append("  … and \(left) more") }
        return lines.joined(separator: "\n") + "\n"
    }
}

extension ChappieToolCall {
    /// A summary of the call in the program's own text, for the line right above the prompt, where nothing can push it
    /// off the screen.
    @_spi(ChappieInternals) public var reminder: String {
        let count = argumentsJSON?.object?.members.count
        let arguments =
            switch count {
            case nil where isCustom: "free text"
            case nil: "arguments that are no object"
            case 0: "no arguments"
            case 1: "1 argument"
            case let count?: "\(count) arguments"
            }
        return "This is \(shownName) with \(arguments).\n"
    }

    /// The call on one short line.
    @_spi(ChappieInternals) public var line: String {
        "\(shownName) \(cut(written(argumentsJSON ?? .string(arguments)), to: 200))"
    }

    /// The tool's name, short and without line feeds, because the model may invent one.
    @_spi(ChappieInternals) public var shownName: String {
        let name = (namespace.map { "\($0)/" } ?? "") + name
        return UntrustedText.line(name, limit: 129) ?? cut(written(.string(name)), to: 129)
    }
}

private func written(_ json: ChappieJSON) -> String { UntrustedText.writtenOut(json.serialized()) }

/// Returns the beginning and the end of a text that is longer than `limit`.
private func cut(_ text: String, to limit: Int) -> String {
    let text = limit == .max ? text : folded(text)
    let left = text.unicodeScalars.count - limit
    guard left > 0 else { return text }
    let end = limit / 4
    let first = text.unicodeScalars.prefix(limit - end)
    let last = text.unicodeScalars.suffix(end)
    return "\(String(first))… (\(left) more characters) …\(String(last))"
}

/// Returns the text with a count in place of each long run of blanks, which would push the rest off the screen.
private func folded(_ text: String) -> String {
    var output = String.UnicodeScalarView()
    var blanks = 0
    for scalar in Array(text.unicodeScalars) + ["\u{0}"] {
        if scalar.properties.generalCategory == .spaceSeparator {
            blanks += 1
            continue
        }
        if blanks > 0 {
            let run = blanks > 8 ? " … (\(blanks) blanks) … " : String(repeating: " ", count: blanks)
            output.append(contentsOf: run.unicodeScalars)
        }
        blanks = 0
        output.append(scalar)
    }
    output.removeLast()
    return String(output)
}
