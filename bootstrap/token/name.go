package token

// ID returns the public part of the token of an attempt, which is also the end of the name of
// its Secret and of the user name that a kubelet has with it. It is no secret.
func ID(ownerID string, attempt int) string { return id(Request{OwnerID: ownerID, Attempt: attempt}) }

// SecretName returns the name of the Secret of the token with that ID, in kube-system.
func SecretName(id string) string { return namePrefix + id }

// KeyExpiration is the entry of that Secret with the time at which the token expires, RFC 3339.
const KeyExpiration = keyExpiration
