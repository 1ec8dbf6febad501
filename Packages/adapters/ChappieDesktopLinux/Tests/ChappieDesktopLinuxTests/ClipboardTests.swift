import ChappieAuth
import Foundation
import TestFixtures
import Testing

@testable import ChappieDesktopLinux

struct ClipboardTests {
    private static let wlCopy = "/usr/bin/wl-copy"
    private static let xclip = "/first/xclip"
    private static let xclips = [SystemProgram.xclip, .xvfb]
    private static let programs = [wlCopy: ["--type", "text/plain"], xclip: ["-selection", "clipboard", "-in"]]

    /// Each that fails is followed by the next.
    @Test(
        arguments: [
            ([:], [], nil), (["WAYLAND_DISPLAY": "w"], [wlCopy], nil), (["DISPLAY": ":0"], [xclip], nil),
            (["WAYLAND_DISPLAY": "w", "DISPLAY": ":0"], [wlCopy, xclip], nil),
            (["WAYLAND_DISPLAY": "w", "TERM": "foot"], [wlCopy], false), (["TERM": "xterm-256color"], [], false),
            (["TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"], [], true), (["TERM": "dumb"], [], nil),
            (["TERM": "linux"], [], nil), (["TERM": "", "DISPLAY": ""], [], nil),
        ] as [([String: String], [String], Bool?)],
        [.exited(code: 1, words: "no display"), .stillRunning, .notStarted("no")] as [ChildOutcome])
    func knowsTheRoutes(
        route: (variables: [String: String], programs: [String], isInsideTmux: Bool?), outcome: ChildOutcome
    ) async throws {
        let scene = Scene(
            route.variables, programs: [Self.wlCopy, Self.xclip], hasTerminal: true,
            outcomes: [Self.wlCopy: outcome, Self.xclip: outcome])
        let clipboard = LinuxClipboard(environment: scene.environment)
        if let isInsideTmux = route.isInsideTmux {
            // It is asked and never believed.
            #expect(try await clipboard.copy("ABCD-1234") == .requested)
            #expect(scene.terminal == OSC52.sequence(copying: "ABCD-1234", insideTmux: isInsideTmux))
        } else {
            await refusal("", saying: "by hand.") { _ = try await clipboard.copy("ABCD-1234") }
            #expect(scene.terminal.isEmpty)
        }
        #expect(scene.processes.map(\.path) == route.programs)
        for process in scene.processes {
            // The text travels by standard input only.
            #expect(process.arguments == Self.programs[process.path])
            #expect(process.input == Array("ABCD-1234".utf8))
        }
    }

    @Test func theFirstRouteThatTakesTheTextIsTheLast() async throws {
        let scene = Scene(
            ["WAYLAND_DISPLAY": "w", "DISPLAY": ":0", "TERM": "xterm"], programs: [Self.wlCopy, Self.xclip],
            hasTerminal: true)
        #expect(try await LinuxClipboard(environment: scene.environment).copy("x") == .copied)
        #expect(scene.processes.map(\.path) == [Self.wlCopy])
        #expect(scene.terminal.isEmpty)
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
        let scene = Scene(variables, programs: programs, outcomes: [Self.xclip: .exited(code: 1, words: "")])
        let error = await refusal("", saying: words) {
            _ = try await LinuxClipboard(environment: scene.environment).copy("ABCD-1234")
        }
        #expect(error?.errorDescription?.hasSuffix("by hand.") == true)
        #expect(error?.errorDescription?.contains("ABCD") == false)
    }

    // MARK: The terminal's sequence

    @Test(arguments: [
        (false, "\u{1B}]52;c;QUJDRC0xMjM0\u{7}"), (true, "\u{1B}Ptmux;\u{1B}\u{1B}]52;c;QUJDRC0xMjM0\u{7}\u{1B}\\"),
    ])
    func asksForTheClipboard(insideTmux: Bool, sequence: String) {
        #expect(OSC52.sequence(copying: "ABCD-1234", insideTmux: insideTmux) == Array(sequence.utf8))
    }

    @Test func `copied text can't escape from the sequence and has a maximum length`() throws {
        let sequence = try #require(OSC52.sequence(copying: "\u{7}\u{1B}[31m;\u{1B}\\", insideTmux: false))
        #expect(sequence.filter { $0 < 0x20 } == [0x1B, 0x07])
        #expect(OSC52.sequence(copying: String(repeating: "x", count: 74_994), insideTmux: false) != nil)
        #expect(OSC52.sequence(copying: String(repeating: "x", count: 74_995), insideTmux: false) == nil)
    }

    // MARK: Real programs

    @Test(
        .enabled(if: xclips.areUsable, "\(xclips.absence)"),
        arguments: ["ABCD-1234", "", "two\nlines\n", "ünï „Grüße“ 🔑", String(repeating: "x", count: 200_000)])
    func xclipHoldsTheText(text: String) async throws {
        // A real X server without a screen, which prints its number once it is ready.
        var variables = ["PATH": "/usr/bin:/bin"]
        let server = try SystemProgram.xvfb.start(
            ["-displayfd", "1", "-screen", "0", "320x240x8", "-nolisten", "tcp", "-noreset"], environment: variables,
            output: .pipe, errors: .file("/dev/null"))
        let number = try await onOwnThread { server.output?.line() }
        variables["DISPLAY"] = ":" + (try #require(number))
        let outcome = try await LinuxClipboard(environment: DesktopEnvironment(variables: variables)).copy(text)
        #expect(outcome == .copied)
        // xclip answers an empty selection with an error, so there is nothing to read back.
        if !text.isEmpty {
            // The background process takes the selection after the first process has ended.
            let holds = try await eventually { [variables] in
                let paste = ["-selection", "clipboard", "-out"]
                return (try? await SystemProgram.xclip.run(paste, environment: variables)) == text
            }
            #expect(holds)
        }
        withExtendedLifetime(server) {}
    }

    @Test(.enabled(if: SystemProgram.xclip.isUsable, "\(SystemProgram.xclip.absence)"))
    func aDisplayThatIsNotThereIsASentence() async throws {
        let variables = ["DISPLAY": ":4095", "PATH": "/usr/bin:/bin"]
        await refusal("", saying: "Nothing was copied: the display's clipboard can't be reached. Copy by hand.") {
            _ = try await LinuxClipboard(environment: DesktopEnvironment(variables: variables)).copy("x")
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
        try folder.waitingScript("xclip")
        let environment = folder.environment(["DISPLAY": ":0"])
        await refusal("DesktopError") { _ = try await LinuxClipboard(environment: environment).copy("x") }
        let id = try folder.waitingID()
        #expect(try await eventually { kill(id, 0) == -1 }, "killed and reaped")
    }
}
