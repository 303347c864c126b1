package fields

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// MaxTaints is how many taints the CRD of MCMMachine takes.
const MaxTaints = 64

// clusterTemplate is what machines of a pool are made from on Cluster API.
type clusterTemplate struct {
	spec  *clusterv1.MachineSpec
	infra *infrav1.MCMMachineTemplate // nil: it does not exist, or is not this provider's
	boots bool                        // with the user data of the class
}

// templateTable has the fields that only templates have. [toClusterAPI.template] makes the
// templates that the references name.
var templateTable = []row[*machinev1.MachineTemplateSpec, *clusterTemplate]{
	{
		native: "spec.template.spec.class", clusterAPI: "spec.template.spec.infrastructureRef",
		toNative: func(c *clusterTemplate, n *machinev1.MachineTemplateSpec) {
			if c.infra != nil {
				n.Spec.Class.Name = c.infra.Spec.Template.Spec.MachineClassRef.Name
			}
		},
		leavesNative: func(*machinev1.MachineTemplateSpec) outcome {
			return kept("becomes machineClassRef of an MCMMachineTemplate, and of an MCMConfigTemplate for the user data of " +
				"new machines")
		},
		leavesClusterAPI: func(c *clusterTemplate) outcome {
			if c.infra == nil {
				return blocked(fmt.Sprintf("%s %s does not exist, or is not this provider's", c.spec.InfrastructureRef.Kind,
					c.spec.InfrastructureRef.Name), "name an MCMMachineTemplate")
			}
			return kept("MachineClass " + c.infra.Spec.Template.Spec.MachineClassRef.Name +
				" and the node template become spec.class and spec.nodeTemplate")
		},
	},
	{
		clusterAPI: "spec.template.spec.bootstrap",
		leavesClusterAPI: func(c *clusterTemplate) outcome {
			return when(!c.boots,
				lost("new native machines boot with the user data of their MachineClass, whatever boots them now"))
		},
	},
	{
		native: "spec.template.spec.nodeTemplate", // judged with those of single Machines
		toNative: func(c *clusterTemplate, n *machinev1.MachineTemplateSpec) {
			if c.infra != nil {
				nodeTemplateToNative(&n.Spec.NodeTemplateSpec, c.infra.Spec.Template.Spec.NodeTemplate)
			}
		},
	},
	{
		native: "spec.template.spec.providerID",
		leavesNative: func(n *machinev1.MachineTemplateSpec) outcome {
			return when(n.Spec.ProviderID != "",
				blocked("every machine of this pool would be given the same VM", "remove it; that rolls the pool"))
		},
	},
	{
		native: "spec.template.metadata",
		leavesNative: func(n *machinev1.MachineTemplateSpec) outcome {
			m := n.ObjectMeta
			return when(m.Name+m.GenerateName != "" || len(m.Finalizers)+len(m.OwnerReferences) > 0,
				lost("only labels and annotations of a template mean something to Cluster API"))
		},
	},
}

// machineSpecTable has the rest of what native templates and single Machines have in
// common. [nodeTemplateToClusterAPI] converts node templates.
var machineSpecTable = []row[*machinev1.MachineSpec, *infrav1.MCMMachineSpec]{
	{native: "class.kind", leavesNative: func(n *machinev1.MachineSpec) outcome {
		return when(n.Class.Kind != machinev1.MachineClassKind,
			blocked(fmt.Sprintf("%q is not MachineClass", n.Class.Kind), "set it to MachineClass"))
	}},
	{native: "nodeTemplate.spec.taints", leavesNative: func(n *machinev1.MachineSpec) outcome {
		taints := len(n.NodeTemplateSpec.Spec.Taints)
		return when(taints > MaxTaints,
			blocked(fmt.Sprintf("an MCMMachine has %d taints at most, these are %d", MaxTaints, taints), "remove some"))
	}},
	{native: "nodeTemplate", leavesNative: func(n *machinev1.MachineSpec) outcome {
		entry := refusedEntry(&n.NodeTemplateSpec)
		return when(entry != "", blocked("the CRD of MCMMachine refuses "+entry+", which the native API leaves out",
			"correct or remove it"))
	}},
	{native: "nodeTemplate", leavesNative: func(n *machinev1.MachineSpec) outcome {
		t := &n.NodeTemplateSpec
		return when(len(t.Labels)+len(t.Annotations)+len(t.Spec.Taints) > 0,
			kept("labels, annotations and taints become nodeTemplate of MCMMachines and their template"))
	}},
	{native: "nodeTemplate", leavesNative: func(n *machinev1.MachineSpec) outcome {
		rest := n.NodeTemplateSpec.DeepCopy()
		rest.Labels, rest.Annotations, rest.Spec.Taints = nil, nil, nil
		return when(!equality.Semantic.DeepEqual(*rest, machinev1.NodeTemplateSpec{}),
			replaced("what is neither a label, an annotation nor a taint has no effect on either API, and is left out"))
	}},
}

