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

	nodeName string       // name of the machine's node, empty until known
	node     *corev1.Node // nil: there is none, or no target cluster
	rival    string       // another Machine that claims the node, empty if none

	vm      *cloud.VM // what the cloud returned in this pass; nil if it was not asked
	created bool      // the VM is complete and the Machine knows it

	createErr error       // why there is no VM
	next      *transition // what becomes of phase and operation; nil: nothing
	waiting   *waiting    // what the pass ends waiting for; nil: nothing
	preserve  *preservation
	frozen    bool

	step     string        // MCM's name of the deletion step that the pass ends in
	leaving  *waiting      // what deletion waits for; nil: nothing
	drained  *drainState   // how far the drain is; nil if there is none
	released bool          // the finalizer is gone
	wait     time.Duration // until it is worth looking again; 0: when something changes
	events   []notice
}

// waiting is something that a machine waits for, in words.
type waiting struct{ reason, message string }

// drainState is how far a drain is.
type drainState struct {
	done            bool
	reason, message string
}

// notice is an Event about something that a person would ask about.
type notice struct{ kind, reason, message string }

// observe reads what there is to know about m without asking the cloud.
func (c *Controller) observe(ctx context.Context, m *machinev1.Machine) (*facts, error) {
	f := &facts{now: c.Clock.Now(), before: m, machine: m.DeepCopy(), nodeName: m.Labels[machinev1.NodeLabel]}
	f.settings, f.warnings = settingsOf(m, c.Options)
	f.problems = problems(m)
	if c.ThawedAt != nil {
		f.settings.thawed = c.ThawedAt()
	}
	if c.Target == nil || f.nodeName == "" {
		return f, nil
	}
	node := &corev1.Node{}
	switch err := c.Target.Client.Get(ctx, client.ObjectKey{Name: f.nodeName}, node); {
	case err == nil:
		f.node = node.DeepCopy()
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read Node %s: %w", f.nodeName, err)
	}
	var err error
	f.rival, err = c.rivalOf(ctx, m, f.nodeName)
	return f, err
}

// rivalOf returns the name of another Machine that claims the same node.
func (c *Controller) rivalOf(ctx context.Context, m *machinev1.Machine, nodeName string) (string, error) {
	var claim machinev1.MachineList
	err := c.Client.List(ctx, &claim, client.InNamespace(m.Namespace), client.MatchingFields{index.MachineByNode: nodeName})
	if err != nil {
		return "", fmt.Errorf("look up machines of Node %s: %w", nodeName, err)
	}
	for i := range claim.Items {
		if claim.Items[i].UID != m.UID {
			return claim.Items[i].Name, nil
		}
	}
	return "", nil
}

// sooner shortens the wait of f to d; 0 is no wait.
func sooner(f *facts, d time.Duration) {
	if d > 0 && (f.wait == 0 || d < f.wait) {
		f.wait = d
	}
}
