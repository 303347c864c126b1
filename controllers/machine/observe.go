package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/drain"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// pass is one reconcile of a Machine: what it has read, the objects as they are
// after what it wrote, and what the steps did. report derives the status from it.
type pass struct {
	seen observation

	machine *machinev1.Machine

	nodeName      string       // name of the machine's node, empty until known
	node          *corev1.Node // nil: there is none, or no target cluster
	otherClaimant string       // another Machine that claims the node, empty if none
	nodeOwner     ownership    // of the node; unknown where no other Machine claims it

	did outcomes
}

// observation is what a pass reads before the first step. No step changes it.
type observation struct {
	now      time.Time
	before   *machinev1.Machine // as read
	settings settings
	warnings []string // about annotations and labels that cannot be read
	problems []string // about the spec
	frozen   bool     // Machines or Nodes could not be listed for too long
	cause    string   // of the freeze
	class    class.Resolved
	classErr error // why class could not be read
}

// outcomes are what the steps did, and what they found out.
type outcomes struct {
	vm      *cloud.VM // what the cloud returned in this pass; nil if it was not asked
	created bool      // the VM is complete and recorded
	scope   string    // account of the cloud that the next write records; empty: none

	createErr            error       // why there is no VM
	otherClasses         string      // why it gets none of another class of the pool either; empty: there is no other
	transition           *transition // of phase and operation; nil: none
	waitsFor             *waiting    // what the pass ends waiting for; nil: nothing
	expiry               *expiryChange
	warnings             []string             // about annotations that cannot be read
	upkeep               map[string]vm.Upkeep // what is known of what belongs to the VM, by the condition that shows it
	console              *console.Failure     // of the machine that did not join; nil: nothing is known
	outage               brake.Outage         // that protects the machine; zero: none
	restartHealthTimeout bool

	step             string        // MCM's name of the deletion step that the pass ends in
	deletionWaitsFor *waiting      // what deletion waits for; nil: nothing
	deletionBlocked  bool          // it waits for somebody to act
	drained          *drainState   // how far the drain is; nil if there is none
	vmRetained       bool          // the user released the Machine without its VM
	finalizerRemoved bool          // nothing is left to be done for the Machine
	requeue          time.Duration // until the next pass; 0: when something changes
	events           []kubeEvent
}

// waiting is something that a machine waits for.
type waiting struct{ reason, message string }

// drainState is how far a drain is.
type drainState struct {
	done            bool
	reason, message string
	took            time.Duration // if done
}

// drainStateOf is how far the drain with that result is.
func drainStateOf(r drain.Result) *drainState {
	return &drainState{r.Done, r.Reason, r.Message, r.Took}
}

// kubeEvent is an Event about something that a person would ask about.
type kubeEvent struct{ kind, reason, message string }

// observe reads what there is to know about m without asking the cloud.
func (c *Controller) observe(ctx context.Context, m *machinev1.Machine) (*pass, error) {
	p := &pass{machine: m.DeepCopy(), nodeName: m.Labels[machinev1.NodeLabel]}
	p.did.upkeep = map[string]vm.Upkeep{}
	p.seen = observation{
		now: c.Clock.Now(), before: m, problems: problems(m, c.Target != nil),
		frozen: c.Frozen != nil && c.Frozen() && m.DeletionTimestamp.IsZero(),
	}
	if p.seen.frozen && c.FreezeCause != nil {
		p.seen.cause = c.FreezeCause()
	}
	p.seen.settings, p.seen.warnings = settingsOf(m, c.Options)
	if c.ThawedAt != nil {
		p.seen.settings.thawed = c.ThawedAt()
	}
	p.seen.class, p.seen.classErr = c.classes.Resolve(ctx, c.Client, m.Namespace, m.Spec.Class.Name)
	return p, c.observeNode(ctx, p)
}

// observeNode reads the machine's node, and whose it is where that is in doubt.
func (c *Controller) observeNode(ctx context.Context, p *pass) error {
	if c.Target == nil || p.nodeName == "" {
		return nil
	}
	node := &corev1.Node{}
	switch err := c.Target.Client.Get(ctx, client.ObjectKey{Name: p.nodeName}, node); {
	case err == nil:
		p.node = node.DeepCopy()
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read Node %s: %w", p.nodeName, err)
	}
	var err error
	if p.otherClaimant, err = c.otherClaimantOf(ctx, p.machine, p.nodeName); err != nil {
		return err
	}
	if p.otherClaimant == "" && p.machine.DeletionTimestamp.IsZero() {
		return nil
	}
	if p.nodeOwner, err = nodeOwnerOf(p); p.nodeOwner == ownedByThis {
		p.otherClaimant = "" // the other one is wrong
	}
	return err
}

// otherClaimantOf returns the name of another Machine that claims the same node, of
// whatever namespace: the nodes of all join the same cluster.
func (c *Controller) otherClaimantOf(ctx context.Context, m *machinev1.Machine, nodeName string) (string, error) {
	var claim machinev1.MachineList
	if err := c.Client.List(ctx, &claim, client.MatchingFields{index.MachineByNode: nodeName}); err != nil {
		return "", fmt.Errorf("look up machines of Node %s: %w", nodeName, err)
	}
	for i := range claim.Items {
		other := &claim.Items[i]
		switch {
		case other.UID == m.UID:
		case other.Namespace == m.Namespace:
			return other.Name, nil
		default:
			return other.Namespace + "/" + other.Name, nil
		}
	}
	return "", nil
}

// ownership is whose VM a node runs on.
type ownership uint8

const (
	ownershipUnknown ownership = iota // the providerIDs prove nothing
	ownedByThis                       // the Machine's
	ownedByOther                      // another VM, whose node got the same name
)

// nodeOwnerOf compares the VM of the Machine with that of the node. Names of nodes
// can be used again, ids of VMs cannot.
func nodeOwnerOf(p *pass) (ownership, error) {
	if p.node == nil || p.node.Spec.ProviderID == "" || p.machine.Spec.ProviderID == "" {
		return ownershipUnknown, nil
	}
	driver := p.seen.class.Driver
	if driver == nil {
		return ownershipUnknown, p.seen.classErr
	}
	ours, ok := driver.DecodeProviderID(p.machine.Spec.ProviderID)
	its, known := driver.DecodeProviderID(p.node.Spec.ProviderID)
	switch {
	case !ok || !known:
		return ownershipUnknown, nil
	case ours == its:
		return ownedByThis, nil
	default:
		return ownedByOther, nil
	}
}

// requeueAfter shortens the wait of p to d; 0 is no wait.
func requeueAfter(p *pass, d time.Duration) {
	if d > 0 && (p.did.requeue == 0 || d < p.did.requeue) {
		p.did.requeue = d
	}
}
