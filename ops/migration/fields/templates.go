package fields

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// machineTemplate returns the name of the MCMMachineTemplate with that content,
// which it makes if it is the first to ask for it.
func (c *toClusterAPI) machineTemplate(class string, node infrav1.NodeTemplate) string {
	spec := infrav1.MCMMachineSpec{MachineClassRef: infrav1.MachineClassReference{Name: class}, NodeTemplate: node}
	for _, other := range c.fallbackClasses(class) {
		spec.FallbackClassRefs = append(spec.FallbackClassRefs, infrav1.MachineClassReference{Name: other})
	}
	name := c.Pool.Name + "-" + contentHash(spec)
	if !slices.ContainsFunc(c.out.MachineTemplates, func(t infrav1.MCMMachineTemplate) bool { return t.Name == name }) {
		c.out.MachineTemplates = append(c.out.MachineTemplates, infrav1.MCMMachineTemplate{
			ObjectMeta: c.templateMeta(name),
			Spec:       infrav1.MCMMachineTemplateSpec{Template: infrav1.MCMMachineTemplateResource{Spec: spec}},
		})
	}
	return name
}

// fallbackClasses returns the classes of the pool for when class is exhausted.
func (c *toClusterAPI) fallbackClasses(class string) []string {
	switch {
	case c.Native.Deployment != nil:
		return machinev1.FallbackClasses(c.Native.Deployment, class)
	case len(c.Native.Sets) > 0:
		return machinev1.FallbackClasses(&c.Native.Sets[0], class)
	}
	return nil
}

// configTemplate does so with an MCMConfigTemplate: new machines boot with the user
// data of the class.
func (c *toClusterAPI) configTemplate(class string) string {
	spec := bootstrapv1.MCMConfigSpec{MachineClassRef: &bootstrapv1.NameReference{Name: class}}
	name := c.Pool.Name + "-" + contentHash(spec)
	if !slices.ContainsFunc(c.out.ConfigTemplates, func(t bootstrapv1.MCMConfigTemplate) bool { return t.Name == name }) {
		c.out.ConfigTemplates = append(c.out.ConfigTemplates, bootstrapv1.MCMConfigTemplate{
			ObjectMeta: c.templateMeta(name),
			Spec:       bootstrapv1.MCMConfigTemplateSpec{Template: bootstrapv1.MCMConfigTemplateResource{Spec: spec}},
		})
	}
	return name
}

func (c *toClusterAPI) templateMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: c.Pool.Namespace, Name: name,
		Labels:          map[string]string{clusterv1.ClusterNameLabel: c.options.Cluster},
		Annotations:     map[string]string{machinev1.MigratedFromAnnotation: c.origin()},
		OwnerReferences: []metav1.OwnerReference{c.clusterOwner()},
	}
}

// origin is the native object that heads the pool, as migrated-from names it.
func (c *toClusterAPI) origin() string {
	switch {
	case c.Native.Deployment != nil:
		return objects.CopyOf(machinev1.MachineDeploymentKind, c.Native.Deployment)
	case len(c.Native.Sets) > 0:
		return objects.CopyOf(machinev1.MachineSetKind, &c.Native.Sets[0])
	}
	return machinev1.MachineDeploymentKind + "/" + c.Pool.Name + "/"
}

// contentHash is 8 characters that follow from what v says.
func contentHash(v any) string {
	text, _ := json.Marshal(v) // a type that was read from JSON
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}

// nodeTemplateToClusterAPI has what the native API applies of a node template.
func nodeTemplateToClusterAPI(t *machinev1.NodeTemplateSpec) infrav1.NodeTemplate {
	return infrav1.NodeTemplate{
		Labels: maps.Clone(t.Labels), Annotations: maps.Clone(t.Annotations),
		Taints: taintsOf(t.Spec.Taints),
	}
}

// nodeTemplateToNative puts a node template into a native one; what else that says
// stays.
func nodeTemplateToNative(into *machinev1.NodeTemplateSpec, t infrav1.NodeTemplate) {
	into.Labels, into.Annotations, into.Spec.Taints = maps.Clone(t.Labels), maps.Clone(t.Annotations), t.CoreTaints()
}

func taintsOf(taints []corev1.Taint) []infrav1.Taint {
	var out []infrav1.Taint
	for _, t := range taints {
		out = append(out, infrav1.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return out
}
