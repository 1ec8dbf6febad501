@_spi(ChappieInternals) import ChappieClient
import ChappieMCP
import ChappieSDK

/// The connected apps with notes: a page that the service asks the user to open is shown to the user, and not only
/// reported to the model.
struct NotedApps: ChappieToolProvider {
    let apps: ChappieConnectedApps
    let console: Console

    func tools() async throws -> [ChappieHostTool] {
        try await apps.tools().map { tool in
            tool.handled { handler in
                { call in
                    do {
                        return try await handler(call)
                    } catch let error as ChappieMCPError where !error.addresses.isEmpty {
                        console.note("chappie: \(error.errorDescription ?? "")")
                        throw error
                    }
                }
            }
        }
    }
}
