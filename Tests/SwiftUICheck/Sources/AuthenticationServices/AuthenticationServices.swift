// Declarations, and as much of a session as page-run needs: it shows nothing. Signatures: developer.apple.com/documentation/authenticationservices/aswebauthenticationsession and its
// members init(url:callback:completionhandler:), callback/customscheme(_:), presentationcontextprovider, start() and cancel(),
// …/aswebauthenticationpresentationcontextproviding, …/aspresentationanchor (a UIWindow where there is UIKit).
public import Foundation
public import UIKit

public typealias ASPresentationAnchor = UIWindow

public class ASWebAuthenticationSession: NSObject {
    public typealias CompletionHandler = (URL?, (any Error)?) -> Void

    public class Callback: NSObject {
        public required override init() {}
        public class func customScheme(_ customScheme: String) -> Self { self.init() }
    }

    public init(url URL: URL, callback: Callback, completionHandler: @escaping CompletionHandler) {
        url = URL
        complete = completionHandler
    }
    public weak var presentationContextProvider: (any ASWebAuthenticationPresentationContextProviding)?
    @discardableResult public func start() -> Bool {
        Self.shown = presentationContextProvider == nil ? nil : self
        return Self.shown != nil
    }
    public func cancel() { Self.shown = nil }

    // MARK: Not Apple's

    public nonisolated(unsafe) static var shown: ASWebAuthenticationSession?
    public let url: URL
    public let complete: CompletionHandler
}

@MainActor public protocol ASWebAuthenticationPresentationContextProviding: NSObjectProtocol {
    func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor
}
