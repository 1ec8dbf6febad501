// Declarations only. Each signature is that of the page which its comment names, under
// developer.apple.com/documentation/swiftui. Overloads that neither the face nor the call forms use are left out.
import Combine
public import Foundation

// view
@MainActor @preconcurrency public protocol View {
    associatedtype Body: View
    @ViewBuilder @MainActor @preconcurrency var body: Self.Body { get }
}

// swift/never
extension Never: View {
    public var body: Never { fatalError() }
}

extension View where Body == Never {
    public var body: Never { fatalError() }
}

// viewbuilder
@resultBuilder public struct ViewBuilder {
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock() -> EmptyView { EmptyView() }
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<
        (repeat each Content)
    > {
        TupleView((repeat each content))
    }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildEither<True: View, False: View>(first: True) -> _ConditionalContent<True, False> {
        _ConditionalContent()
    }
    public static func buildEither<True: View, False: View>(second: False) -> _ConditionalContent<True, False> {
        _ConditionalContent()
    }
}

public nonisolated struct EmptyView: View {
    public init() {}
    public typealias Body = Never
}

public nonisolated struct TupleView<T>: View {
    public init(_ value: T) {}
    public typealias Body = Never
}

public nonisolated struct _ConditionalContent<TrueContent, FalseContent>: View {
    init() {}
    public typealias Body = Never
}

extension Optional: View where Wrapped: View {
    public typealias Body = Never
}

// modifiedcontent; what most modifiers return
public nonisolated struct ModifiedContent<Content, Modifier>: View {
    init() {}
    public typealias Body = Never
}

// accessibilityattachmentmodifier
public struct AccessibilityAttachmentModifier {}

// button: init(action:label:), init(_:action:), init(_:role:action:)
public nonisolated struct Button<Label: View>: View {
    @preconcurrency public init(action: @escaping @MainActor () -> Void, @ViewBuilder label: () -> Label) {}
    public typealias Body = Never
}

extension Button where Label == Text {
    @preconcurrency public nonisolated init(_ titleKey: LocalizedStringKey, action: @escaping @MainActor () -> Void) {}
    @preconcurrency @_disfavoredOverload public nonisolated init<S: StringProtocol>(
        _ title: S, action: @escaping @MainActor () -> Void
    ) {}
    @preconcurrency public nonisolated init(
        _ titleKey: LocalizedStringKey, role: ButtonRole?, action: @escaping @MainActor () -> Void
    ) {}
    @preconcurrency @_disfavoredOverload public nonisolated init<S: StringProtocol>(
        _ title: S, role: ButtonRole?, action: @escaping @MainActor () -> Void
    ) {}
}

// buttonrole
public struct ButtonRole: Equatable, Sendable {
    public static let cancel = ButtonRole()
    public static let destructive = ButtonRole()
}

// text: case, init(_:), init(_:tablename:bundle:comment:), bold(), font(_:), monospaceddigit(), speechspellsoutcharacters(_:)
public nonisolated struct Text: View, Equatable, Sendable {
    @_disfavoredOverload public init<S: StringProtocol>(_ content: S) {}
    public init(
        _ key: LocalizedStringKey, tableName: String? = nil, bundle: Bundle? = nil, comment: StaticString? = nil
    ) {}
    public enum Case: Sendable {}
    public func bold() -> Text { self }
    public func font(_ font: Font?) -> Text { self }
    public func monospacedDigit() -> Text { self }
    public func speechSpellsOutCharacters(_ value: Bool = true) -> Text { self }
    public typealias Body = Never
}

// localizedstringkey
public struct LocalizedStringKey: Equatable, ExpressibleByStringInterpolation, Sendable {
    public init(_ value: String) {}
    public init(stringLiteral value: String) {}
}

// label: init(_:systemimage:)
public nonisolated struct Label<Title: View, Icon: View>: View {
    public typealias Body = Never
}

extension Label where Title == Text, Icon == Image {
    public nonisolated init(_ titleKey: LocalizedStringKey, systemImage name: String) {}
    @_disfavoredOverload public nonisolated init<S: StringProtocol>(_ title: S, systemImage name: String) {}
}

// image: init(systemname:)
public nonisolated struct Image: View, Equatable, Sendable {
    public init(systemName: String) {}
    public typealias Body = Never
}

// progressview: init(), init(_:)
public nonisolated struct ProgressView<Label: View, CurrentValueLabel: View>: View {
    public typealias Body = Never
}