// refusedEntry names a label or taint that the CRD of MCMMachine refuses; empty if there
// is none.
func refusedEntry(t *machinev1.NodeTemplateSpec) string {
	for _, key := range objects.Keys(t.Labels) {
		if wrongPair(key, t.Labels[key]) {
			return fmt.Sprintf("the label %q", key+"="+t.Labels[key])
		}
	}
	effects := []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	}
	for i, taint := range t.Spec.Taints {
		twice := slices.ContainsFunc(t.Spec.Taints[:i], func(x corev1.Taint) bool { return x.MatchTaint(&taint) })
		if twice || wrongPair(taint.Key, taint.Value) || !slices.Contains(effects, taint.Effect) {
			return fmt.Sprintf("the taint %q", taint.ToString())
		}
	}
	return ""
}

func wrongPair(key, value string) bool {
	return len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0
}

// judgeTemplate says what becomes of a native template.
func (c *toClusterAPI) judgeTemplate(object string, t *machinev1.MachineTemplateSpec) {
	c.findings = append(c.findings, judgeNative(templateTable, object, "", t)...)
	c.findings = append(c.findings, judgeNative(machineSpecTable, object, "spec.template.spec.", &t.Spec)...)
	for _, key := range objects.Keys(t.Annotations) {
		if strings.HasPrefix(key, machinev1.OurPrefix) {
			c.find(blocked("every machine of this pool would get it", "remove it; that rolls the pool").
				finding(object, "spec.template.metadata.annotations["+key+"]"))
		}
	}
}

// clusterTemplate finds what a template of Cluster API names.
func (c *toNative) clusterTemplate(spec *clusterv1.MachineSpec) *clusterTemplate {
	t := &clusterTemplate{spec: spec}
	if spec.InfrastructureRef.Kind == objects.KindMCMMachineTemplate {
		t.infra = c.templates[spec.InfrastructureRef.Name]
	}
	class := ""
	if t.infra != nil {
		class = t.infra.Spec.Template.Spec.MachineClassRef.Name
	}
	if spec.Bootstrap.ConfigRef.Kind == objects.KindMCMConfigTemplate {
		config := objects.Find(c.ClusterAPI.ConfigTemplates, spec.Bootstrap.ConfigRef.Name)
		t.boots = config != nil && objects.Value(config.Spec.Template.Spec.MachineClassRef).Name == class &&
			config.Spec.Template.Spec.MachineClassRef != nil
	}
	return t
}

// healthTable has the fields of a MachineHealthCheck that [specTable] does not convert.
var healthTable = []row[struct{}, *clusterv1.MachineHealthCheckSpec]{
	{clusterAPI: "spec.checks", leavesClusterAPI: func(*clusterv1.MachineHealthCheckSpec) outcome {
		return replaced("becomes healthTimeout, creationTimeout and nodeConditions of the machines; the longest timeout " +
			"counts for all conditions, and Unknown for unhealthy")
	}},
	{clusterAPI: "spec.checks.unhealthyMachineConditions", leavesClusterAPI: func(
		c *clusterv1.MachineHealthCheckSpec,
	) outcome {
		return when(len(c.Checks.UnhealthyMachineConditions) > 0, lost("natively only conditions of the node count"))
	}},
	{clusterAPI: "spec.remediation.templateRef", leavesClusterAPI: func(c *clusterv1.MachineHealthCheckSpec) outcome {
		return when(c.Remediation.TemplateRef.IsDefined(), lost("natively an unhealthy machine is replaced"))
	}},
	{clusterAPI: "spec.remediation.triggerIf", leavesClusterAPI: func(c *clusterv1.MachineHealthCheckSpec) outcome {
		trigger := c.Remediation.TriggerIf
		return when(trigger.UnhealthyInRange != "" || trigger.UnhealthyLessThanOrEqualTo != nil,
			replaced("the native API waits while the nodes of a zone are lost together"))
	}},
}

// judgeHealth is about the pool's MachineHealthCheck.
func (c *toNative) judgeHealth(object string) {
	check := c.ClusterAPI.HealthCheck
	if check == nil {
		c.find(migration.Replaced.Finding(object, "", "it has no MachineHealthCheck; natively machines are replaced when "+
			"the health or creation timeout has passed", ""))
		return
	}
	object = objects.Name(objects.KindHealthCheck, check)
	c.findings = append(c.findings, judgeClusterAPI(healthTable, object, "", &check.Spec)...)
}

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
