public import CCurl

/// One curl easy handle with what must live as long as it does. Stays on the thread that made it.
public final class EasyHandle {
    public let raw: UnsafeMutableRawPointer
    private let errorText: UnsafeMutablePointer<CChar>
    private var headerList: UnsafeMutablePointer<curl_slist>?

    /// `nil` when curl has no memory left.
    init?() {
        guard let raw = curl_easy_init() else { return nil }
        self.raw = raw
        errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        set(CURLOPT_ERRORBUFFER, pointer: errorText)
    }

    deinit {
        curl_easy_cleanup(raw)
        curl_slist_free_all(headerList)
        errorText.deallocate()
    }

    /// A number; curl takes it as a long.
    public func set(_ option: CURLoption, _ value: Int) { ccurl_easy_set_long(raw, option, value) }

    /// A switch, which to curl is 0 or 1.
    public func set(_ option: CURLoption, _ value: Bool) { set(option, value ? 1 : 0) }

    /// A size, for the options that take curl_off_t.
    public func set(_ option: CURLoption, offset value: Int) { ccurl_easy_set_offset(raw, option, curl_off_t(value)) }

    /// curl copies the text; `nil` unsets the option.
    public func set(_ option: CURLoption, _ value: String?) { ccurl_easy_set_string(raw, option, value) }

    /// What comes back in a callback; it must outlive the handle's work.
    public func set(_ option: CURLoption, pointer value: UnsafeMutableRawPointer?) {
        ccurl_easy_set_pointer(raw, option, value)
    }

    /// curl copies the bytes.
    public func set(_ option: CURLoption, blob bytes: [UInt8]) {
        bytes.withUnsafeBytes { _ = ccurl_easy_set_blob(raw, option, $0.baseAddress, $0.count) }
    }

    /// A function for header lines or body bytes.
    public func set(_ option: CURLoption, callback: @escaping ccurl_data_callback) {
        ccurl_easy_set_data_callback(raw, option, callback)
    }

    /// The request header lines, `name: value` each, in curl's own notation for the odd ones. Once for each handle.
    public func setHeaderLines(_ lines: [String]) {
        for line in lines {
            // On failure the list so far stays as it was: out of memory, and curl will say so soon enough.
            if let longer = curl_slist_append(headerList, line) { headerList = longer }
        }
        ccurl_easy_set_list(raw, CURLOPT_HTTPHEADER, headerList)
    }

    /// A number that curl knows about its last work; 0 when it does not.
    public func long(_ info: CURLINFO) -> Int {
        var value = 0
        ccurl_easy_get_long(raw, info, &value)
        return value
    }

    /// What curl wrote about its last failure. It may name the URL or the proxy: for classification, and for people only
    /// where its wording is known to hold neither.
    public var failureText: String { String(cString: errorText) }
}
