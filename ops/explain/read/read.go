// Package read collects the facts of an explanation from API servers. It only reads, and
// leaves out, with a note, what the user may not read.
package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// Source is where facts come from.
type Source struct {
	Control, Target client.Reader // the same where one cluster has objects and nodes
	Namespace       string        // empty: all
	Now             time.Time
	Events          bool // reads the Events of the namespace too
	Joining         bool // reads what tells why a node does not join
	Consoles        bool // reads what is kept of the consoles of machines that did not join
	AllConsoles     bool // reads those of all pools, and not only of those that lack machines
	NoSecrets       bool // leaves out whether bootstrap tokens have expired, which Secrets tell
}

// pageSize is how many objects a request asks for.
const pageSize = 500

// nodesTimeout is how long the Nodes may take: an API server that is silent is a finding.
const nodesTimeout = 20 * time.Second

// errNothing is returned where neither API can be read.
var errNothing = errors.New("neither Machines of the native API nor Machines of Cluster API can be read")

// All reads everything that an explanation needs.
func (s Source) All(ctx context.Context) (*explain.Facts, error) {
	f := &explain.Facts{
		Now: s.Now, Tokens: map[string]explain.Token{}, TokensRead: map[string]bool{},
		Consoles: map[string][]console.Failure{},
	}
	served := 0
	for _, kind := range s.kinds(f) {
		err := list(ctx, s.Control, kind, client.InNamespace(s.Namespace))
		switch {
		case err == nil:
			served++
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			f.Unread = append(f.Unread, kind.name+": "+err.Error())
		default:
			return nil, fmt.Errorf("list %s: %w", kind.name, err)
		}
	}
	if served == 0 {
		return nil, fmt.Errorf("%w: %v", errNothing, f.Unread)
	}
	s.nodes(ctx, f)
	if s.Events {
		s.optional(ctx, f, s.Control, kind{"Events", &corev1.EventList{}, func(l client.ObjectList) {
			f.Events = append(f.Events, l.(*corev1.EventList).Items...)
		}})
	}
	s.consoles(ctx, f)
	if s.Joining && f.TargetError == "" {
		s.joining(ctx, f)
	}
	return f, nil
}

// kind is a list of one kind, and what becomes of it.
type kind struct {
	name string
	list client.ObjectList
	take func(client.ObjectList)
}

// kinds are those of both APIs.
func (s Source) kinds(f *explain.Facts) []kind {
	return append(s.nativeKinds(f), s.capiKinds(f)...)
}

func (s Source) nativeKinds(f *explain.Facts) []kind {
	return []kind{
		{"MachineClasses", &machinev1.MachineClassList{}, func(l client.ObjectList) {
			add(f, l.(*machinev1.MachineClassList).Items, explain.OfMachineClass)
		}},
		{"MachineDeployments", &machinev1.MachineDeploymentList{}, func(l client.ObjectList) {
			add(f, l.(*machinev1.MachineDeploymentList).Items, explain.OfMachineDeployment)
		}},
		{"MachineSets", &machinev1.MachineSetList{}, func(l client.ObjectList) {
			add(f, l.(*machinev1.MachineSetList).Items, explain.OfMachineSet)
		}},
		{"Machines", &machinev1.MachineList{}, func(l client.ObjectList) {
			add(f, l.(*machinev1.MachineList).Items, explain.OfMachine)
		}},
	}
}

func (s Source) capiKinds(f *explain.Facts) []kind {
	return []kind{
		{"Clusters", &clusterv1.ClusterList{}, func(l client.ObjectList) {
			add(f, l.(*clusterv1.ClusterList).Items, explain.OfCluster)
		}},
		{"MachineDeployments of Cluster API", &clusterv1.MachineDeploymentList{}, func(l client.ObjectList) {
			add(f, l.(*clusterv1.MachineDeploymentList).Items, explain.OfCAPIDeployment)
		}},
		{"MachineSets of Cluster API", &clusterv1.MachineSetList{}, func(l client.ObjectList) {
			add(f, l.(*clusterv1.MachineSetList).Items, explain.OfCAPISet)
		}},
		{"Machines of Cluster API", &clusterv1.MachineList{}, func(l client.ObjectList) {
			add(f, l.(*clusterv1.MachineList).Items, explain.OfCAPIMachine)
		}},
		{"MCMClusters", &infrav1.MCMClusterList{}, func(l client.ObjectList) {
			add(f, l.(*infrav1.MCMClusterList).Items, explain.OfMCMCluster)
		}},
		{"MCMMachines", &infrav1.MCMMachineList{}, func(l client.ObjectList) {
			add(f, l.(*infrav1.MCMMachineList).Items, explain.OfMCMMachine)
		}},
		{"MCMConfigs", &bootstrapv1.MCMConfigList{}, func(l client.ObjectList) {
			add(f, l.(*bootstrapv1.MCMConfigList).Items, explain.OfMCMConfig)
		}},
		{"MCMExternalControlPlanes", &controlplanev1.MCMExternalControlPlaneList{}, func(l client.ObjectList) {
			add(f, l.(*controlplanev1.MCMExternalControlPlaneList).Items, explain.OfControlPlane)
		}},
	}
}

func add[T any](f *explain.Facts, items []T, of func(*T) *explain.Object) {
	for i := range items {
		f.Objects = append(f.Objects, of(&items[i]))
	}
}

// list reads a list page by page.
func list(ctx context.Context, from client.Reader, k kind, opts ...client.ListOption) error {
	next := ""
	for {
		page := k.list.DeepCopyObject().(client.ObjectList) // of its own: what is taken is not overwritten
		if err := from.List(ctx, page, append(opts, client.Limit(pageSize), client.Continue(next))...); err != nil {
			return err
		}
		k.take(page)
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

// optional reads what an explanation can do without.
func (s Source) optional(ctx context.Context, f *explain.Facts, from client.Reader, k kind) {
	var opts []client.ListOption
	if _, namespaced := k.list.(*corev1.EventList); namespaced {
		opts = append(opts, client.InNamespace(s.Namespace))
	}
	if err := list(ctx, from, k, opts...); err != nil {
		f.Unread = append(f.Unread, fmt.Sprintf("%s: %v", k.name, err))
	}
}

// nodes reads the Nodes. An API server that does not answer is a finding of its own.
func (s Source) nodes(ctx context.Context, f *explain.Facts) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	err := list(ctx, s.Target, kind{"Nodes", &corev1.NodeList{}, func(l client.ObjectList) {
		f.Nodes = append(f.Nodes, l.(*corev1.NodeList).Items...)
	}})
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		f.Unread = append(f.Unread, "Nodes: "+err.Error())
	default:
		f.TargetError = err.Error()
		f.Unread = append(f.Unread, "Nodes: "+err.Error())
	}
}
