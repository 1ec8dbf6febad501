import ChappieCore
import ChappieCurl

/// Everything curl is told about one exchange, checked and ready: the result of converting a request.
struct RequestPlan {
    let route: CurlRoute
    /// As ``CurlRoute/target(of:)`` has it.
    let url: String
    let method: String
    /// In curl's notation: `Name: value`, `Name;` for an empty value, `Name:` to suppress one that curl would add.
    let headerLines: [String]
    /// As it travels; `nil` for none at all, which is not the same as an empty one (`content-length: 0`).
    let body: [UInt8]?
    let deadlines: ChappieDeadlines
}
