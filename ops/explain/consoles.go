package explain

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// Console is what the console of a machine said that did not join.
type Console struct {
	Machine string      `json:"machine"`
	Read    metav1.Time `json:"read"`
	// Cause is empty if nothing on the console is known to keep a node from joining.
	Cause   console.Cause `json:"cause,omitempty"`
	Summary string        `json:"summary"`
	Remedy  string        `json:"remedy"`
	// Line is the guest's, redacted.
	Line string `json:"line,omitempty"`
}

// ConsoleSecret is the Secret with the consoles of a pool; no name for an object that is none.
func ConsoleSecret(o *Object) (namespace, name string) {
	if o.Kind != KindDeployment && o.Kind != KindSet {
		return o.Namespace, ""
	}
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return o.Namespace, console.SecretName(group, o.Kind, o.Name)
}

// Failures are what is kept about an object, the newest first: of a machine its own, or else those
// of the pool that it is a part of; of a pool those of its machines.
func (f *Facts) Failures(o *Object) []console.Failure {
	own := []*Object{o, f.child(o, KindMCMMachine)}
	for pool := o; pool != nil; pool = f.owner(pool) {
		namespace, name := ConsoleSecret(pool)
		all := f.Consoles[namespace+"/"+name]
		for _, machine := range own {
			if machine == nil {
				continue
			}
			if found, ok := console.Find(all, machine.OwnerID); ok {
				return []console.Failure{found}
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

// Unjoined are the objects whose consoles may tell something: machines without node, and pools
// that lack machines.
func (f *Facts) Unjoined() []*Object {
	var found []*Object
	for _, o := range f.Objects {
		switch o.Kind {
		case KindMachine:
			if !o.Joined {
				found = append(found, o)
			}
		case KindSet, KindDeployment:
			if o.Ready < o.Desired {
				found = append(found, o)
			}
		}
	}
	return found
}

// Pool is the pool that keeps the consoles of o: the last MachineDeployment or MachineSet above it.
// nil: it belongs to none.
func (f *Facts) Pool(o *Object) *Object {
	var found *Object
	for part := o; part != nil; part = f.owner(part) {
		if _, name := ConsoleSecret(part); name != "" {
			found = part
		}
	}
	return found
}

// consoles are what an explanation of o shows of consoles.
func (f *Facts) consoles(o *Object) []Console {
	if o.Kind == KindMachine && (o.Joined || o.ProviderID == "") {
		return nil // what it lacks has nothing to do with joining
	}
	var shown []Console
	for _, failure := range f.Failures(o) {
		v := failure.Verdict()
		shown = append(shown, Console{
			Machine: failure.Machine, Read: metav1.NewTime(failure.Read), Cause: v.Cause, Summary: v.Summary, Remedy: v.Remedy,
			Line: v.Line,
		})
	}
	return shown
}
