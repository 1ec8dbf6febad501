import CCurl

/// curl's process-wide state.
enum CurlGlobal {
    /// Sets it up, once; whether that worked. From 7.84 on this is safe whatever other threads do.
    static let isReady: Bool = {
        ccurl_keep_openssl_until_the_end()
        let everything = 3  // CURL_GLOBAL_ALL, a macro that Swift can't read
        return curl_global_init(everything) == CURLE_OK
    }()
}
