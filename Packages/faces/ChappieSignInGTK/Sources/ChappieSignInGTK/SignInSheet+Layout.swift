/// The layout of the sheet: GtkBuilder's XML, and rules for its style classes. The theme supplies the colours.
extension SignInSheet {
    static var layout: String {
        """
        <interface>
          <object class="GtkWindow" id="sheet">
            <property name="accessible-role">dialog</property>
            <property name="modal">1</property>
            <property name="destroy-with-parent">1</property>
            <property name="default-width">420</property>
            <property name="titlebar"><object class="GtkHeaderBar">
              <property name="show-title-buttons">0</property>
              <child type="start">\(button("cancel", extra: "<property name=\"action-name\">window.close</property>"))</child>
            </object></property>
            <child><object class="GtkShortcutController"><property name="scope">managed</property>
              <child><object class="GtkShortcut">
                <property name="trigger">Escape</property><property name="action">action(window.close)</property>
              </object></child>
            </object></child>
            <child><object class="GtkScrolledWindow" id="scroller">
              <property name="hscrollbar-policy">never</property>
              <property name="propagate-natural-height">1</property>
              <child><object class="GtkBox" id="pages"><property name="orientation">vertical</property>
                <child>\(stepsPage)</child>
                <child>\(endingPage)</child>
                <child>\(offer)</child>
              </object></child>
            </object></child>
          </object>
        </interface>
        """
    }

    private static var stepsPage: String {
        """
        <object class="GtkBox" id="steps"><property name="orientation">vertical</property>
          <property name="hexpand">1</property>
          <style><class name="chappie-sheet"/></style>
          <child>\(step("open-page", 1, """
            <child>\(button("open", class: "suggested-action", extra: "<property name=\"halign\">start</property>"))</child>
            <child>\(label("address", class: "caption", extra: "<property name=\"selectable\">1</property>"))</child>
            """))</child>
          <child>\(step("continue", 2, ""))</child>
          <child>\(step("enter-code", 3, "<child>\(codeChip)</child>"))</child>
          <child>\(notice("permission"))</child>
          <child><object class="GtkBox"><property name="spacing">8</property><property name="halign">center</property>
            <child><object class="GtkSpinner" id="spinner"/></child>
            <child>\(label("countdown", class: "numeric", extra: silent + "<property name=\"justify\">center</property>"))</child>
          </object></child>
        </object>
        """
    }

    private static var endingPage: String {
        """
        <object class="GtkBox" id="ending"><property name="orientation">vertical</property>
          <property name="hexpand">1</property><property name="vexpand">1</property><property name="valign">center</property>
          <style><class name="chappie-sheet"/></style>
          <child><object class="GtkImage"><property name="icon-name">dialog-warning-symbolic</property>
            <property name="pixel-size">48</property>\(silent)
            <style><class name="dim-label"/></style></object></child>
          <child><object class="GtkBox"><property name="orientation">vertical</property><property name="spacing">6</property>
            <child>\(label("sentence", class: "title-4", extra: centred))</child>
            <child>\(label("advice", class: "body", extra: centred))</child>
          </object></child>
          <child>\(button("try-again", class: "suggested-action", extra: "<property name=\"halign\">center</property>"))</child>
        </object>
        """
    }

    /// The other way to sign in, below a page.
    private static var offer: String {
        """
        <object class="GtkBox" id="offer"><property name="orientation">vertical</property><property name="spacing">6</property>
          <style><class name="chappie-offer"/></style>
          <child>\(label("browser-hint", class: "caption"))</child>
          <child>\(button("use-browser", extra: "<property name=\"halign\">start</property>"))</child>
        </object>
        """
    }

    private static var codeChip: String {
        """
        <object class="GtkButton" id="copy"><style><class name="chappie-code"/></style>
          <child><object class="GtkBox"><property name="spacing">8</property>
            <child><object class="GtkLabel" id="code"><property name="hexpand">1</property><property name="xalign">0</property>
              <property name="wrap">1</property><property name="wrap-mode">char</property>
              <attributes><attribute name="insert-hyphens" value="0"/></attributes>
              <style><class name="chappie-letters"/></style></object></child>
            <child><object class="GtkImage"><property name="icon-name">edit-copy-symbolic</property>
              \(silent)</object></child>
            <child><object class="GtkLabel" id="copy-label"><property name="mnemonic-widget">copy</property></object></child>
          </object></child>
        </object>
        """
    }

    /// A property that hides a widget from screen readers.
    private static let silent = "<property name=\"accessible-role\">presentation</property>"

    private static let centred = """
        <property name="justify">center</property><property name="xalign">0.5</property>
        """

    /// Returns the layout of a step. It has a number, or a tick when the step is done, a title, a detail, controls, and
    /// a notice.
    private static func step(_ id: String, _ number: Int, _ controls: String) -> String {
        """
        <object class="GtkBox" id="\(id)"><property name="spacing">12</property>
          <child><object class="GtkBox"><property name="valign">start</property><property name="hexpand">0</property>
            <style><class name="chappie-number"/></style>
            <child><object class="GtkLabel" id="\(id)-number"><property name="label">\(number)</property>
              <property name="hexpand">1</property></object></child>
            <child><object class="GtkImage" id="\(id)-done"><property name="icon-name">object-select-symbolic</property>
              <property name="hexpand">1</property></object></child>
          </object></child>
          <child><object class="GtkBox"><property name="orientation">vertical</property><property name="spacing">6</property>
            <property name="hexpand">1</property>
            <child>\(label("\(id)-title", class: "heading"))</child>
            <child>\(label("\(id)-detail", class: "chappie-detail"))</child>
            \(controls)
            <child>\(notice(id))</child>
          </object></child>
        </object>
        """
    }

    private static func notice(_ id: String) -> String {
        """
        <object class="GtkBox" id="\(id)-notice"><property name="spacing">6</property>
          <child><object class="GtkImage" id="\(id)-icon"><property name="icon-name">dialog-warning-symbolic</property>
            <property name="valign">start</property>\(silent)</object></child>
          <child>\(label("\(id)-sentence", class: "caption", extra: "<property name=\"hexpand\">1</property>"))</child>
        </object>
        """
    }

    private static func label(_ id: String, class style: String, extra: String = "") -> String {
        """
        <object class="GtkLabel" id="\(id)"><property name="wrap">1</property><property name="wrap-mode">word-char</property>
          <property name="xalign">0</property>\(extra)<style><class name="\(style)"/></style></object>
        """
    }

    /// Returns the layout of a button with a separate label. With GTK 4.8, a screen reader reads the name of a button
    /// twice if the button creates its mnemonic label itself.
    private static func button(_ id: String, class style: String = "text-button", extra: String = "") -> String {
        """
        <object class="GtkButton" id="\(id)">\(extra)<style><class name="\(style)"/></style>
          <child><object class="GtkLabel" id="\(id)-label"><property name="mnemonic-widget">\(id)</property></object></child>
        </object>
        """
    }

    static let styles = """
        .chappie-sheet { padding: 24px; border-spacing: 24px; }
        .chappie-offer { padding: 0 24px 24px 24px; }
        .chappie-number { min-width: 28px; min-height: 28px; border-radius: 9999px; font-weight: bold;
            background-color: alpha(currentColor, 0.1); }
        .chappie-code { padding: 10px 14px; }
        .chappie-detail { opacity: 0.75; }
        .chappie-letters { font-family: monospace; font-size: 140%; font-weight: bold; letter-spacing: 2px; }
        """
}
