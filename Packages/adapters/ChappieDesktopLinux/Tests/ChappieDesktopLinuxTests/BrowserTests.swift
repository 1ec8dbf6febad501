import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct BrowserTests {
    private static let xdgOpen = "/usr/bin/xdg-open"

    @Test(arguments: [
        "http://127.0.0.1:8080/codex/device", "https://auth.openai.com/codex/device?a=b%20c", "HTTPS://x/",
    ])
    func opensWebPages(text: String) async throws {
        let scene = Scene(["DISPLAY": ":0"], programs: [Self.xdgOpen])
        try await open(text, with: scene.environment)
        #expect(scene.processes.map(\.path) == [Self.xdgOpen])
        #expect(scene.processes.map(\.arguments) == [[text]])
        #expect(scene.processes.map(\.atLimit) == [.leave])
        #expect(scene.processes.first?.environment["DISPLAY"] == ":0")
    }

    @Test(arguments: ["file:///etc/passwd", "javascript:alert(1)", "--version", "mailto:a@b", "https:opaque", "x"])
    func opensNothingElse(text: String) async throws {
        let scene = Scene(["DISPLAY": ":0"], programs: [Self.xdgOpen])
        await refusal("", saying: "Only http and https pages are opened in a browser.") {
            try await open(text, with: scene.environment)
        }
        #expect(scene.processes.isEmpty)
    }

    private static let noDisplay = "neither WAYLAND_DISPLAY nor DISPLAY is set"

    @Test(
        arguments: [
            (["DISPLAY": ":0"], [xdgOpen], nil), (["WAYLAND_DISPLAY": "wayland-0"], [xdgOpen], nil),
            (["DISPLAY": ""], [xdgOpen], noDisplay), ([:], [xdgOpen], noDisplay),
            // A program in a relative folder of PATH is not one.
            (["DISPLAY": ":0"], ["relative/xdg-open", "/xdg-open"], "Install the package xdg-utils"),
        ] as [([String: String], [String], String?)])
    func needsADisplayAndTheProgram(variables: [String: String], programs: [String], words: String?) async {
        let scene = Scene(variables, programs: programs)
        #expect(XDGOpenBrowser(environment: scene.environment).canOpen == (words == nil))
        guard let words else { return }
        let error = await refusal("", saying: words) { try await open("https://x/", with: scene.environment) }
        #expect(error?.errorDescription?.contains("by hand") == true)
        #expect(scene.processes.isEmpty)
    }

    @Test(
        arguments: [
            // A browser in the foreground.
            (.stillRunning, nil), (.exited(code: 3, words: ""), "xdg-open found no browser"),
            (.exited(code: 4, words: "secret words"), "xdg-open could not open the page (exit code 4)"),
            (.notStarted("Permission denied"), "xdg-open could not be started (Permission denied)"),
        ] as [(ChildOutcome, String?)])
    func aFailureIsASentence(outcome: ChildOutcome, words: String?) async throws {
        let scene = Scene(["DISPLAY": ":0"], programs: [Self.xdgOpen], outcomes: [Self.xdgOpen: outcome])
        guard let words else { return try await open("https://x/", with: scene.environment) }
        let error = await refusal("", saying: words) { try await open("https://x/", with: scene.environment) }
        #expect(error?.errorDescription?.contains("page by hand") == true)
    }

    // MARK: Real programs

    @Test func `the browser program gets the address, and its exit code is checked`() async throws {
        let folder = try Folder()
        try folder.script("xdg-open", #"printf '%s\n' "$#" "$@" > "$OUT"; exit 3"#)
        let page = "https://example.com/codex/device?code=$(touch%20x)&b='c'"
        await refusal("", saying: "xdg-open found no browser") {
            try await open(page, with: folder.environment(["DISPLAY": ":0"]), patience: .seconds(30))
        }
        #expect(try folder.read("out") == "1\n\(page)\n")
    }

    @Test func doesNotWaitForABrowserInTheForeground() async throws {
        let folder = try Folder()
        try folder.waitingScript("xdg-open")
        try await inGoodTime {
            try await open(
                "https://example.com/", with: folder.environment(["DISPLAY": ":0"]), patience: .milliseconds(500))
        }
        let id = try folder.waitingID()
        #expect(kill(id, 0) == 0, "it is still running")
        #expect(getsid(id) == id, "it has left our terminal")
        // Let it end: it is reaped, although no task waits for it any more.
        try #require(FileHandle(forWritingAtPath: folder.path("pipe"))).write(contentsOf: Data("go\n".utf8))
        #expect(try await eventually { kill(id, 0) == -1 }, "no zombie is left")
    }

    private func open(
        _ page: String, with environment: DesktopEnvironment, patience: Duration = .seconds(1)
    ) async throws {
        let url = try #require(URL(string: page))
        try await XDGOpenBrowser(environment: environment, patience: patience).open(url)
    }
}
