package class

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Err returns the problems of at least that severity as a *cloud.Error of code
// Invalid, or nil if there are none: Err(cloud.BlocksCreate) says why nothing
// can be created, Err(cloud.BlocksAll) why nothing can be done at all. Its
// Reason is a condition reason of machinev1.
func (r Resolved) Err(least cloud.Severity) error {
	var text []string
	var found []cloud.Problem
	reason := ""
	for i, p := range r.Problems {
		if p.Severity < least {
			continue
		}
		if reason == "" {
			reason = r.reasons[i]
		}
		found = append(found, p)
		text = append(text, p.String())
	}
	if len(found) == 0 {
		return nil
	}
	return r.refuse(reason, found, text)
}

// Reasoned yields Problems, each with the condition reason that it is shown with.
func (r Resolved) Reasoned() iter.Seq2[string, cloud.Problem] {
	return func(yield func(string, cloud.Problem) bool) {
		for i, p := range r.Problems {
			if !yield(r.reasons[i], p) {
				return
			}
		}
	}
}

// UserData returns the boot data with its placeholders. Its absence is an error of code Invalid and
// rules out creation only, and so is a spec that none can be made from.
func (r Resolved) UserData() ([]byte, error) {
	data, err := bootdata.FromSecret(r.Credentials)
	if err == nil {
		return data, nil
	}
	p := cloud.Problem{Severity: cloud.BlocksCreate, Field: "secretRef", Message: "the Secret " + err.Error()}
	return nil, r.refuse(machinev1.ReasonInvalidUserData, []cloud.Problem{p}, []string{p.String()})
}

func (r Resolved) refuse(reason string, problems []cloud.Problem, text []string) error {
	return &cloud.Error{
		Code: cloud.Invalid, Op: fmt.Sprintf("use MachineClass %q", r.name), Reason: reason,
		Problems: problems, Err: errors.New(strings.Join(text, "; ")),
	}
}

// findings are problems, each with the reason it is shown with.
type findings []finding

type finding struct {
	reason  string
	problem cloud.Problem
}

func (f *findings) add(reason string, problems ...cloud.Problem) {
	for _, p := range problems {
		*f = append(*f, finding{reason, p})
	}
}

func (f *findings) merge(others findings) { *f = append(*f, others...) }

// sorted returns the problems and their reasons, the worst first and otherwise
// in the order in which they were found.
func (f findings) sorted() ([]cloud.Problem, []string) {
	slices.SortStableFunc(f, func(a, b finding) int { return int(b.problem.Severity) - int(a.problem.Severity) })
	var problems []cloud.Problem
	var reasons []string
	for _, x := range f {
		problems = append(problems, x.problem)
		reasons = append(reasons, x.reason)
	}
	return problems, reasons
}

func worst(problems []cloud.Problem) cloud.Severity {
	highest := cloud.Warning
	for _, p := range problems {
		highest = max(highest, p.Severity)
	}
	return highest
}

// problemsOf returns the problems that err carries.
func problemsOf(err error) []cloud.Problem {
	if e, ok := errors.AsType[*cloud.Error](err); ok && len(e.Problems) > 0 {
		return e.Problems
	}
	return []cloud.Problem{{Severity: cloud.BlocksAll, Field: "provider", Message: err.Error()}}
}

func deleting(name string) cloud.Problem {
	return cloud.Problem{
		Severity: cloud.BlocksCreate, Field: "spec.class.name",
		Message: fmt.Sprintf("MachineClass %q is being deleted; name another one", name),
	}
}

// checkNodeTemplate reports what MCM refuses in a node template. Only the
// creation of machines needs it; no template is fine.
func checkNodeTemplate(t *machinev1.NodeTemplate) []cloud.Problem {
	if t == nil {
		return nil
	}
	var found []cloud.Problem
	missing := func(field, what string) {
		found = append(found, cloud.Problem{
			Severity: cloud.BlocksCreate, Field: "nodeTemplate." + field,
			Message: what + "; add it, or remove nodeTemplate",
		})
	}
	for _, key := range []corev1.ResourceName{corev1.ResourceCPU, "gpu", corev1.ResourceMemory} {
		if _, ok := t.Capacity[key]; !ok {
			missing("capacity", fmt.Sprintf("has no entry %q", key))
		}
	}
	for _, f := range []struct{ field, value string }{
		{"instanceType", t.InstanceType}, {"region", t.Region}, {"zone", t.Zone},
	} {
		if f.value == "" {
			missing(f.field, "is empty")
		}
	}
	return found
}
