import TestFixtures

extension PrivateBus {
    /// What secret-tool, another's client, shows of the items with this attribute: a line for everything about each.
    func searchSecrets(_ attribute: String, _ value: String) async throws -> String {
        // It prints some of the lines to its standard error.
        try await SystemProgram.secretTool.run(
            ["search", "--all", attribute, value], environment: environment, withErrors: true)
    }
}
