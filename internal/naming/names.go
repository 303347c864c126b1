package naming

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

const (
	// nameAlphabet has no vowels and nothing that looks like something else.
	nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength = 5
	// maxPrefix is where the API server cuts a generateName; a longer prefix
	// would not fit into the label that carries the machine's name on its Node.
	maxPrefix = 58
	// NameCount is how many names a MachineSet has, 27^5.
	NameCount int64 = 27 * 27 * 27 * 27 * 27

	halfBits = 12 // two halves of 12 bits hold every ordinal
	halfMask = 1<<halfBits - 1
	rounds   = 4
)

// ownerIDSpace keeps owner ids apart from every other use of version 5 UUIDs.
var ownerIDSpace = uuid.MustParse("6a0a5a4c-3c0e-5d5e-9a53-6d636d6f7764")

// Names are the names that one MachineSet gives to its Machines: one for each
// ordinal from 0 to NameCount-1, no two alike. They follow from the UID of the
// MachineSet alone, so that two writers of the same Machine collide.
type Names struct {
	uid    types.UID
	prefix string
	keys   [rounds]int64
}

// NewNames returns the names of a MachineSet.
func NewNames(set *machinev1.MachineSet) Names {
	n := Names{uid: set.UID, prefix: set.Name + "-"}
	if len(n.prefix) > maxPrefix {
		n.prefix = n.prefix[:maxPrefix]
	}
	sum := sha256.Sum256([]byte(set.UID))
	for i := range n.keys {
		n.keys[i] = int64(binary.BigEndian.Uint32(sum[4*i:]))
	}
	return n
}

// Name returns the name of the Machine with that ordinal.
func (n Names) Name(ordinal int64) string {
	value := n.permute(ordinal)
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = nameAlphabet[value%27]
		value /= 27
	}
	return n.prefix + string(suffix)
}

// Ordinal returns the ordinal that has this name; false if none can have it.
// MCM draws from the same alphabet, so a name alone does not prove who gave it.
func (n Names) Ordinal(name string) (int64, bool) {
	suffix, found := strings.CutPrefix(name, n.prefix)
	if !found || len(suffix) != suffixLength {
		return 0, false
	}
	var value int64
	for i := suffixLength - 1; i >= 0; i-- {
		digit := strings.IndexByte(nameAlphabet, suffix[i])
		if digit < 0 {
			return 0, false
		}
		value = value*27 + int64(digit)
	}
	return n.restore(value), true
}

// OwnerID returns the owner id of the Machine with that ordinal.
func (n Names) OwnerID(ordinal int64) string {
	return uuid.NewSHA1(ownerIDSpace, []byte(string(n.uid)+"/"+strconv.FormatInt(ordinal, 10))).String()
}

// permute maps the ordinals onto themselves: a Feistel network permutes 24 bits,
// and what falls outside of the ordinals goes through it again.
func (n Names) permute(value int64) int64 {
	for {
		left, right := value>>halfBits, value&halfMask
		for _, key := range n.keys {
			left, right = right, left^mix(right, key)
		}
		value = left<<halfBits | right
		if value < NameCount {
			return value
		}
	}
}

// restore is the inverse of permute.
func (n Names) restore(value int64) int64 {
	for {
		left, right := value>>halfBits, value&halfMask
		for i := rounds - 1; i >= 0; i-- {
			left, right = right^mix(left, n.keys[i]), left
		}
		value = left<<halfBits | right
		if value < NameCount {
			return value
		}
	}
}

// mix scatters half over halfBits bits, in the way of key.
func mix(half, key int64) int64 {
	const word = 1<<32 - 1
	h := (half ^ key) * 0x9e3779b1 & word
	h ^= h >> 15
	h = h * 0x85ebca77 & word
	h ^= h >> 13
	return h & halfMask
}
