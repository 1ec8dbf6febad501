@_spi(ChappieInternals) import ChappieCore

/// The parts of requests that the service refuses for one model.
struct RefusedParts: Sendable, Hashable, Codable {
    /// Whether the service refuses the model entirely.
    var wholeModel = false
    /// Whether the model takes only the full form.
    var liteForm = false
    /// Whether the service requires the instructions as a member of the request.
    var developerInstructions = false
    /// Optional members, such as `reasoning.summary`.
    var members: Set<String> = []
}

/// A refusal of a request's form, where another form of the same request may be accepted.
enum RequestRefusal: Hashable {
    case liteForm
    case developerInstructions
    /// An optional member, and whether the model takes it with another value.
    case member(String, isKnown: Bool)
    /// An item of the input, with its index if the service names it.
    case item(Int?)

    /// The members without which a request is answered anyway.
    private static let optionalMembers: Set<String> = [
        "reasoning.summary", "reasoning.effort", "reasoning.context", "text.verbosity", "service_tier",
        "parallel_tool_calls", "stream_options",
    ]

    /// Creates the refusal that an error reports.
    ///
    /// - Returns: `nil` for an error that is about something else.
    init?(_ error: ChappieClientError, isLite: Bool) {
        guard let response = Self.response(of: error) else { return nil }
        let parameter = response.parameter ?? ""
        let message = response.message?.lowercased() ?? ""
        let unsupported = ["unsupported_parameter", "unsupported_value", "unknown_parameter", "invalid_value"]
        let isUnsupported = unsupported.contains(response.code ?? "") || message.hasPrefix("unsupported parameter")
        if isLite, Self.refusesLite(message, parameter, isUnsupported) {
            self = .liteForm
        } else if message.hasPrefix("instructions are required") {
            self = .developerInstructions
        } else if isUnsupported,
            let member = Self.optionalMembers.first(where: {
                parameter == $0 || parameter.isEmpty && message.contains($0)
            })
        {
            let values = ["unsupported_value", "invalid_value"]
            self = .member(member, isKnown: values.contains(response.code ?? ""))
        } else if Self.isAboutItem(message, parameter) {
            let place = parameter.hasPrefix("input[") ? parameter : message
            let digits = place.components(separatedBy: "input[").dropFirst().first?.prefix { $0.isNumber }
            self = .item(digits.flatMap { Int($0) })
        } else {
            return nil
        }
    }

    /// Returns the backend's own message in an error about a request.
    static func response(of error: ChappieClientError) -> ChappieResponseError? {
        switch error {
        case .httpError(400, let body), .httpError(404, let body), .httpError(422, let body):
            ChappieResponseError(body: (try? ChappieJSON(parsing: body)) ?? .string(body))
        case .responseFailed(let failed): failed.error
        default: nil
        }
    }

    private static func refusesLite(_ message: String, _ parameter: String, _ isUnsupported: Bool) -> Bool {
        message.contains("responses-lite") || message.contains("responses lite")
            || message.contains("only supports function tools, custom tools, and client-executed tool search")
            || message.contains("additional_tools") || parameter.hasPrefix("input[0].tools")
            || isUnsupported && ["tools", "reasoning.context"].contains(parameter)
    }

    /// Returns whether an item that was sent back is refused: `input[3].id`, an id that is missing at the service or
    /// occurs twice, content that can't be decrypted.
    private static func isAboutItem(_ message: String, _ parameter: String) -> Bool {
        let words = [
            "input[", "item with id", "duplicate item found", "without its required", "encrypted content",
            "encrypted_content",
        ]
        return parameter.hasPrefix("input[") || words.contains(where: message.contains)
    }
}
