/// logind's objects, asked one after the other over one connection. Blocks; on a lane's thread only.
///
/// <https://www.freedesktop.org/software/systemd/man/latest/org.freedesktop.login1.html>; elogind answers the same.
struct LogindSession {
    let connection: BusConnection

    private static let name = "org.freedesktop.login1"
    private static let manager = "/org/freedesktop/login1"

    /// The object of the session that the process belongs to; `nil` when it belongs to none.
    ///
    /// A session that a variable names may have ended long ago (programs in tmux outlive theirs), and programs that a
    /// desktop starts through the user's service manager are in no session at all: then it is the one that logind calls
    /// the user's display.
    ///
    /// - Parameter id: what `XDG_SESSION_ID` says.
    func path(id: String?, user: UInt32) throws(LibraryFault) -> String? {
        if let id, !id.isEmpty, let path = try object("GetSession", .text(id)) { return path }
        // 0 stands for the caller.
        if let path = try object("GetSessionByPID", .number(0)) { return path }
        guard let userPath = try object("GetUser", .number(user)) else { return nil }
        guard let display = try property("Display", of: "User", at: userPath) else { return nil }
        let sessionID = display.member(0, ofTuple: "(so)")?.text
        guard sessionID?.isEmpty == false else { return nil }
        return display.member(1, ofTuple: "(so)")?.text
    }

    /// `LockedHint` of the session at `path`; `nil` when the session has gone or its login manager has no such property.
    func isLocked(at path: String) throws(LibraryFault) -> Bool? {
        guard let hint = try property("LockedHint", of: "Session", at: path) else { return nil }
        guard let isLocked = hint.bool else {
            throw .without("logind gave a LockedHint that is neither true nor false")
        }
        return isLocked
    }

    private func object(_ method: String, _ argument: BusArgument) throws(LibraryFault) -> String? {
        do throws(LibraryFault) {
            let answer = try connection.call(
                method, of: "\(Self.name).Manager", at: Self.manager, in: Self.name, [argument])
            guard let path = answer.member(0, ofTuple: "(o)")?.text else {
                throw .without("logind's answer to \(method) is not an object")
            }
            return path
        } catch {
            guard error.saysThereIsNoSuchSession else { throw error }
            return nil
        }
    }

    private func property(_ property: String, of interface: String, at path: String) throws(LibraryFault) -> BusValue? {
        do throws(LibraryFault) {
            let answer = try connection.call(
                "Get", of: "org.freedesktop.DBus.Properties", at: path, in: Self.name,
                [.text("\(Self.name).\(interface)"), .text(property)])
            guard let value = answer.member(0, ofTuple: "(v)")?.boxed else {
                throw .without("logind's answer for \(property) is not a property")
            }
            return value
        } catch {
            guard error.saysThereIsNoSuchSession || error.saysThereIsNoSuchProperty else { throw error }
            return nil
        }
    }
}
