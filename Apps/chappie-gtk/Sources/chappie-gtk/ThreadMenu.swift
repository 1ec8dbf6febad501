import CGtk4
import ChappieSDK
import ChappieSDKRuntime
import ChappieSignInGTK
import ChappieThreadForms
import FoundationEssentials

/// The menu of one conversation in the list, and the changes that the user chooses in it.
@MainActor
final class ThreadMenu {
    /// The parts of the window that the changes concern.
    struct Reports {
        /// Ends the conversation on the screen if it has this id.
        var leave: @MainActor (_ id: String) async -> Void
        /// Reads the list again.
        var changed: @MainActor () -> Void
        /// Shows a sentence below the list, with a button that takes the change back if there is one.
        var note: @MainActor (_ sentence: String, _ undo: (@MainActor () -> Void)?) -> Void
        var refuse: @MainActor (any Error) -> Void
    }

    private let window, side, popover: Widget
    private let reports: Reports
    private let keeping: () -> Keeping?
    /// The conversation that the menu was opened for.
    private var line: KeptLines.Line?

    init(
        _ layout: borrowing ChappieGTKLayout, _ keeping: @escaping @MainActor () -> Keeping?, _ reports: Reports
    ) {
        window = layout["window"]
        side = layout["side"]
        self.keeping = keeping
        self.reports = reports
        popover = gtk_popover_menu_new_from_model(nil)
        gtk_widget_set_parent(popover, side)
        gtk_popover_set_position(popover.cast(), GTK_POS_BOTTOM)
    }

    /// Opens the menu at a place in a row of the list.
    func open(_ line: KeptLines.Line, at row: Widget, x: Double, y: Double) {
        self.line = line
        let menu = Self.menu(line)
        gtk_popover_menu_set_menu_model(popover.cast(), menu)
        g_object_unref(UnsafeMutableRawPointer(menu))
        var (left, top) = (0.0, 0.0)
        guard gtk_widget_translate_coordinates(row, side, x, y, &left, &top) != 0 else { return }
        var place = GdkRectangle(x: gint(left), y: gint(top), width: 1, height: 1)
        gtk_popover_set_pointing_to(popover.cast(), &place)
        gtk_popover_popup(popover.cast())
    }

    private static func menu(_ line: KeptLines.Line) -> UnsafeMutablePointer<GMenuModel> {
        let (menu, forms, last) = (g_menu_new(), g_menu_new(), g_menu_new())
        g_menu_append(menu, "Rename…", "win.rename-thread")
        g_menu_append(menu, line.isArchived ? "Put back into the list" : "Archive", "win.archive-thread")
        for (name, format) in Self.forms { g_menu_append(forms, "\(name)…", "win.export-\(format.rawValue)") }
        g_menu_append_submenu(menu, "Export", UnsafeMutableRawPointer(forms!).assumingMemoryBound(to: GMenuModel.self))
        g_menu_append(last, "Delete…", "win.delete-thread")
        g_menu_append_section(menu, nil, UnsafeMutableRawPointer(last!).assumingMemoryBound(to: GMenuModel.self))
        for part in [forms, last] { g_object_unref(UnsafeMutableRawPointer(part!)) }
        return UnsafeMutableRawPointer(menu!).assumingMemoryBound(to: GMenuModel.self)
    }

    private static let forms: [(name: String, format: ChappieThreadFormat)] = [
        ("Markdown", .markdown), ("Web page", .html), ("JSON", .json),
    ]

    /// The names of the window's actions behind the menu, and their code.
    var actions: [(name: String, body: @MainActor () -> Void)] {
        let forms = Self.forms.map { _, format in
            ("export-\(format.rawValue)", chosen { try await self.export($0, $1, format) })
        }
        return forms + [
            ("rename-thread", chosen { try await self.rename($0, $1) }),
            ("archive-thread", chosen { try await self.archive($0, $1, !$0.isArchived) }),
            ("delete-thread", chosen { try await self.delete($0, $1) }),
        ]
    }

    private typealias Change = @MainActor (KeptLines.Line, Keeping) async throws -> Void

    /// Returns code that changes the conversation of the menu.
    private func chosen(_ change: @escaping Change) -> @MainActor () -> Void {
        { [unowned self] in if let line { perform(change, on: line) } }
    }

    private func perform(_ change: @escaping Change, on line: KeptLines.Line) {
        guard let keeping = keeping() else { return }
        Task {
            do {
                try await change(line, keeping)
            } catch {
                reports.refuse(error)
            }
        }
    }

    // MARK: Changes

    private func rename(_ line: KeptLines.Line, _ keeping: Keeping) async throws {
        let title = await Dialogue.ask(
            "Rename the conversation", "Without a name, its first message names it.", button: "Rename",
            entry: line.name, over: window)
        guard let title else { return }
        try await keeping.use { try await $0.rename(line.id, to: title) }
        reports.changed()
    }

    private func archive(_ line: KeptLines.Line, _ keeping: Keeping, _ isArchived: Bool) async throws {
        try await keeping.use { store in
            if isArchived { try await store.archive(line.id) } else { try await store.unarchive(line.id) }
        }
        reports.changed()
        guard isArchived else { return reports.note("“\(line.name)” is in the list again.", nil) }
        reports.note("“\(line.name)” is archived.") { [unowned self] in
            perform({ try await self.archive($0, $1, false) }, on: line)
        }
    }

    private func delete(_ line: KeptLines.Line, _ keeping: Keeping) async throws {
        let answer = await Dialogue.ask(
            "Delete “\(line.name)”?", "The conversation is removed for good.", button: "Delete", isDestructive: true,
            over: window)
        guard answer != nil else { return }
        // A turn that is running would be kept again.
        await reports.leave(line.id)
        try await keeping.use { try await $0.delete(line.id) }
        reports.changed()
        reports.note("“\(line.name)” is deleted.", nil)
    }

    private func export(_ line: KeptLines.Line, _ keeping: Keeping, _ format: ChappieThreadFormat) async throws {
        let ending = format == .markdown ? "md" : format.rawValue
        // A name for a file has no slashes, and begins with no full stop.
        let name = line.name.prefix(60).map { "/\\:".contains($0) ? "-" : $0 }
        let title = "Export the conversation"
        let suggestion = "\(String(name).drop { $0 == "." }).\(ending)"
        guard let path = await Dialogue.chooseFiles(title, saving: suggestion, over: window).first else { return }
        let thread = try await keeping.use { try await $0.thread(line.id) }
        try await SavedFile.write(thread, as: format, to: path, outside: keeping)
        reports.note("“\(line.name)” is in \(path), not encrypted.", nil)
    }
}
