@_spi(ChappieInternals) import ChappieCore
import Glibc
import Synchronization
import TestFixtures
import Testing

@testable import ChappieProcess

/// A program and all of its events.
private final class Listener: Sendable {
    private struct Heard {
        var output: [UInt8] = []
        var errors: [UInt8] = []
        var outputEnds = 0
        var isOver = false
        var isLate = false
    }

    private let heard = Mutex(Heard())
    private let code = Promise<Int32>()

    func start(
        _ script: String, inputLimit: Int = 16 << 20, endsGroup: Bool = false, environment: [String: String] = [:]
    ) throws -> PipedProgram {
        let shell = ProgramInvocation(
            path: "/bin/sh", arguments: ["-c", script],
            environment: environment.merging(["PATH": "/usr/bin:/bin"]) { given, _ in given })
        return try PipedProgram(shell, inputLimit: inputLimit, endsGroup: endsGroup) { [self] event in
            heard.withLock { heard in
                heard.isLate = heard.isLate || heard.isOver
                switch event {
                case .output(let bytes): heard.output += bytes
                case .errors(let bytes): heard.errors += bytes
                case .outputEnded: heard.outputEnds += 1
                case .ended: heard.isOver = true
                }
            }
            if case .ended(let code) = event { self.code.fulfil(.success(code)) }
        }
    }

    var output: String { heard.withLock { String(decoding: $0.output, as: UTF8.self) } }
    var errors: String { heard.withLock { String(decoding: $0.errors, as: UTF8.self) } }
    var outputHasEnded: Bool { heard.withLock { $0.outputEnds == 1 } }
    var heardAfterTheEnd: Bool { heard.withLock(\.isLate) }
    func exitCode() async throws -> Int32 { try await code.value() }

    func line() async throws -> String {
        #expect(try await eventually { output.contains("\n") })
        return String(output.prefix { $0 != "\n" })
    }
}

struct PipedProgramTests {
    @Test(
        arguments: [
            ("echo out; echo err >&2; exit 7", 7, "out\n", "err\n"), ("kill -9 $$", 137, "", ""),
            ("exit 0", 0, "", ""), ("wc -c", 0, "3\n", ""),
            ("head -c 300000 /dev/zero | tr '\\0' x | wc -c", 0, "300000\n", ""),
        ])
    func tellsAllAndThenTheEnd(script: String, code: Int32, output: String, errors: String) async throws {
        let listener = Listener()
        let program = try listener.start(script)
        #expect(program.send(Array("abc".utf8)))
        program.closeInput()
        #expect(try await listener.exitCode() == code)
        #expect(listener.output == output)
        #expect(listener.errors == errors)
        #expect(!listener.heardAfterTheEnd)
    }

