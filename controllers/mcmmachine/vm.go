package mcmmachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/claims"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// vm is the MCMMachine of a pass as the engine sees it.
func (c *Controller) vm(p *pass) *vm.Machine {
	m := &vm.Machine{
		Object: p.object, State: stateOf(p.object), Noted: &p.did.scope,
		Save: func(ctx context.Context, change func(*vm.State)) (vm.State, error) {
			err := c.patch(ctx, p, func(o *infrav1.MCMMachine) {
				s := stateOf(o)
				change(&s)
				setState(o, s, p.did.network)
			})
			return stateOf(p.object), err
		},
		ClassName: p.usedClass(), Class: p.seen.class, ClassErr: p.seen.classErr,
		Pool: func(ctx context.Context) ([]fallback.Candidate, error) { return c.pool(ctx, p) },
		Substitutes: func(ctx context.Context) ([]class.Resolved, error) {
			recorded, _ := machinev1.SubstituteClass(p.object)
			return class.Substitutes(ctx, c.Client, class.Search{
				Resolve: c.classes.ResolveForClusterAPI, Namespace: p.object.Namespace, ProviderID: p.object.Spec.ProviderID,
				First: recorded, Own: p.usedClass(),
			})
		},
		Peers:        func(ctx context.Context) ([]vm.Peer, error) { return c.peers(ctx, p) },
		UserData:     func(ctx context.Context) ([]byte, bool, error) { return c.userData(ctx, p) },
		ProviderIDOf: func(made cloud.VM) string { return made.NodeProviderID },
		Claimant: func(ctx context.Context, ownerID string, providerIDs ...string) (string, error) {
			return claims.Claims{Live: c.Live, Namespace: c.Namespace}.Other(ctx, p.object, ownerID, providerIDs...)
		},
		Cluster:  clusterID(p),
		Released: p.object.Annotations[machinev1.ReleaseAnnotation] == "true",
		Emit: func(eventType, reason, message string) {
			p.did.events = append(p.did.events, kubeEvent{eventType, reason, message})
		},
	}
	if p.seen.machine != nil && p.seen.cluster != nil {
		m.ControlPlane = util.IsControlPlaneMachine(p.seen.machine)
		m.Request = cloud.CreateRequest{
			Tags: tags(p), Zone: p.seen.machine.Spec.FailureDomain, Annotations: p.object.Spec.NodeTemplate.Annotations,
			Network: p.did.network,
		}
	}
	return m
}

// stateOf is what an MCMMachine has on record of its VM. The number of the attempt stands there from the intent until
// the VM is complete.
func stateOf(o *infrav1.MCMMachine) vm.State {
	s := vm.ReadState(o)
	s.Class, s.ProviderID = o.Annotations[infrav1.MadeFromAnnotation], o.Spec.ProviderID
	s.Checkpoint = o.Annotations[infrav1.CloudStateAnnotation]
	s.Requested = o.Annotations[machinev1.CreateAttemptAnnotation] != ""
	s.Complete = s.ProviderID != "" && !s.Requested
	return s
}

// setState writes a State into an MCMMachine. While a VM is being made, clusterctl is kept from moving the object, and
// the static addresses are on record that the VM is asked for with.
func setState(o *infrav1.MCMMachine, s vm.State, network []cloud.Interface) {
	s.Write(o)
	o.Spec.ProviderID = s.ProviderID
	machinev1.SetOrRemoveAnnotation(o, infrav1.MadeFromAnnotation, s.Class)
	switch {
	case s.Complete:
		delete(o.Annotations, machinev1.CreateAttemptAnnotation)
		delete(o.Annotations, capi.BlockMoveAnnotation)
		s.Checkpoint = ""
	case s.Requested:
		machinev1.SetAnnotation(o, machinev1.CreateAttemptAnnotation, s.AttemptText())
		machinev1.SetAnnotation(o, capi.BlockMoveAnnotation, "true")
		if addresses := recordOf(network); addresses != "" {
			machinev1.SetAnnotation(o, infrav1.IPAddressesAnnotation, addresses)
		}
	}
	machinev1.SetOrRemoveAnnotation(o, infrav1.CloudStateAnnotation, s.Checkpoint)
}

// pool are the classes that an MCMMachine may have; nil: its spec names one.
func (c *Controller) pool(ctx context.Context, p *pass) ([]fallback.Candidate, error) {
	o := p.object
	if len(o.Spec.FallbackClassRefs) == 0 || p.seen.pool != nil {
		return p.seen.pool, nil
	}
	pool := fallback.Pool{Namespace: o.Namespace, Classes: o.Spec.ClassNames()}
	if p.seen.machine != nil {
		pool.Zone = p.seen.machine.Spec.FailureDomain
	}
	return fallback.Candidates(ctx, c.Client, c.classes.ResolveForClusterAPI, pool)
}

// peers are the other MCMMachines of the class. Where no zone was chosen, that in which the VM is counts.
func (c *Controller) peers(ctx context.Context, p *pass) ([]vm.Peer, error) {
	var list infrav1.MCMMachineList
	err := c.Client.List(ctx, &list, client.InNamespace(p.object.Namespace),
		client.MatchingFields{index.MCMMachineByClass: p.usedClass()})
	var peers []vm.Peer
	for i := range list.Items {
		o := &list.Items[i]
		if o.UID != p.object.UID && className(o) == p.usedClass() {
			s := stateOf(o)
			s.Zone = cmp.Or(s.Zone, o.Status.FailureDomain)
			peers = append(peers, vm.Peer{State: s, Deleting: !o.DeletionTimestamp.IsZero()})
		}
	}
	return peers, err
}

// bootstrapDataKey is the entry of a bootstrap Secret that holds the boot data, as
// Cluster API's contract for bootstrap providers says.
const bootstrapDataKey = "value"

// userData is what the bootstrap provider wrote, packed if it is too large for the
// cloud. The data itself shows whether it is cloud-config or ignition.
func (c *Controller) userData(ctx context.Context, p *pass) (data []byte, spent bool, err error) {
	const field = "spec.bootstrap.dataSecretName"
	machine := p.seen.machine
	name := ptr.Deref(machine.Spec.Bootstrap.DataSecretName, "")
	if name == "" {
		return nil, false, invalidBootstrapData(infrav1.ReasonWaitingForBootstrap, field,
			"is empty; the bootstrap provider fills it in")
	}
	secret := &corev1.Secret{}
	err = c.Client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, false, invalidBootstrapData(infrav1.ReasonBootstrapNotFound, field,
			fmt.Sprintf("there is no Secret %q; create it, or delete the Machine", name))
	}
	if err != nil {
		return nil, false, fmt.Errorf("read bootstrap Secret %s: %w", name, err)
	}
	if len(secret.Data[bootstrapDataKey]) == 0 {
		return nil, false, invalidBootstrapData(infrav1.ReasonInvalidBootstrapData, field,
			fmt.Sprintf("Secret %q has no entry %q; put the boot data there", name, bootstrapDataKey))
	}
	packed, err := bootstrap.Pack(secret.Data[bootstrapDataKey], p.seen.class.Driver.Traits().UserDataMax)
	if err != nil {
		return nil, false, invalidBootstrapData(infrav1.ReasonInvalidBootstrapData,
			fmt.Sprintf("Secret %s[%s]", name, bootstrapDataKey), err.Error())
	}
	return packed, false, nil
}

// invalidBootstrapData is an error about the Machine's boot data.
func invalidBootstrapData(reason, field, message string) error {
	return &cloud.Error{
		Code: cloud.Invalid, Op: "prepare boot data", Reason: reason,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + ": " + message),
	}
}
