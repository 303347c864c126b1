package permit

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A Limit is how many machines of a pool may be replaced at a time: a number, or a
// percentage of the pool's replicas. The zero Limit is one machine.
type Limit struct {
	value intstr.IntOrString
}

// ParseLimit reads a number from 1, or a percentage from 1% to 100%.
func ParseLimit(text string) (Limit, error) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 1 || percent && n > 100 {
		return Limit{}, fmt.Errorf("%q is neither a number from 1 to %d nor a percentage from 1%% to 100%%", text,
			math.MaxInt32)
	}
	return Limit{intstr.Parse(text)}, nil
}

// Of returns how many machines of a pool of that many replicas may be replaced at a
// time: a percentage is rounded down, and at least one machine may be.
func (l Limit) Of(replicas int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&l.value, replicas, false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// limit returns how many machines of m's pool may be replaced at a time: what the
// MachineDeployment of m is annotated with, or its MachineSet if no deployment
// controls that, else the default.
func (p *Permits) limit(ctx context.Context, m *machinev1.Machine) (int, error) {
	set := &machinev1.MachineSet{}
	found, err := p.controllerOf(ctx, m, machinev1.MachineSetKind, set)
	if err != nil || !found {
		return p.limitOf(nil, 1), err
	}
	d := &machinev1.MachineDeployment{}
	found, err = p.controllerOf(ctx, set, machinev1.MachineDeploymentKind, d)
	if err != nil || !found {
		return p.limitOf(set.Annotations, int(set.Spec.Replicas)), err
	}
	return p.limitOf(d.Annotations, int(d.Spec.Replicas)), nil
}

// limitOf is the limit of a pool with these annotations. One that cannot be read does
// not count; the pool reports it.
func (p *Permits) limitOf(annotations map[string]string, replicas int) int {
	if own, err := ParseLimit(annotations[machinev1.MaxReplacementsAnnotation]); err == nil {
		return own.Of(replicas)
	}
	return p.standard.Of(replicas)
}

// controllerOf reads the controller of o into owner, and reports whether it has one of
// that kind that still exists.
func (p *Permits) controllerOf(ctx context.Context, o client.Object, kind string, owner client.Object) (bool, error) {
	ref := metav1.GetControllerOf(o)
	if ref == nil || ref.Kind != kind {
		return false, nil
	}
	err := p.client.Get(ctx, client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}, owner,
		client.UnsafeDisableDeepCopy)
	return err == nil && owner.GetUID() == ref.UID, client.IgnoreNotFound(err)
}
