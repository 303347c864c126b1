package mcmremediation

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// pass is one reconcile of an MCMRemediation: what it has read, the object as it is after what
// it wrote, and what the steps did. report derives the status from it.
type pass struct {
	seen   observation
	object *infrav1.MCMRemediation
	did    outcomes
}

// observation is what a pass reads before the first step. No step changes it.
type observation struct {
	now     time.Time
	machine *clusterv1.Machine  // nil: it does not exist
	infra   *infrav1.MCMMachine // nil: it does not exist, or is of another provider
	cluster *clusterv1.Cluster  // nil: it does not exist
	paused  string              // why the object is to be left alone; empty: it is not
	reboots reboots             // that were asked for
}

// outcomes are what the steps did.
type outcomes struct {
	phase   infrav1.RemediationPhase
	status  metav1.ConditionStatus // of Remediated; empty: nothing was found out
	reason  string
	message string
	event   string        // not empty: there is an Event although the reason is as before
	failed  bool          // the Event is a warning
	requeue time.Duration // until the next pass; 0: when something changes
}

// reboots are how many were asked for, and when the last was.
type reboots struct {
	count int
	last  time.Time
}

// String is the value of infrav1.RebootsAnnotation; empty for none.
func (r reboots) String() string {
	if r.count == 0 {
		return ""
	}
	return strconv.Itoa(r.count) + "/" + r.last.UTC().Format(time.RFC3339)
}

// rebootsOf reads the record of reboots. One that cannot be read counts as the most that there
// can be, long ago: no VM is rebooted because of a typo.
func rebootsOf(o *infrav1.MCMRemediation) reboots {
	text := o.Annotations[infrav1.RebootsAnnotation]
	if text == "" {
		return reboots{}
	}
	number, at, _ := strings.Cut(text, "/")
	count, err := strconv.Atoi(number)
	last, timeErr := time.Parse(time.RFC3339, at)
	if err != nil || timeErr != nil || count < 1 {
		return reboots{count: o.Spec.Strategy.Limit(), last: o.CreationTimestamp.Time}
	}
	return reboots{count, last}
}

// observe reads what there is to know about o without asking the cloud.
func (c *Controller) observe(ctx context.Context, o *infrav1.MCMRemediation) (*pass, error) {
	p := &pass{object: o.DeepCopy(), seen: observation{now: c.Clock.Now(), reboots: rebootsOf(o)}}
	seen, err := &p.seen, error(nil)
	if seen.machine, err = machineOf(ctx, c.Client, o); err != nil || seen.machine == nil {
		return p, err
	}
	if seen.infra, err = infraOf(ctx, c.Client, seen.machine); err != nil {
		return nil, err
	}
	if seen.cluster, _, err = capi.ClusterOf(ctx, c.Client, seen.machine); err != nil {
		return nil, err
	}
	for _, paused := range []client.Object{o, seen.machine, seen.infra} {
		if seen.paused == "" && paused != client.Object((*infrav1.MCMMachine)(nil)) {
			seen.paused = capi.Paused(seen.cluster, paused)
		}
	}
	return p, nil
}

// machineOf returns the Machine that a remediation is for, which owns it or has its name; nil if
// it does not exist.
func machineOf(ctx context.Context, r client.Reader, o *infrav1.MCMRemediation) (*clusterv1.Machine, error) {
	owner, err := capi.MachineOf(ctx, r, o)
	if err != nil || owner != nil {
		return owner, err
	}
	m := &clusterv1.Machine{}
	err = r.Get(ctx, client.ObjectKeyFromObject(o), m)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no Machine is a fact, not a failure
	}
	if err != nil {
		return nil, fmt.Errorf("read Machine %s: %w", o.Name, err)
	}
	return m, nil
}

// infraOf returns the MCMMachine of a Machine; nil if it does not exist, or is of another
// provider.
func infraOf(ctx context.Context, r client.Reader, m *clusterv1.Machine) (*infrav1.MCMMachine, error) {
	ref := m.Spec.InfrastructureRef
	if ref.Kind != "MCMMachine" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil //nolint:nilnil // another provider is a fact, not a failure
	}
	o := &infrav1.MCMMachine{}
	err := r.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, o)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, fmt.Errorf("read MCMMachine %s: %w", ref.Name, err)
	}
	return o, nil
}

// unhealthy reports whether a MachineHealthCheck finds the Machine unhealthy.
func unhealthy(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
}

// handedOver reports whether the owner of the Machine was asked to replace it.
func handedOver(m *clusterv1.Machine) bool {
	return conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)
}

// set notes where the remediation is.
func (p *pass) set(phase infrav1.RemediationPhase, reason, message string) {
	p.did.phase, p.did.status, p.did.reason, p.did.message = phase, metav1.ConditionFalse, reason, message
}
