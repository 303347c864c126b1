package lenient

import (
	"cmp"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Problems are those of one provider spec. The zero value is none.
type Problems []cloud.Problem

// Add notes a problem; path is relative to the provider spec, "" is all of it.
func (p *Problems) Add(severity cloud.Severity, path, message string) {
	at := "providerSpec"
	if path != "" {
		at += "." + path
	}
	*p = append(*p, cloud.Problem{Severity: severity, Field: at, Message: message})
}

// Report returns the problems, by field. What is only a warning does not stay:
// classes that mean the same are equal.
func (p *Problems) Report() []cloud.Problem {
	slices.SortStableFunc(*p, func(a, b cloud.Problem) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(b.Severity, a.Severity))
	})
	all := slices.Clone([]cloud.Problem(*p))
	*p = slices.DeleteFunc(*p, func(p cloud.Problem) bool { return p.Severity == cloud.Warning })
	if len(*p) == 0 {
		*p = nil
	}
	return all
}
