// Package read reads what a namespace, or all, have of both APIs. [Objects] are what every verb of
// kubectl mcm works on, and the facts of an explanation follow from them. It only reads, and leaves out,
// with a note, what the user may not read.
package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
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
		err := pages(ctx, s.Control, &corev1.EventList{}, &f.Events, client.InNamespace(s.Namespace))
		unread(f, "Events", err)
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

// unread notes what could not be read and an explanation can do without.
func unread(f *explain.Facts, what string, err error) {
	if err != nil {
		f.Unread = append(f.Unread, fmt.Sprintf("%s: %v", what, err))
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

// maxTokens is how many bootstrap tokens are read: one request each.
const maxTokens = 10

// joining reads what tells why nodes do not join: requests for certificates, and the
// expiration of bootstrap tokens, which a reader needs a right of its own for.
func (s Source) joining(ctx context.Context, f *explain.Facts) {
	unread(f, "CertificateSigningRequests",
		pages(ctx, s.Target, &certificatesv1.CertificateSigningRequestList{}, &f.Requests))
	if s.NoSecrets {
		return
	}
	for _, o := range f.Objects {
		id := o.TokenID()
		waitsForVM := o.ProviderID == "" && (o.Kind == explain.KindMachine || o.Kind == explain.KindMCMMachine)
		if id == "" || o.Joined || waitsForVM {
			continue
		}
		if len(f.TokensRead) == maxTokens {
			return
		}
		if err := s.token(ctx, f, id); err != nil {
			f.Unread = append(f.Unread, fmt.Sprintf("bootstrap tokens: %v", err))
			return
		}
	}
}

// token reads when a bootstrap token expires, and nothing else of it.
func (s Source) token(ctx context.Context, f *explain.Facts, id string) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: token.SecretName(id)}
	err := s.Target.Get(ctx, key, secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	f.TokensRead[id] = true
	if apierrors.IsNotFound(err) {
		return nil
	}
	expires, err := time.Parse(time.RFC3339, string(secret.Data[token.KeyExpiration]))
	if err != nil {
		expires = time.Time{} // without a valid expiration a token lives for ever
	}
	f.Tokens[id] = explain.Token{Expires: expires}
	return nil
}

// maxPools is how many pools' consoles are read: one request each.
const maxPools = 20

// consoles reads what is kept of the consoles of machines that did not join, of the pools that lack
// machines, or of all. A reader needs a right of its own for it.
func (s Source) consoles(ctx context.Context, f *explain.Facts) {
	var objects []*explain.Object
	most := maxPools
	switch {
	case s.AllConsoles:
		objects, most = f.Objects, len(f.Objects)
	case s.Consoles:
		objects = f.Unjoined()
	}
	var refused error
	for _, key := range consoleSecrets(f, objects, most) {
		failures, err := s.failures(ctx, key)
		if apierrors.IsForbidden(err) {
			refused = err // the right may be to the Secrets of other pools: RBAC names them
			continue
		}
		if err != nil {
			f.Unread = append(f.Unread, unreadConsoles(err))
			return
		}
		f.Consoles[key.String()] = failures
	}
	if refused != nil && slices.ContainsFunc(objects, waitsToJoin) {
		f.Unread = append(f.Unread, unreadConsoles(refused))
	}
}

// consoleSecrets are the Secrets with the consoles of the pools of objects, each once, and that many
// at most.
func consoleSecrets(f *explain.Facts, objects []*explain.Object, most int) []client.ObjectKey {
	var keys []client.ObjectKey
	for _, o := range objects {
		pool := f.Pool(o)
		if len(keys) == most {
			return keys
		}
		if pool == nil {
			continue
		}
		namespace, name := explain.ConsoleSecret(pool)
		if key := (client.ObjectKey{Namespace: namespace, Name: name}); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

func unreadConsoles(err error) string {
	return fmt.Sprintf("consoles of machines that did not join: %v", err)
}

// waitsToJoin reports whether o is a machine whose VM exists and whose node does not. Without
// one, consoles of machines before explain nothing, and a warning that they are unread would mislead.
func waitsToJoin(o *explain.Object) bool {
	return o.Kind == explain.KindMachine && o.ProviderID != "" && !o.Joined
}

// failures reads the Secret of a pool, if there is one.
func (s Source) failures(ctx context.Context, key client.ObjectKey) ([]console.Failure, error) {
	secret := &corev1.Secret{}
	err := s.Control.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) || err == nil && secret.Type != machinev1.ConsoleEvidenceType {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return console.Parse(secret.Data[console.EvidenceKey])
}
