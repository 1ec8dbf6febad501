import CGtk4
import ChappieSDK
import ChappieSignInGTK

/// A picture of an answer, with the words that describe it.
struct ShownPicture: Sendable {
    let image: ChappieGeneratedImage
    /// The prompt, or the name of the tool. It may be any text.
    let words: String
}

/// A picture with a button that saves it. The picture may come from anybody, so only a picture of a bounded size is
/// decoded, in the size in which the window shows it.
@MainActor
enum PictureCard {
    /// The largest picture that is decoded. Each pixel takes four bytes.
    private nonisolated static let limits = (bytes: 64 << 20, pixels: 50_000_000)
    /// The largest size on the screen.
    private static let largest = (width: 720, height: 480)

    /// Returns the card, and code that fits it to a width. The picture appears when it is decoded.
    static func make(
        _ shown: ShownPicture, save: @escaping @MainActor () -> Void
    ) -> (widget: Widget, fit: @MainActor (_ room: Int) -> Void)? {
        let image = shown.image
        guard let card = gtk_box_new(GTK_ORIENTATION_VERTICAL, 6), let picture = gtk_picture_new(),
            let failure = gtk_label_new("This picture can't be shown here."),
            let button = gtk_button_new_with_label("Save As…")
        else { return nil }
        picture.tell(GTK_ACCESSIBLE_PROPERTY_LABEL, shown.words.oneLine)
        for widget in [picture, failure, button] {
            gtk_widget_set_halign(widget, GTK_ALIGN_START)
            gtk_box_append(card.cast(), widget)
        }
        failure.setVisible(false)
        ChappieGTKSignal.connect(button, "clicked", save)
        let size = (width: Double(max(image.width, 1)), height: Double(max(image.height, 1)))
        let scale = { @MainActor (room: Int) in
            min(1, Double(min(room, largest.width)) / size.width, Double(largest.height) / size.height)
        }
        // A screen of double resolution shows twice as many pixels.
        let sharp = min(1, scale(largest.width) * 2)
        g_object_ref(card)
        Task {
            let texture = await texture(of: image, width: Int(size.width * sharp), height: Int(size.height * sharp))
            if let texture {
                gtk_picture_set_paintable(OpaquePointer(picture), texture.pointer)
                g_object_unref(UnsafeMutableRawPointer(texture.pointer))
            }
            picture.setVisible(texture != nil)
            failure.setVisible(texture == nil)
            g_object_unref(card)
        }
        return (
            card,
            { room in
                let scale = scale(room)
                gtk_widget_set_size_request(
                    picture, gint(max(size.width * scale, 1)), gint(max(size.height * scale, 1)))
            }
        )
    }

    /// The only reference to a texture, which moves to the window's thread. It needs no lock: GDK never changes a
    /// texture after it is made, counts its references atomically, and the thread that decodes it keeps none.
    private struct Texture: @unchecked Sendable {
        let pointer: OpaquePointer
    }

    /// Decodes a picture, or returns `nil` if it is too large or damaged.
    @concurrent
    private static func texture(of image: ChappieGeneratedImage, width: Int, height: Int) async -> Texture? {
        let (pixels, isHuge) = image.width.multipliedReportingOverflow(by: image.height)
        guard image.bytes.count <= limits.bytes, !isHuge, (1...limits.pixels).contains(pixels),
            let bytes = g_bytes_new(image.bytes, gsize(image.bytes.count))
        else { return nil }
        defer { g_bytes_unref(bytes) }
        guard let stream = g_memory_input_stream_new_from_bytes(bytes) else { return nil }
        defer { g_object_unref(stream) }
        guard
            let pixbuf = gdk_pixbuf_new_from_stream_at_scale(
                stream, gint(max(width, 1)), gint(max(height, 1)), 1, nil, nil)
        else { return nil }
        defer { g_object_unref(UnsafeMutableRawPointer(pixbuf)) }
        return gdk_texture_new_for_pixbuf(pixbuf).map { Texture(pointer: $0) }
    }
}

extension String {
    /// The text on one line, without characters that control or hide something.
    var oneLine: String {
        let words = unicodeScalars.split { $0.properties.isWhitespace }.map { word in
            String(
                String.UnicodeScalarView(
                    word.filter { ![.control, .format, .unassigned].contains($0.properties.generalCategory) }))
        }
        return words.filter { !$0.isEmpty }.joined(separator: " ")
    }
}
