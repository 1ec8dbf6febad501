/// The message for a call that failed because too many files are open (EMFILE or ENFILE).
///
/// Its initialiser takes the limit, because only adapters can ask the system.
@_spi(ChappieInternals) public struct OpenFileLimit: Sendable {
    /// The reason as one plain clause, without a full stop.
    public let reason: String
    /// The user's next step, as a sentence.
    public let advice: String

    /// - Parameter limit: The limit of this process, or `nil` if the limit of the machine was reached.
    public init(of limit: Int?) {
        if let limit {
            reason = "this program may not open more files (its limit is \(limit))"
            advice = "Raise LimitNOFILE in the systemd unit, or `ulimit -n` in the shell, and start the program again."
        } else {
            reason = "this machine has too many open files"
            advice = "Raise fs.file-max with sysctl, or end other programs."
        }
    }
}

extension ChappieTransportError {
    /// Returns the error for a connection that needs one more descriptor than the system allows.
    @_spi(ChappieInternals) public static func tooManyFiles(_ limit: OpenFileLimit, host: String = "") -> Self {
        ChappieTransportError(
            .unavailable, stage: .connect, host: host, reason: limit.reason, advice: limit.advice)
    }
}
