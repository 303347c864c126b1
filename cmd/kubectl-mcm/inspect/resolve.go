package inspect

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// kinds are the words for a kind: its name in the singular or plural, and its short names.
var kinds = map[string]string{
	"machine": explain.KindMachine, "mc": explain.KindMachine, "ma": explain.KindMachine,
	"machineset": explain.KindSet, "mcs": explain.KindSet, "ms": explain.KindSet,
	"machinedeployment": explain.KindDeployment, "mcd": explain.KindDeployment, "md": explain.KindDeployment,
	"cluster": explain.KindCluster, "cl": explain.KindCluster,
	"mcmcluster": explain.KindMCMCluster, "mcmmachine": explain.KindMCMMachine, "mcmconfig": explain.KindMCMConfig,
	"mcmexternalcontrolplane": explain.KindControlPlane,
	"node":                    explain.KindNode, "no": explain.KindNode,
}

// byName are the kinds that a name without kind is looked for in, the largest first.
var byName = []string{
	explain.KindCluster, explain.KindDeployment, explain.KindSet, explain.KindMachine, explain.KindMCMMachine,
}

// named finds the objects that the words of a command line name, or with --selector those of
// the kinds that they name.
func (f *flags) named(facts *explain.Facts, words []string) ([]*explain.Object, error) {
	selector, err := f.labels()
	if err != nil {
		return nil, err
	}
	var all []*explain.Object
	for _, word := range words {
		var found []*explain.Object
		if selector == nil {
			found, err = resolve(facts, word)
		} else {
			found, err = selected(facts, word, selector)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// selected returns the objects of a kind that a selector matches. Both APIs may have some.
func selected(f *explain.Facts, word string, selector labels.Selector) ([]*explain.Object, error) {
	kind, known := kindOf(word)
	if !known || kind == explain.KindNode {
		return nil, fmt.Errorf("%s: with --selector name a kind, and no object; use machine, machineset, "+
			"machinedeployment, mcmmachine or cluster", word)
	}
	var found []*explain.Object
	for _, o := range f.Objects {
		if o.Kind == kind && inGroup(o, word) && selector.Matches(labels.Set(o.Labels)) {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s with labels %s: %w", word, selector, errNoObject)
	}
	return found, nil
}

// inGroup reports whether an object is of the API that a word names with its kind; true without one.
func inGroup(o *explain.Object, word string) bool {
	_, group, _ := strings.Cut(strings.ToLower(word), ".")
	return group == "" || strings.HasPrefix(o.APIVersion, strings.TrimPrefix(group, "v1.")+"/")
}

// resolve finds the objects that a word of the command line names. Both APIs may have one.
func resolve(f *explain.Facts, word string) ([]*explain.Object, error) {
	written, name, hasKind := strings.Cut(word, "/")
	if !hasKind {
		for _, kind := range byName {
			if found := f.Find(kind, word); len(found) > 0 {
				return found, nil
			}
		}
		return nil, fmt.Errorf("%s: %w", word, errNoObject)
	}
	kind, known := kindOf(written)
	if !known {
		return nil, fmt.Errorf("%s: kind %q is not known; use machine, machineset, machinedeployment, mcmmachine, cluster "+
			"or node", word, written)
	}
	found := f.Find(kind, name)
	if kind == explain.KindNode {
		found = f.MachinesOfNode(name)
	}
	found = slices.DeleteFunc(slices.Clone(found), func(o *explain.Object) bool { return !inGroup(o, written) })
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", word, errNoObject)
	}
	return found, nil
}

// kindOf is the kind that a word stands for, with or without a group.
func kindOf(written string) (kind string, known bool) {
	short, _, _ := strings.Cut(strings.ToLower(written), ".")
	if kind, known = kinds[short]; !known {
		kind, known = kinds[strings.TrimSuffix(short, "s")]
	}
	return kind, known
}
