/// A web page that a gateway, a portal or a proxy sends instead of the service's answer.
@_spi(ChappieInternals) public enum BlockingPage {
    /// Returns whether an answer is a page that blocks the service. Such a page does not concern a credential or a
    /// model.
    public static func isOne(status: Int, contentType: String?, body: [UInt8]) -> Bool {
        status == 403 && isWebPage(contentType: contentType, body: body)
    }

    /// Returns whether an answer is a web page. Some portals send a wrong content type, so the first character also
    /// counts.
    public static func isWebPage(contentType: String?, body: [UInt8]) -> Bool {
        let firstByte = body.first { ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        return contentType?.lowercased().hasPrefix("text/html") == true || firstByte == UInt8(ascii: "<")
    }

    /// Returns whether an answer comes from a network on the way, which may require a sign-in. Such an answer has the
    /// status 511 (RFC 6585, section 6), or it is a web page with the status of a success or of a missing address.
    public static func isOfNetwork(status: Int, contentType: String?, body: [UInt8]) -> Bool {
        status == 511
            || ((200..<300).contains(status) || [404, 405, 410, 451].contains(status))
                && isWebPage(contentType: contentType, body: body)
    }

    /// Returns the sentence for a page of a network.
    public static func networkSentence(host: String, status: Int) -> String {
        "Something on the way answered instead of \(host) (status \(status)): a network that wants you to sign in to it "
            + "first, a proxy, or a wrong address."
    }

    /// The user's next step after a page of a network.
    public static let networkAdvice =
        "Open any page in a browser, and sign in to the network if it asks you to. Otherwise check the proxy and the "
        + "configured address."

    /// Returns the title of a web page, in one line, or `nil` if it has none.
    public static func title(of page: String) -> String? {
        guard let start = page.firstRange(of: "<title>") ?? page.firstRange(of: "<TITLE>") else { return nil }
        let rest = page[start.upperBound...]
        return UntrustedText.message(String(rest.prefix { $0 != "<" }))
    }

    /// Returns the failure, as a sentence for the user.
    public static func sentence(host: String) -> String {
        "A web page answered with status 403 instead of \(host): a protection of the service, or a network on the way, "
            + "stopped the request."
    }

    /// The user's next step.
    public static let advice =
        "Nothing is wrong with your sign-in. Try another network, without a VPN or a proxy, or try again later."
}
