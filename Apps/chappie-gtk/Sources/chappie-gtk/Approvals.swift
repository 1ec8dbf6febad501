import CGtk4
import ChappieSDK
import ChappieSignInGTK
import FoundationEssentials

/// A queue of dialogues that ask the user whether a tool may run. One dialogue at a time is shown over the window.
///
/// The model and the tool wrote the arguments and the description. They are shown as data in a part that scrolls. The
/// question is the program's own text, directly above the buttons. At first no button has the focus, and Return presses
/// none, so the keys that the user was typing when the dialogue appeared do not answer it. Escape means no.
@MainActor
final class Approvals {
    private struct Question {
        let id: Int
        let request: ChappieApprovalRequest
        let answer: CheckedContinuation<ChappieApprovalDecision, Never>
    }

    private let parent: Widget
    private var waiting: [Question] = []
    private var dialogue: Widget?
    private var lastID = 0

    init(over parent: Widget) { self.parent = parent }

    /// Returns the user's decision, or a denial if the turn is stopped.
    func decide(_ request: ChappieApprovalRequest) async -> ChappieApprovalDecision {
        lastID += 1
        let id = lastID
        return await withTaskCancellationHandler {
            await withCheckedContinuation { answer in
                waiting.append(Question(id: id, request: request, answer: answer))
                if dialogue == nil { ask() }
            }
        } onCancel: {
            Task { @MainActor in self.answer(id, .denied(reason: "The user stopped the turn.")) }
        }
    }

    private func answer(_ id: Int, _ decision: ChappieApprovalDecision) {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return }
        let question = waiting.remove(at: index)
        if index == 0, let dialogue {
            self.dialogue = nil
            gtk_window_destroy(dialogue.cast())
        }
        question.answer.resume(returning: decision)
        if dialogue == nil { ask() }
    }

    private func ask() {
        guard let question = waiting.first else { return }
        let layout = ChappieGTKLayout(Self.layout)
        let (dialogue, details, all) = (layout["dialogue"], layout["details"], layout["all"])
        self.dialogue = dialogue
        let (id, request) = (question.id, question.request)
        let (short, whole) = (request.question(), request.question(isWhole: true))
        let buffer = gtk_text_view_get_buffer(details.cast())
        gtk_text_buffer_set_text(buffer, short, gint(short.utf8.count))
        all.setVisible(short != whole)
        gtk_label_set_text(layout["question"].cast(), request.call.question)
        gtk_window_set_transient_for(dialogue.cast(), parent.cast())

        ChappieGTKSignal.connect(all, "clicked") {
            gtk_text_buffer_set_text(buffer, whole, gint(whole.utf8.count))
            all.setVisible(false)
            gtk_widget_grab_focus(details)
        }
        let no = ChappieApprovalDecision.denied(reason: "The user said no.")
        for (name, decision) in [("no", no), ("once", .approved()), ("always", .approved(scope: .session))] {
            ChappieGTKSignal.connect(layout[name], "clicked") { [unowned self] in answer(id, decision) }
        }
        ChappieGTKSignal.answer(dialogue, "close-request") { [unowned self] in
            answer(id, no)
            return true
        }
        gtk_window_set_focus(dialogue.cast(), details)
        gtk_window_present(dialogue.cast())
    }

    private static var layout: String {
        """
        <interface>
          <object class="GtkWindow" id="dialogue">
            <property name="accessible-role">dialog</property><property name="title">May this tool run?</property>
            <property name="modal">1</property><property name="destroy-with-parent">1</property>
            <property name="default-width">460</property>
            <child><object class="GtkShortcutController"><child><object class="GtkShortcut">
              <property name="trigger">Escape</property><property name="action">action(window.close)</property>
            </object></child></object></child>
            <child><object class="GtkBox"><property name="orientation">vertical</property>
              <property name="spacing">12</property>
              <property name="margin-top">18</property><property name="margin-bottom">18</property>
              <property name="margin-start">18</property><property name="margin-end">18</property>
              <child><object class="GtkFrame"><child><object class="GtkScrolledWindow">
                <property name="min-content-height">96</property><property name="max-content-height">240</property>
                <property name="propagate-natural-height">1</property>
                <property name="hscrollbar-policy">never</property><property name="vexpand">1</property>
                <child><object class="GtkTextView" id="details"><property name="editable">0</property>
                  <property name="monospace">1</property><property name="wrap-mode">word-char</property>
                  <property name="accepts-tab">0</property>
                  <property name="top-margin">8</property><property name="bottom-margin">8</property>
                  <property name="left-margin">8</property><property name="right-margin">8</property>
                  <accessibility><property name="label">The call and its arguments</property></accessibility>
                </object></child></object></child></object></child>
              <child>\(button("all", "_Show all", extra: "<property name=\"halign\">start</property>"))</child>
              <child><object class="GtkLabel" id="question"><property name="wrap">1</property>
                <property name="xalign">0</property><style><class name="heading"/></style></object></child>
              <child><object class="GtkBox"><property name="spacing">8</property><property name="homogeneous">1</property>
                <child>\(button("no", "_Don't run"))</child>
                <child>\(button("once", "_Run once"))</child>
                <child>\(button("always", "_Always here"))</child>
              </object></child>
            </object></child>
          </object>
        </interface>
        """
    }

    /// Returns a button with a separate label, because a screen reader reads the name of a mnemonic button twice with
    /// GTK 4.8.
    private static func button(_ id: String, _ text: String, extra: String = "") -> String {
        """
        <object class="GtkButton" id="\(id)">\(extra)<child><object class="GtkLabel">
          <property name="label">\(text)</property><property name="use-underline">1</property>
          <property name="mnemonic-widget">\(id)</property></object></child></object>
        """
    }
}

extension ChappieToolCall {
    /// The question in the program's own text. The name is the tool's name in the program's manifest. A model cannot
    /// invent one here.
    fileprivate var question: String {
        let count = argumentsJSON?.object?.members.count
        let arguments =
            switch count {
            case nil: "arguments that are no object"
            case 0: "no arguments"
            case 1: "1 argument"
            case let count?: "\(count) arguments"
            }
        return "This is \(name) with \(arguments). May it run?"
    }
}
