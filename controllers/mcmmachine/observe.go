package mcmmachine

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// pass is one reconcile of an MCMMachine: what it has read, the object as it is
// after what it wrote, and what the steps did. report derives the status from it.
type pass struct {
	seen   observation
	object *infrav1.MCMMachine
	did    outcomes
}

// observation is what a pass reads before the first step. No step changes it.
type observation struct {
	now         time.Time
	before      *infrav1.MCMMachine // as read
	machine     *clusterv1.Machine  // that owns it; nil: none, or it does not exist
	cluster     *clusterv1.Cluster  // nil: none, or it does not exist
	clusterName string              // as object or Machine name it; empty: they do not
	infra       *infrav1.MCMCluster // of the Cluster; nil: it has another infrastructure
	paused      string              // why the object is to be left alone; empty: it is not
	class       class.Resolved
	classErr    error                // why class could not be read
	pool        []fallback.Candidate // the classes that the VM may get; nil: there is only one, or it has one
	chosen      string               // the one of pool that class is; empty: nothing was to be chosen
	addresses   []poolAddress
}

// outcomes are what the steps did, and what they found out.
type outcomes struct {
	vm       *cloud.VM // as the cloud showed it in this pass; nil if it was not asked
	scope    string    // account of the cloud that the next write records; empty: none
	complete bool      // nothing is left to be done for the VM

	// network is what the VM is asked for with; nil: it wants no static addresses, or they
	// are not all there.
	network []cloud.Interface

	// What was found out; nil: nothing, so the condition stays.
	vmCondition, cloudCondition, credentialsCondition *condition
	nodeCondition, addressCondition                   *condition
	nodeConditionObsolete                             bool // nothing is asked for of the Node any more

	// upkeep is what is known of what belongs to the VM, by the condition that shows it.
	upkeep map[string]vm.Upkeep

	deletionWaitsFor *condition
	console          *console.Failure // of the machine, which did not join; nil: nothing is known
	vmRetained       bool             // the VM stays, as the user wants it
	finalizerRemoved bool
	requeue          time.Duration // until the next pass; 0: when something changes
	events           []kubeEvent
}

// condition is the part of a condition that varies.
type condition struct {
	status          metav1.ConditionStatus
	reason, message string
}

// kubeEvent is an Event about something that a person would ask about.
type kubeEvent struct{ kind, reason, message string }

func conditionTrue(reason string) *condition { return &condition{metav1.ConditionTrue, reason, ""} }

func conditionFalse(reason, message string) *condition {
	return &condition{metav1.ConditionFalse, reason, message}
}

// observe reads what there is to know about o without asking the cloud.
func (c *Controller) observe(ctx context.Context, o *infrav1.MCMMachine) (*pass, error) {
	p := &pass{object: o.DeepCopy(), seen: observation{now: c.Clock.Now(), before: o}}
	p.did.upkeep = map[string]vm.Upkeep{}
	seen, err := &p.seen, error(nil)
	if seen.machine, err = capi.MachineOf(ctx, c.Client, o); err != nil {
		return nil, err
	}
	if seen.cluster, seen.clusterName, err = capi.ClusterOf(ctx, c.Client, o); err != nil {
		return nil, err
	}
	if seen.clusterName == "" && seen.machine != nil {
		if seen.cluster, seen.clusterName, err = capi.ClusterOf(ctx, c.Client, seen.machine); err != nil {
			return nil, err
		}
	}
	if seen.infra, err = capi.InfraClusterOf(ctx, c.Client, seen.cluster); err != nil {
		return nil, err
	}
	seen.paused = capi.Paused(seen.cluster, o)
	seen.class, seen.classErr = c.resolveClass(ctx, o)
	if err := c.observeClasses(ctx, p); err != nil {
		return nil, err
	}
	seen.addresses, err = c.observeAddresses(ctx, o)
	return p, err
}

// resolveClass reads the class of the VM: that which it was created from, or, where the spec does
// not name that any more, the first one that it names. That one may be of another account, which
// does not show the VM: a deletion with it has to prove first that it does.
func (c *Controller) resolveClass(ctx context.Context, o *infrav1.MCMMachine) (class.Resolved, error) {
	name := className(o)
	resolved, err := c.classes.ResolveForClusterAPI(ctx, c.Client, o.Namespace, name)
	proves := !o.DeletionTimestamp.IsZero() && o.Spec.ProviderID != ""
	if err != nil || resolved.Object != nil || slices.Contains(o.Spec.ClassNames(), name) || proves {
		return resolved, err
	}
	return c.classes.ResolveForClusterAPI(ctx, c.Client, o.Namespace, o.Spec.MachineClassRef.Name)
}

// observeClasses reads the classes that an MCMMachine without VM may get, where its spec names
// several, and chooses one for a VM that nothing was asked for yet.
func (c *Controller) observeClasses(ctx context.Context, p *pass) error {
	o := p.object
	if len(o.Spec.FallbackClassRefs) == 0 || o.Spec.ProviderID != "" || provisioned(o) ||
		!o.DeletionTimestamp.IsZero() || p.seen.paused != "" {
		return nil
	}
	pool := fallback.Pool{Namespace: o.Namespace, Classes: o.Spec.ClassNames()}
	if p.seen.machine != nil {
		pool.Zone = p.seen.machine.Spec.FailureDomain
	}
	var err error
	p.seen.pool, err = fallback.Candidates(ctx, c.Client, c.classes.ResolveForClusterAPI, pool)
	if err != nil || !neverCreated(o) {
		return err
	}
	if chosen, ok := c.Fallback.Next(p.seen.pool, machinev1.OwnerID(o), ""); ok {
		p.seen.class, p.seen.classErr, p.seen.chosen = chosen.Resolved, nil, chosen.Name
	}
	return nil
}

// missingOwner is why an MCMMachine is not reconciled at all.
func missingOwner(p *pass) *condition {
	if p.seen.machine == nil {
		return conditionFalse(infrav1.ReasonWaitingForMachine,
			"No Machine of Cluster API owns this object yet; it makes no VM by itself")
	}
	if p.seen.clusterName == "" {
		return conditionFalse(infrav1.ReasonWaitingForCluster,
			"Neither this object nor its Machine names a Cluster in the label "+clusterv1.ClusterNameLabel)
	}
	return conditionFalse(infrav1.ReasonWaitingForCluster, "Cluster "+p.seen.clusterName+" does not exist")
}

// provisioned reports whether Cluster API has been told that the VM exists.
func provisioned(o *infrav1.MCMMachine) bool {
	return o.Status.Initialization.Provisioned != nil && *o.Status.Initialization.Provisioned
}

// requeueAfter shortens the wait of p to d; 0 is no wait.
func requeueAfter(p *pass, d time.Duration) {
	if d > 0 && (p.did.requeue == 0 || d < p.did.requeue) {
		p.did.requeue = d
	}
}

func warn(p *pass, reason, message string) {
	p.did.events = append(p.did.events, kubeEvent{corev1.EventTypeWarning, reason, message})
}
