// The front door: whoever imports ChappieSDK sees the values, the session and the client.
@_exported public import ChappieAuth
@_exported public import ChappieClient
@_exported public import ChappieCore