    @Test func bytesGoInAndOutAtTheSameTime() async throws {
        let listener = Listener()
        let program = try listener.start("exec cat")
        let bytes = [UInt8](repeating: 0x61, count: 1 << 20)
        for _ in 0..<8 { #expect(program.send(bytes)) }
        program.closeInput()
        #expect(try await listener.exitCode() == 0)
        #expect(listener.output.utf8.count == 8 << 20)
    }

    @Test func `waiting input is limited, and refused input is not sent`() async throws {
        let listener = Listener()
        let program = try listener.start("read -r line; cat", inputLimit: 100_000)
        #expect(!program.send([UInt8](repeating: 0x61, count: 100_001)))
        #expect(program.send(Array("go\nabc".utf8)))
        program.closeInput()
        #expect(try await listener.exitCode() == 0)
        #expect(listener.output == "abc")
    }

    @Test func aProgramThatStopsReadingIsNoSignal() async throws {
        let listener = Listener()
        let program = try listener.start("exec <&-; echo closed; sleep 1000")
        #expect(try await listener.line() == "closed")
        #expect(program.send(Array("x".utf8)))
        program.kill()
        #expect(try await listener.exitCode() == 137)
    }

    @Test(arguments: [
        // The programs end at the end of input, at SIGTERM, and at SIGKILL.
        ("echo up; cat >/dev/null", 0), ("echo up; exec sleep 1000", 143),
        ("trap '' TERM; echo up; while :; do sleep 1000; done", 137),
    ])
    func endsWithAsLittleForceAsItTakes(script: String, code: Int32) async throws {
        let listener = Listener()
        let program = try listener.start(script)
        #expect(try await listener.line() == "up")
        program.end(patience: code == 0 ? Patience.limit : .milliseconds(50), grace: .milliseconds(50))
        #expect(try await listener.exitCode() == code)
    }

    @Test func aClosedOutputIsNotTheEnd() async throws {
        let listener = Listener()
        let program = try listener.start("exec >&-; read -r line; exit 4")
        #expect(try await eventually { listener.outputHasEnded })
        #expect(program.send(Array("on\n".utf8)))
        #expect(try await listener.exitCode() == 4)
    }

    @Test(arguments: [true, false])
    func `leftover child processes delay nothing and end if that is requested`(endsGroup: Bool) async throws {
        let listener = Listener()
        // The grandchild keeps both outputs open.
        let program = try listener.start("sleep 1000 & echo $!", endsGroup: endsGroup)
        #expect(try await listener.exitCode() == 0)
        let grandchild = try #require(pid_t(try await listener.line()))
        if endsGroup {
            #expect(try await eventually { !isRunning(grandchild) })
        } else {
            #expect(isRunning(grandchild))
            kill(grandchild, SIGKILL)
        }
        withExtendedLifetime(program) {}
    }

    @Test func noProcessAndNoDescriptorIsLeft() async throws {
        let before = try openDescriptors()
        var ids: [pid_t] = []
        for number in 0..<40 {
            let listener = Listener()
            let program = try listener.start("echo $$; [ \(number % 2) = 0 ] || exec sleep 1000")
            ids.append(try #require(pid_t(try await listener.line())))
            if number % 2 == 1 { program.kill() }
            _ = try await listener.exitCode()
        }
        // A zombie can still be sent a signal.
        for id in ids { #expect(kill(id, 0) != 0 && errno == ESRCH) }
        // Other tests open some at the same time: fewer than forty programs would leave.
        #expect(try await eventually { try openDescriptors() < before + 40 })
    }

    @Test func `a program inherits neither files nor variables nor blocked signals`() async throws {
        let careless = fcntl(STDERR_FILENO, F_DUPFD, 700)
        defer { close(careless) }
        let listener = Listener()
        let program = try listener.start(
            "ls /proc/self/fd | grep -c '^7..$'; env | cut -d= -f1 | grep -v -e '^PWD$' -e '^_$' | sort; grep SigBlk /proc/self/status",
            environment: ["ONLY": "1"])
        _ = try await listener.exitCode()
        #expect(listener.output == "0\nONLY\nPATH\nSigBlk:\t0000000000000000\n")
        withExtendedLifetime(program) {}
    }

    @Test func whatIsNoProgramSaysWhy() async throws {
        let directory = try TemporaryDirectory()
        let text = try directory.write("words\n", to: "text")
        #expect(chmod(text, 0o700) == 0)
        // A program that another test starts at this moment may hold the file open for writing until it is one.
        let isRefused = try await eventually {
            do {
                _ = try PipedProgram(
                    ProgramInvocation(path: text, environment: [:]), inputLimit: 0, endsGroup: false, onEvent: { _ in })
                return false
            } catch let failure as StartFailure where failure != StartFailure("Text file busy") {
                #expect(failure == StartFailure("Exec format error"))
                return true
            } catch is StartFailure {
                return false
            }
        }
        #expect(isRefused)
    }

    private func isRunning(_ id: pid_t) -> Bool { kill(id, 0) == 0 }
}

struct ProgramInvocationTests {
    @Test func `a name is looked up, and a path is relative to the working directory`() throws {
        let directory = try TemporaryDirectory()
        for name in ["tool", "text"] { try directory.write("#!/bin/sh\n", to: name) }
        #expect(chmod(directory.path("tool"), 0o700) == 0)
        let variables = ["PATH": "relative::\(directory.path):/usr/bin:/bin"]
        let found = try ProgramInvocation(command: ["tool", "a b", "$HOME"], environment: variables)
        #expect(found.path == directory.path("tool") && found.arguments == ["a b", "$HOME"])
        let relative = try ProgramInvocation(command: ["./tool"], environment: [:], workingDirectory: directory.path)
        #expect(relative.path == "\(directory.path)/./tool")
        let refused: [([String], String?, String)] = [
            ([], nil, "the command is empty"), ([""], nil, "the command is empty"),
            (["text"], nil, "there is no program text in PATH that may be run"),
            (["./text"], directory.path, "there is no program ./text that may be run"),
            ([directory.path + "/"], nil, "there is no program \(directory.path)/ that may be run"),
            (["tool"], directory.path("tool"), "there is no folder \(directory.path("tool"))"),
            (["tool", "a\0b"], nil, "the command or its environment holds a NUL character"),
        ]
        for (command, folder, reason) in refused {
            #expect(throws: StartFailure(reason)) {
                _ = try ProgramInvocation(command: command, environment: variables, workingDirectory: folder)
            }
        }
    }

    @Test func `the clean environment has what a program needs and what was requested`() {
        let names = Set(ProgramInvocation.cleanEnvironment(adding: ["TOKEN": "t"]).keys)
        #expect(
            names.contains("TOKEN") && names.contains("PATH")
                && names.subtracting(["TOKEN"] + ProgramInvocation.passedVariables).isEmpty)
        #expect(ProgramInvocation.cleanEnvironment(adding: ["PATH": "/x"])["PATH"] == "/x")
    }
}
