package inplaceupdate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// A question is whether one state of a Machine can become another in place. Core
// asks it about the templates of a MachineSet, and about single Machines of a
// control plane.
type question struct {
	namespace        string
	path             []string // to the specs in all objects
	agent            abilities
	unreadable       error // why it is not known what the agent can do
	current, desired state
}

// state is one side of a question.
type state struct {
	machine          clusterv1.MachineSpec
	infra, bootstrap object
}

// CanUpdateMachineSet says which differences between two MachineSets can be made
// on the VMs that are there: patches that turn one into the other. If one
// difference cannot, there are no patches, and core replaces the Machines. It
// fails, so that core asks again, if a MachineClass or the annotation could not be read.
func (e *Extension) CanUpdateMachineSet(ctx context.Context, req *runtimehooksv1.CanUpdateMachineSetRequest,
	resp *runtimehooksv1.CanUpdateMachineSetResponse,
) {
	was, is := req.Current, req.Desired
	q := question{namespace: is.MachineSet.Namespace, path: []string{"spec", "template", "spec"}}
	q.current.machine, q.desired.machine = was.MachineSet.Spec.Template.Spec, is.MachineSet.Spec.Template.Spec
	a := e.answer(ctx, q, is.MachineSet.Spec.Template.Annotations, []runtime.RawExtension{
		was.InfrastructureMachineTemplate, is.InfrastructureMachineTemplate, was.BootstrapConfigTemplate,
		is.BootstrapConfigTemplate,
	})
	resp.MachineSetPatch, resp.InfrastructureMachineTemplatePatch, resp.BootstrapConfigTemplatePatch = a.machine,
		a.infra, a.bootstrap
	a.tell(ctx, resp, "MachineSet", is.MachineSet.Name)
}

// CanUpdateMachine is CanUpdateMachineSet for one Machine.
func (e *Extension) CanUpdateMachine(ctx context.Context, req *runtimehooksv1.CanUpdateMachineRequest,
	resp *runtimehooksv1.CanUpdateMachineResponse,
) {
	was, is := req.Current, req.Desired
	q := question{namespace: is.Machine.Namespace, path: []string{"spec"}}
	q.current.machine, q.desired.machine = was.Machine.Spec, is.Machine.Spec
	a := e.answer(ctx, q, is.Machine.Annotations, []runtime.RawExtension{
		was.InfrastructureMachine, is.InfrastructureMachine, was.BootstrapConfig, is.BootstrapConfig,
	})
	resp.MachinePatch, resp.InfrastructureMachinePatch, resp.BootstrapConfigPatch = a.machine, a.infra, a.bootstrap
	a.tell(ctx, resp, "Machine", is.Machine.Name)
}

// verdict answers a question.
type verdict struct {
	machine, infra, bootstrap runtimehooksv1.Patch
	refusal                   string // why not; empty if it can be done
	err                       error  // why that could not be found out
}

// tell finishes a response. Core shows no message of a successful answer, so it
// is logged.
func (v verdict) tell(ctx context.Context, resp runtimehooksv1.ResponseObject, kind, name string) {
	resp.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	switch {
	case v.err != nil:
		resp.SetStatus(runtimehooksv1.ResponseStatusFailure)
		resp.SetMessage(v.err.Error())
	case v.refusal != "":
		resp.SetMessage("Not in place: " + v.refusal)
		ctrl.LoggerFrom(ctx).Info("Not to be updated in place", kind, name, "reason", v.refusal)
	}
}

// answer reads the objects, which are infrastructure and bootstrap objects, each
// current and then desired, and compares them.
func (e *Extension) answer(ctx context.Context, q question, annotations map[string]string,
	objects []runtime.RawExtension,
) verdict {
	var err error
	for i, into := range []*object{&q.current.infra, &q.desired.infra, &q.current.bootstrap, &q.desired.bootstrap} {
		if *into, err = decode(objects[i], q.path); err != nil {
			return verdict{err: err}
		}
	}
	q.agent, q.unreadable = abilitiesOf(annotations)
	for _, compare := range []func(context.Context, question) (string, error){
		e.compareMachine, e.compareInfra, e.compareBootstrap,
	} {
		refusal, err := compare(ctx, q)
		switch {
		case err != nil:
			return verdict{err: err}
		case refusal != "" && q.unreadable != nil:
			return verdict{err: q.unreadable} // a misspelled entry must not replace machines
		case refusal != "":
			return q.refused(refusal)
		}
	}
	v := verdict{}
	v.infra, v.err = jsonPatch(q.path, q.current.infra.spec, q.desired.infra.spec, "nodeTemplate", "machineClassRef")
	if v.err == nil {
		v.bootstrap, v.err = jsonPatch(q.path, q.current.bootstrap.spec, q.desired.bootstrap.spec, "machineClassRef",
			"userDataSecretRef", "format")
	}
	if v.err == nil {
		v.machine, v.err = jsonPatch(q.path, versionOf(q.current), versionOf(q.desired), "version")
	}
	return v
}

// versionOf is what of a Machine's spec an agent can change.
func versionOf(s state) map[string]any {
	if s.machine.Version == "" {
		return map[string]any{}
	}
	return map[string]any{"version": s.machine.Version}
}

// refused is the answer no. Core compares neither the bootstrap of the Machine's
// spec nor the metadata of templates, so that it would take silence for
// agreement if nothing else differs: then a patch makes a difference.
func (q question) refused(why string) verdict {
	v := verdict{refusal: why}
	if q.current.machine.Version != q.desired.machine.Version ||
		q.current.machine.FailureDomain != q.desired.machine.FailureDomain ||
		!equality.Semantic.DeepEqual(q.current.infra.spec, q.desired.infra.spec) ||
		!equality.Semantic.DeepEqual(q.current.bootstrap.spec, q.desired.bootstrap.spec) {
		return v
	}
	v.machine, v.err = jsonPatch(q.path, nil, map[string]any{"failureDomain": "not to be updated in place: " + why},
		"failureDomain")
	return v
}

// compareMachine looks at the Machine's own spec.
func (e *Extension) compareMachine(_ context.Context, q question) (refusal string, err error) {
	was, is := q.current.machine, q.desired.machine
	data := func(s clusterv1.MachineSpec) string {
		if s.Bootstrap.DataSecretName == nil || s.Bootstrap.ConfigRef.IsDefined() {
			return ""
		}
		return *s.Bootstrap.DataSecretName
	}
	switch {
	case data(was) != data(is):
		return fmt.Sprintf("spec.bootstrap.dataSecretName changes from %q to %q", data(was), data(is)), nil
	case was.FailureDomain != is.FailureDomain:
		return fmt.Sprintf("spec.failureDomain changes from %q to %q", was.FailureDomain, is.FailureDomain), nil
	case was.Version != is.Version && !q.agent.version:
		return fmt.Sprintf("spec.version changes from %q to %q, and annotation %s does not list %s", was.Version, is.Version,
			infrav1.NodeAgentUpdatesAnnotation, itemVersion), nil
	}
	return "", nil
}
