import CGtk4
import ChappieSDK
import ChappieSDKRuntime
import ChappieThreadForms
import FoundationEssentials

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A file that the user saves.
enum SavedFile {
    /// Lets the user choose a place for a picture, and writes it there.
    ///
    /// - Parameter keeping: the conversations, in whose folder nothing is written.
    /// - Returns: the reason why it could not be written, or `nil`.
    @MainActor
    static func save(_ shown: ShownPicture, outside keeping: Keeping?, over window: Widget) async -> WindowError? {
        let name = name(of: shown)
        guard let path = await Dialogue.chooseFiles("Save the picture", saving: name, over: window).first else {
            return nil
        }
        do throws(WindowError) {
            try refuse(path, in: keeping)
            try await write { [(path, shown.image.bytes)] }
            return nil
        } catch {
            return error
        }
    }

    /// Writes a thread. The pictures of Markdown are in files next to it.
    @MainActor
    static func write(
        _ thread: ChappieThread, as format: ChappieThreadFormat, to path: String, outside keeping: Keeping
    ) async throws {
        try refuse(path, in: keeping)
        try await write {
            guard format == .markdown else { return [(path, Array(format.text(of: thread).utf8))] }
            let (text, pictures) = ChappieThreadFormat.markdownWithPictures(of: thread)
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            return pictures.map { (path: folder + $0.fileName, bytes: $0.bytes) } + [
                (path: path, bytes: Array(text.utf8))
            ]
        }
    }

    @MainActor
    private static func refuse(_ path: String, in keeping: Keeping?) throws(WindowError) {
        guard keeping?.contains(path) == true else { return }
        throw WindowError("\(path) is in the folder of the conversations.", "Choose another folder.")
    }

    /// Returns a name for a picture's file: the letters and digits of its words.
    static func name(of shown: ShownPicture) -> String {
        var name = ""
        for word in shown.words.prefix(200).lowercased().split(whereSeparator: { !$0.isLetter && !$0.isNumber }) {
            let longer = name.isEmpty ? String(word) : "\(name)-\(word)"
            // Most file systems take 255 bytes.
            guard longer.utf8.count <= 80 else { break }
            name = longer
        }
        return "\(name.isEmpty ? "picture" : name).\(shown.image.fileExtension)"
    }

    /// Makes and writes files outside the window's thread.
    @concurrent
    private static func write(_ files: @Sendable () -> [(path: String, bytes: [UInt8])]) async throws(WindowError) {
        for (path, bytes) in files() { try write(bytes, to: path) }
    }

    /// Replaces a file in one step. Only this user can read it. If the path is a link, its target is replaced.
    private static func write(_ bytes: [UInt8], to path: String) throws(WindowError) {
        let target = realpath(path, nil)
        defer { free(target) }
        guard let file = target.map({ g_file_new_for_path($0) }) ?? g_file_new_for_path(path) else { return }
        defer { g_object_unref(UnsafeMutableRawPointer(file)) }
        var error: UnsafeMutablePointer<GError>?
        let flags = GFileCreateFlags(G_FILE_CREATE_PRIVATE.rawValue | G_FILE_CREATE_REPLACE_DESTINATION.rawValue)
        let isWritten = bytes.withUnsafeBytes { bytes in
            g_file_replace_contents(
                file, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), gsize(bytes.count), nil, 0, flags, nil,
                nil,
                &error)
        }
        guard isWritten == 0 else { return }
        defer { g_clear_error(&error) }
        let reason = error.map { String(cString: $0.pointee.message) } ?? "unknown error"
        throw WindowError("\(path) can't be written: \(reason).", "Choose a folder that you may write to.")
    }
}
