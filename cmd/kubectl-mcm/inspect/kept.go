package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

// Kept returns the consoles that the manager has kept: of a pool those of its last machines that
// did not join, the newest first; of a machine, which may be gone, its own. None is an error.
func (d Deps) Kept(ctx context.Context, kind, name string) ([]console.Failure, error) {
	clusters, err := d.Connect()
	if err != nil {
		return nil, err
	}
	facts, err := read.Source{
		Control: clusters.Control, Target: clusters.Target, Namespace: clusters.Namespace, Now: d.Now(), AllConsoles: true,
	}.All(ctx)
	if err != nil {
		return nil, err
	}
	var found []console.Failure
	switch wanted, _ := kindOf(kind); wanted {
	case explain.KindMachine, explain.KindMCMMachine:
		found = ofMachine(facts, name)
	case explain.KindDeployment, explain.KindSet:
		objects, err := resolve(facts, kind+"/"+name)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			found = append(found, facts.Failures(o)...)
		}
	default:
		return nil, fmt.Errorf("%s: consoles are kept of machines and their pools; name a machine, machineset or "+
			"machinedeployment", kind)
	}
	if len(found) == 0 {
		return nil, errors.Join(append([]error{errNothingKept}, unread(facts)...)...)
	}
	return found, nil
}

var errNothingKept = errors.New("no console is kept: no machine failed to join while the manager could read its " +
	"console and write Secrets in the namespace; the Event ConsoleRead may name the cause")

// unread are what the reader may not read, as errors.
func unread(f *explain.Facts) []error {
	var all []error
	for _, text := range f.Unread {
		all = append(all, errors.New("not read: "+text))
	}
	return all
}

// ofMachine looks for a machine in what is kept of all pools. The MCMMachine of a Machine has its name.
func ofMachine(f *explain.Facts, name string) []console.Failure {
	var found []console.Failure
	for _, all := range f.Consoles {
		for i := range all {
			if all[i].Machine == name {
				found = append(found, all[i])
			}
		}
	}
	slices.SortFunc(found, func(a, b console.Failure) int { return b.Read.Compare(a.Read) })
	return found
}
