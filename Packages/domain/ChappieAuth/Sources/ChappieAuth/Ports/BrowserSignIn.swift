/// The parts of the platform that a sign-in with a redirect to this machine needs, such as
/// ``ChappieGrant/browser`` and ``ChappieGrant/continueWithChatGPT(appName:)``.
public struct BrowserSignInPorts: Sendable {
    let listener: any CallbackListener
    let registrations: (any RegistrationStore)?
    let cryptography: any SignInCryptography
    let entropy: any Entropy

    /// - Parameters:
    ///   - listener: Receives the browser that comes back.
    ///   - registrations: Keeps the client ids that the authorization server has issued. A sign-out leaves them. Default:
    ///     none, for ``ChappieGrant/browser``, which registers nothing.
    ///   - cryptography: Checks the identity token.
    ///   - entropy: Default: the system's generator.
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

/// Digests, and checks with public keys. Nothing here is secret but the PKCE verifier that is digested.
public protocol SignInCryptography: Sendable {
    /// The SHA-256 digest of `bytes`: 32 bytes (FIPS 180-4).
    ///
    /// - Throws: Any error if the system's library fails.
    func sha256(_ bytes: [UInt8]) throws -> [UInt8]

    /// Whether `signature` is of `message`: RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, 3.3).
    ///
    /// - Parameters:
    ///   - signature: As long as the modulus.
    ///   - message: The bytes that are signed.
    ///   - modulus: Big-endian. Less than 2048 or more than 8192 bits are `false`.
    ///   - exponent: Big-endian. An even one, or 1, is `false`.
    /// - Throws: Any error if the system's library fails. A wrong signature and a key that is none are *not* errors.
    func verifiesRS256(_ signature: [UInt8], of message: [UInt8], modulus: [UInt8], exponent: [UInt8]) throws -> Bool
}

/// A listener on 127.0.0.1 for a browser that comes back from the authorization server (RFC 8252, 7.3).
public protocol CallbackListener: Sendable {
    /// Listens at the first of `ports` that is free, from the moment it returns.
    ///
    /// The adapter decides nothing about a request but its size and its duration. Each connection is served apart, so
    /// that an idle one keeps no other waiting. Calls of `answer` may overlap.
    ///
    /// - Parameters:
    ///   - ports: 0 lets the system choose a free port, as in bind(2).
    ///   - answer: Is called with the head of each request, up to and including its empty line, and with the user who
    ///     sent it. It returns all bytes of the response. The connection is closed after them.
    /// - Throws: ``DesktopError`` if no port can be had.
    func listen(
        at ports: [Int], _ answer: @escaping @Sendable (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) throws(DesktopError) -> any CallbackListening
}

extension CallbackListener {
    /// Listens at a port that the system chooses.
    ///
    /// - Throws: ``DesktopError`` if no port can be had.
    public func listen(
        _ answer: @escaping @Sendable (_ head: [UInt8], _ peer: CallbackPeer) -> [UInt8]
    ) throws(DesktopError) -> any CallbackListening {
        try listen(at: [0], answer)
    }
}

/// The user who sent a request to a ``CallbackListener``. Every user of a machine can reach its loopback addresses.
public enum CallbackPeer: Sendable, Hashable {
    /// The user as whom this process runs.
    case sameUser
    /// Another user of this machine, or a program that has closed its connection and reads no answer.
    case anotherUser
    /// The system does not tell, for example because a relay of the system has made the connection for a browser.
    case unknown
}

/// A listener that accepts connections.
public protocol CallbackListening: Sendable {
    /// The port on 127.0.0.1.
    var port: Int { get }

    /// Frees the port and ends all connections, without a wait. A response that has been begun may still be delivered.
    /// A second call does nothing.
    func close()

    /// Waits, after ``close()``, until a response that had been begun is the system's to deliver, so that the process
    /// may end.
    func closed() async
}

/// Registrations of this program at authorization servers, and the id of this machine. They are not secret. They are
/// kept apart from credentials, and a sign-out keeps them.
///
/// A complete fake is `InMemoryRegistrationStore` of ChappieTesting.
public protocol RegistrationStore: Sendable {
    /// The registration for `slot`; `nil` if there is none, which is not an error.
    ///
    /// - Throws: ``CredentialStoreError``.
    func registration(for slot: CredentialSlot) async throws(CredentialStoreError) -> ChappieClientRegistration?

    /// Replaces the registration for `slot`, or removes it with `nil`; returns once the change would survive the end of
    /// the process.
    ///
    /// - Throws: ``CredentialStoreError``; the earlier registration is then still there. It is not an error if there is
    ///   none to remove.
    func save(_ registration: ChappieClientRegistration?, for slot: CredentialSlot) async throws(CredentialStoreError)

    /// The id of this machine for this user: `urn:uuid:` and a random UUID (RFC 9562, version 4) in lower case, made at
    /// the first call and kept.
    ///
    /// - Throws: ``CredentialStoreError`` if it can't be kept.
    func hostID() async throws(CredentialStoreError) -> String
}

/// A registration of this program at an authorization server, for one user in one workspace.
public struct ChappieClientRegistration: Sendable, Hashable, Codable {
    /// The client id that the server has issued.
    public var clientID: String
    /// The user (`sub`) who signed in with it; `nil` until the identity has been verified once.
    public var subject: String?
    /// The e-mail address of the user, if it is known. Chooses the account at the next sign-in.
    public var email: String?
    /// The name under which the program registered.
    public var appName: String

    /// A registration with these values.
    public init(clientID: String, subject: String? = nil, email: String? = nil, appName: String) {
        self.clientID = clientID
        self.subject = subject
        self.email = email
        self.appName = appName
    }
}
