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

// Fingerprint is equal for equal credentials and tells nothing about them. Boot data does not count.
func (c Credentials) Fingerprint() string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if k == userDataKey || k == userDataSpecKey {
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