extension ProgressView where CurrentValueLabel == EmptyView {
    public nonisolated init() where Label == EmptyView {}
    public nonisolated init(_ titleKey: LocalizedStringKey) where Label == Text {}
    @_disfavoredOverload public nonisolated init<S: StringProtocol>(_ title: S) where Label == Text {}
}

// vstack, hstack, zstack: init(alignment:spacing:content:)
public nonisolated struct VStack<Content: View>: View {
    public init(alignment: HorizontalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content)
    {}
    public typealias Body = Never
}

public nonisolated struct HStack<Content: View>: View {
    public init(alignment: VerticalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content) {}
    public typealias Body = Never
}

public nonisolated struct ZStack<Content: View>: View {
    public init(alignment: Alignment = .center, @ViewBuilder content: () -> Content) {}
    public typealias Body = Never
}

// link: init(_:destination:)
public nonisolated struct Link<Label: View>: View {
    public typealias Body = Never
}

extension Link where Label == Text {
    public nonisolated init(_ titleKey: LocalizedStringKey, destination: URL) {}
    @_disfavoredOverload public nonisolated init<S: StringProtocol>(_ title: S, destination: URL) {}
}

// uiviewrepresentable: makeuiview(context:), updateuiview(_:context:), context; where there is UIKit. The type of the view is
// a UIView there.
@MainActor @preconcurrency public protocol UIViewRepresentable: View where Body == Never {
    associatedtype UIViewType
    @MainActor @preconcurrency func makeUIView(context: Context) -> UIViewType
    @MainActor @preconcurrency func updateUIView(_ uiView: UIViewType, context: Context)
    typealias Context = UIViewRepresentableContext<Self>
}

@MainActor @preconcurrency public struct UIViewRepresentableContext<Representable: UIViewRepresentable> {}

// lazyvstack: init(alignment:spacing:pinnedviews:content:)
public nonisolated struct LazyVStack<Content: View>: View {
    public init(alignment: HorizontalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content)
    {}
    public typealias Body = Never
}

// navigationstack: init(root:); navigationpath
public struct NavigationPath {}

public nonisolated struct NavigationStack<Data, Root: View>: View {
    public init(@ViewBuilder root: () -> Root) where Data == NavigationPath {}
    public typealias Body = Never
}

// menu: init(_:content:)
public nonisolated struct Menu<Label: View, Content: View>: View {
    public typealias Body = Never
}

extension Menu where Label == Text {
    public nonisolated init(_ titleKey: LocalizedStringKey, @ViewBuilder content: () -> Content) {}
    @_disfavoredOverload public nonisolated init<S: StringProtocol>(
        _ title: S, @ViewBuilder content: () -> Content
    ) {}
}

// textfield: init(_:text:axis:)
public nonisolated struct TextField<Label: View>: View {
    public typealias Body = Never
}

extension TextField where Label == Text {
    public nonisolated init(_ titleKey: LocalizedStringKey, text: Binding<String>, axis: Axis) {}
    @_disfavoredOverload public nonisolated init<S: StringProtocol>(_ title: S, text: Binding<String>, axis: Axis) {}
}

// scrollview: init(_:showsindicators:content:), init(_:content:)
public nonisolated struct ScrollView<Content: View>: View {
    public init(_ axes: Axis.Set = .vertical, @ViewBuilder content: () -> Content) {}
    public typealias Body = Never
}

// foreach: init(_:content:), init(_:id:content:)
public nonisolated struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content> {}

extension ForEach: View where Content: View {
    public typealias Body = Never

    public nonisolated init(_ data: Data, @ViewBuilder content: @escaping (Data.Element) -> Content)
    where ID == Data.Element.ID, Data.Element: Identifiable {}
    public nonisolated init(
        _ data: Data, id: KeyPath<Data.Element, ID>, @ViewBuilder content: @escaping (Data.Element) -> Content
    ) {}
}

// app: body, init(), main()
@MainActor @preconcurrency public protocol App {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Self.Body { get }
    @MainActor @preconcurrency init()
}

extension App {
    @MainActor @preconcurrency public static func main() { fatalError() }
}

// scene
@MainActor @preconcurrency public protocol Scene {
    associatedtype Body: Scene
    @SceneBuilder @MainActor @preconcurrency var body: Self.Body { get }
}

extension Never: Scene {}

extension Scene where Body == Never {
    public var body: Never { fatalError() }
}

// scenebuilder
@resultBuilder public struct SceneBuilder {
    public static func buildBlock<Content: Scene>(_ content: Content) -> Content { content }
}

// windowgroup: init(content:)
public nonisolated struct WindowGroup<Content: View>: Scene {
    public init(@ViewBuilder content: () -> Content) {}
    public typealias Body = Never
}
