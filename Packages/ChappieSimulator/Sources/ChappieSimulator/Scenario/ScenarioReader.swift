import ChappieCore

/// Reads a JSON value and remembers where it stands, so that errors can name the key path.
struct ScenarioReader {
    let value: ChappieJSON
    let path: String

    init(_ value: ChappieJSON, path: String = "") {
        self.value = value
        self.path = path
    }

    /// The member called `name`; `nil` when it is missing.
    subscript(name: String) -> ScenarioReader? {
        value[name].map { ScenarioReader($0, path: path.isEmpty ? name : "\(path).\(name)") }
    }

    /// Demands an object with members of these names only.
    func allow(_ names: Set<String>) throws(SimulatorError) {
        guard let object = value.object else { throw wrong("must be an object") }
        guard let unknown = object.names.first(where: { !names.contains($0) }) else { return }
        let place = path.isEmpty ? unknown : "\(path).\(unknown)"
        throw SimulatorError(
            .invalidScenario,
            reason: "\(place) is not a member a scenario can have here; there are: "
                + names.sorted().joined(separator: ", "))
    }

    func string() throws(SimulatorError) -> String {
        guard let string = value.string else { throw wrong("must be a string") }
        return string
    }

    func bool() throws(SimulatorError) -> Bool {
        guard let bool = value.bool else { throw wrong("must be true or false") }
        return bool
    }

    func integer(in bounds: ClosedRange<Int>) throws(SimulatorError) -> Int {
        guard let integer = value.int, bounds.contains(integer) else {
            throw wrong("must be an integer from \(bounds.lowerBound) to \(bounds.upperBound)")
        }
        return integer
    }

    func number(in bounds: ClosedRange<Double>) throws(SimulatorError) -> Double {
        guard let number = value.double, bounds.contains(number) else {
            throw wrong("must be a number from \(bounds.lowerBound) to \(bounds.upperBound)")
        }
        return number
    }

    /// Seconds, with fractions; at most a day.
    func duration() throws(SimulatorError) -> Duration { .seconds(try number(in: 0...86_400)) }

    func choice<Value: RawRepresentable<String> & CaseIterable>(_ type: Value.Type) throws(SimulatorError) -> Value {
        guard let choice = value.string.flatMap(Value.init(rawValue:)) else {
            throw wrong("must be one of " + type.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", "))
        }
        return choice
    }

    func elements<Value>(_ read: (ScenarioReader) throws(SimulatorError) -> Value) throws(SimulatorError) -> [Value] {
        guard let array = value.array else { throw wrong("must be a list") }
        var values: [Value] = []
        for (index, element) in array.enumerated() {
            values.append(try read(ScenarioReader(element, path: "\(path)[\(index)]")))
        }
        return values
    }

    func wrong(_ complaint: String) -> SimulatorError {
        SimulatorError(.invalidScenario, reason: "\(path.isEmpty ? "The scenario" : path) \(complaint)")
    }
}
