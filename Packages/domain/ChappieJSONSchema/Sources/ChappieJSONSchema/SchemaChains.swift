/// Schemas that are applied to the same value through each other.
extension [[SchemaRule]] {
    enum ChainFault {
        /// This schema is applied to the same value again and again.
        case circle(Int)
        /// A chain ends in this schema.
        case tooLong(Int)
    }

    /// Returns the error of schemas that are applied to the same value in a circle, or in a chain that is too long.
    func chainFault(longest: Int) -> ChainFault? {
        let next = map { $0.flatMap(\.inPlace) }
        var open = [Int](repeating: 0, count: count)
        for target in next.joined() { open[target] += 1 }
        var ready = open.indices.filter { open[$0] == 0 }
        var length = [Int](repeating: 0, count: count)
        var done = 0
        while let schema = ready.popLast() {
            done += 1
            for target in next[schema] {
                length[target] = Swift.max(length[target], length[schema] + 1)
                open[target] -= 1
                if open[target] == 0 { ready.append(target) }
            }
        }
        if done < count {
            // Each remaining schema is referred to by another remaining schema. Following these references back as
            // often as there are schemas leads into the circle.
            var before: [Int: Int] = [:]
            for schema in open.indices where open[schema] > 0 { for target in next[schema] { before[target] = schema } }
            var culprit = open.firstIndex { $0 > 0 } ?? 0
            for _ in self { culprit = before[culprit] ?? culprit }
            return .circle(culprit)
        }
        return length.firstIndex { $0 > longest }.map { .tooLong($0) }
    }

    /// Returns the schemas without the rules that would refuse a value because a schema is checked only in part.
    ///
    /// - Parameter partial: the schemas that are checked only in part.
    func relaxed(around partial: [Int]) -> [[SchemaRule]] {
        var users = [[Int]](repeating: [], count: count)
        for (user, rules) in enumerated() {
            for target in rules.flatMap({ $0.inPlace + $0.inside }) { users[target].append(user) }
        }
        var open = partial
        var all = Set(partial)
        while let schema = open.popLast() {
            for user in users[schema] where all.insert(user).inserted { open.append(user) }
        }
        return map { rules in
            rules.compactMap { rule in
                switch rule {
                case .not(let schema) where all.contains(schema): nil
                case .condition(let test, _, _) where all.contains(test): nil
                case .one(let schemas) where !all.isDisjoint(with: schemas): .any(schemas)
                case .contains(let schema, let minimum, _) where all.contains(schema):
                    .contains(schema, minimum: minimum, maximum: nil)
                default: rule
                }
            }
        }
    }
}
