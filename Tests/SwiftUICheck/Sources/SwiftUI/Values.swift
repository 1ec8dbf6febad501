// Declarations only; see Views.swift.

// font, font/weight
@frozen public struct Font: Hashable, Sendable {
    @frozen public struct Weight: Hashable, Sendable {}

    public static let title2 = Font()
    public static let title3 = Font()
    public static let headline = Font()
    public static let body = Font()
    public static let footnote = Font()
}

// shapestyle, tintshapestyle, color/primary, color/secondary
public protocol ShapeStyle: Sendable {}

public struct TintShapeStyle: ShapeStyle {}

@frozen public struct Color: Hashable, ShapeStyle {
    public static let primary = Color()
    public static let secondary = Color()
}

extension ShapeStyle where Self == TintShapeStyle {
    public static var tint: TintShapeStyle { TintShapeStyle() }
}

// horizontalalignment, verticalalignment, alignment, textalignment, edge/set, axis/set
public struct HorizontalAlignment: Equatable, Sendable {
    public static let leading = HorizontalAlignment()
    public static let center = HorizontalAlignment()
}

public struct VerticalAlignment: Equatable, Sendable {
    public static let center = VerticalAlignment()
    public static let firstTextBaseline = VerticalAlignment()
}

public struct Alignment: Equatable, Sendable {
    public static let center = Alignment()
    public static let leading = Alignment()
}

public enum TextAlignment: Hashable, Sendable {
    case leading
}

// unitpoint, submittriggers
public struct UnitPoint: Hashable, Sendable {
    public static let bottom = UnitPoint()
}

public struct SubmitTriggers: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let text = SubmitTriggers(rawValue: 1)
}

public enum Edge: Sendable {
    public struct Set: OptionSet, Sendable {
        public let rawValue: Int8
        public init(rawValue: Int8) { self.rawValue = rawValue }
        public static let all = Set(rawValue: 15)
    }
}

public enum Axis: Sendable {
    case horizontal
    case vertical

    public struct Set: OptionSet, Sendable {
        public let rawValue: Int8
        public init(rawValue: Int8) { self.rawValue = rawValue }
        public static let vertical = Set(rawValue: 2)
    }
}

// primitivebuttonstyle, borderedbuttonstyle, borderedprominentbuttonstyle, buttonbordershape
@MainActor @preconcurrency public protocol PrimitiveButtonStyle {}

public nonisolated struct BorderedButtonStyle: PrimitiveButtonStyle {
    public init() {}
}

public nonisolated struct BorderedProminentButtonStyle: PrimitiveButtonStyle {
    public init() {}
}

extension PrimitiveButtonStyle where Self == BorderedButtonStyle {
    public static var bordered: BorderedButtonStyle { BorderedButtonStyle() }
}

extension PrimitiveButtonStyle where Self == BorderedProminentButtonStyle {
    public static var borderedProminent: BorderedProminentButtonStyle { BorderedProminentButtonStyle() }
}

public struct ButtonBorderShape: Equatable, Sendable {
    public static let capsule = ButtonBorderShape()
}

// labelstyle, titleandiconlabelstyle
@MainActor @preconcurrency public protocol LabelStyle {}

public nonisolated struct TitleAndIconLabelStyle: LabelStyle {
    public init() {}
}

extension LabelStyle where Self == TitleAndIconLabelStyle {
    public static var titleAndIcon: TitleAndIconLabelStyle { TitleAndIconLabelStyle() }
}

// textselectability
public protocol TextSelectability {}

public struct EnabledTextSelectability: TextSelectability {}

extension TextSelectability where Self == EnabledTextSelectability {
    public static var enabled: EnabledTextSelectability { EnabledTextSelectability() }
}

// keyboardshortcut
public struct KeyboardShortcut: Sendable {
    public static let defaultAction = KeyboardShortcut()
    public static let cancelAction = KeyboardShortcut()
}

// accessibilitytraits, accessibilitychildbehavior
public struct AccessibilityTraits: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let isHeader = AccessibilityTraits(rawValue: 1)
    public static let updatesFrequently = AccessibilityTraits(rawValue: 2)
}

public struct AccessibilityChildBehavior: Hashable, Sendable {
    public static let ignore = AccessibilityChildBehavior()
    public static let combine = AccessibilityChildBehavior()
}
