import ChappieCore
public import ChappieRuntime

/// A form in which a thread can leave its store.
///
/// ```swift
/// let page = ChappieThreadFormat.html.text(of: try await store.thread(id))
/// ```
/// ``ChappieThreadImport`` reads the complete forms. New cases may be added, so switch with a `default`.
public enum ChappieThreadFormat: String, Sendable, CaseIterable {
    /// One complete JSON document.
    case json
    /// A line that names the thread, and then a line for each record. This form is complete.
    case jsonl
    /// Markdown for reading, and for other programs that know it. Messages and answers cannot break out of their place,
    /// and a picture is a line. See ``markdownWithPictures(of:)``.
    case markdown
    /// A page for a browser and for paper, with the thread's pictures. It needs no other file, runs nothing and fetches
    /// nothing.
    case html

    /// Creates the form that a file's name asks for. Returns `nil` if it asks for none.
    public init?(fileName: String) {
        switch fileName.split(separator: ".").last?.lowercased() {
        case "json": self = .json
        case "jsonl": self = .jsonl
        case "md", "markdown": self = .markdown
        case "html", "htm": self = .html
        default: return nil
        }
    }

    /// Returns the thread in this form, with a line feed at the end. Markdown and pages contain no control sequences
    /// for a terminal.
    public func text(of thread: ChappieThread) -> String {
        switch self {
        case .json: return thread.json.serialized() + "\n"
        case .jsonl:
            var head = thread.json.object ?? [:]
            head["records"] = nil
            let lines = [.object(head)] + thread.records.map(ChappieThread.json(of:))
            return lines.map { $0.serialized() + "\n" }.joined()
        case .markdown: return ThreadMarkdown(of: thread).text
        case .html: return ThreadPage.text(of: thread)
        }
    }

    /// Returns the thread as Markdown that shows its pictures from files, and these files. In ``text(of:)`` a picture is
    /// only a line.
    ///
    /// ```swift
    /// let (text, pictures) = ChappieThreadFormat.markdownWithPictures(of: thread)
    /// for picture in pictures { try Data(picture.bytes).write(to: folder.appending(path: picture.fileName)) }
    /// ```
    /// The names consist of the thread's id and a number.
    public static func markdownWithPictures(
        of thread: ChappieThread
    ) -> (text: String, pictures: [ChappieThreadPicture]) {
        let document = ThreadMarkdown(of: thread, hasPictureFiles: true)
        return (document.text, document.pictures)
    }
}
