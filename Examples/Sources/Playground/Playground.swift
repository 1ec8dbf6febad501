import ChappieSDK
import Foundation

/// The service, or where `CHAPPIE_ISSUER` and `CHAPPIE_BACKEND` are set (`chappie simulator` prints them), a simulator.
public let endpoints: ChappieEndpoints = {
    let environment = ProcessInfo.processInfo.environment
    guard let issuer = environment["CHAPPIE_ISSUER"].flatMap(URL.init(string:)),
        let backend = environment["CHAPPIE_BACKEND"].flatMap(URL.init(string:))
    else { return .chatGPT }
    return ChappieEndpoints(issuer: issuer, backend: backend)
}()

/// The credential of a simulator is thrown away; yours goes to the keyring.
public let store: ChappieCredentialStorage = endpoints == .chatGPT ? .keyring : .memory
