// Package read reads what a namespace, or all, have of both APIs. [Objects] are what every verb of
// kubectl mcm works on, and the facts of an explanation follow from them. It only reads, and leaves out,
// with a note, what the user may not read.
package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	_, f, err := s.Objects(ctx)
	return f, err
}

// Objects returns besides the objects that the facts were made from.
func (s Source) Objects(ctx context.Context) (*Objects, *explain.Facts, error) {
	o, err := List(ctx, s.Control, s.Namespace, explained...)
	if err != nil {
		return nil, nil, err
	}
	f := &explain.Facts{
		Now: s.Now, Objects: facts(o), Tokens: map[string]explain.Token{}, TokensRead: map[string]bool{},
		Consoles: map[string][]console.Failure{},
	}
	for _, kind := range explained {
		if err := o.Refused[kind]; err != nil {
			f.Unread = append(f.Unread, string(kind)+": "+err.Error())
		}
	}
	if len(o.Unserved)+len(o.Refused) == len(explained) {
		return nil, nil, fmt.Errorf("%w: %v", errNothing, f.Unread)
	}
	s.nodes(ctx, f)
	o.Nodes = f.Nodes
	if s.Events {
		optional(ctx, f, "Events", s.Control, &corev1.EventList{}, &f.Events, client.InNamespace(s.Namespace))
	}
	s.consoles(ctx, f)
	if s.Joining && f.TargetError == "" {
		s.joining(ctx, f)
	}
	return o, f, nil
}

// facts are the objects as an explanation sees them.
func facts(o *Objects) (all []*explain.Object) {
	add(&all, o.MachineClasses, explain.OfMachineClass)
	add(&all, o.Deployments, explain.OfMachineDeployment)
	add(&all, o.Sets, explain.OfMachineSet)
	add(&all, o.Machines, explain.OfMachine)
	add(&all, o.Clusters, explain.OfCluster)
	add(&all, o.ClusterDeployments, explain.OfCAPIDeployment)
	add(&all, o.ClusterSets, explain.OfCAPISet)
	add(&all, o.ClusterMachines, explain.OfCAPIMachine)
	add(&all, o.MCMClusters, explain.OfMCMCluster)
	add(&all, o.MCMMachines, explain.OfMCMMachine)
	add(&all, o.MCMConfigs, explain.OfMCMConfig)
	add(&all, o.ControlPlanes, explain.OfControlPlane)
	return all
}

func add[T any](all *[]*explain.Object, items []T, of func(*T) *explain.Object) {
	for i := range items {
		*all = append(*all, of(&items[i]))
	}
}

// optional reads what an explanation can do without.
func optional(ctx context.Context, f *explain.Facts, name string, from client.Reader, list client.ObjectList, into any,
	opts ...client.ListOption,
) {
	if err := pages(ctx, from, list, into, opts...); err != nil {
		f.Unread = append(f.Unread, fmt.Sprintf("%s: %v", name, err))
	}
}

// ReadNodes reads all Nodes of the cluster with the nodes.
func (o *Objects) ReadNodes(ctx context.Context, target client.Reader) error {
	if err := pages(ctx, target, &corev1.NodeList{}, &o.Nodes); err != nil {
		return fmt.Errorf("list Nodes: %w", err)
	}
	return nil
}

// nodes reads the Nodes. An API server that does not answer is a finding of its own.
func (s Source) nodes(ctx context.Context, f *explain.Facts) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	err := pages(ctx, s.Target, &corev1.NodeList{}, &f.Nodes)
	if err == nil {
		return
	}
	f.Unread = append(f.Unread, "Nodes: "+err.Error())
	if !apierrors.IsForbidden(err) {
		f.TargetError = err.Error()
	}
}
