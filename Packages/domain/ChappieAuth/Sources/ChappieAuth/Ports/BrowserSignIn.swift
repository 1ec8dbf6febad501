@_spi(ChappieInternals) import ChappieCore

/// The parts of the platform that a sign-in with a redirect to this machine needs, such as
/// ``ChappieGrant/browser`` and ``ChappieGrant/continueWithChatGPT(appName:)``.
public struct BrowserSignInPorts: Sendable {
    let listener: any CallbackListener
    let registrations: (any RegistrationStore)?
    let cryptography: any SignInCryptography
    let entropy: any Entropy

    /// - Parameters:
    ///   - listener: Receives the browser when it returns.
    ///   - registrations: Keeps the client ids that the authorization server has issued. A sign-out keeps them.
    ///     Default: none, for ``ChappieGrant/browser``, which registers nothing.
    ///   - cryptography: Checks the identity token.
    ///   - entropy: The source of random bytes. Default: the system's generator.
    public init(
        listener: any CallbackListener, registrations: (any RegistrationStore)? = nil,
        cryptography: any SignInCryptography, entropy: any Entropy = SystemEntropy()
    ) {
        self.listener = listener
        self.registrations = registrations
        self.cryptography = cryptography
        self.entropy = entropy
    }
}

/// The cryptography of a sign-in: digests, and checks with public keys. The only secret is the PKCE verifier that is
/// digested.
public protocol SignInCryptography: Sendable {
    /// Returns the SHA-256 digest of `bytes`, which has 32 bytes (FIPS 180-4).
    ///
    /// - Throws: Any error if the system's library fails.
    func sha256(_ bytes: [UInt8]) throws -> [UInt8]

    /// Returns whether `signature` is the signature of `message`, by RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, 3.3).
    ///
    /// - Parameters:
    ///   - signature: The signature, which is as long as the modulus.
    ///   - message: The signed bytes.
    ///   - modulus: The modulus, big-endian. The result is `false` if it has less than 2048 or more than 8192 bits.
    ///   - exponent: The exponent, big-endian. The result is `false` if it is even or 1.
    /// - Throws: Any error if the system's library fails. A wrong signature and an invalid key are *not* errors.
    func verifiesRS256(_ signature: [UInt8], of message: [UInt8], modulus: [UInt8], exponent: [UInt8]) throws -> Bool
}

/// A listener on 127.0.0.1 for a browser that returns from the authorization server (RFC 8252, 7.3).
public protocol CallbackListener: Sendable {
    /// Listens at the first of `ports` that is free. It accepts connections from the moment it returns.
    ///
    /// The adapter only limits the size and the duration of a request. It serves each connection separately, so that an
    /// idle connection does not delay another one. Calls of `answer` may overlap.
    ///
    /// - Parameters:
    ///   - ports: The ports to try, in order. 0 lets the system choose a free port, as in bind(2).
    ///   - answer: Called with the head of each request, up to and including its empty line, and with the user who sent
    ///     it. It returns all bytes of the response. The connection is closed after them.
    /// - Throws: ``DesktopError`` if no port is available.
    func listen(
        at ports: [Int], _ answer: @escaping @Sendable (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) throws(DesktopError) -> any CallbackListening
}

extension CallbackListener {
    /// Listens at a port that the system chooses.
    ///
    /// - Throws: ``DesktopError`` if no port is available.
    public func listen(
        _ answer: @escaping @Sendable (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) throws(DesktopError) -> any CallbackListening {
        try listen(at: [0], answer)
    }
}

/// The user who sent a request to a ``CallbackListener``. Every user of a machine can reach its loopback addresses.
public enum CallbackPeer: Sendable, Hashable {
    /// The user that this process runs as.
    case sameUser
    /// Another user of this machine, or a program that has closed its connection and reads no answer.
    case anotherUser
    /// The system does not report the user, for example because a relay of the system has made the connection for a
    /// browser.
    case unknown
}

/// A listener that accepts connections.
public protocol CallbackListening: Sendable {
    /// The port on 127.0.0.1.
    var port: Int { get }

    /// Frees the port and ends all connections without waiting. A response that has begun may still be delivered. A
    /// second call does nothing.
    func close()

    /// Waits after ``close()`` until the system has taken over the delivery of a response that had begun, so that the
    /// process may end.
    func closed() async
}

/// A store for the registrations of this program at authorization servers, and for the id of this machine. They are not
/// secret. They are stored separately from credentials, and a sign-out keeps them.
///
/// A complete fake is `InMemoryRegistrationStore` of ChappieTesting.
public protocol RegistrationStore: Sendable {
    /// Returns the registration for `slot`, or `nil` if there is none, which is not an error.
    ///
    /// - Throws: ``CredentialStoreError``.
    func registration(for slot: CredentialSlot) async throws(CredentialStoreError) -> ChappieClientRegistration?

    /// Replaces the registration for `slot`, or removes it if `registration` is `nil`. Returns once the change would
    /// survive the end of the process.
    ///
    /// - Throws: ``CredentialStoreError``. The earlier registration is then still stored. It is not an error if there
    ///   is none to remove.
    func save(_ registration: ChappieClientRegistration?, for slot: CredentialSlot) async throws(CredentialStoreError)

    /// Returns the id of this machine for this user: `urn:uuid:` and a random UUID (RFC 9562, version 4) in lower case.
    /// The id is created at the first call and then stored.
    ///
    /// - Throws: ``CredentialStoreError`` if it can't be stored.
    func hostID() async throws(CredentialStoreError) -> String
}

/// A registration of this program at an authorization server, for one user in one workspace.
public struct ChappieClientRegistration: Sendable, Hashable, Codable {
    /// The client id that the server has issued.
    public var clientID: String
    /// The user (`sub`) who signed in with it, or `nil` until the identity has been verified once.
    public var subject: String?
    /// The e-mail address of the user, if it is known. It preselects the account at the next sign-in.
    public var email: String?
    /// The name under which the program registered.
    public var appName: String

    /// Creates a registration with these values.
    public init(clientID: String, subject: String? = nil, email: String? = nil, appName: String) {
        self.clientID = clientID
        self.subject = subject
        self.email = email
        self.appName = appName
    }

    /// Whether a store can keep it. A client id is a short word, and each text has at most 4 KiB.
    @_spi(ChappieInternals) public var isWellFormed: Bool {
        UntrustedText.token(clientID, limit: 200) != nil
            && [appName, subject, email].allSatisfy { ($0?.utf8.count ?? 0) <= 4 << 10 }
    }
}
