import CSecret
import ChappieAuth

extension LibraryFault {
    /// logind knows the method, and the process, user or session that it was asked for is not one of its own; or the
    /// session has gone in between.
    var saysThereIsNoSuchSession: Bool {
        switch remoteName {
        case "org.freedesktop.login1.NoSuchSession", "org.freedesktop.login1.NoSessionForPID",
            "org.freedesktop.login1.NoSuchUser", "org.freedesktop.login1.NoUserForPID":
            true
        default:
            [CS_DBUS_ERROR_UNKNOWN_OBJECT, CS_DBUS_ERROR_UNKNOWN_METHOD].contains { domain == .bus && code == $0 }
        }
    }

    /// The login manager is older than the property.
    var saysThereIsNoSuchProperty: Bool {
        [CS_DBUS_ERROR_UNKNOWN_PROPERTY, CS_DBUS_ERROR_UNKNOWN_INTERFACE, CS_DBUS_ERROR_INVALID_ARGS]
            .contains { domain == .bus && code == $0 }
    }

    /// Nobody owns logind's name, and nobody could be started for it.
    var saysThereIsNoService: Bool {
        guard domain == .bus else { return false }
        return code == CS_DBUS_ERROR_SERVICE_UNKNOWN || code == CS_DBUS_ERROR_NAME_HAS_NO_OWNER
            || (CS_DBUS_ERROR_SPAWN_FIRST...CS_DBUS_ERROR_SPAWN_LAST).contains(code)
    }

    /// No bus listens there: the socket is missing, or was left behind.
    var saysThereIsNoBus: Bool {
        domain == .io && (code == CS_IO_ERROR_NOT_FOUND || code == CS_IO_ERROR_CONNECTION_REFUSED)
    }

    /// Why the lock's state can't be learnt although there is somebody to ask.
    func meaningOfLogind(deadline: Duration) -> CredentialStoreError {
        let words = "the login manager did not say whether the login session is locked (\(message))"
        return switch meaning(at: .working, deadline: deadline) {
        case .denied: .denied(words)
        case .timedOut: .timedOut(deadline)
        default: .failed(words)
        }
    }
}
