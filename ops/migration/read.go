package migration

import (
	"cmp"
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// ReadPool reads what there is of a pool on both APIs, and its nodes. control is
// the cluster with the objects, target that with the nodes; both are to read from
// the API server. cluster names the Cluster that the pool is moved to; empty is the
// one that its move goes to or that it belongs to, if there is one. What does not
// exist is left empty; an error is one of the API server's.
func ReadPool(ctx context.Context, control, target client.Reader, p Pool, cluster string) (*PoolState, error) {
	fleet, err := ReadFleet(ctx, Readers{control, target}, p.Namespace, cluster, p)
	if err != nil {
		return nil, err
	}
	return fleet.Pools[0], nil
}

// Readers read the cluster with the objects and that with the nodes, from their API servers.
type Readers struct {
	Control, Target client.Reader
}

// Fleet is what is known of several pools of a namespace at one time.
type Fleet struct {
	Pools []*PoolState
}

// ReadFleet reads pools as ReadPool does, with the same few calls for any number
// of pools; no pools are all that are on either API.
func ReadFleet(ctx context.Context, from Readers, namespace, cluster string, pools ...Pool) (*Fleet, error) {
	around, err := ReadNamespace(ctx, from.Control, namespace)
	if err != nil {
		return nil, err
	}
	if len(pools) == 0 {
		pools = around.pools()
	}
	records, err := Records(ctx, from.Control, namespace)
	if err != nil {
		return nil, err
	}
	f := &Fleet{}
	nodes := newNodeReader(from.Target)
	index := newOwners(around)
	for _, p := range pools {
		record := recordOf(records, p)
		s := index.state(p, cmp.Or(cluster, record.cluster()))
		s.Record = record
		if s.Nodes, err = nodes.of(ctx, s); err != nil {
			return nil, err
		}
		f.Pools = append(f.Pools, s)
	}
	return f, nil
}

// recordOf is the record of a pool; nil if it was never moved.
func recordOf(records []Record, p Pool) *Record {
	if i := slices.IndexFunc(records, func(r Record) bool { return r.Pool == p }); i >= 0 {
		return &records[i]
	}
	return nil
}

// pools are the pools of both APIs, each once, MachineDeployments first, by name.
func (s *Namespace) pools() []Pool {
	seen := map[Pool]bool{}
	add := func(kind Kind, o metav1.Object) {
		if kind == KindDeployment || metav1.GetControllerOf(o) == nil {
			seen[Pool{kind, s.Namespace, o.GetName()}] = true
		}
	}
	for i := range s.Deployments {
		add(KindDeployment, &s.Deployments[i])
	}
	for i := range s.Sets {
		add(KindSet, &s.Sets[i])
	}
	for i := range s.Machines {
		add(KindMachine, &s.Machines[i])
	}
	for i := range s.ClusterDeployments {
		add(KindDeployment, &s.ClusterDeployments[i])
	}
	for i := range s.ClusterSets {
		add(KindSet, &s.ClusterSets[i])
	}
	for i := range s.ClusterMachines {
		if s.ClusterMachines[i].Spec.InfrastructureRef.Kind == objects.KindMCMMachine {
			add(KindMachine, &s.ClusterMachines[i])
		}
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Kind.rank(), b.Kind.rank()), cmp.Compare(a.Name, b.Name))
	})
}

// On is the fleet without the pools that are not on that API, or not any more.
func (f *Fleet) On(d API) *Fleet {
	out := *f
	out.Pools = slices.DeleteFunc(slices.Clone(f.Pools), func(s *PoolState) bool {
		if s.Record != nil && s.Record.Phase != PhaseFinished {
			return s.Record.Authority() != d
		}
		return !s.On(d)
	})
	return &out
}
