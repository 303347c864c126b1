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
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outage"
)

// facts are what one reconcile has seen and done. observe fills them, steps keep
// them true, report reads them. They live for one reconcile and have no methods.
type facts struct {
	now      time.Time
	before   *machinev1.Machine // as read; never modified
	machine  *machinev1.Machine // as it is after what this pass has written
	settings settings
	warnings []string // about annotations and labels that cannot be read
	problems []string // about the spec

	nodeName      string       // name of the machine's node, empty until known
	node          *corev1.Node // nil: there is none, or no target cluster
	otherClaimant string       // another Machine that claims the node, empty if none
	nodeOwner     ownership    // of the node; unproven where nobody doubts it

	vm      *cloud.VM // what the cloud returned in this pass; nil if it was not asked
	created bool      // the VM is complete and the Machine knows it

	createErr            error       // why there is no VM
	transition           *transition // what becomes of phase and operation; nil: nothing
	waitsFor             *waiting    // what the pass ends waiting for; nil: nothing
	expiry               *expiryChange
	frozen               bool
	outage               outage.Outage // that protects the machine; zero: none
	restartHealthTimeout bool          // the health timeout begins anew

	step             string        // MCM's name of the deletion step that the pass ends in
	deletionWaitsFor *waiting      // what deletion waits for; nil: nothing
	drained          *drainState   // how far the drain is; nil if there is none
	vmRetained       bool          // the user let the Machine go without its VM
	finalizerRemoved bool          // the finalizer is gone
	requeue          time.Duration // until it is worth looking again; 0: when something changes
	events           []kubeEvent
}

// waiting is something that a machine waits for, in words.
type waiting struct{ reason, message string }

// drainState is how far a drain is.
type drainState struct {
	done            bool
	reason, message string
}

// kubeEvent is an Event about something that a person would ask about.
type kubeEvent struct{ kind, reason, message string }

// observe reads what there is to know about m without asking the cloud.
func (c *Controller) observe(ctx context.Context, m *machinev1.Machine) (*facts, error) {
	f := &facts{now: c.Clock.Now(), before: m, machine: m.DeepCopy(), nodeName: m.Labels[machinev1.NodeLabel]}
	f.settings, f.warnings = settingsOf(m, c.Options)
	f.problems = problems(m, c.Target != nil)
	if c.ThawedAt != nil {
		f.settings.thawed = c.ThawedAt()
	}
	return f, c.observeNode(ctx, f)
}

// observeNode reads the machine's node, and whose it is where that is in doubt.
func (c *Controller) observeNode(ctx context.Context, f *facts) error {
	if c.Target == nil || f.nodeName == "" {
		return nil
	}
	node := &corev1.Node{}
	switch err := c.Target.Client.Get(ctx, client.ObjectKey{Name: f.nodeName}, node); {
	case err == nil:
		f.node = node.DeepCopy()
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read Node %s: %w", f.nodeName, err)
	}
	var err error
	if f.otherClaimant, err = c.otherClaimantOf(ctx, f.machine, f.nodeName); err != nil {
		return err
	}
	if f.otherClaimant == "" && f.machine.DeletionTimestamp.IsZero() {
		return nil
	}
	if f.nodeOwner, err = c.nodeOwnerOf(ctx, f); f.nodeOwner == ownedByThis {
		f.otherClaimant = "" // the other one is wrong
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

// ownership says whose VM a node runs on.
type ownership uint8

const (
	ownershipUnknown ownership = iota // the providerIDs do not say
	ownedByThis                       // the Machine's
	ownedByOther                      // another VM, whose node got the same name
)

// nodeOwnerOf compares the VM of the Machine with that of the node. Names of nodes
// can be used again, ids of VMs cannot.
func (c *Controller) nodeOwnerOf(ctx context.Context, f *facts) (ownership, error) {
	if f.node == nil || f.node.Spec.ProviderID == "" || f.machine.Spec.ProviderID == "" {
		return ownershipUnknown, nil
	}
	resolved, err := c.classes.Resolve(ctx, c.Client, f.machine.Namespace, f.machine.Spec.Class.Name)
	if err != nil || resolved.Driver == nil {
		return ownershipUnknown, err
	}
	ours, ok := resolved.Driver.DecodeProviderID(f.machine.Spec.ProviderID)
	its, known := resolved.Driver.DecodeProviderID(f.node.Spec.ProviderID)
	switch {
	case !ok || !known:
		return ownershipUnknown, nil
	case ours == its:
		return ownedByThis, nil
	default:
		return ownedByOther, nil
	}
}

// requeueAfter shortens the wait of f to d; 0 is no wait.
func requeueAfter(f *facts, d time.Duration) {
	if d > 0 && (f.requeue == 0 || d < f.requeue) {
		f.requeue = d
	}
}
