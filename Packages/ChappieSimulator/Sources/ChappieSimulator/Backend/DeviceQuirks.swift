/// How the device endpoints may differ from what they usually send.
struct DeviceQuirks: Sendable, Hashable {
    enum Interval: String, Sendable, Hashable, CaseIterable { case string, number, absent, null }

    /// How the poll interval is written; clients of the real service want a string.
    var interval = Interval.string
    /// The member that holds the code: `user_code`, or the alias `usercode`.
    var userCodeKey = "user_code"
    /// 403 or 404; clients take both for "not yet".
    var pendingStatus = 403
}
