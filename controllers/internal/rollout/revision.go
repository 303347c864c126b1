package rollout

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/davecgh/go-spew/spew"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/rand"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// historyMax is how many bytes of revision-history are kept; the oldest
// revisions go first.
const historyMax = 2000

// Revision returns the revision of a set; 0 if it has none or an unparsable one.
func Revision(s *machinev1.MachineSet) int64 {
	revision, err := strconv.ParseInt(s.Annotations[machinev1.RevisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// maxRevision returns the highest revision of sets.
func maxRevision(sets []*machinev1.MachineSet) int64 {
	highest := int64(0)
	for _, s := range sets {
		highest = max(highest, Revision(s))
	}
	return highest
}

// LastRevision returns the second highest revision of sets, 0 if there is none:
// what a rollback without a revision goes back to.
func LastRevision(sets []*machinev1.MachineSet) int64 {
	highest, second := int64(0), int64(0)
	for _, s := range sets {
		switch v := Revision(s); {
		case v >= highest:
			second, highest = highest, v
		case v > second:
			second = v
		}
	}
	return second
}

// OfRevision returns the set of a revision; nil if there is none.
func OfRevision(sets []*machinev1.MachineSet, revision int64) *machinev1.MachineSet {
	for _, s := range sets {
		if revision > 0 && Revision(s) == revision {
			return s
		}
	}
	return nil
}

// SetNewRevision gives s, which has the current template, the revision after those of
// the others, unless it has a higher one, and returns whether that changed it.
// Only then does its former revision enter its history: MCM appends to the
// history on every change of any annotation, without end.
func SetNewRevision(s *machinev1.MachineSet, others []*machinev1.MachineSet) bool {
	revision, former := maxRevision(others)+1, Revision(s)
	if former >= revision {
		return false
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[machinev1.RevisionAnnotation] = strconv.FormatInt(revision, 10)
	if former > 0 {
		s.Annotations[machinev1.RevisionHistoryAnnotation] = history(s.Annotations[machinev1.RevisionHistoryAnnotation],
			former)
	}
	return true
}

// history appends a revision to a comma separated list.
func history(list string, revision int64) string {
	entry := strconv.FormatInt(revision, 10)
	var entries []string
	if list != "" {
		entries = strings.Split(list, ",")
	}
	if !slices.Contains(entries, entry) {
		entries = append(entries, entry)
	}
	for joined := strings.Join(entries, ","); ; joined = strings.Join(entries, ",") {
		if len(joined) <= historyMax || len(entries) == 1 {
			return joined
		}
		entries = entries[1:]
	}
}

// BeyondHistoryLimit returns the old sets that the revision history does not keep,
// oldest first: those beyond limit that have no machines and whose controller
// has seen that they shall have none. A nil limit keeps all.
func BeyondHistoryLimit(old []*machinev1.MachineSet, limit *int32) []*machinev1.MachineSet {
	if limit == nil {
		return nil
	}
	alive := slices.DeleteFunc(slices.Clone(old), func(s *machinev1.MachineSet) bool {
		return !s.DeletionTimestamp.IsZero()
	})
	SortByAge(alive)
	beyond := len(alive) - max(int(*limit), 0)
	if beyond <= 0 {
		return nil
	}
	return slices.DeleteFunc(alive[:beyond], func(s *machinev1.MachineSet) bool {
		return s.Spec.Replicas != 0 || s.Status.Replicas != 0 || s.Generation > s.Status.ObservedGeneration
	})
}

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

// SyncInPlace copies to spec what the template changes without new machines:
// node template, timeouts and limits, and class.kind.
func SyncInPlace(spec, template *machinev1.MachineSpec) {
	source := template.DeepCopy()
	spec.NodeTemplateSpec = source.NodeTemplateSpec
	spec.MachineConfiguration = source.MachineConfiguration
	spec.Class.Kind = source.Class.Kind
}

// InSync reports whether SyncInPlace would change nothing. Missing timeouts and
// limits equal empty ones.
func InSync(spec, template *machinev1.MachineSpec) bool {
	return spec.Class.Kind == template.Class.Kind &&
		apiequality.Semantic.DeepEqual(spec.NodeTemplateSpec, template.NodeTemplateSpec) &&
		apiequality.Semantic.DeepEqual(configuration(spec), configuration(template))
}

func configuration(spec *machinev1.MachineSpec) machinev1.MachineConfiguration {
	if spec.MachineConfiguration == nil {
		return machinev1.MachineConfiguration{}
	}
	return *spec.MachineConfiguration
}

// FindNewSet returns the MachineSet that has the template, the oldest if several
// have it; nil if none has. Sets that are being deleted do not count, because
// they create no machines. The template decides, not the name of the set: the
// hash in the name covers more fields than are compared.
func FindNewSet(template *machinev1.MachineTemplateSpec, sets []*machinev1.MachineSet) *machinev1.MachineSet {
	var found *machinev1.MachineSet
	for _, s := range sets {
		if !s.DeletionTimestamp.IsZero() || !machinev1.SameTemplate(template, &s.Spec.Template) {
			continue
		}
		if found == nil || ByAge(s, found) < 0 {
			found = s
		}
	}
	return found
}

// ByAge orders MachineSets by creation, then by name.
func ByAge(a, b *machinev1.MachineSet) int {
	return older(
		Set{Name: a.Name, Created: a.CreationTimestamp.Time},
		Set{Name: b.Name, Created: b.CreationTimestamp.Time})
}

// SortByAge orders sets, oldest first.
func SortByAge(sets []*machinev1.MachineSet) { slices.SortFunc(sets, ByAge) }
