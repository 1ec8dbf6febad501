import CCurl

/// A curl multi handle, as it is passed to the thread that will own it.
///
/// Sendable by the lock of ``CurlEventLoop``'s mailbox: the thread alone uses ``raw`` and ``destroy()``, every other
/// thread only ``wake()`` (which curl allows from anywhere), under that lock and only while the mailbox says that the
/// handle is alive.
struct MultiHandle: @unchecked Sendable {
    let raw: UnsafeMutableRawPointer

    /// `nil` when curl has no memory left.
    init?() {
        guard let raw = curl_multi_init() else { return nil }
        self.raw = raw
    }

    /// Ends the current or the next sleep of the loop; whether that worked.
    func wake() -> Bool { curl_multi_wakeup(raw) == CURLM_OK }

    /// Closes every pooled connection.
    func destroy() { curl_multi_cleanup(raw) }
}
