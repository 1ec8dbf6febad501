import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct ClipboardTests {
    private static let wlCopy = "/usr/bin/wl-copy"
    private static let xclip = "/first/xclip"
    private static let xclips = [SystemProgram.xclip, .xvfb]
    private static let wayland = ClipboardRoute.program(path: wlCopy, arguments: ["--type", "text/plain"])
    private static let x11 = ClipboardRoute.program(path: xclip, arguments: ["-selection", "clipboard", "-in"])

    @Test(arguments: [
        ([:], []),
        (["WAYLAND_DISPLAY": "w"], [wayland]),
        (["DISPLAY": ":0"], [x11]),
        (["WAYLAND_DISPLAY": "w", "DISPLAY": ":0"], [wayland, x11]),
        (["WAYLAND_DISPLAY": "w", "TERM": "foot"], [wayland, .terminal(insideTmux: false)]),
        (["TERM": "xterm-256color"], [.terminal(insideTmux: false)]),
        (["TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"], [.terminal(insideTmux: true)]),
        (["TERM": "dumb"], []),
        (["TERM": "linux"], []),
        (["TERM": "", "DISPLAY": ""], []),
    ])
    func knowsTheRoutes(variables: [String: String], routes: [ClipboardRoute]) {
        let scene = Scene(variables, programs: [Self.wlCopy, Self.xclip])
        #expect(ClipboardRoute.routes(in: scene.environment) == routes)
    }

    @Test func theTextTravelsByStandardInputOnly() async throws {
        let scene = Scene(["DISPLAY": ":0", "TERM": "xterm"], programs: [Self.xclip], hasTerminal: true)
        let outcome = try await LinuxClipboard(environment: scene.environment).copy("ABCD-1234")
        #expect(outcome == .copied)
        #expect(scene.processes.map(\.input) == [Array("ABCD-1234".utf8)])
        #expect(scene.processes.allSatisfy { !$0.arguments.contains { $0.contains("ABCD") } })
        #expect(scene.terminal.isEmpty)
    }

    @Test(arguments: [.exited(code: 1, words: "no display"), .stillRunning, .notStarted("no")] as [ChildOutcome])
    func aRouteThatFailsIsFollowedByTheNext(outcome: ChildOutcome) async throws {
        let scene = Scene(
            ["WAYLAND_DISPLAY": "w", "DISPLAY": ":0"], programs: [Self.wlCopy, Self.xclip],
            outcomes: [Self.wlCopy: outcome])
        #expect(try await LinuxClipboard(environment: scene.environment).copy("x") == .copied)
        #expect(scene.processes.map(\.path) == [Self.wlCopy, Self.xclip])
    }

    @Test func aTerminalIsAskedAndNeverBelieved() async throws {
        let scene = Scene(["TERM": "xterm"], hasTerminal: true)
        #expect(try await LinuxClipboard(environment: scene.environment).copy("ABCD-1234") == .requested)
        #expect(scene.terminal == OSC52.sequence(copying: "ABCD-1234", insideTmux: false))
    }

    @Test(
        arguments: [
            (["WAYLAND_DISPLAY": "w"], [], "wl-copy is missing. Install the package wl-clipboard"),
            (["DISPLAY": ":0"], [], "xclip is missing. Install the package xclip"),
            (["DISPLAY": ":0"], [xclip], "the display's clipboard can't be reached"),
            ([:], [xclip], "there is neither a display nor a terminal"),
            (["TERM": "xterm"], [], "there is neither a display nor a terminal"),
        ] as [([String: String], [String], String)])
    func noRouteIsASentence(variables: [String: String], programs: [String], words: String) async {
        let scene = Scene(variables, programs: Set(programs), outcomes: [Self.xclip: .exited(code: 1, words: "")])
        let error = await #expect(throws: DesktopError.self) {
            try await LinuxClipboard(environment: scene.environment).copy("ABCD-1234")
        }
        #expect(error?.sentence.contains(words) == true)
        #expect(error?.sentence.hasSuffix("by hand.") == true)
        #expect(error?.sentence.contains("ABCD") == false)
    }

    // MARK: The terminal's sequence

    @Test func asksForTheClipboard() {
        #expect(OSC52.sequence(copying: "ABCD-1234", insideTmux: false) == Array("\u{1B}]52;c;QUJDRC0xMjM0\u{7}".utf8))
    }

    @Test func passesThroughTmux() {
        let sequence = OSC52.sequence(copying: "ABCD-1234", insideTmux: true)
        #expect(sequence == Array("\u{1B}Ptmux;\u{1B}\u{1B}]52;c;QUJDRC0xMjM0\u{7}\u{1B}\\".utf8))
    }

    @Test func textCantEscapeFromTheSequence() throws {
        let sequence = try #require(OSC52.sequence(copying: "\u{7}\u{1B}[31m;\u{1B}\\", insideTmux: false))
        #expect(sequence.filter { $0 < 0x20 } == [0x1B, 0x07])
    }

    @Test func refusesWhatTerminalsRefuse() {
        #expect(OSC52.sequence(copying: String(repeating: "x", count: 74_994), insideTmux: false) != nil)
        #expect(OSC52.sequence(copying: String(repeating: "x", count: 74_995), insideTmux: false) == nil)
    }

    // MARK: Real programs

    @Test(
        .enabled(if: xclips.areUsable, "\(xclips.absence)"),
        arguments: ["ABCD-1234", "", "two\nlines\n", "ünï „Grüße“ 🔑", String(repeating: "x", count: 200_000)])
    func xclipHoldsTheText(text: String) async throws {
        let display = try await VirtualDisplay()
        let outcome = try await LinuxClipboard(environment: DesktopEnvironment(variables: display.variables)).copy(text)
        #expect(outcome == .copied)
        // xclip answers an empty selection with an error, so there is nothing to read back.
        if !text.isEmpty {
            // The one that holds the text tells the X server of it after the other has ended.
            var pasted: String?
            let holds = try await eventually {
                pasted = try? await SystemProgram.xclip.run(
                    ["-selection", "clipboard", "-out"], environment: display.variables)
                return pasted == text
            }
            #expect(holds, "\(pasted ?? "nothing") was there")
        }
        withExtendedLifetime(display) {}
    }

    @Test(.enabled(if: SystemProgram.xclip.isUsable, "\(SystemProgram.xclip.absence)"))
    func aDisplayThatIsNotThereIsASentence() async throws {
        let variables = ["DISPLAY": ":4095", "PATH": "/usr/bin:/bin"]
        await #expect(
            throws: DesktopError("Nothing was copied: the display's clipboard can't be reached. Copy by hand.")
        ) {
            try await LinuxClipboard(environment: DesktopEnvironment(variables: variables)).copy("x")
        }
    }

    @Test func wlCopyGetsTheTextAndItsType() async throws {
        let folder = try Folder()
        try folder.script("wl-copy", #"{ printf '%s ' "$@"; cat; } > "$OUT""#)
        let environment = folder.environment(["WAYLAND_DISPLAY": "wayland-0"])
        #expect(try await LinuxClipboard(environment: environment).copy("ABCD-1234") == .copied)
        #expect(try folder.read("out") == "--type text/plain ABCD-1234")
    }

    @Test func aProgramThatHangsIsKilled() async throws {
        let folder = try Folder()
        #expect(mkfifo(folder.path("pipe"), 0o600) == 0)
        try folder.script("xclip", #"echo $$ > "$OUT"; read line < "$FOLDER/pipe""#)
        let environment = folder.environment(["DISPLAY": ":0"])
        await #expect(throws: DesktopError.self) { try await LinuxClipboard(environment: environment).copy("x") }
        let pid = try #require(pid_t(try folder.read("out").trimmingCharacters(in: .newlines)))
        let end = ContinuousClock.now + Patience.limit
        while kill(pid, 0) == 0, ContinuousClock.now < end { await Task.yield() }
        #expect(kill(pid, 0) == -1, "killed and reaped")
    }
}
