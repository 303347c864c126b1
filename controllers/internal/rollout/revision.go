package rollout

import (
	"slices"
	"strconv"
	"strings"

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
