package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Credentials are the merged entries of the Secrets that a class refers to.
// Every way of printing them shows the keys only.
type Credentials map[string][]byte

// The entries of a class's Secrets that are boot data and no credentials: as it is, or as the spec
// that it is made from.
const (
	userDataKey     = "userData"
	userDataSpecKey = "userDataSpec"
)

// SecretKeys are the keys of a Secret's entries that a driver reads to log in, in all spellings
// that it takes, each in one group. Boot data is in none. The zero value declares none.
type SecretKeys struct {
	// Address are the keys of what says where to log in and what to believe there: URLs, hosts,
	// authorities, thumbprints, and the switch that leaves certificates unchecked.
	Address []string
	// Credential are the keys of passwords, tokens, private keys, and of documents that have one,
	// such as a JSON key, a kubeconfig or a clouds.yaml, also if they name an address as well.
	Credential []string
	// Public are the keys of what only names something: users, accounts, projects, domains, roles,
	// client certificates, files.
	Public []string
}

// IsAddress reports whether an entry of a Secret says where the driver logs in.
func (t Traits) IsAddress(key string) bool { return slices.Contains(t.Secret.Address, key) }

// IsCredential reports whether an entry of a Secret is a credential for the driver. For a Legacy
// driver, and for one that declares no keys, so is every entry that is neither declared nor boot
// data: what these read is not known.
func (t Traits) IsCredential(key string) bool {
	if slices.Contains(t.Secret.Credential, key) {
		return true
	}
	k := t.Secret
	open := t.Legacy || len(k.Address)+len(k.Credential)+len(k.Public) == 0
	return open && !IsBootData(key) && !slices.Contains(k.Address, key) && !slices.Contains(k.Public, key)
}

// IsBootData reports whether an entry of a Secret is boot data and no part of a login.
func IsBootData(key string) bool { return key == userDataKey || key == userDataSpecKey }

// Fingerprint is equal for equal credentials and tells nothing about them. Boot data does not count.
func (c Credentials) Fingerprint() string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if IsBootData(k) {
			continue
		}
		fmt.Fprintf(h, "%d:%s%d:", len(k), k, len(c[k]))
		h.Write(c[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// String lists the keys.
func (c Credentials) String() string {
	return fmt.Sprintf("credentials%v", slices.Sorted(maps.Keys(c)))
}

// GoString lists the keys.
func (c Credentials) GoString() string { return c.String() }

// Format lists the keys, whatever the verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(c.String())) }

// MarshalJSON lists the keys.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }
