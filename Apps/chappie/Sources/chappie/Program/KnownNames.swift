import ArgumentParser
@_spi(ChappieInternals) import ChappieClient
@_spi(ChappieInternals) import ChappieCore
@_spi(ChappieInternals) import ChappieFiles
import ChappieProgramTools
@_spi(ChappieInternals) import ChappieRuntime
import ChappieSDK
import ChappieThreadsSQLite
import FoundationEssentials

/// The names that a shell completes. The program reads them only from this machine. It does not send a request or ask
/// the user for a passphrase.
enum KnownNames {
    /// The time that a shell waits, in seconds.
    private static let patience = 1.5

    /// Returns the models of the kept lists of all accounts.
    static func models(_ environment: ProgramEnvironment) -> [String] {
        guard let folder = environment.folders.cache,
            let files = try? FileManager.default.contentsOfDirectory(atPath: folder)
        else { return [] }
        var slugs: [String] = []
        for file in files.sorted() where file.hasPrefix("models-") && file.hasSuffix(".json") {
            guard let document = try? WholeFile.read("\(folder)/\(file)") else { continue }
            for model in ChappieModel.kept(in: document) where model.isListed && !slugs.contains(model.slug) {
                slugs.append(model.slug)
            }
        }
        return slugs.filter { $0.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) } }
    }

    /// Returns the remote tool servers in the manifests that the settings name.
    static func toolServers(_ environment: ProgramEnvironment) -> [String] {
        guard let options = try? GlobalOptions.parse([]),
            let settings = try? ResolvedSettings(options: options, environment: environment, use: .credential)
        else { return [] }
        let manifests = settings.tools.compactMap { path in
            try? ChappieToolManifest(WholeFile.read(path), file: path) { environment[$0] }
        }
        return manifests.flatMap(\.servers).filter { $0.url != nil }.map(\.name)
    }

    /// Returns the threads of the current account, with their names if the shell shows them. Returns none if the
    /// keyring is locked or the threads are protected by a passphrase.
    static func threads(_ environment: ProgramEnvironment) -> [String] {
        let known = BlockingValue<[ChappieThreadSummary]>().value(within: patience) {
            let program = try await Program(GlobalOptions.parse([]), environment, Console(.init()) { _, _ in })
            guard program.settings.store == .keyring, let store = try program.threads() else { return [] }
            return try await store.readableThreads().threads.latestFirst(includeArchived: true)
        }
        return (known ?? []).prefix(100).map { thread in
            let name = UntrustedText.message(thread.shownName, limit: 60) ?? ""
            return switch CompletionShell.requesting {
            case .zsh?: "\(thread.shortID):\(name.replacing(":", with: "\\:"))"
            case .fish?: "\(thread.shortID)\t\(name)"
            default: thread.shortID
            }
        }
    }
}

extension CompletionKind {
    static var models: CompletionKind { .custom { _, _, _ in KnownNames.models(.process) } }
    static var toolServers: CompletionKind { .custom { _, _, _ in KnownNames.toolServers(.process) } }
    static var threads: CompletionKind { .custom { _, _, _ in KnownNames.threads(.process) } }
}
