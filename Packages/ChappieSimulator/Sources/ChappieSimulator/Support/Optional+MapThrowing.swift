extension Optional {
    /// `map` that keeps the type of what is thrown.
    func mapThrowing<Value, Failure: Error>(_ transform: (Wrapped) throws(Failure) -> Value) throws(Failure) -> Value? {
        guard let self else { return nil }
        return try transform(self)
    }
}
