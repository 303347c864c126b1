package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Filter reports whether an entry is kept.
type Filter func(Entry) bool

// User keeps the requests of one user.
func User(name string) Filter {
	return func(e Entry) bool { return e.User == name }
}

// UserAgent keeps the requests of user agents that begin with a prefix.
func UserAgent(prefix string) Filter {
	return func(e Entry) bool { return strings.HasPrefix(e.UserAgent, prefix) }
}

// Verb keeps requests with one of the verbs.
func Verb(verbs ...string) Filter {
	return func(e Entry) bool { return slices.Contains(verbs, e.Verb) }
}

// Resource keeps requests for one of the resources, of whatever group.
func Resource(resources ...string) Filter {
	return func(e Entry) bool { return slices.Contains(resources, e.Resource) }
}

// Not keeps what another filter does not.
func Not(f Filter) Filter {
	return func(e Entry) bool { return !f(e) }
}

func keepAll(e Entry, filters []Filter) bool {
	return !slices.ContainsFunc(filters, func(f Filter) bool { return !f(e) })
}

// A Key is what requests are counted by.
type Key struct{ User, Verb, Target string }

// Count returns how often each user asked for what.
func Count(entries []Entry) map[Key]int {
	counts := map[Key]int{}
	for _, e := range entries {
		counts[Key{e.User, e.Verb, e.Target()}]++
	}
	return counts
}

// Table returns the counts as text for people, the most frequent first.
func Table(counts map[Key]int) string {
	keys := make([]Key, 0, len(counts))
	for k := range counts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Target, b.Target))
	})
	var text strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&text, "%7d  %-10s %-50s %s\n", counts[k], k.Verb, k.Target, k.User)
	}
	return text.String()
}
