/// How the program exits; documented in its help and in the README.
enum ExitStatus: Int32 {
    case success = 0
    /// Wrong arguments, or a setting that can't be used.
    case usage = 64
    /// The server sent something that makes no sense.
    case badData = 65
    /// The network, the service, or the keyring service.
    case unavailable = 69
    /// Our fault.
    case internalError = 70
    /// The plan's usage limit.
    case usageLimit = 75
    /// Nobody is signed in, or the sign-in is no longer good.
    case signInNeeded = 77
    /// Ctrl-C.
    case interrupted = 130
}
