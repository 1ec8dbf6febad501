public import ChappieCore

/// An answer of a service with one change that it may have in a year.
public struct GrownAnswer: Sendable, CustomStringConvertible {
    /// The kind of change.
    public enum Change: String, Sendable {
        /// An object has one more member, a member is null, has another name, or an array is empty.
        case memberAdded, memberNull, memberRenamed, arrayEmptied
    }

    /// The one change of this variant.
    public let change: Change
    /// The names on the path to the changed value. The last name is the value's own.
    public let path: [String]
    /// The answer with the change.
    public let json: ChappieJSON

    public var description: String { "\(change) at \(path.joined(separator: "."))" }

    /// Returns every variant of `json` with one change.
    public static func all(of json: ChappieJSON) -> [GrownAnswer] {
        switch json {
        case .object(let object):
            let added = object.members + [.init(name: "x_new", value: ["a": [1, nil]])]
            return [GrownAnswer(.memberAdded, [], .object(ChappieJSONObject(members: added)))]
                + object.members.indices.flatMap { index -> [GrownAnswer] in
                    let member = object.members[index]
                    func with(_ name: String, _ value: ChappieJSON) -> ChappieJSON {
                        var members = object.members
                        members[index] = .init(name: name, value: value)
                        return .object(ChappieJSONObject(members: members))
                    }
                    return [
                        GrownAnswer(.memberNull, [member.name], with(member.name, .null)),
                        GrownAnswer(.memberRenamed, [member.name], with("x_" + member.name, member.value)),
                    ]
                        + all(of: member.value).map {
                            GrownAnswer($0.change, [member.name] + $0.path, with(member.name, $0.json))
                        }
                }
        case .array(let elements):
            guard !elements.isEmpty else { return [] }
            return [GrownAnswer(.arrayEmptied, [], .array([]))]
                + elements.indices.flatMap { index in
                    all(of: elements[index]).map { grown in
                        var elements = elements
                        elements[index] = grown.json
                        return GrownAnswer(grown.change, ["\(index)"] + grown.path, .array(elements))
                    }
                }
        default: return []
        }
    }

    private init(_ change: Change, _ path: [String], _ json: ChappieJSON) {
        (self.change, self.path, self.json) = (change, path, json)
    }
}
