import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// The files that go with the next message, as a row of names that can be removed.
@MainActor
final class Attachments {
    /// A file as a part of a message.
    enum Content: Sendable {
        case image(ChappieImage)
        case file(ChappieFile)
    }

    private struct Item {
        let id: Int
        let name: String
        let row: Widget
        var content: Content?
    }

    /// The maximum number of files in one message.
    static let limit = 20

    private let box: Widget
    private var items: [Item] = []
    private var lastID = 0
    /// Shows the user why a file cannot be attached.
    private let refuse: @MainActor (any ChappieError) -> Void

    init(_ box: Widget, refuse: @escaping @MainActor (any ChappieError) -> Void) {
        self.box = box
        self.refuse = refuse
    }

    var names: [String] { items.map(\.name) }
    var isEmpty: Bool { items.isEmpty }
    /// Whether a file is still being read.
    var isReading: Bool { items.contains { $0.content == nil } }

    /// Adds files and reads them in the background, one after the other. The files that cannot be attached are named
    /// together.
    func add(_ paths: [String]) {
        let taken = paths.prefix(max(0, Self.limit - items.count))
        let begun = taken.map { path in (begin(path.split(separator: "/").last.map(String.init) ?? path), path) }
        Task {
            var refusals: [String] = []
            if taken.count < paths.count {
                refusals.append("A message takes \(Self.limit) files. Send the others with the next one.")
            }
            for (id, path) in begun {
                do throws(ChappieAttachmentError) {
                    end(id, try await Self.read(path))
                } catch {
                    // The user may have removed it.
                    guard remove(id) else { continue }
                    refusals.append(error.explanation)
                }
            }
            guard !refusals.isEmpty else { return }
            let others = refusals.count > 5 ? ["\(refusals.count - 5) more files can't be attached."] : []
            // The text is on one line because GTK 4.8 miscounts the height of a label that wraps and has its own
            // breaks.
            refuse(WindowError((refusals.prefix(5) + others).joined(separator: " ")))
        }
    }

    /// Adds a picture that the user has pasted.
    func add(_ picture: [UInt8]) {
        do throws(ChappieAttachmentError) {
            let image = try ChappieImage(bytes: picture, name: "picture.png")
            end(begin("picture.png"), .image(image))
        } catch {
            refuse(error)
        }
    }

    @concurrent
    private static func read(_ path: String) async throws(ChappieAttachmentError) -> Content {
        do throws(ChappieAttachmentError) {
            return .image(try ChappieImage(path: path))
        } catch {
            switch error {
            case .unsupportedImage: return .file(try ChappieFile(path: path))
            case .tooManyPixels, .imageTooLarge:
                guard let smaller = smallerImage(path) else { throw error }
                return .image(try ChappieImage(bytes: smaller, name: path))
            default: throw error
            }
        }
    }

    /// Returns the image at `path`, scaled to at most 2048 by 2048 pixels, or `nil` if it cannot be read.
    private nonisolated static func smallerImage(_ path: String) -> [UInt8]? {
        var (width, height) = (gint(0), gint(0))
        guard gdk_pixbuf_get_file_info(path, &width, &height) != nil,
            let scaled = gdk_pixbuf_new_from_file_at_scale(path, min(width, 2048), min(height, 2048), 1, nil)
        else { return nil }
        defer { g_object_unref(UnsafeMutableRawPointer(scaled)) }
        // A photograph may be stored on its side.
        guard let upright = gdk_pixbuf_apply_embedded_orientation(scaled) else { return nil }
        defer { g_object_unref(UnsafeMutableRawPointer(upright)) }
        let format = gdk_pixbuf_get_has_alpha(upright) != 0 ? "png" : "jpeg"
        var buffer: UnsafeMutablePointer<gchar>?
        var count: gsize = 0
        guard gdk_pixbuf_save_to_bufferv(upright, &buffer, &count, format, nil, nil, nil) != 0, let buffer else {
            return nil
        }
        defer { g_free(buffer) }
        return Array(UnsafeRawBufferPointer(start: buffer, count: Int(count)))
    }

    /// Returns the message with all files, and removes the files from the row.
    func message(_ text: String) -> (message: ChappieInputMessage, contents: [(name: String, content: Content)]) {
        let contents = items.compactMap { item in item.content.map { (item.name, $0) } }
        clear()
        var images: [ChappieImage] = []
        var files: [ChappieFile] = []
        for (_, content) in contents {
            switch content {
            case .image(let image): images.append(image)
            case .file(let file): files.append(file)
            }
        }
        return (.user(text, images: images, files: files), contents)
    }

    /// Puts back the files of a failed message.
    func putBack(_ contents: [(name: String, content: Content)]) {
        for (name, content) in contents { end(begin(name), content) }
    }

    func clear() {
        for item in items { gtk_box_remove(box.cast(), item.row) }
        items = []
        box.setVisible(false)
    }

    // MARK: One file

    private func begin(_ name: String) -> Int {
        lastID += 1
        let id = lastID
        guard let row = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 4), let label = gtk_label_new(name),
            let button = gtk_button_new_from_icon_name("window-close-symbolic")
        else { return id }
        gtk_widget_add_css_class(row, "chappie-chip")
        gtk_label_set_ellipsize(label.cast(), PANGO_ELLIPSIZE_MIDDLE)
        gtk_label_set_max_width_chars(label.cast(), 24)
        gtk_widget_add_css_class(button, "flat")
        button.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, "Remove \(name)")
        gtk_widget_set_tooltip_text(button, "Remove \(name)")
        gtk_box_append(row.cast(), label)
        gtk_box_append(row.cast(), button)
        gtk_box_append(box.cast(), row)
        box.setVisible(true)
        items.append(Item(id: id, name: name, row: row))
        ChappieGTKSignal.connect(button, "clicked") { [weak self] in self?.remove(id) }
        return id
    }

    private func end(_ id: Int, _ content: Content) {
        guard let index = items.firstIndex(where: { $0.id == id }) else { return }
        items[index].content = content
    }

    @discardableResult
    private func remove(_ id: Int) -> Bool {
        guard let index = items.firstIndex(where: { $0.id == id }) else { return false }
        gtk_box_remove(box.cast(), items.remove(at: index).row)
        box.setVisible(!items.isEmpty)
        return true
    }
}

/// A message of the window, with the user's next step.
struct WindowError: ChappieError {
    let errorDescription: String?
    let recoverySuggestion: String?

    init(_ sentence: String, _ advice: String? = nil) {
        errorDescription = sentence
        recoverySuggestion = advice
    }
}
