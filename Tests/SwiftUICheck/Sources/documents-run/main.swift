// Does with a simulator what the documentation's app does, over the composition of Apple's platforms: URLSession, and the
// keychain's four calls over a list in memory. Combine's stand-in is compiled and not watched: OpenCombine tells nobody about
// a class without @Published properties. Each argument is a step, and prints a line of JSON. CHAPPIE_ISSUER and
// CHAPPIE_BACKEND name the simulator, and the first argument a folder for threads.
import ChappieAuth
import ChappieKeychainApple
import ChappieSDK
import ChappieSDKRuntime
import ChappieSignInUI
import Foundation
import UIKit

/// What the button does on Apple's desktop, written down.
@MainActor final class Desk: Browser, Clipboard, Notifier {
    private(set) var events: [String] = []

    nonisolated func open(_ url: URL) async throws(DesktopError) { await note("opened \(url)") }
    nonisolated func copy(_ text: String) async throws(DesktopError) -> ClipboardOutcome {
        await note("copied \(text)")
        return .copied
    }
    nonisolated func notify(title: String, body: String) async throws(DesktopError) { await note("\(title) \(body)") }

    private func note(_ event: String) { events.append(event) }
}

@MainActor final class DocumentsRun {
    private struct City: Decodable, ChappieJSONSchemaProviding {
        var name: String
    }

    private static let weather = ChappieHostTool(
        name: "weather", description: "The weather in a city.", input: City.self
    ) { city in ChappieToolResult(output: "Sunny in \(city.name)") }

    private let configuration: ChappieConfiguration
    private let session: ChappieAuthSession
    private let client: ChappieClient
    private let runtime: ChappieRuntime
    private let desk = Desk()

    init(endpoints: ChappieEndpoints, threads: String) {
        // As the page on several accounts puts it all together.
        configuration = ChappieConfiguration(
            keychainService: "com.example.myapp", keychainAccount: "ada",
            keychainAccessGroup: "TEAMID.com.example.shared", keychainAccessibility: .whenUnlockedThisDeviceOnly,
            endpoints: endpoints)
        session = Chappie.authSession(configuration: configuration)
        client = Chappie.client(configuration: configuration, tools: [Self.weather])
        runtime = Chappie.client(configuration: configuration).runtime(
            // CryptoKit is declared here, not there: Tests/AppleCrypto runs what seals threads.
            store: ChappieFileThreadStore(directory: threads, storagePolicy: .init(fileProtection: .none)))
    }

    func perform(_ step: String, _ argument: String) async throws -> [String: String] {
        switch step {
        case "status": break
        case "sign-in": return try await signIn()
        case "background": return ["activities": await holdInBackground()]
        case "switch": return await signInOverSwitch()
        case "ask": return ["answer": try await client.send(argument)]
        case "stream":
            var answer = ""
            for try await event in client.startStream(.user(argument)).events {
                if case .textDelta(let text) = event { answer += text }
            }
            return ["answer": answer]
        case "race":
            let configuration = configuration
            let answers = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<(Int(argument) ?? 1) {
                    group.addTask { try await Chappie.client(configuration: configuration).send("reply: here") }
                }
                var answers: [String] = []
                for try await answer in group { answers.append(answer) }
                return answers
            }
            return ["answers": answers.joined(separator: " ")]
        case "keep": return ["answer": try await runtime.send(argument)]
        case "threads": return ["threads": try await runtime.listThreads().map(\.name).joined(separator: "\n")]
        case "sign-out":
            session.signOut()
            await session.finishPendingWork()
        default: throw UnknownStep(step: step)
        }
        return ["state": "\(session.state)", "plan": session.accountInfo?.plan?.displayName ?? ""]
    }

    /// An activity is there while it is held, ends with its hold, and begins again after it has expired.
    private func holdInBackground() async -> String {
        let system = ProcessInfo.processInfo
        // The count changes on threads that announce nothing. The caller limits the time.
        func wait(for count: Int) async -> String {
            while system.activityCount != count { try? await Task.sleep(for: .milliseconds(5)) }
            return "\(count)"
        }
        var seen: [String] = []
        for expirations in 0...1 {
            var hold: BackgroundHold? = SystemBackgroundTime().hold("a test")
            seen.append(await wait(for: 1))
            for _ in 0..<expirations {
                system.expireActivities()
                seen.append(await wait(for: 0))
                seen.append(await wait(for: 1))
            }
            withExtendedLifetime(hold) {}
            hold = nil
            seen.append(await wait(for: 0))
        }
        return seen.joined(separator: " ")
    }

    /// By a model that is released as soon as the session's state changes, as a view's is whose app switches over it.
    private func signInOverSwitch() async -> [String: String] {
        var model: ChappieSignInModel? = ChappieSignInModel(
            session: session, browser: desk, clipboard: desk, notifier: desk)
        let states = session.stateUpdates
        model?.signIn()
        var names: [String] = []
        for await state in states {
            names.append("\(state)".prefix { $0.isLetter }.description)
            if state != .signedOut { model = nil }
            if state.isSignedIn { break }
        }
        while desk.events.last?.hasPrefix("ChatGPT Linked!") != true { await Task.yield() }
        return ["states": names.joined(separator: "|"), "link": "\(session.deviceLinkState)"]
    }

    /// By the model behind the button.
    private func signIn() async throws -> [String: String] {
        let model = ChappieSignInModel(
            session: session, showsOnboardingSheet: false, browser: desk, clipboard: desk, notifier: desk)
        var titles: [String] = []
        model.signIn()
        for await state in model.stateUpdates {
            if titles.last != state.title { titles.append(state.title) }
            if state.ending != nil || session.accountInfo != nil { break }
        }
        await model.settle()
        return [
            "state": "\(session.state)", "titles": titles.joined(separator: "|"),
            "desk": desk.events.joined(separator: "|"),
        ]
    }
}

struct UnknownStep: Error {
    let step: String
}

guard CommandLine.arguments.count > 1,
    let issuer = ProcessInfo.processInfo.environment["CHAPPIE_ISSUER"].flatMap(URL.init(string:)),
    let backend = ProcessInfo.processInfo.environment["CHAPPIE_BACKEND"].flatMap(URL.init(string:))
else { fatalError("documents-run FOLDER STEP[:ARGUMENT]…, with CHAPPIE_ISSUER and CHAPPIE_BACKEND") }
let run = DocumentsRun(
    endpoints: ChappieEndpoints(issuer: issuer, backend: backend), threads: CommandLine.arguments[1])
for word in CommandLine.arguments.dropFirst(2) {
    let parts = word.split(separator: ":", maxSplits: 1).map(String.init)
    var said: [String: String]
    do {
        said = try await run.perform(parts[0], parts.count > 1 ? parts[1] : "")
    } catch {
        said = ["error": "\(error)", "sentence": error.localizedDescription]
    }
    said["step"] = parts[0]
    let line = try JSONSerialization.data(withJSONObject: said, options: [.sortedKeys])
    FileHandle.standardOutput.write(line + Data("\n".utf8))
}
