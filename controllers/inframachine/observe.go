package inframachine

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// facts are what one reconcile has seen and done. observe fills them, steps keep
// them true, report reads them. They live for one reconcile and have no methods.
type facts struct {
	now     time.Time
	before  *infrav1.MCMMachine // as read; never modified
	object  *infrav1.MCMMachine // as it is after what this pass has written
	machine *clusterv1.Machine  // that owns it; nil: none, or it does not exist
	cluster *clusterv1.Cluster  // nil: none, or it does not exist
	infra   *infrav1.MCMCluster // of the Cluster; nil: it has another infrastructure
	clusterName   string              // name of the Cluster
	paused  string              // why it is to be left alone

	vm            *cloud.VM // as the cloud showed it in this pass; nil if it was not asked
	complete      bool      // nothing is left to be done for the VM
	interruptible *bool     // nil: not known

	// What was learnt; nil: nothing, so what stands there stays.
	vmCondition, cloudCondition, credentialsCondition, nodeCondition *condition
	nodeConditionObsolete                                   bool // nothing is asked for of the Node any more

	deletionWaitsFor  *condition // what the deletion waits for
	vmRetained   bool  // the VM stays, as the user wants it
	finalizerRemoved bool  // the finalizer is gone
	requeue     time.Duration
	events   []kubeEvent
}

// condition is what a condition says.
type condition struct {
	status          metav1.ConditionStatus
	reason, message string
}

// kubeEvent is an Event about something that a person would ask about.
type kubeEvent struct{ kind, reason, message string }

func conditionTrue(reason string) *condition { return &condition{metav1.ConditionTrue, reason, ""} }

func conditionFalse(reason, message string) *condition { return &condition{metav1.ConditionFalse, reason, message} }

// observe reads what there is to know about o without asking the cloud.
func (c *Controller) observe(ctx context.Context, o *infrav1.MCMMachine) (*facts, error) {
	f := &facts{now: c.Clock.Now(), before: o, object: o.DeepCopy()}
	var err error
	if f.machine, err = capi.MachineOf(ctx, c.Client, o); err != nil {
		return nil, err
	}
	if f.cluster, f.clusterName, err = capi.ClusterOf(ctx, c.Client, o); err != nil {
		return nil, err
	}
	if f.clusterName == "" && f.machine != nil {
		if f.cluster, f.clusterName, err = capi.ClusterOf(ctx, c.Client, f.machine); err != nil {
			return nil, err
		}
	}
	if f.infra, err = capi.InfraClusterOf(ctx, c.Client, f.cluster); err != nil {
		return nil, err
	}
	f.paused = capi.Paused(f.cluster, o)
	return f, nil
}

// missingOwner says what keeps a MCMMachine from being looked after at all.
func missingOwner(f *facts) *condition {
	if f.machine == nil {
		return conditionFalse(infrav1.ReasonWaitingForMachine, "No Machine of Cluster API owns this object yet; it makes no VM by itself")
	}
	if f.clusterName == "" {
		return conditionFalse(infrav1.ReasonWaitingForCluster, "Neither this object nor its Machine names a Cluster in the label "+
			clusterv1.ClusterNameLabel)
	}
	return conditionFalse(infrav1.ReasonWaitingForCluster, "Cluster "+f.clusterName+" does not exist")
}

// provisioned reports whether core has been told that the VM is there.
func provisioned(o *infrav1.MCMMachine) bool {
	return o.Status.Initialization.Provisioned != nil && *o.Status.Initialization.Provisioned
}

// requeueAfter shortens the wait of f to d; 0 is no wait.
func requeueAfter(f *facts, d time.Duration) {
	if d > 0 && (f.requeue == 0 || d < f.requeue) {
		f.requeue = d
	}
}

func warn(f *facts, reason, message string) {
	f.events = append(f.events, kubeEvent{corev1.EventTypeWarning, reason, message})
}
