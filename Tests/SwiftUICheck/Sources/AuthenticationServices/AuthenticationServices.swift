// Declarations only. Signatures: developer.apple.com/documentation/authenticationservices/aswebauthenticationsession and its
// members init(url:callback:completionhandler:), callback/customscheme(_:), presentationcontextprovider, start() and cancel(),
// …/aswebauthenticationpresentationcontextproviding, …/aspresentationanchor (a UIWindow where there is UIKit).
public import Foundation
public import UIKit

public typealias ASPresentationAnchor = UIWindow

public class ASWebAuthenticationSession: NSObject {
    public typealias CompletionHandler = (URL?, (any Error)?) -> Void

    public class Callback: NSObject {
        public class func customScheme(_ customScheme: String) -> Self { fatalError() }
    }

    public init(url URL: URL, callback: Callback, completionHandler: @escaping CompletionHandler) {}
    public weak var presentationContextProvider: (any ASWebAuthenticationPresentationContextProviding)?
    @discardableResult public func start() -> Bool { fatalError() }
    public func cancel() {}
}

@MainActor public protocol ASWebAuthenticationPresentationContextProviding: NSObjectProtocol {
    func presentationAnchor(for session: ASWebAuthenticationSession) -> ASPresentationAnchor
}
