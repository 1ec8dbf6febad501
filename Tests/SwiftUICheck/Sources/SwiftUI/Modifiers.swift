// Declarations only; see Views.swift.
public import Foundation

// openurlaction: callasfunction(_:completion:)
@MainActor @preconcurrency public struct OpenURLAction: Sendable {
    @MainActor @preconcurrency public func callAsFunction(_ url: URL, completion: @escaping (_ accepted: Bool) -> Void)
    {}
}

extension View {
    // view/id(_:)
    public nonisolated func id<ID: Hashable>(_ id: ID) -> some View { EmptyView() }
    // view/disabled(_:)
    public nonisolated func disabled(_ disabled: Bool) -> some View { EmptyView() }
    // view/environment(_:_:)
    public nonisolated func environment<V>(_ keyPath: WritableKeyPath<EnvironmentValues, V>, _ value: V) -> some View {
        EmptyView()
    }
    // view/onchange(of:initial:_:)
    public nonisolated func onChange<V: Equatable>(
        of value: V, initial: Bool = false, _ action: @escaping () -> Void
    ) -> some View { EmptyView() }
    // view/sheet(ispresented:ondismiss:content:)
    public nonisolated func sheet<Content: View>(
        isPresented: Binding<Bool>, onDismiss: (() -> Void)? = nil, @ViewBuilder content: @escaping () -> Content
    ) -> some View { EmptyView() }

    // view/background(alignment:content:)
    public nonisolated func background<V: View>(
        alignment: Alignment = .center, @ViewBuilder content: () -> V
    ) -> some View { EmptyView() }

    // view/defaultscrollanchor(_:), view/navigationtitle(_:), view/toolbar(content:)
    public nonisolated func defaultScrollAnchor(_ anchor: UnitPoint?) -> some View { EmptyView() }
    public nonisolated func navigationTitle(_ titleKey: LocalizedStringKey) -> some View { EmptyView() }
    public nonisolated func toolbar<Content: View>(@ViewBuilder content: () -> Content) -> some View { EmptyView() }

    // view/task(name:priority:file:line:_:) without its name, view/onsubmit(of:_:)
    public nonisolated func task(
        priority: TaskPriority = .userInitiated,
        @_inheritActorContext _ action: sending @escaping @isolated(any) () async -> Void
    ) -> some View { EmptyView() }
    public nonisolated func onSubmit(
        of triggers: SubmitTriggers = .text, _ action: @escaping (() -> Void)
    ) -> some View { EmptyView() }

    // view/padding(_:_:), view/padding(_:)
    public nonisolated func padding(_ edges: Edge.Set = .all, _ length: CGFloat? = nil) -> some View { EmptyView() }
    public nonisolated func padding(_ length: CGFloat) -> some View { EmptyView() }
    // view/frame(minwidth:idealwidth:maxwidth:minheight:idealheight:maxheight:alignment:)
    public nonisolated func frame(
        minWidth: CGFloat? = nil, idealWidth: CGFloat? = nil, maxWidth: CGFloat? = nil, minHeight: CGFloat? = nil,
        idealHeight: CGFloat? = nil, maxHeight: CGFloat? = nil, alignment: Alignment = .center
    ) -> some View { EmptyView() }

    // view/font(_:), view/fontweight(_:), view/bold(_:), view/monospaced(_:), view/monospaceddigit(), view/foregroundstyle(_:)
    public nonisolated func font(_ font: Font?) -> some View { EmptyView() }
    public nonisolated func fontWeight(_ weight: Font.Weight?) -> some View { EmptyView() }
    public nonisolated func bold(_ isActive: Bool = true) -> some View { EmptyView() }
    public nonisolated func monospaced(_ isActive: Bool = true) -> some View { EmptyView() }
    public nonisolated func monospacedDigit() -> some View { EmptyView() }
    public nonisolated func foregroundStyle<S: ShapeStyle>(_ style: S) -> some View { EmptyView() }
    // view/multilinetextalignment(_:), view/textselection(_:), view/linelimit(_:), view/minimumscalefactor(_:),
    // view/textcase(_:)
    public nonisolated func textCase(_ textCase: Text.Case?) -> some View { EmptyView() }
    public nonisolated func lineLimit(_ number: Int?) -> some View { EmptyView() }
    public nonisolated func minimumScaleFactor(_ factor: CGFloat) -> some View { EmptyView() }
    public nonisolated func multilineTextAlignment(_ alignment: TextAlignment) -> some View { EmptyView() }
    public nonisolated func textSelection<S: TextSelectability>(_ selectability: S) -> some View { EmptyView() }

    // view/buttonstyle(_:), view/buttonbordershape(_:), view/labelstyle(_:), view/keyboardshortcut(_:)
    public nonisolated func buttonStyle<S: PrimitiveButtonStyle>(_ style: S) -> some View { EmptyView() }
    public nonisolated func buttonBorderShape(_ shape: ButtonBorderShape) -> some View { EmptyView() }
    public nonisolated func labelStyle<S: LabelStyle>(_ style: S) -> some View { EmptyView() }
    public nonisolated func keyboardShortcut(_ shortcut: KeyboardShortcut) -> some View { EmptyView() }

    // view/accessibilitylabel(_:), view/accessibilityvalue(_:), view/accessibilityhint(_:), view/accessibilityhidden(_:),
    // view/accessibilityaddtraits(_:), view/accessibilityelement(children:)
    public nonisolated func accessibilityLabel(
        _ label: Text
    ) -> ModifiedContent<Self, AccessibilityAttachmentModifier> { ModifiedContent() }
    public nonisolated func accessibilityValue(
        _ valueDescription: Text
    ) -> ModifiedContent<Self, AccessibilityAttachmentModifier> { ModifiedContent() }
    public nonisolated func accessibilityHint(
        _ hint: Text
    ) -> ModifiedContent<Self, AccessibilityAttachmentModifier> { ModifiedContent() }
    public nonisolated func accessibilityHidden(
        _ hidden: Bool
    ) -> ModifiedContent<Self, AccessibilityAttachmentModifier> { ModifiedContent() }
    public nonisolated func accessibilityAddTraits(
        _ traits: AccessibilityTraits
    ) -> ModifiedContent<Self, AccessibilityAttachmentModifier> { ModifiedContent() }
    public nonisolated func accessibilityElement(children: AccessibilityChildBehavior = .ignore) -> some View {
        EmptyView()
    }
}
