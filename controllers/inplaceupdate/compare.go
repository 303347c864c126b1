package inplaceupdate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// compareInfra looks at the infrastructure: what is on the Node can change, and
// the class as far as the agent goes.
func (e *Extension) compareInfra(ctx context.Context, q question) (refusal string, err error) {
	was, is := q.current.infra, q.desired.infra
	for _, o := range []object{was, is} {
		if o.kind.Group != infrav1.GroupVersion.Group || !slices.Contains([]string{"MCMMachine", "MCMMachineTemplate"},
			o.kind.Kind) {
			return fmt.Sprintf("the infrastructure is a %s, not an MCMMachine", o.kind.Kind), nil
		}
	}
	if field := besides(was.metadata, is.metadata); field != "" {
		return "the MCMMachineTemplate's spec.template.metadata." + field +
			" differs, which Machines that exist do not follow", nil
	}
	if field := besides(was.spec, is.spec, "nodeTemplate", "machineClassRef", "providerID"); field != "" {
		return "the MCMMachine's spec." + field + " differs", nil
	}
	var old, next infrav1.MCMMachineSpec
	if err := was.into(&old); err != nil {
		return "", err
	}
	if err := is.into(&next); err != nil {
		return "", err
	}
	if problems := invalid(&next.NodeTemplate); problems != "" {
		return problems, nil
	}
	if old.MachineClassRef.Name == next.MachineClassRef.Name {
		return "", nil
	}
	return e.compareClasses(ctx, q, old.MachineClassRef.Name, next.MachineClassRef.Name)
}

// compareBootstrap looks at the bootstrap configuration, which is used once: the
// agent has to bring about what changes in it.
func (e *Extension) compareBootstrap(_ context.Context, q question) (refusal string, err error) {
	was, is := q.current.bootstrap, q.desired.bootstrap
	if field := besides(was.metadata, is.metadata); field != "" {
		return "the " + is.kind.Kind + "'s spec.template.metadata." + field +
			" differs, which Machines that exist do not follow", nil
	}
	field := besides(was.spec, is.spec)
	switch {
	case was.kind != is.kind:
		return fmt.Sprintf("the bootstrap configuration changes from a %s to a %s", was.kind.Kind, is.kind.Kind), nil
	case field == "":
		return "", nil
	case is.kind.Group != bootstrapv1.GroupVersion.Group || !slices.Contains([]string{"MCMConfig", "MCMConfigTemplate"},
		is.kind.Kind):
		return fmt.Sprintf("the %s's spec.%s differs, and it is not an MCMConfig", is.kind.Kind, field), nil
	case !q.agent.bootstrap:
		return fmt.Sprintf("the MCMConfig's spec.%s differs, and annotation %s does not list %s", field,
			infrav1.NodeAgentUpdatesAnnotation, itemBootstrap), nil
	}
	if field := besides(was.spec, is.spec, "machineClassRef", "userDataSecretRef", "format"); field != "" {
		return "the MCMConfig's spec." + field + " differs", nil
	}
	return "", nil
}

// compareClasses looks at what differs between two MachineClasses. A VM keeps the
// class that it was made from: another one is right for it only if they differ in
// nothing but what the agent changes inside of the VM.
func (e *Extension) compareClasses(ctx context.Context, q question, was, is string) (refusal string, err error) {
	if q.agent.none() {
		return fmt.Sprintf("spec.machineClassRef.name changes from %q to %q, and there is no annotation %s", was, is,
			infrav1.NodeAgentUpdatesAnnotation), nil
	}
	var classes [2]machinev1.MachineClass
	for i, name := range []string{was, is} {
		err := e.Live.Get(ctx, client.ObjectKey{Namespace: q.namespace, Name: name}, &classes[i])
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("MachineClass %q does not exist", name), nil
		}
		if err != nil {
			return "", fmt.Errorf("read MachineClass %q: %w", name, err)
		}
	}
	field, err := outside(&classes[0], &classes[1], q.agent)
	if err != nil || field == "" {
		return "", err
	}
	return fmt.Sprintf("MachineClasses %q and %q differ in %s, which annotation %s does not cover", was, is, field,
		infrav1.NodeAgentUpdatesAnnotation), nil
}

// outside names the first field in which two classes differ and that the agent
// cannot change; empty if there is none.
func outside(old, next *machinev1.MachineClass, agent abilities) (string, error) {
	switch {
	case old.Provider != next.Provider:
		return "provider", nil
	case !equality.Semantic.DeepEqual(old.NodeTemplate, next.NodeTemplate):
		return "nodeTemplate", nil
	case !sameSecret(old, old.CredentialsSecretRef, next, next.CredentialsSecretRef):
		return "credentialsSecretRef", nil
	case !agent.bootstrap && !sameSecret(old, old.SecretRef, next, next.SecretRef):
		return "secretRef", nil
	}
	field, err := compareProviderSpecs(old.ProviderSpec.Raw, next.ProviderSpec.Raw, agent.class)
	if err != nil || field == "" {
		return "", err
	}
	return itemClassPrefix + field, nil
}

// compareProviderSpecs names the first field in which two provider specs differ,
// those at paths left out; empty if there is none.
func compareProviderSpecs(was, is []byte, paths [][]string) (string, error) {
	var specs [2]map[string]any
	for i, text := range [][]byte{was, is} {
		if err := json.Unmarshal(text, &specs[i]); err != nil {
			return "", fmt.Errorf("read the providerSpec of a MachineClass: %w", err)
		}
		for _, path := range paths {
			unstructured.RemoveNestedField(specs[i], path...)
		}
	}
	return deepest(specs[0], specs[1]), nil
}

// deepest is the path of the first field in which two objects differ, as far as
// both have objects on the way to it.
func deepest(was, is map[string]any) string {
	field := besides(was, is)
	before, nested := was[field].(map[string]any)
	after, also := is[field].(map[string]any)
	if field == "" || !nested || !also {
		return field
	}
	return strings.Join([]string{field, deepest(before, after)}, ".")
}

// sameSecret compares references of classes; one without namespace means the class's.
func sameSecret(a *machinev1.MachineClass, x *corev1.SecretReference, b *machinev1.MachineClass,
	y *corev1.SecretReference,
) bool {
	full := func(c *machinev1.MachineClass, r *corev1.SecretReference) corev1.SecretReference {
		switch {
		case r == nil:
			return corev1.SecretReference{}
		case r.Namespace == "":
			return corev1.SecretReference{Namespace: c.Namespace, Name: r.Name}
		}
		return *r
	}
	return full(a, x) == full(b, y)
}
