extension ChappieApprovalRequest {
    /// How many arguments are shown before the user asks for all of them.
    private static let shownArguments = 30
    /// How much of them is shown, in Unicode scalars: a character may be any number of these.
    private static let shownLength = 2000

    /// Returns the question in lines for a terminal, with a line feed at its end: the tool's description and the
    /// arguments.
    ///
    /// A server and the model wrote these. They appear as JSON, which has no line feeds, with characters that could
    /// deceive the eye written out, so that no part of them passes for a line of the program's.
    ///
    /// - Parameter isWhole: Default `false`: at most 30 arguments and 2,000 characters, and the rest is counted.
    public func question(isWhole: Bool = false) -> String {
        var lines: [String] = []
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
            // Room that short arguments leave goes to the arguments after them.
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
    /// The call in our own words alone, for the line right above the prompt: nothing can push it off the screen.
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

    /// The name, short and without line feeds: the model may invent one.
    @_spi(ChappieInternals) public var shownName: String {
        let name = (namespace.map { "\($0)/" } ?? "") + name
        return UntrustedText.line(name, limit: 129) ?? cut(written(.string(name)), to: 129)
    }
}

private func written(_ json: ChappieJSON) -> String { UntrustedText.writtenOut(json.serialized()) }

private func cut(_ text: String, to limit: Int) -> String {
    let left = text.unicodeScalars.count - limit
    guard left > 0 else { return text }
    return "\(String(text.unicodeScalars.prefix(limit)))… (\(left) more characters)"
}
