public import CCurl

/// What a ``CurlEventLoop`` drives: one easy handle and whoever cares about it.
///
/// The loop calls all of these on its own thread, never two at once. A transfer is one kind of member; a connection that
/// curl only opens (CURLOPT_CONNECT_ONLY) can be another, and stay after `finished` by answering `true`.
public protocol CurlLoopMember: AnyObject, Sendable {
    /// Sets up the fresh handle. Answering `false` gives it back unused; the member has told its own side why.
    func joined(_ handle: EasyHandle) -> Bool

    /// curl is done with the handle. Answers whether the member wants to keep it, outside the multi handle.
    func finished(_ handle: EasyHandle, with result: CURLcode) -> Bool

    /// Called after every round of the loop, also those that brought this member nothing: the place to hand on what came
    /// in, to resume a paused transfer, to look at the clock.
    ///
    /// - Parameter now: the loop's clock, at the end of the round.
    func roundEnded(_ handle: EasyHandle, at now: Duration) -> CurlLoopVerdict

    /// The loop has stopped; the handle (if there ever was one) is gone.
    func loopStopped()
}

/// What becomes of a member after a round.
public enum CurlLoopVerdict: Sendable {
    /// It stays, and wants a round no later than this moment of the loop's clock (`nil`: when something happens).
    case stay(until: Duration?)
    /// It goes: its handle leaves the multi handle and is destroyed, an unfinished connection closed.
    case leave
}
