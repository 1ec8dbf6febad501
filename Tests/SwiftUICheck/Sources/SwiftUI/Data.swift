// Declarations only; see Views.swift.
public import Combine
public import Observation

// dynamicproperty
public protocol DynamicProperty {
    mutating func update()
}

extension DynamicProperty {
    public mutating func update() {}
}

// state: init(wrappedvalue:), wrappedvalue, projectedvalue. From Xcode 27 on an attached macro: there is no `init(initialValue:)`
// here, since what calls it there does not compile.
@frozen @propertyWrapper public struct State<Value>: DynamicProperty {
    public init(wrappedValue value: Value) {}
    public var wrappedValue: Value {
        get { fatalError() }
        nonmutating set {}
    }
    public var projectedValue: Binding<Value> { fatalError() }
}

extension State: Sendable where Value: Sendable {}

// stateobject: init(wrappedvalue:), wrappedvalue, projectedvalue
@MainActor @frozen @propertyWrapper @preconcurrency
public struct StateObject<ObjectType: ObservableObject>:
    DynamicProperty
{
    public nonisolated init(wrappedValue thunk: @autoclosure @escaping () -> ObjectType) {}
    @MainActor @preconcurrency public var wrappedValue: ObjectType { fatalError() }
    @MainActor @preconcurrency public var projectedValue: ObservedObject<ObjectType>.Wrapper { fatalError() }
    public nonisolated func update() {}
}

// observedobject: init(wrappedvalue:), wrappedvalue, wrapper
@MainActor @propertyWrapper @preconcurrency public struct ObservedObject<ObjectType: ObservableObject>: DynamicProperty
{
    @MainActor @dynamicMemberLookup @preconcurrency public struct Wrapper {
        public subscript<Subject>(dynamicMember keyPath: ReferenceWritableKeyPath<ObjectType, Subject>) -> Binding<
            Subject
        > {
            fatalError()
        }
    }

    @MainActor @preconcurrency public init(wrappedValue: ObjectType) { self.wrappedValue = wrappedValue }
    @MainActor @preconcurrency public var wrappedValue: ObjectType
    @MainActor @preconcurrency public var projectedValue: Wrapper { fatalError() }
    public nonisolated func update() {}
}

// binding: init(get:set:)
@propertyWrapper public struct Binding<Value> {
    @preconcurrency public init(
        @_inheritActorContext get: @escaping @isolated(any) @Sendable () -> Value,
        @_inheritActorContext set: @escaping @isolated(any) @Sendable (Value) -> Void
    ) {}
    public var wrappedValue: Value {
        get { fatalError() }
        nonmutating set {}
    }
    public var projectedValue: Binding<Value> { self }
}

// bindable: init(wrappedvalue:), wrappedvalue, projectedvalue, subscript(dynamicmember:). Apple's has these conditions in
// extensions.
@dynamicMemberLookup @propertyWrapper public struct Bindable<Value: AnyObject & Observable> {
    public init(wrappedValue: Value) {}
    public var wrappedValue: Value {
        get { fatalError() }
        set {}
    }
    public var projectedValue: Bindable<Value> { self }
    public subscript<Subject>(dynamicMember keyPath: ReferenceWritableKeyPath<Value, Subject>) -> Binding<Subject> {
        fatalError()
    }
}

// environment: init(_:), wrappedvalue
@frozen @propertyWrapper public struct Environment<Value>: DynamicProperty {
    public init(_ keyPath: KeyPath<EnvironmentValues, Value>) {}
    public var wrappedValue: Value { fatalError() }
}

extension Environment: Sendable where Value: Sendable {}

// environmentvalues: openurl, isenabled
public struct EnvironmentValues {
    public var openURL: OpenURLAction
    public var isEnabled: Bool
}
