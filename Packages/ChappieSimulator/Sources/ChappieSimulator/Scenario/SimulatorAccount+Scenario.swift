extension SimulatorAccount {
    init(_ reader: ScenarioReader) throws(SimulatorError) {
        try reader.allow([
            "id", "userID", "email", "name", "plan", "primaryUsedPercent", "secondaryUsedPercent", "models",
        ])
        guard let id = try reader["id"]?.string(), !id.isEmpty else { throw reader.wrong("needs an id") }
        self.init(id: id)
        if let userID = try reader["userID"]?.string() { self.userID = userID }
        if let email = try reader["email"]?.string() { self.email = email }
        if let name = try reader["name"]?.string() { self.name = name }
        if let plan = try reader["plan"]?.string() { self.plan = plan }
        let primary = try reader["primaryUsedPercent"]?.number(in: 0...100)
        let secondary = try reader["secondaryUsedPercent"]?.number(in: 0...100)
        if primary != nil || secondary != nil {
            let usual = SimulatorUsage()
            usage = SimulatorUsage(
                primaryUsedPercent: primary ?? usual.primaryUsedPercent,
                secondaryUsedPercent: secondary ?? usual.secondaryUsedPercent)
        }
        models = try reader["models"]?.elements { (element) throws(SimulatorError) in try element.string() }
    }
}
