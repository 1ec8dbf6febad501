// Somebody else's program on the whole SDK; the README's examples are compiled beside it.
import ChappieSDK

let client = Chappie.client()
print(type(of: client))
