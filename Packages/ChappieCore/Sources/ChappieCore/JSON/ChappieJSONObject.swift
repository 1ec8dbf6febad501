/// The members of a JSON object, in the order they were written.
///
/// Look-up is linear: objects on this wire have few members. When a name occurs twice, the last one counts.
public struct ChappieJSONObject: Sendable, Hashable {
    /// One name and its value.
    public struct Member: Sendable, Hashable {
        public var name: String
        public var value: ChappieJSON

        public init(name: String, value: ChappieJSON) {
            self.name = name
            self.value = value
        }
    }

    public private(set) var members: [Member]

    public init(_ members: [(String, ChappieJSON)] = []) {
        self.members = members.map { Member(name: $0.0, value: $0.1) }
    }

    public init(members: [Member]) { self.members = members }

    public var isEmpty: Bool { members.isEmpty }
    public var names: [String] { members.map(\.name) }

    /// The value of `name`. Setting replaces in place or appends; setting `nil` removes every occurrence.
    public subscript(name: String) -> ChappieJSON? {
        get { members.last { $0.name == name }?.value }
        set {
            guard let newValue else { return members.removeAll { $0.name == name } }
            if let index = members.lastIndex(where: { $0.name == name }) {
                members[index].value = newValue
            } else {
                members.append(Member(name: name, value: newValue))
            }
        }
    }
}
