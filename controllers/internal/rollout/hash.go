package rollout

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/davecgh/go-spew/spew"
	"k8s.io/apimachinery/pkg/util/rand"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// nameLength is how many characters of the encoded hash a set's name has.
const nameLength = 5

// Hash returns the value of the label machine-template-hash of a set that is
// made from template. It is FNV-32a over a dump of the whole template, as in
// Kubernetes 1.8 and MCM; the dump has the names of types and fields in it, so
// these may not change. collisions is nil until a name was taken.
func Hash(template *machinev1.MachineTemplateSpec, collisions *int32) string {
	hasher := fnv.New32a()
	printer := spew.ConfigState{Indent: " ", SortKeys: true, DisableMethods: true, SpewKeys: true}
	// Writing to a hash never fails.
	_, _ = printer.Fprintf(hasher, "%#v", *template)
	if collisions != nil {
		// Four bytes of number in eight: that is how it began, and hashes must last.
		number := make([]byte, 8)
		binary.LittleEndian.PutUint32(number, uint32(*collisions)) // #nosec G115 -- a bit pattern, not a quantity
		_, _ = hasher.Write(number)
	}
	return strconv.FormatUint(uint64(hasher.Sum32()), 10)
}

// SetName returns the name of a set of the deployment whose template has hash.
func SetName(deployment, hash string) string {
	encoded := rand.SafeEncodeString(hash)
	return fmt.Sprintf("%s-%s", deployment, encoded[:min(nameLength, len(encoded))])
}
