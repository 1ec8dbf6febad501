import Foundation

/// The tests' own programs, in Tests/Fakes.
enum Fakes {
    static func path(_ name: String) -> String {
        URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Fakes/\(name)").path
    }
}
