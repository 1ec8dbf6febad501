import FoundationEssentials

/// The threads of this process, as proc(5) shows them. One that ends while they are read is left out.
public enum ProcessThreads {
    /// Their names; the system cuts them off after 15 bytes.
    public static func names() throws -> [String] { try read("comm").map { $0.replacing("\n", with: "") } }

    /// How often the threads of this name have gone to sleep or been put aside; `nil` when there are none.
    public static func contextSwitches(ofThreadsNamed name: String) throws -> Int? {
        let threads = try read("status").filter { $0.hasPrefix("Name:\t\(name)\n") }
        guard !threads.isEmpty else { return nil }
        return threads.flatMap { $0.split(separator: "\n") }.filter { $0.contains("ctxt_switches") }
            .compactMap { $0.split(separator: "\t").last.flatMap { Int($0) } }.reduce(0, +)
    }

    private static func read(_ file: String) throws -> [String] {
        let threads = "/proc/self/task"
        return try FileManager.default.contentsOfDirectory(atPath: threads).compactMap {
            try? ProcFile.read("\(threads)/\($0)/\(file)")
        }
    }
}
