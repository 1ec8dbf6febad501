@_spi(ChappieInternals) import ChappieCore
import ChappieSDK

extension Program {
    /// Returns the model that a part of its name means. The last part, such as `luna`, means the best model of that
    /// family. A name that is no part of a known one is returned unchanged, because the service decides about it.
    ///
    /// - Throws: ``CommandLineError`` that lists the models if several have this part, or `CancellationError`.
    func model(named part: String) async throws -> String {
        guard !part.trimmed.isEmpty else { throw CommandLineError.usage("The model's name is empty.") }
        var known = KnownNames.models(environment)
        if known.isEmpty {
            // Without a list the service decides, and the turn reports what is missing.
            known = (try? await client().models().map(\.slug)) ?? []
            try Task.checkCancellation()
        }
        guard !known.contains(part) else { return part }
        let candidates = known.filter { $0.lowercased().contains(part.lowercased()) }
        // The list begins with the best model.
        let family = candidates.first { $0.lowercased().hasSuffix("-" + part.lowercased()) }
        guard let model = family ?? candidates.first else { return part }
        guard family != nil || candidates.count == 1 else {
            throw CommandLineError.usage(
                "\(UntrustedText.forTerminal(part)) may be one of these models: "
                    + "\(UntrustedText.forTerminal(candidates.joined(separator: ", "))).",
                suggestion: "Name one of them with -m.")
        }
        console.note("chappie: using \(model)")
        return model
    }
}
