/// The layout of the window in GtkBuilder's XML, with three pages under one header bar, and the rules for its style
/// classes. The theme specifies the colours.
extension ChatWindow {
    static let layout = """
        <interface>
          <menu id="menu">
            <section>
              <item><attribute name="label">_New conversation</attribute><attribute name="action">win.new</attribute></item>
              <item><attribute name="label">_Sign out</attribute><attribute name="action">win.sign-out</attribute></item>
            </section>
            <section>
              <item><attribute name="label">_Quit</attribute><attribute name="action">win.quit</attribute></item>
            </section>
          </menu>
          <object class="GtkApplicationWindow" id="window">
            <property name="title">Chappie</property>
            <property name="default-width">680</property>
            <property name="default-height">640</property>
            <property name="titlebar"><object class="GtkHeaderBar">
              <property name="title-widget"><object class="GtkBox"><property name="orientation">vertical</property>
                <property name="valign">center</property>
                <child><object class="GtkLabel"><property name="label">Chappie</property>
                  <style><class name="title"/></style></object></child>
                <child><object class="GtkLabel" id="account"><property name="ellipsize">end</property>
                  <property name="visible">0</property><style><class name="subtitle"/></style></object></child>
              </object></property>
              <child type="start"><object class="GtkButton" id="threads-button">
                <property name="icon-name">view-list-symbolic</property><property name="action-name">win.threads</property>
                <property name="tooltip-text">Conversations</property>
                <accessibility><property name="label">Conversations</property></accessibility>
              </object></child>
              <child type="end"><object class="GtkMenuButton" id="menu-button">
                <property name="icon-name">open-menu-symbolic</property><property name="menu-model">menu</property>
                <property name="primary">1</property>
                <accessibility><property name="label">Account</property></accessibility>
              </object></child>
            </object></property>
            <child><object class="GtkBox"><property name="orientation">vertical</property>
              <child><object class="GtkSpinner" id="loading"><property name="spinning">1</property>
                <property name="halign">center</property><property name="valign">center</property>
                <property name="vexpand">1</property></object></child>
              <child>
                <object class="GtkBox" id="welcome"><property name="orientation">vertical</property>
                  <property name="spacing">12</property><property name="valign">center</property>
                  <property name="halign">center</property><property name="vexpand">1</property>
                  <property name="visible">0</property>
                  <property name="margin-start">24</property><property name="margin-end">24</property>
                  <child><object class="GtkLabel"><property name="label">Talk to ChatGPT</property>
                    <property name="wrap">1</property><property name="justify">center</property>
                    <style><class name="title-1"/></style></object></child>
                  <child><object class="GtkLabel" id="reason"><property name="wrap">1</property>
                    <property name="justify">center</property><property name="max-width-chars">42</property>
                    <property name="margin-bottom">12</property><style><class name="body"/></style></object></child>
                  <child><object class="GtkButton" id="retry"><property name="action-name">win.retry</property>
                    <property name="halign">center</property><property name="visible">0</property>
                    <child><object class="GtkLabel"><property name="label">_Try again</property>
                      <property name="use-underline">1</property>
                      <property name="mnemonic-widget">retry</property></object></child></object></child>
                </object>
              </child>
              <child>
                <object class="GtkScrolledWindow" id="chat"><property name="visible">0</property>
                  <property name="hscrollbar-policy">external</property><property name="vscrollbar-policy">never</property>
                  <child><object class="GtkBox" id="parts">
                  <child><object class="GtkBox" id="side"><property name="orientation">vertical</property>
                    <property name="visible">0</property>
                    <style><class name="chappie-side"/></style>
                    <child><object class="GtkBox"><property name="spacing">6</property>
                      <child><object class="GtkSearchEntry" id="search"><property name="hexpand">1</property>
                        <property name="placeholder-text">Search</property>
                        <accessibility><property name="label">Search the conversations</property></accessibility>
                      </object></child>
                      <child><object class="GtkButton"><property name="icon-name">list-add-symbolic</property>
                        <property name="action-name">win.new</property>
                        <property name="tooltip-text">New conversation</property>
                        <accessibility><property name="label">New conversation</property></accessibility>
                      </object></child></object></child>
                    <child><object class="GtkScrolledWindow"><property name="vexpand">1</property>
                      <property name="hscrollbar-policy">never</property>
                      <child><object class="GtkListBox" id="threads">
                        <accessibility><property name="label">Kept conversations</property></accessibility>
                        <style><class name="navigation-sidebar"/></style></object></child></object></child>
                    <child><object class="GtkBox" id="threads-notice"><property name="visible">0</property>
                      <property name="spacing">6</property>
                      <child><object class="GtkLabel" id="threads-notice-text"><property name="wrap">1</property>
                        <property name="wrap-mode">word-char</property><property name="hexpand">1</property>
                        <property name="accessible-role">alert</property>
                        <property name="xalign">0</property><style><class name="caption"/></style></object></child>
                      <child><object class="GtkButton" id="threads-undo"><property name="label">Undo</property>
                        <property name="valign">center</property></object></child></object></child>
                    <child><object class="GtkCheckButton" id="show-archived">
                      <property name="label">Show archived</property></object></child>
                    <child><object class="GtkLabel" id="threads-status"><property name="wrap">1</property>
                      <property name="wrap-mode">word-char</property>
                      <property name="xalign">0</property><style><class name="caption"/></style></object></child>
                  </object></child>
                  <child><object class="GtkBox" id="conversation"><property name="orientation">vertical</property>
                  <property name="hexpand">1</property>
                  <child><object class="GtkScrolledWindow" id="scroller"><property name="vexpand">1</property>
                    <property name="hscrollbar-policy">external</property>
                    <child><object class="GtkTextView" id="transcript">
                      <property name="editable">0</property>
                      <property name="wrap-mode">word-char</property>
                      <property name="accepts-tab">0</property>
                      <property name="top-margin">12</property><property name="bottom-margin">24</property>
                      <accessibility><property name="label">Conversation</property></accessibility></object></child>
                  </object></child>
                  <child><object class="GtkInfoBar" id="problem"><property name="message-type">error</property>
                    <property name="accessible-role">alert</property><property name="visible">0</property>
                    <accessibility><relation name="labelled-by">problem-sentence</relation></accessibility>
                    <child><object class="GtkLabel" id="problem-sentence"><property name="wrap">1</property>
                      <property name="xalign">0</property><property name="hexpand">1</property>
                      <property name="margin-start">16</property></object></child>
                    <child><object class="GtkButton" id="dismiss"><property name="action-name">win.dismiss</property>
                      <property name="valign">center</property><property name="margin-end">8</property>
                      <child><object class="GtkLabel"><property name="label">_Dismiss</property>
                        <property name="use-underline">1</property>
                        <property name="mnemonic-widget">dismiss</property></object></child></object></child>
                  </object></child>
                  <child><object class="GtkSeparator"/></child>
                  <child><object class="GtkBox" id="bar"><property name="orientation">vertical</property>
                  <property name="spacing">8</property>
                  <property name="margin-top">12</property><property name="margin-bottom">12</property>
                  <child><object class="GtkBox" id="running"><property name="visible">0</property>
                    <property name="spacing">8</property>
                    <child><object class="GtkSpinner" id="spinner"/></child>
                    <child><object class="GtkLabel"><property name="label">ChatGPT is answering…</property>
                      <style><class name="chappie-detail"/></style></object></child></object></child>
                  <child><object class="GtkScrolledWindow"><property name="vscrollbar-policy">never</property>
                    <property name="propagate-natural-height">1</property>
                    <child><object class="GtkBox" id="attachments"><property name="visible">0</property>
                      <property name="spacing">6</property></object></child></object></child>
                  <child><object class="GtkBox"><property name="spacing">8</property>
                    <child><object class="GtkOverlay"><property name="hexpand">1</property>
                      <child><object class="GtkFrame"><style><class name="view"/><class name="chappie-entry"/></style>
                      <child><object class="GtkScrolledWindow"><property name="hscrollbar-policy">never</property>
                        <property name="vscrollbar-policy">external</property>
                        <property name="propagate-natural-height">1</property>
                        <property name="max-content-height">160</property>
                        <child><object class="GtkTextView" id="entry"><property name="accepts-tab">0</property>
                          <property name="wrap-mode">word-char</property>
                          <property name="top-margin">7</property><property name="bottom-margin">7</property>
                          <property name="left-margin">9</property><property name="right-margin">9</property>
                          <accessibility><property name="label">Message</property></accessibility></object></child>
                        </object></child></object></child>
                      <child type="overlay"><object class="GtkLabel" id="hint">
                        <property name="label">Ask something</property><property name="can-target">0</property>
                        <property name="halign">start</property><property name="valign">start</property>
                        <property name="margin-start">11</property><property name="margin-top">8</property>
                        <style><class name="chappie-detail"/></style></object></child>
                    </object></child>
                    <child><object class="GtkButton" id="send"><property name="action-name">win.send</property>
                      <property name="valign">end</property>
                      <style><class name="suggested-action"/></style>
                      <child><object class="GtkLabel"><property name="label">S_end</property>
                        <property name="use-underline">1</property>
                        <property name="mnemonic-widget">send</property></object></child></object></child>
                    <child><object class="GtkButton" id="stop"><property name="action-name">win.stop</property>
                      <property name="valign">end</property>
                      <property name="visible">0</property>
                      <child><object class="GtkLabel"><property name="label">S_top</property>
                        <property name="use-underline">1</property>
                        <property name="mnemonic-widget">stop</property></object></child></object></child>
                  </object></child>
                  <child><object class="GtkBox"><property name="spacing">4</property>
                    <child><object class="GtkButton"><property name="icon-name">mail-attachment-symbolic</property>
                      <property name="action-name">win.attach</property>
                      <property name="tooltip-text">Attach files</property><style><class name="flat"/></style>
                      <accessibility><property name="label">Attach files</property></accessibility></object></child>
                    <child><object class="GtkToggleButton" id="search-web">
                      <property name="icon-name">web-browser-symbolic</property>
                      <property name="tooltip-text">Search the web</property><style><class name="flat"/></style>
                      <accessibility><property name="label">Search the web</property></accessibility></object></child>
                    <child><object class="GtkToggleButton" id="draw">
                      <property name="icon-name">image-x-generic-symbolic</property>
                      <property name="tooltip-text">Draw pictures</property><style><class name="flat"/></style>
                      <accessibility><property name="label">Draw pictures</property></accessibility></object></child>
                  </object></child>
                  </object></child>
                  </object></child>
                  </object></child>
                </object>
              </child>
            </object></child>
          </object>
        </interface>
        """

    static let styles = """
        .chappie-side { padding: 8px; border-spacing: 8px; border-right: 1px solid alpha(currentColor, 0.15); }
        .chappie-side.chappie-above { border-right: none; border-bottom: 1px solid alpha(currentColor, 0.15); }
        .chappie-thread { padding: 4px 2px; }
        .chappie-detail { opacity: 0.7; }
        .chappie-entry { border-radius: 6px; }
        .chappie-chip { border-radius: 6px; padding: 2px 4px 2px 10px; background-color: alpha(currentColor, 0.1); }
        .chappie-table { padding: 4px 2px; }
        .chappie-code { background-color: alpha(currentColor, 0.05); border-radius: 6px; }
        .chappie-quote { background-color: alpha(currentColor, 0.2); border-radius: 2px; }
        button.chappie-copy { padding: 0 8px; min-height: 22px; font-size: 85%; }
        """
}
