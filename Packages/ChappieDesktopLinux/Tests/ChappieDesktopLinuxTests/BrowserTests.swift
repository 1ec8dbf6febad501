import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct BrowserTests {
    private let xdgOpen = "/usr/bin/xdg-open"

    @Test(arguments: [
        "http://127.0.0.1:8080/codex/device", "https://auth.openai.com/codex/device?a=b%20c", "HTTPS://x/",
    ])
    func opensWebPages(text: String) async throws {
        let scene = Scene(["DISPLAY": ":0"], programs: [xdgOpen])
        try await XDGOpenBrowser(environment: scene.environment).open(try #require(URL(string: text)))
        #expect(scene.processes.map(\.path) == [xdgOpen])
        #expect(scene.processes.map(\.arguments) == [[text]])
        #expect(scene.processes.map(\.atLimit) == [.leave])
        #expect(scene.processes.first?.environment["DISPLAY"] == ":0")
    }

    @Test(arguments: ["file:///etc/passwd", "javascript:alert(1)", "--version", "mailto:a@b", "https:opaque", "x"])
    func opensNothingElse(text: String) async throws {
        let scene = Scene(["DISPLAY": ":0"], programs: [xdgOpen])
        await #expect(throws: DesktopError("Only http and https pages are opened in a browser.")) {
            try await XDGOpenBrowser(environment: scene.environment).open(try #require(URL(string: text)))
        }
        #expect(scene.processes.isEmpty)
    }

    @Test(arguments: [
        (["DISPLAY": ":0"], true, true),
        (["WAYLAND_DISPLAY": "wayland-0"], true, true),
        (["DISPLAY": ""], true, false),
        ([:], true, false),
        (["DISPLAY": ":0"], false, false),
    ])
    func needsADisplayAndTheProgram(variables: [String: String], isInstalled: Bool, canOpen: Bool) {
        let scene = Scene(variables, programs: isInstalled ? [xdgOpen] : [])
        #expect(XDGOpenBrowser(environment: scene.environment).canOpen == canOpen)
    }

    @Test func aMissingDisplayIsASentence() async throws {
        let scene = Scene([:], programs: [xdgOpen])
        let error = await failure(in: scene)
        #expect(error?.sentence.contains("neither WAYLAND_DISPLAY nor DISPLAY is set") == true)
        #expect(error?.sentence.contains("Open the page by hand") == true)
        #expect(scene.processes.isEmpty)
    }

    @Test func aMissingProgramIsASentence() async throws {
        // A program in a relative folder of PATH is not one.
        let error = await failure(in: Scene(["DISPLAY": ":0"], programs: ["relative/xdg-open", "/xdg-open"]))
        #expect(error?.sentence.contains("Install the package xdg-utils") == true)
        #expect(error?.sentence.contains("by hand") == true)
    }

    @Test(
        arguments: [
            (.exited(code: 3, words: ""), "xdg-open found no browser"),
            (.exited(code: 4, words: "secret words"), "xdg-open could not open the page (exit code 4)"),
            (.notStarted("Permission denied"), "xdg-open could not be started (Permission denied)"),
        ] as [(ChildOutcome, String)])
    func aFailureIsASentence(outcome: ChildOutcome, start: String) async {
        let scene = Scene(["DISPLAY": ":0"], programs: [xdgOpen], outcomes: [xdgOpen: outcome])
        let error = await failure(in: scene)
        #expect(error?.sentence.hasPrefix(start) == true)
        #expect(error?.sentence.contains("page by hand") == true || error?.sentence.contains("it by hand") == true)
    }

    @Test func aBrowserInTheForegroundIsNoFailure() async throws {
        let scene = Scene(["DISPLAY": ":0"], programs: [xdgOpen], outcomes: [xdgOpen: .stillRunning])
        try await XDGOpenBrowser(environment: scene.environment).open(try #require(URL(string: "https://x/")))
        #expect(scene.processes.count == 1)
    }

    // MARK: Real programs

    @Test func theProgramGetsTheAddress() async throws {
        let folder = try Folder()
        try folder.script("xdg-open", #"printf '%s\n' "$#" "$@" > "$OUT""#)
        let url = try #require(URL(string: "https://example.com/codex/device?code=$(touch%20x)&b='c'"))
        try await folder.browser(patience: .seconds(30)).open(url)
        #expect(try folder.read("out") == "1\n\(url.absoluteString)\n")
    }

    @Test func theExitCodeOfARealProgramIsSeen() async throws {
        let folder = try Folder()
        try folder.script("xdg-open", "exit 3")
        let url = try #require(URL(string: "https://example.com/"))
        let error = await #expect(throws: DesktopError.self) {
            try await folder.browser(patience: .seconds(30)).open(url)
        }
        #expect(error?.sentence.hasPrefix("xdg-open found no browser") == true)
    }

    @Test func doesNotWaitForABrowserInTheForeground() async throws {
        let folder = try Folder()
        // Runs until the pipe is opened by the test.
        try folder.script("xdg-open", #"echo $$ > "$OUT"; read line < "$FOLDER/pipe""#)
        #expect(mkfifo(folder.path("pipe"), 0o600) == 0)
        let url = try #require(URL(string: "https://example.com/"))
        let start = ContinuousClock.now
        try await folder.browser(patience: .milliseconds(500)).open(url)
        #expect(ContinuousClock.now - start < Patience.limit)
        let pid = try #require(pid_t(try folder.read("out").trimmingCharacters(in: .newlines)))
        #expect(kill(pid, 0) == 0, "it is still running")
        #expect(getsid(pid) == pid, "it has left our terminal")

        // Let it end: it is reaped, although no task waits for it any more.
        let pipe = try #require(FileHandle(forWritingAtPath: folder.path("pipe")))
        try pipe.write(contentsOf: Data("go\n".utf8))
        try pipe.close()
        let end = ContinuousClock.now + Patience.limit
        while kill(pid, 0) == 0, ContinuousClock.now < end { await Task.yield() }
        #expect(kill(pid, 0) == -1, "no zombie is left")
    }

    private func failure(in scene: Scene) async -> DesktopError? {
        await #expect(throws: DesktopError.self) {
            try await XDGOpenBrowser(environment: scene.environment).open(try #require(URL(string: "https://x/")))
        }
    }
}
