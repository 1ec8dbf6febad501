/// What a passphrase is wanted for. The text is the path of the file, which a person may be shown.
public enum PassphrasePurpose: Sendable, Hashable {
    /// To open a file that is there: the passphrase that it was made with.
    case opening(String)
    /// To make a file: any passphrase, which a person should be asked for twice.
    case creating(String)

    /// The file.
    public var path: String {
        switch self {
        case .opening(let path), .creating(let path): path
        }
    }
}
