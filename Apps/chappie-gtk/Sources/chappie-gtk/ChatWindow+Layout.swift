/// The layout of the window in GtkBuilder's XML: three pages under one header bar.
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
          <object class="GtkTextTagTable" id="tags">
            <child type="tag"><object class="GtkTextTag"><property name="name">speaker</property>
              <property name="weight">700</property><property name="pixels-above-lines">18</property>
              <property name="pixels-below-lines">4</property></object></child>
          </object>
          <object class="GtkTextBuffer" id="text"><property name="tag-table">tags</property></object>
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
                <object class="GtkBox" id="chat"><property name="orientation">vertical</property>
                  <property name="visible">0</property>
                  <child><object class="GtkScrolledWindow" id="scroller"><property name="vexpand">1</property>
                    <property name="hscrollbar-policy">never</property>
                    <child><object class="GtkTextView" id="transcript"><property name="buffer">text</property>
                      <property name="editable">0</property>
                      <property name="cursor-visible">0</property><property name="wrap-mode">word-char</property>
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
                  <child><object class="GtkBox" id="bar"><property name="spacing">8</property>
                    <property name="margin-top">12</property><property name="margin-bottom">12</property>
                    <child><object class="GtkEntry" id="entry"><property name="hexpand">1</property>
                      <property name="placeholder-text">Ask something</property>
                      <accessibility><property name="label">Message</property></accessibility></object></child>
                    <child><object class="GtkButton" id="send"><property name="action-name">win.send</property>
                      <style><class name="suggested-action"/></style>
                      <child><object class="GtkLabel"><property name="label">S_end</property>
                        <property name="use-underline">1</property>
                        <property name="mnemonic-widget">send</property></object></child></object></child>
                    <child><object class="GtkButton" id="stop"><property name="action-name">win.stop</property>
                      <property name="visible">0</property>
                      <child><object class="GtkLabel"><property name="label">S_top</property>
                        <property name="use-underline">1</property>
                        <property name="mnemonic-widget">stop</property></object></child></object></child>
                  </object></child>
                </object>
              </child>
            </object></child>
          </object>
        </interface>
        """
}
