/// A web page in the place of a service's answer: a gateway, a portal or a proxy speaks, and not the service.
@_spi(ChappieInternals) public enum BlockingPage {
    /// Whether an answer is a page that keeps requests from the service. It says nothing of a credential or a model.
    public static func isOne(status: Int, contentType: String?, body: [UInt8]) -> Bool {
        status == 403 && isWebPage(contentType: contentType, body: body)
    }

    /// Whether an answer is a page for people. Portals name their type wrongly, so that the first character counts, too.
    public static func isWebPage(contentType: String?, body: [UInt8]) -> Bool {
        let firstByte = body.first { ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0) }
        return contentType?.lowercased().hasPrefix("text/html") == true || firstByte == UInt8(ascii: "<")
    }

    /// What happened, for the user.
    public static func sentence(host: String) -> String {
        "A web page answered with status 403 in the place of \(host): what protects the service, or a network on the way, "
            + "stopped the request."
    }

    /// The user's next step.
    public static let advice =
        "Nothing is wrong with your sign-in. Try another network, without a VPN or a proxy, or try again later."
}
