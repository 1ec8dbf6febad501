import Foundation

@testable import ChappieDesktopLinux

/// A folder of a test's own, with programs of its own.
final class Folder {
    let url: URL

    init() throws {
        url = URL(fileURLWithPath: "/tmp/chappie-desktop-\(UUID().uuidString.prefix(8))")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    func path(_ name: String) -> String { url.appendingPathComponent(name).path }

    func read(_ name: String) throws -> String { try String(contentsOfFile: path(name), encoding: .utf8) }

    /// Puts a program into the folder: Tests/Fakes/program.sh under the name `name`, doing `body`.
    func script(_ name: String, _ body: String) throws {
        let tests = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        try Data("\(body)\n".utf8).write(to: url.appendingPathComponent("\(name).sh"))
        try FileManager.default.createSymbolicLink(
            atPath: path(name), withDestinationPath: tests.appendingPathComponent("Fakes/program.sh").path)
    }

    /// An environment where the folder's programs come first.
    func environment(_ variables: [String: String] = [:]) -> DesktopEnvironment {
        let own = ["PATH": "\(url.path):/usr/bin:/bin", "FOLDER": url.path, "OUT": path("out")]
        return DesktopEnvironment(variables: own.merging(variables) { _, given in given })
    }

    func browser(patience: Duration) -> XDGOpenBrowser {
        XDGOpenBrowser(environment: environment(["DISPLAY": ":0"]), patience: patience)
    }
}
