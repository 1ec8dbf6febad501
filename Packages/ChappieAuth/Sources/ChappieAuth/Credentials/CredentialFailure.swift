/// Why there is no usable credential, with all that the two public error types need to know.
enum CredentialFailure: Error, Sendable, Hashable {
    /// Nobody is signed in.
    case missingCredential
    /// The credential is of no more use; the sentence says why.
    case rejected(ChappieAuthError, reason: String)
    /// The credential names no account.
    case missingAccountID
    /// It may work in a moment.
    case soft(ChappieAuthError)
    /// The store failed.
    case store(CredentialStoreError)
}

extension CredentialFailure {
    /// As a request sees it.
    var authorizationError: AuthorizationError {
        switch self {
        case .missingCredential: .missingCredential
        case .rejected(.missingRefreshToken, _): .missingRefreshToken
        case .rejected(_, let reason): .reauthenticationRequired(reason)
        case .missingAccountID: .missingAccountID
        case .soft(let error): .auth(error)
        case .store(let error): .store(error)
        }
    }

    /// As ``ChappieAuthSession`` reports it.
    var authError: ChappieAuthError {
        switch self {
        case .missingCredential: .missingRefreshToken
        case .rejected(let error, _), .soft(let error): error
        case .missingAccountID: .invalidResponse
        case .store(let error): .unknown(error.errorDescription ?? "The credential store failed.")
        }
    }
}
