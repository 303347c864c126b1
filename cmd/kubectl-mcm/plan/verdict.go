package plan

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// The rules that decide.
const (
	ruleAPIServer  = "the API server judges the object"
	ruleController = "the controller does nothing before the object is corrected"
	ruleTemplate   = "native API: machines are replaced if the labels, annotations, providerID, class.name or " +
		"class.apiGroup of spec.template differ from those of every MachineSet; nodeTemplate, timeouts, limits and " +
		"class.kind change in place"
	ruleSet = "native API: a MachineSet creates and deletes machines by spec.replicas; another template is " +
		"for new machines, and only nodeTemplate, timeouts, limits and class.kind reach those that exist"
	ruleMachine = "native API: a Machine that has its VM keeps it, whatever its spec says"
	ruleClass   = "native API: an edit of a MachineClass rolls nothing: new machines get it, and those that exist " +
		"keep their VMs"
	ruleCAPI = "Cluster API: machines are replaced if version, bootstrap, infrastructureRef or failureDomain of " +
		"spec.template differ from those of every MachineSet, or spec.rollout.after has passed (mdutil, as its controller)"
	ruleMCMTemplate = "Cluster API: a template rolls nothing; a MachineDeployment that names another template does"
	ruleOther       = "an object of this kind has no machines of its own"
)

// verdict judges one change.
type verdict struct {
	*planner
	*space
	*Change
	attempt
}

// judge finds out what the controllers do.
func (v *verdict) judge(ctx context.Context, kind schema.GroupVersionKind) error {
	switch kind {
	case machinev1.GroupVersion.WithKind(machinev1.MachineDeploymentKind):
		return judgeAs(v, func(before, after *machinev1.MachineDeployment) error {
			return v.nativeDeployment(ctx, before, after)
		})
	case machinev1.GroupVersion.WithKind(machinev1.MachineSetKind):
		return judgeAs(v, func(_, after *machinev1.MachineSet) error { return v.nativeSet(ctx, after) })
	case machinev1.GroupVersion.WithKind(machinev1.MachineKind):
		return judgeAs(v, func(before, after *machinev1.Machine) error { return v.nativeMachine(ctx, before, after) })
	case machinev1.GroupVersion.WithKind(machinev1.MachineClassKind):
		return judgeAs(v, func(_, after *machinev1.MachineClass) error { return v.class(ctx, after) })
	case clusterv1.GroupVersion.WithKind(explain.KindDeployment):
		return judgeAs(v, func(before, after *clusterv1.MachineDeployment) error {
			return v.capiDeployment(ctx, before, after)
		})
	case infrav1.GroupVersion.WithKind("MCMMachineTemplate"):
		v.mcmTemplate()
		return nil
	}
	v.Rule = ruleOther
	if kind.Group == clusterv1.GroupVersion.Group {
		v.Notes = append(v.Notes, fmt.Sprintf("what it does is decided for %s only: write that apiVersion",
			clusterv1.GroupVersion))
	}
	v.settle()
	return nil
}

// judgeAs calls judge with the object before and after the change; before is nil if there is none.
func judgeAs[T any, P interface {
	*T
	client.Object
}](v *verdict, judge func(before, after P) error,
) error {
	after := P(new(T))
	if err := decode(v.after, after); err != nil {
		v.refuse(ruleController, "Object", fmt.Sprintf("cannot be read: %v; correct it", err))
		return nil
	}
	var before P
	if v.before != nil {
		before = P(new(T))
		if err := decode(v.before, before); err != nil {
			return fmt.Errorf("read %s %s: %w", v.Object.Kind, v.Object.Name, err)
		}
	}
	return judge(before, after)
}

func decode(o *unstructured.Unstructured, into client.Object) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
}
